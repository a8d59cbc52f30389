"""Where studies are kept: addresses, journal files, and all that can be wrong with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.config.errors import InputError
from explorer.search.storage import open_storage, shown_address, storage_address
from explorer.search.studies import stored_studies
from tests.browser import free_port

ROOT = Path(__file__).resolve().parents[1]


def refusal(address: str, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        open_storage(address, **options)
    message = str(caught.value)
    assert message.isprintable()
    return message


def record(**fields: object) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"


def study_record(name: str) -> str:
    return record(op_code=0, worker_id="w", study_name=name, directions=[1])


def names(path: Path) -> list[str]:
    return [study.study_name for study in open_storage(str(path)).backend.get_all_studies()]


def test_a_new_journal_is_made_and_holds_no_study(tmp_path: Path) -> None:
    storage = open_storage(str(tmp_path / "searches.journal"))
    assert (tmp_path / "searches.journal").read_bytes() == b""
    assert stored_studies(storage) == ([], [])
    assert storage.server is None


def test_without_an_address_studies_stay_in_memory() -> None:
    assert open_storage(None).label == "memory"
    assert stored_studies(open_storage(None)) == ([], [])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:a@b:c/d@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host/db?user=me&Password=secret&x=1", "postgresql://host/db?user=me&Password=***&x=1"),
        ("/home/me/searches.journal", "/home/me/searches.journal"),
    ],
)  # fmt: skip
def test_a_password_is_never_shown(address: str, shown: str) -> None:
    assert shown_address(address) == shown


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@127.0.0.1:{port}/db",
        "postgresql://127.0.0.1:{port}/db?user=me&password=secret",
        "postgresql://me:secret@127.0.0.1:port/db",
        "postgresql://me:secret@[::1/db",
        "postgresql://me:secret@127.0.0.1:{port}/",
        "postgresql://me:{{secret}}@127.0.0.1:{port}/db",
        "mysql://me:secret@127.0.0.1/db",
        "sqlite:///secret.db?password=secret",
        "://me:secret@",
    ],
)
def test_a_database_that_is_none_is_refused_without_its_password(address: str) -> None:
    message = refusal(address.format(port=free_port()))
    assert message.startswith("storage = ")
    assert "secret" not in message.replace("secret.db", "")


def test_an_unreachable_server_is_named_with_the_reason() -> None:
    message = refusal(f"postgresql://me:secret@127.0.0.1:{free_port()}/db")
    assert "cannot be used" in message
    assert "refused" in message


def test_a_folder_a_pipe_and_a_missing_folder_are_no_journals(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a file" in refusal(str(tmp_path))
    assert "not a file" in refusal(str(tmp_path / "pipe"))
    assert "No such file" in refusal(str(tmp_path / "missing" / "searches.journal"))
    assert "no such journal" in refusal(str(tmp_path / "missing"), create=False)
    assert not (tmp_path / "missing").exists()
    for nonsense in ("", " ", "a\0b", "x" * 5000):
        assert refusal(nonsense).startswith("storage")


def test_a_folder_that_takes_no_file_is_refused() -> None:
    # Even root may make no file there.
    assert "denied" in refusal("/sys/searches.journal")


@pytest.mark.parametrize(
    "content",
    [
        "no journal\n", "{}\n", '{"schema": "explorer.scenario/1"}', "[1]\n", "\n", "\0\n", "5\n",
        record(op_code=0), record(op_code=99, worker_id="w"), record(op_code="x", worker_id="w"),
        study_record("a") + "damaged\n" + study_record("b"), study_record("a") + "damaged\n",
        study_record("a") + record(op_code=5, worker_id="w", trial_id=0)[:-4] + "\n",
        '{"op_code":' + "[" * 100_000 + "\n",
    ],
    ids=lambda content: content[:30],
)  # fmt: skip
def test_what_is_no_journal_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content, encoding="utf-8")
    assert "not a journal" in refusal(str(file))
    assert file.read_text(encoding="utf-8") == content


def test_a_record_cut_short_is_cut_off_before_the_next(tmp_path: Path) -> None:
    file = tmp_path / "searches.journal"
    whole, half = study_record("a"), study_record("b" * 5000)[:-40]
    file.write_text(whole + half, encoding="utf-8")
    storage = open_storage(str(file))
    storage.backend.create_new_study([1], "c")
    assert names(file) == ["a", "c"]
    assert file.read_text(encoding="utf-8").startswith(whole)
    assert "bbb" not in file.read_text(encoding="utf-8")


def test_a_file_without_line_ends_is_not_cut(tmp_path: Path) -> None:
    """Neither as a journal nor by mistake for the end of one."""
    file = tmp_path / "searches.journal"
    file.write_text(study_record("a"), encoding="utf-8")
    storage = open_storage(str(file))
    content = study_record("a") + "someone else's line"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="not a journal"):
        storage.backend.create_new_study([1], "c")
    assert file.read_text(encoding="utf-8") == content


def test_a_full_disk_is_one_sentence_and_nothing_before_it_is_lost(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: the last record is written in part."""
    file = tmp_path / "searches.journal"
    code = (
        "import resource, sys\n"
        "from explorer.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = ["search", "mt3000-llama2-7b", "--trials", "200", "--sampler", "random"]
    place = ["--storage", str(file), "--study", "full"]
    done = subprocess.run(
        [sys.executable, "-c", code, *command, *place],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert last.startswith(f"explorer: storage = {file}"[:60])
    assert "too large" in last
    assert not file.read_bytes().endswith(b"\n")
    complete = file.read_text(encoding="utf-8").count('"state":1')
    storage = open_storage(str(file))
    trials = storage.backend.get_all_trials(0)
    assert sum(trial.value is not None for trial in trials) == complete > 5
    storage.backend.create_new_study([1], "next")
    assert names(file) == ["full", "next"]


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    file = tmp_path / "searches.journal"
    code = (
        "import os, signal, sys\n"
        "from explorer.search import journal\n"
        "from explorer.search.storage import open_storage\n"
        "storage = open_storage(sys.argv[1])\n"
        "journal._mend = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "storage.backend.create_new_study([1], 'never')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], cwd=ROOT, timeout=60, check=False
    )
    assert done.returncode == -9
    assert file.read_bytes() == b""
    open_storage(str(file)).backend.create_new_study([1], "at once")
    assert names(file) == ["at once"]


def test_two_open_journals_see_each_other(tmp_path: Path) -> None:
    file = tmp_path / "searches.journal"
    one, two = open_storage(str(file)), open_storage(str(file))
    for number in range(4):
        (one, two)[number % 2].backend.create_new_study([1], f"s{number}")
    assert names(file) == ["s0", "s1", "s2", "s3"]


@pytest.mark.parametrize("seconds", [0, -1, 10**6])
def test_the_heartbeat_is_bounded(seconds: int) -> None:
    assert refusal("x", heartbeat_seconds=seconds).startswith("heartbeat")


def test_the_environment_may_name_a_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPLORER_STORAGE", raising=False)
    assert storage_address() is None
    monkeypatch.setenv("EXPLORER_STORAGE", "")
    assert storage_address() is None
    monkeypatch.setenv("EXPLORER_STORAGE", "searches.journal")
    assert storage_address() == "searches.journal"
