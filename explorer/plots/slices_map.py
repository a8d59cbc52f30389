"""Prefill rate over rows and slice counts, with what was measured, and what a choice loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.arrays import Array
from explorer.plots.measured import MEASURED_MARK
from explorer.plots.style import BLUE, GREEN, ORANGE, PINK, RED, base_figure
from explorer.serving.slice_study import CONSTANT, SliceStudy, slice_study

SHORTEST, LONGEST, POINTS = 256, 8192, 31
STEPS = (2, 4, 8)
DRAWN = {1: BLUE, 2: ORANGE, 4: GREEN, 8: PINK}
TICKS = (256, 512, 1024, 2048, 4096, 8192)
NEAR = 1.04
"""Points of one length are set side by side by this factor, a count a step."""


class MeasuredPass(NamedTuple):
    """One measured prefill rate of a forced slice count."""

    rows: int
    slices: int
    rate: float
    low: float
    high: float
    repetitions: int
    source: str


def map_study(scenario: Scenario) -> SliceStudy:
    """Return the passes that both figures draw, also just before and at each count's first rows."""
    spread = np.geomspace(SHORTEST, LONGEST, POINTS).round().astype(np.int64)
    least = int(scenario.value("hardware.serial_below_rows_per_slice"))
    steps = [count * rows for rows in (least, scenario.plan.min_rows_per_slice) for count in STEPS]
    edges = [row for step in steps for row in (step - 1, step) if SHORTEST <= row <= LONGEST]
    return slice_study(scenario, np.unique([*spread, *edges]).tolist())


def rate_figure(study: SliceStudy, measured: Sequence[MeasuredPass]) -> go.Figure:
    """Draw tokens/s against rows, a line a count, and measured points in their line's colour."""
    figure = base_figure(400, "slices_map")
    for count, colour in DRAWN.items():
        column = int(np.searchsorted(study.counts, count))
        rates = study.tokens_per_second[:, column]
        figure.add_scatter(
            x=study.rows.tolist(),
            y=rates.tolist(),
            mode="lines",
            name="serial" if count == 1 else f"{count} slices",
            legendgroup=str(count),
            line={"color": colour, "width": 2},
            customdata=[
                f"{human(float(rows), 'rows')} in {human(float(count), 'slices')}: "
                f"{significant(rate)} tokens/s"
                for rows, rate in zip(study.rows, rates, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    for count in sorted({point.slices for point in measured}):
        _add_points(figure, count, [point for point in measured if point.slices == count])
    figure.update_xaxes(title="rows of a prefill pass", **_log_axis())
    figure.update_yaxes(title="prefill [tokens/s]", rangemode="tozero")
    return figure


def loss_figure(study: SliceStudy) -> go.Figure:
    """Draw how much longer than the best count the rule, a constant and no slicing take."""
    figure = base_figure(260, "slices_loss")
    lines: tuple[tuple[str, Array, str], ...] = (
        ("the rule", study.loss(study.rule), GREEN),
        (f"always {CONSTANT} slices", study.loss(CONSTANT), RED),
        ("always serial", study.loss(1), BLUE),
    )
    for name, loss, colour in lines:
        figure.add_scatter(
            x=study.rows.tolist(),
            y=(100 * loss).tolist(),
            mode="lines",
            name=name,
            line={"color": colour, "width": 2},
            customdata=[
                f"{human(float(rows), 'rows')}, {name}: {significant(100 * value)} % longer than "
                f"the best, {human(float(best), 'slices')}"
                for rows, value, best in zip(study.rows, loss, study.best, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="rows of a prefill pass", **_log_axis())
    figure.update_yaxes(title="longer than the best", ticksuffix=" %", range=[-0.2, 10])
    return figure


def _add_points(figure: go.Figure, count: int, points: Sequence[MeasuredPass]) -> None:
    colour = DRAWN.get(count, RED)
    step = list(DRAWN).index(count) - 1 if count in DRAWN else 0
    figure.add_scatter(
        x=[point.rows * NEAR**step for point in points],
        y=[point.rate for point in points],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.rate for point in points],
            "arrayminus": [point.rate - point.low for point in points],
            "color": colour,
            "thickness": 1.5,
        },
        mode="markers",
        name=f"measured, {'serial' if count == 1 else count}",
        legendgroup=str(count),
        showlegend=False,
        marker={**MEASURED_MARK, "color": colour, "line": {"width": 2, "color": colour}},
        customdata=[
            f"measured, {human(float(point.rows), 'rows')} in "
            f"{human(float(count), 'slices')}: {significant(point.rate, 4)} tokens/s, "
            f"{significant(point.low, 4)} to {significant(point.high, 4)} in "
            f"{point.repetitions} runs"
            if point.repetitions > 1
            else f"measured, {human(float(point.rows), 'rows')} in "
            f"{human(float(count), 'slices')}: {significant(point.rate, 4)} tokens/s, one run"
            for point in points
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _log_axis() -> dict[str, object]:
    return {
        "type": "log",
        "tickvals": list(TICKS),
        "ticktext": [f"{tick:,}" for tick in TICKS],
        "range": [np.log10(SHORTEST * 0.93), np.log10(LONGEST * 1.07)],
    }
