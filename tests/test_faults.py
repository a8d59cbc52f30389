"""A full disk, a read-only one, a damaged journal, a clock that jumps: one line, nothing lost."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from explorer.cli import main
from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.outfile import whole_file
from explorer.search.job import SearchJob
from explorer.search.space import default_space
from explorer.search.storage import open_storage
from explorer.search.studies import begin_or_resume, join
from explorer.search.study import SearchSettings, search
from tests.test_search_shared import account_is_exact, all_trials, answer

ROOT = Path(__file__).resolve().parents[1]
SPACE = default_space(preset_scenario("mt3000-llama2-7b"))
PATIENCE_S = 120
FULL = Path("/dev/full")
SEARCH = "search mt3000-llama2-7b --trials 200 --sampler random --study full --storage"
OWN_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
GOES_ON = "what was recorded is kept, and the same search goes on once it can be used again"


def on_a_disk_of_its_own(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount file systems, seen by nobody else."""
    try:
        permitted = subprocess.run([*OWN_DISK, "mount -t tmpfs none /mnt"], capture_output=True,
                                   timeout=PATIENCE_S, check=False)  # fmt: skip
    except FileNotFoundError:
        pytest.skip("there is no unshare here to give a process a disk of its own")
    if permitted.returncode:
        pytest.skip("this machine lets no process have a disk of its own")
    return subprocess.run([*OWN_DISK, script], cwd=ROOT, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)  # fmt: skip


def explorer(arguments: str) -> str:
    return f"{shlex.quote(sys.executable)} -m explorer {arguments}"


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line on stderr of a command that was refused; the others are progress."""
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert [line for line in lines if line.startswith("explorer: ")] == lines[-1:]
    return lines[-1]


def test_a_full_disk_in_mid_search_is_one_line_and_the_search_goes_on_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "kept.journal"
    done = on_a_disk_of_its_own(
        f"mount -t tmpfs -o size=24k none /mnt && {explorer(SEARCH)} /mnt/s.journal; "
        f"code=$?; cp /mnt/s.journal {shlex.quote(str(journal))}; exit $code"
    )
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in (line := one_line(done))
    assert line.endswith(GOES_ON)
    before = all_trials(open_storage(str(journal)))
    complete = [str(trial) for trial in before if trial.state == TrialState.COMPLETE]
    assert len(complete) > 3
    assert main(["worker", "--study", "full", "--storage", str(journal), "--heartbeat", "1",
                 "--json"]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["trials"] == 200
    account_is_exact(open_storage(str(journal)), 200)
    assert set(complete) <= {str(trial) for trial in all_trials(open_storage(str(journal)))}


@pytest.mark.parametrize("made", ["", "touch /mnt/s.journal && "])
def test_a_read_only_disk_is_one_line(made: str) -> None:
    done = on_a_disk_of_its_own(
        f"mount -t tmpfs none /mnt && {made}mount -o remount,ro /mnt && "
        f"{explorer(SEARCH)} /mnt/s.journal"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "/mnt/s.journal: " in (line := one_line(done)), line
    assert "Read-only file system" in line


def test_a_folder_that_takes_no_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Even root may make no file in /sys."""
    for arguments in (
        ["model", str(ROOT / "tests/data/configs/llama-2-7b.json"), "--out", "/sys/model.json"],
        ["compare", "mt3000-llama2-7b", "mt3000-llama2-13b", "--csv", "/sys/table.csv"],
        ["simulate", "mt3000-llama2-7b", "--rate", "1", "--csv", "/sys/rows.csv"],
    ):
        assert main(arguments) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "/sys/" in err
        assert "cannot be written: " in err


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["presets", "evaluate mt3000-llama2-7b --json"])
def test_a_full_disk_under_the_output_is_one_line(command: str) -> None:
    with FULL.open("w", encoding="utf-8") as output:
        done = subprocess.run([sys.executable, "-m", "explorer", *command.split()], cwd=ROOT,
                              stdout=output, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)  # fmt: skip
    assert done.returncode == 2
    words = "explorer: the output cannot be written: No space left on device"
    assert done.stderr.splitlines() == [words]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("the one before", encoding="utf-8")
    file.chmod(0o640)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with (
        pytest.raises(InputError, match=r"--csv = .*No space left"),
        whole_file(str(file), "--csv"),
    ):
        full()
    with pytest.raises(KeyboardInterrupt), whole_file(str(file), "--csv") as part:
        part.write("half")
        raise KeyboardInterrupt
    assert file.read_text(encoding="utf-8") == "the one before"
    assert list(tmp_path.iterdir()) == [file]
    with whole_file(str(file), "--csv") as part:
        part.write("the next")
    assert file.read_text(encoding="utf-8") == "the next"
    assert list(tmp_path.iterdir()) == [file]
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_link_to_a_file_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("before", encoding="utf-8")
    link.symlink_to(file)
    with whole_file(str(link), "--out") as part:
        part.write("after")
    assert link.is_symlink()
    assert file.read_text(encoding="utf-8") == "after"
    with whole_file("/dev/null", "--out") as part:
        part.write("nowhere")
    assert not Path("/dev/null").is_file()


def recorded(path: Path, trials: int) -> list[str]:
    """Record a search in a journal; return its lines."""
    storage = open_storage(str(path))
    begin_or_resume(storage, "a", SPACE, SearchSettings(trials=trials, sampler="random")).run()
    return path.read_text(encoding="utf-8").splitlines(keepends=True)


@pytest.mark.parametrize("damage", [b"garbage\n", b"\x00" * 300 + b"\n", b"\xff\xfe\x01\n"])
def test_a_damaged_journal_names_the_line_and_what_is_before_it_goes_on(
    tmp_path: Path, damage: bytes
) -> None:
    journal, copy = tmp_path / "damaged.journal", tmp_path / "copy.journal"
    lines = recorded(journal, 12)
    whole = len(lines) // 2
    content = "".join(lines[:whole]).encode() + damage + "".join(lines[whole:]).encode()
    journal.write_bytes(content)
    with pytest.raises(InputError, match=f"from line {whole + 1} on; expected another") as caught:
        open_storage(str(journal))
    assert f"the {whole} lines before it" in str(caught.value)
    assert journal.read_bytes() == content
    told = re.search(r"the ([\d,]+) lines before it", str(caught.value))
    assert told is not None
    kept = content.splitlines(keepends=True)[: int(told[1].replace(",", ""))]
    copy.write_bytes(b"".join(kept))
    storage = open_storage(str(copy), 1)
    before = {str(t) for t in all_trials(storage) if t.state == TrialState.COMPLETE}
    assert before
    assert not join(storage, "a").run().stopped
    account_is_exact(storage, 12)
    assert before <= {str(trial) for trial in all_trials(storage)}


def test_a_journal_cut_anywhere_opens_or_is_refused_and_is_never_changed(tmp_path: Path) -> None:
    journal = tmp_path / "cut.journal"
    content = "".join(recorded(journal, 6)).encode()
    chance = random.Random(1)
    for end in (0, 1, len(content) - 1, *(chance.randrange(len(content)) for _ in range(30))):
        journal.write_bytes(content[:end])
        trials = [
            trial
            for study in open_storage(str(journal)).backend.get_all_studies()
            for trial in open_storage(str(journal)).backend.get_all_trials(study._study_id)
        ]
        whole = content[: content.rfind(b"\n", 0, end) + 1].count(b'"state":1,')
        assert sum(trial.state == TrialState.COMPLETE for trial in trials) == whole
        assert journal.read_bytes() == content[:end]


class Jumping(datetime):
    """A clock that is set back and forward by years between any two looks."""

    years = itertools.cycle([0, -3, 5, -20, 1])

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) + timedelta(days=365 * next(cls.years))


@pytest.mark.parametrize("in_a_journal", [False, True])
def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_journal: bool
) -> None:
    settings = SearchSettings(trials=12, seed=3)
    expected = answer(search(SPACE, settings))
    jumps, real = itertools.cycle([0.0, -1e8, 3e8, -5e8]), time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    for module in ("_in_memory", "journal._storage"):
        monkeypatch.setattr(f"optuna.storages.{module}.datetime", Jumping)
    assert Jumping.now().year != Jumping.now().year
    if not in_a_journal:
        job = SearchJob(SPACE, settings, certified=True).start()
        assert job.wait(PATIENCE_S)
        assert job.status().state == "done"
        assert answer(job.status().result) == expected
        assert 0 <= job.status().result.seconds < PATIENCE_S
        assert 0 <= job.status().proof.seconds < PATIENCE_S
        return
    storage = open_storage(str(tmp_path / "searches.journal"), 1)
    found = begin_or_resume(storage, "a", SPACE, settings).run()
    assert answer(found) == expected
    assert 0 <= found.seconds < PATIENCE_S
    account_is_exact(storage, 12)
    assert all(trial.state == TrialState.COMPLETE for trial in all_trials(storage))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "explorer").rglob("*.py")), ids=lambda path: path.name
)
def test_no_duration_is_told_by_a_clock_that_people_set(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\btime\.time\(|\bdatetime\.(now|utcnow|today)\(|\btime_ns\(", text)
