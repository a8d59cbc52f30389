"""Starting: the app from nothing to its first page, the command line, and further windows.

The app is started anew each time, in turns with a page of Streamlit that says hello, and timed
until a browser that was there before shows the page with its charts. The command line is timed by
its own CPU, beside a Python that imports numpy. Further windows open in one process, by how many.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.measuring import Row, cpu_seconds
from tests.benchmarks.steps import ROUTES, opened
from tests.browser import (
    ROOT,
    launch_chromium,
    new_context,
    open_page,
    required_chromium,
    running_app,
)
from tests.scenarios import MT3000

HELLO_APP = Path(__file__).with_name("hello_app.py")
WINDOWS = (1, 10, 100)
EVALUATE = ("-m", "explorer", "evaluate", MT3000)
IMPORT_NUMPY = ("-c", "import numpy")


def rows(quick: bool) -> list[Row]:
    """Return the first page, the command line, and windows opened one after the other."""
    rounds = 1 if quick else 5
    return [_first_page(rounds), _command(3 * rounds), _windows(WINDOWS[: 2 if quick else 3])]


def _first_page(rounds: int) -> Row:
    executable = required_chromium()
    mine, bare = [], []
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, executable)
        for _ in range(rounds):
            mine.append(_from_nothing(browser, ROOT / "app.py"))
            bare.append(_from_nothing(browser, HELLO_APP))
        browser.close()
    return Row(
        "start-up",
        "new server to first page",
        f"{min(mine):.1f} s",
        "Streamlit saying hello",
        min(mine) / min(bare),
    )


def _from_nothing(browser: Browser, script: Path) -> float:
    page = new_context(browser).new_page()
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with running_app(Path(folder) / "app.log", script) as app:
            open_page(page, app.url)
            seconds = time.perf_counter() - started
            page.close()
    return seconds


def _command(rounds: int) -> Row:
    mine, bare = [], []
    for _ in range(rounds):
        mine.append(_child_seconds(EVALUATE))
        bare.append(_child_seconds(IMPORT_NUMPY))
    return Row(
        "start-up",
        f"explorer evaluate {MT3000}",
        f"{min(mine):.2f} s of CPU",
        "python importing numpy",
        min(mine) / min(bare),
    )


def _child_seconds(arguments: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _windows(counts: tuple[int, ...]) -> Row:
    route = ROUTES[0]
    opened(route)
    costs = [cpu_seconds(lambda n=n: [opened(route) for _ in range(n)]) for n in counts]
    return Row(
        "start-up",
        f"{counts[-1]} more windows on {route.name}",
        f"{1e3 * costs[-1] / counts[-1]:.0f} ms of CPU each",
        sizes=counts,
        costs=tuple(costs),
    )
