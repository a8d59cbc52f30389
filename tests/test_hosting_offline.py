"""Nothing leaves the machine: the app works with the network cut, and does not even try."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.browser import ROOT
from tests.offline import GUARD, PAGES

PATIENCE_S = 300
CUT = ("unshare", "--user", "--map-root-user", "--net")
LOOPBACK = 'ip link set lo up && exec "$@"'


def cut_off(*command: str) -> Sequence[str]:
    """Return a command that runs another where there is no network but the loopback."""
    return [*CUT, "sh", "-c", LOOPBACK, "sh", *command]


def is_permitted() -> bool:
    """Return whether this machine lets us cut the network of a process."""
    try:
        done = subprocess.run(cut_off("true"), capture_output=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def guarded(folder: Path, code: str) -> str:
    """Return what the guard notes of a piece of Python."""
    log = folder / "attempts"
    log.touch()
    (folder / "sitecustomize.py").write_text(GUARD.format(log=str(log)), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(folder)}, timeout=PATIENCE_S, check=False,
        capture_output=True,
    )  # fmt: skip
    return log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('192.0.2.1', 9), 0.01)",
        "import urllib.request as r; r.urlopen('http://elsewhere.test', timeout=0.01)",
        "import socket; socket.gethostbyname('elsewhere.test')",
    ],
)
def test_the_guard_notes_whoever_reaches_out(tmp_path: Path, code: str) -> None:
    assert "elsewhere.test" in (noted := guarded(tmp_path, code)) or "192.0.2.1" in noted


def test_the_guard_lets_the_loopback_be(tmp_path: Path) -> None:
    code = "import socket; socket.create_connection(('127.0.0.1', 9), 0.01)"
    assert guarded(tmp_path, code) == ""


def test_with_the_network_cut_every_page_works_and_nothing_reaches_out(tmp_path: Path) -> None:
    log = tmp_path / "attempts"
    log.touch()
    drive = (sys.executable, "-m", "tests.offline", str(log), str(tmp_path))
    # Where the network of a process cannot be cut, the guard alone still sees every attempt.
    command = cut_off(*drive) if is_permitted() else drive
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == len(PAGES) + 1
    assert log.read_text(encoding="utf-8") == ""
