"""Redrawing a page after a step of a slider: in a browser, and on the server by problem size.

In the browser each page takes turns with pages that draw the same without a model, as
``tests.benchmarks.redraw`` explains. What a step costs the server is shown for the page Pipeline,
which simulates all its requests anew: by how many requests there are.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.measuring import Row
from tests.benchmarks.redraw import FLOOR_APP, in_turns, percentile, record
from tests.benchmarks.steps import (
    MT3000_SLIDER,
    ROUTES,
    Route,
    measured,
    move,
    opened,
)
from tests.browser import running_app
from tests.scenarios import MT3000

REQUESTS = (1_000, 10_000, 100_000)


def rows(quick: bool) -> list[Row]:
    """Return a row for each page with charts, and one for the server by problem size."""
    steps = 4 if quick else 20
    sizes = REQUESTS[:2] if quick else REQUESTS
    return [*_pages(ROUTES[:1] if quick else ROUTES, steps), _by_requests(sizes, min(steps, 6))]


def _pages(routes: tuple[Route, ...], steps: int) -> list[Row]:
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(routes, folder)
        with (
            running_app(folder / "app.log") as app,
            running_app(folder / "floor.log", FLOOR_APP) as floor,
        ):
            for route in routes:
                taken = in_turns(app, floor, route, steps)
                mine, bare, same = (percentile([s.plots for s in part], 0.5) for part in taken)
                what = f"{route.name}, a step of a slider"
                for against, least in (
                    ("a bare page of the same figures", bare),
                    ("the same elements, no model", same),
                ):
                    found.append(Row("redraw", what, f"{mine:.0f} ms", against, mine / least))
    return found


def _by_requests(sizes: tuple[int, ...], steps: int) -> Row:
    costs = [_server_seconds(size, steps) for size in sizes]
    return Row(
        "redraw",
        f"pipeline, {sizes[-1]:,} requests, server alone",
        f"{1e3 * costs[-1]:.0f} ms of CPU",
        sizes=sizes,
        costs=tuple(costs),
    )


def _server_seconds(requests: int, steps: int) -> float:
    preset = f"{MT3000}@1&simulation.requests={requests}"
    route = Route("pipeline", "/pipeline", preset, *MT3000_SLIDER)
    app = opened(route)
    taken = []
    for _ in range(steps):
        # Never back: a scenario that was drawn before is kept, and would cost nothing.
        with measured() as step:
            move(app, route, forward=True)
        taken.append(step.total)
    return statistics.median(taken)
