"""Stored searches from a shell: begin, join, stop, be killed, go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from explorer import storage_options
from explorer.cli import main
from explorer.search import trials
from explorer.search.storage import open_storage
from tests.scenarios import MT3000
from tests.test_search_server import WORKER_THAT_HANGS, wait_for
from tests.test_search_shared import account_is_exact, all_trials

ROOT = Path(__file__).resolve().parents[1]
SEARCH = ("search", "mt3000-llama2-7b", "--trials", "12", "--seed", "1", "--study", "a")
PATIENCE_S = 120


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal that the environment names."""
    path = tmp_path / "searches.journal"
    monkeypatch.setenv("EXPLORER_STORAGE", str(path))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    return code, *capsys.readouterr()


@contextmanager
def hanging(tmp_path: Path, evaluation: int) -> Iterator[subprocess.Popen[str]]:
    """Run a search that hangs in the middle of an evaluation, once it is there."""
    marker = tmp_path / "in mid-trial"
    with subprocess.Popen(
        [sys.executable, "-c", WORKER_THAT_HANGS, str(marker), str(evaluation), *SEARCH],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            wait_for(lambda: marker.exists() or process.poll() is not None)
            yield process
        finally:
            process.kill()


def test_a_stored_search_prints_what_one_in_memory_prints(
    capsys: pytest.CaptureFixture[str], journal: Path
) -> None:
    def document(*arguments: str) -> dict[str, Any]:
        code, out, _ = run(capsys, *arguments, "--json")
        assert code == 0
        found: dict[str, Any] = json.loads(out)
        del found["seconds"]
        return found

    in_memory = document(*SEARCH[:-2])
    assert in_memory.pop("study") is None
    assert not journal.exists()
    for arguments, here in ((SEARCH, 12), (SEARCH, 0), (("worker", "--study", "a"), 0)):
        stored = document(*arguments)
        assert stored.pop("study") == {"name": "a", "storage": str(journal), "trials_here": here}
        assert stored == in_memory


def test_the_text_tells_the_study_and_the_progress(
    capsys: pytest.CaptureFixture[str], journal: Path
) -> None:
    code, out, err = run(capsys, *SEARCH)
    assert code == 0
    assert "study a, 12 of its trials by this process" in out
    assert err.splitlines()[-1].startswith("trial 12/12, best ")
    _, out, err = run(capsys, "worker", "--study", "a", "--storage", str(journal))
    assert "study a, 0 of its trials by this process" in out
    assert out.startswith("best cluster_seconds_per_token: ")


def test_a_search_killed_in_mid_trial_is_gone_on_with_from_its_journal(
    capsys: pytest.CaptureFixture[str], journal: Path, tmp_path: Path
) -> None:
    with hanging(tmp_path, evaluation=9) as process:
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    before = all_trials(open_storage(str(journal)))
    cut = [trial for trial in before if trial.state == TrialState.RUNNING]
    assert len(cut) == 1
    assert cut[0].params
    code, out, err = run(capsys, "worker", "--study", "a", "--heartbeat", "1", "--json")
    assert code == 0
    assert json.loads(out)["trials"] == 12
    assert "waiting for 1 trial of other workers" in err
    account_is_exact(open_storage(str(journal)), 12)
    after = all_trials(open_storage(str(journal)))
    assert after[cut[0].number].state == TrialState.FAIL
    assert list(map(str, after[: cut[0].number])) == list(map(str, before[: cut[0].number]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_trial(tmp_path: Path, journal: Path, number: int) -> None:
    code = WORKER_THAT_HANGS.replace("time.sleep(600)", "import os; os.kill(os.getpid(), NUMBER)")
    done = subprocess.run(
        [sys.executable, "-c", code.replace("NUMBER", str(int(number))), str(tmp_path / "marker"),
         "8", *SEARCH],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    states = {trial.state for trial in all_trials(open_storage(str(journal)))}
    complete = sum(t.state == TrialState.COMPLETE for t in all_trials(open_storage(str(journal))))
    assert done.returncode == 130
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"stopped after {complete} of 12 trials, best ")
    assert last.endswith("any worker goes on with study a")
    assert 0 < complete < 12
    assert states <= {TrialState.COMPLETE, TrialState.WAITING}
    assert main(["worker", "--study", "a"]) == 0
    account_is_exact(open_storage(str(journal)), 12)


def test_a_second_ctrl_c_ends_it_at_once_and_hands_the_trial_back(
    tmp_path: Path, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hanging(tmp_path, evaluation=8) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert any("ends after this trial" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    trials = all_trials(open_storage(str(journal)))
    assert [t.state for t in trials[-2:]] == [TrialState.FAIL, TrialState.WAITING]
    assert trials[-1].params == trials[-2].params
    assert run(capsys, "worker", "--study", "a")[0] == 0
    account_is_exact(open_storage(str(journal)), 12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("search", MT3000, "--study", "a"), "--study = a: needs --storage or EXPLORER_STORAGE"),
        (("search", MT3000, "--storage", "x"), "--storage: needs --study"),
        (("worker",), "--study: expected the name"),
        (("worker", "--study", "a"), "needs --storage or EXPLORER_STORAGE"),
        (("worker", "--storage", "x"), "--storage: needs --study"),
        (("worker", "--storage", "missing", "--study", "a"), "no such journal file"),
        (("worker", "--storage", "/", "--study", "a"), "not a file"),
        (("worker", "--storage", "x", "--study", "a", "--heartbeat", "0"), "heartbeat = 0"),
        (("worker", "--storage", "x", "--study", "a", "--heartbeat", "x"), "invalid int"),
        (("worker", "--storage", "mysql://u:secret@h/d", "--study", "a"), "postgresql://"),
        (("worker", "extra"), "unrecognized"),
        (("search", MT3000, "--storage", "x/y/z", "--study", "a"), "No such file"),
        (("search", MT3000, "--storage", "new", "--study", ""), "printable characters"),
        (("search", MT3000, "--storage", "new", "--study", "a\nb"), "printable characters"),
    ],
    ids=lambda value: " ".join(value)[:40].replace("\n", "~") if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], words: str,
) -> None:  # fmt: skip
    monkeypatch.delenv("EXPLORER_STORAGE", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
    assert "secret" not in err
    assert not [path for path in tmp_path.iterdir() if path.read_bytes()]


def test_signals_work_as_before_once_a_search_has_ended(
    capsys: pytest.CaptureFixture[str], journal: Path
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run(capsys, *SEARCH)[0] == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert os.environ["EXPLORER_STORAGE"] == str(journal)


def test_an_ignored_ctrl_c_stays_ignored(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    during = []

    def noted(*arguments: Any) -> Any:
        during.append([signal.getsignal(number) for number in storage_options.SIGNALS])
        return evaluate(*arguments)

    evaluate = trials.evaluate
    monkeypatch.setattr(trials, "evaluate", noted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run(capsys, *SEARCH)[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    interrupt, terminate = during[0]
    assert interrupt is signal.SIG_IGN
    assert callable(terminate)
