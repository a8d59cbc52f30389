"""Time from releasing a slider to all visible plots updated, against pages without a model.

Usage: .venv/bin/python -m tests.benchmarks.redraw [--steps N] [--page NAME]...

For each page in its usual state, steps of the app take turns with those of two floors in one
headless Chromium, so that noise of the machine meets all three: a bare Streamlit page of one slider
that draws the very same figures, and a page that sends again all that the app's page sends,
controls and texts included, with no model behind. Printed are p50 and p95 of the app and of the
bare page, the ratios of the p50s to the bare page and to the same elements, the same two of the
browser's CPU, which other work on the machine spoils less, when the headline figures changed, and
where the time of a step goes: server CPU (told apart into the model, making figures, and
Streamlit's widgets and messages; `new` is the same onto values that were never asked for, where
nothing is kept), what is sent and for how long, and the CPU of the browser's own work. Starting a
page is timed cold (a new server) and warm.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.benchmarks.steps import (
    ROUTES,
    Route,
    ServerStep,
    new_steps,
    recorded,
    server_steps,
)
from tests.browser import (
    App,
    charts_drawn,
    launch_chromium,
    new_context,
    open_page,
    required_chromium,
    running_app,
    settle,
    slider,
)

FLOOR_APP = Path(__file__).parent / "floor_app.py"
FLOOR_LABEL = "Position"
NOTHING_RUNS = """() => ![...document.querySelectorAll('button')].some(
    button => button.textContent.startsWith('Stop') && !button.disabled)"""
QUIET_MS = 350
"""A step is over when neither the script nor a plot has moved for so long."""

SOCKET = """
    window.__wire = {first: 0, last: 0, bytes: 0};
    window.WebSocket = class extends WebSocket {
        constructor(...given) {
            super(...given);
            this.addEventListener('message', event => {
                const wire = window.__wire;
                wire.last = performance.now();
                wire.first ||= wire.last;
                wire.bytes += event.data.byteLength ?? event.data.size ?? event.data.length;
            });
        }
    };
"""
WATCH = """() => {
    // What a chart shows: names that plotly makes up, and groups without content, are not seen.
    const shown = chart => [...chart.querySelectorAll('.main-svg')].map(svg => svg.outerHTML)
        .join('').replace(/ id="[^"]*"|clip\\w+|legend\\w+/g, '')
        .replace(/<g[^>]*><\\/g>/g, '');
    const drawn = new Map();
    for (const chart of document.querySelectorAll('[data-testid="stPlotlyChart"]')) {
        drawn.set(chart, shown(chart));
    }
    window.__step = {start: 0, moved: 0, plots: 0, headline: 0};
    addEventListener('keydown', () => {
        window.__step = {start: performance.now(), moved: 0, plots: 0, headline: 0};
        window.__wire = {first: 0, last: 0, bytes: 0};
    }, true);
    new MutationObserver(records => {
        const now = performance.now();
        const touched = new Set();
        for (const record of records) {
            const target = record.target.nodeType === 1
                ? record.target : record.target.parentElement;
            const chart = target?.closest('[data-testid="stPlotlyChart"]');
            if (chart) touched.add(chart);
            if (target?.closest('[data-testid="stMetric"]')) window.__step.headline ||= now;
        }
        for (const chart of touched) {
            window.__step.moved = now;
            const shows = shown(chart);
            if (chart.isConnected && shows !== drawn.get(chart)) window.__step.plots = now;
            drawn.set(chart, shows);
        }
    }).observe(document.body,
        {childList: true, subtree: true, attributes: true, characterData: true});
}"""


@dataclass(frozen=True)
class Step:
    """One step as the browser saw it [ms]; NaN where nothing of the kind changed.

    Attributes:
        plots: from the key to the last change of what a plot shows.
        headline: to the first change of a headline figure.
        browser: CPU of the page's main thread.
        sending: from the first message of the server to the last one.
        kilobytes: of all messages.
    """

    plots: float
    headline: float
    browser: float
    sending: float
    kilobytes: float


class Taken(NamedTuple):
    """Steps of a page, of the bare page, and of the same elements without a model."""

    app: list[Step]
    bare: list[Step]
    same: list[Step]


def watched(
    page: Page, url: str, label: str, presses: tuple[tuple[str, str], ...] = ()
) -> CDPSession:
    """Open a page, press what brings it to its usual state, and focus its slider."""
    page.add_init_script(SOCKET)
    open_page(page, url)
    for role, name in presses:
        page.get_by_test_id("stMain").get_by_role(role, name=name, exact=True).click()
        settle(page)
        page.wait_for_function(NOTHING_RUNS)
        settle(page)
    charts_drawn(page)
    page.evaluate(WATCH)
    session = page.context.new_cdp_session(page)
    # CPU of the thread instead of time: other work on the machine does not count.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    slider(page, label).focus()
    return session


def step(page: Page, session: CDPSession, label: str, key: str) -> Step:
    """Press a key on the slider and wait until all is drawn."""
    before = _task_seconds(session)
    slider(page, label).press(key)
    settle(page, QUIET_MS)
    page.wait_for_function(
        "quiet => performance.now() - Math.max(window.__step.moved, window.__step.start) > quiet",
        arg=QUIET_MS,
    )
    seen = page.evaluate("() => window.__step")
    since = {
        name: seen[name] - seen["start"] if seen[name] else float("nan")
        for name in ("plots", "headline")
    }
    wire = page.evaluate("() => window.__wire")
    return Step(
        **since,
        browser=1000 * (_task_seconds(session) - before),
        sending=wire["last"] - wire["first"],
        kilobytes=wire["bytes"] / 1000,
    )


def _task_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(item["value"] for item in metrics if item["name"] == "TaskDuration"))


def percentile(values: list[float], part: float) -> float:
    """Return a percentile of those values that are numbers; NaN without any."""
    numbers = sorted(value for value in values if not math.isnan(value))
    return numbers[min(int(part * len(numbers)), len(numbers) - 1)] if numbers else float("nan")


def in_turns(app: App, floor: App, route: Route, steps: int) -> Taken:
    """Return steps of a page and of its two floors, taken in turns in one browser."""
    executable = required_chromium()
    taken = Taken([], [], [])
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, executable)
        context = new_context(browser)
        targets = []
        record = f"{floor.url}/?page={route.name}"
        for url, label, presses, results in (
            (f"{app.url}{route.url}", route.label, route.presses, taken.app),
            (record, FLOOR_LABEL, (), taken.bare),
            (f"{record}&elements=all", route.label, (), taken.same),
        ):
            page = context.new_page()
            session = watched(page, url, label, presses)
            targets.append((page, session, label, results))
        for number in range(steps + 1):
            # There and back: the same two states all the time, the same figures on all pages.
            key = "ArrowLeft" if number % 2 else "ArrowRight"
            for page, session, label, results in targets:
                page.bring_to_front()
                one = step(page, session, label, key)
                if number:
                    results.append(one)
        browser.close()
    return taken


def record(routes: Iterable[Route], folder: Path) -> None:
    """Write what pages send at both positions of their sliders, and tell the floors where."""
    for route in routes:
        text = json.dumps([asdict(position) for position in recorded(route)])
        (folder / f"{route.name}.json").write_text(text, encoding="utf-8")
    os.environ["FLOOR_RECORDS"] = str(folder)


def start_times(route: Route, folder: Path) -> tuple[float, float]:
    """Return milliseconds to open a page with its charts: on a new server, and again."""
    executable = required_chromium()
    times = []
    with (
        running_app(folder / f"start-{route.name}.log") as app,
        sync_playwright() as playwright,
    ):
        browser = launch_chromium(playwright, executable)
        for _ in range(2):
            page = new_context(browser).new_page()
            started = time.perf_counter()
            open_page(page, f"{app.url}{route.url}")
            times.append(1000 * (time.perf_counter() - started))
            page.close()
        browser.close()
    return times[0], times[1]


def report(route: Route, taken: Taken, server: list[ServerStep], ahead: list[ServerStep]) -> str:
    """Return one line of the table."""
    p50 = [percentile([one.plots for one in steps], 0.5) for steps in taken]
    p95 = [percentile([one.plots for one in steps], 0.95) for steps in taken]
    cpu = [statistics.median(one.browser for one in steps) for steps in taken]
    headline = percentile([one.headline for one in taken.app], 0.5)
    sent = [
        statistics.median(getattr(one, name) for one in taken.app)
        for name in ("sending", "kilobytes")
    ]
    parts = [
        statistics.median(1000 * getattr(one, name) for one in server)
        for name in ("total", "model", "figures", "streamlit")
    ]
    onto_new = 1000 * statistics.median(one.total for one in ahead)
    ratios = " ".join(f"{times[0] / floor:6.2f}" for times in (p50, cpu) for floor in times[1:])
    numbers = (p50[0], p95[0], p50[1], p95[1], headline, cpu[0], *sent, *parts, onto_new)
    cells = " ".join(f"{number:8.0f}" for number in numbers)
    return f"{route.name:<13} {ratios} {cells}"


HEADER = (
    f"{'page':<13} "
    + " ".join(f"{title:>6}" for title in ("bare", "same", "cpu/b", "cpu/s"))
    + " "
    + " ".join(
        f"{title:>8}"
        for title in (
            "p50", "p95", "bare50", "bare95", "headline", "browser", "sending",
            "KB", "server", "model", "figures", "widgets", "new",
        )
    )
)  # fmt: skip


def main() -> int:
    """Run the benchmark and print its table; all times in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20, help="steps a page (default 20)")
    parser.add_argument("--page", action="append", help="only these pages")
    parser.add_argument("--no-start", action="store_true", help="leave out starting a page")
    options = parser.parse_args()
    routes = [route for route in ROUTES if not options.page or route.name in options.page]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(routes, folder)
        with (
            running_app(folder / "app.log") as app,
            running_app(folder / "floor.log", FLOOR_APP) as floor,
        ):
            print(
                "milliseconds from the key to the last change of what a plot shows; ratios of the"
            )
            print(
                "p50s to the bare page and to the same elements with no model, then of browser CPU"
            )
            print(HEADER)
            for route in routes:
                taken = in_turns(app, floor, route, options.steps)
                server = server_steps(route, options.steps)
                print(report(route, taken, server, new_steps(route)), flush=True)
        if not options.no_start:
            print("\nmilliseconds to open a page with its charts: new server, then again")
            for route in routes:
                cold, warm = start_times(route, folder)
                print(f"{route.name:<12} {cold:9.0f} {warm:9.0f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
