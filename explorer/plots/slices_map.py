"""Prefill rate over rows and slice counts, with what was measured, and what a choice loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.knobs import scenario_knobs
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.arrays import Array
from explorer.plots.curves import fine_rows, log_row_axis, mark_present, thinned
from explorer.plots.measured import add_measured
from explorer.plots.palette import COMPARED, NEUTRAL, Look
from explorer.plots.style import PRESENT_MARK, base_figure
from explorer.serving.slice_study import (
    CONSTANT,
    SliceStudy,
    jump_rows,
    rows_of_a_pass,
    slice_study,
)

DRAWN = {1: COMPARED[0], 2: COMPARED[1], 4: COMPARED[2], 8: COMPARED[3]}
RULE = COMPARED[4]._replace(dash="solid")
MOST_POINTS, MOST_LOSS_POINTS = 42, 58
"""Points of one of four rate lines, and of one of three loss lines: under 200 a chart."""
LARGEST_LOSS = 0.1
BEYOND_LOSS = 1.2 * LARGEST_LOSS
"""Where losses that leave the picture are drawn, just outside it."""
RULE_WIDTH = 6
"""The rule's line is broken and lies on others: it is wide, and behind them."""
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


class PresentPass(NamedTuple):
    """The scenario's own pass: its rows, the slices that it runs in, its rate [tokens/s]."""

    rows: int
    slices: int
    rate: float


def map_study(scenario: Scenario) -> SliceStudy:
    """Return the passes that both figures draw, also just before and at each count's first rows."""
    longest = int(scenario_knobs()["workload.prompt_tokens"].maximum)
    present = min(rows_of_a_pass(scenario), longest)
    return slice_study(scenario, fine_rows(present, jump_rows(scenario)).tolist())


def rate_figure(
    study: SliceStudy, measured: Sequence[MeasuredPass], present: PresentPass
) -> go.Figure:
    """Draw tokens/s against rows, a line a count, measured points in their line's colour.

    ``present`` is the scenario's own pass. Lines hold the points that their curves need.
    """
    figure = base_figure(400, "slices_map")
    for count, look in DRAWN.items():
        column = int(np.searchsorted(study.counts, count))
        whole = study.tokens_per_second[:, column]
        shown = thinned(study.rows, whole, MOST_POINTS)
        shown_rows, rates = study.rows[shown], whole[shown]
        figure.add_scatter(
            x=shown_rows.tolist(),
            y=rates.tolist(),
            mode="lines",
            name="serial" if count == 1 else f"{count} slices",
            legendgroup=str(count),
            line=look.line,
            customdata=[
                f"{human(float(rows), 'rows')} in {human(float(count), 'slices')}: "
                f"{significant(rate)} tokens/s"
                for rows, rate in zip(shown_rows, rates, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    for count in sorted({point.slices for point in measured}):
        _add_points(figure, count, [point for point in measured if point.slices == count])
    _add_present(figure, present)
    log_row_axis(figure, study.rows)
    figure.update_yaxes(title="prefill [tokens/s]", rangemode="tozero")
    return figure


def loss_figure(study: SliceStudy, present: int) -> go.Figure:
    """Draw how much longer than the best count the rule, a constant and no slicing take.

    ``present`` are the rows of the scenario's own pass.
    """
    figure = base_figure(260, "slices_loss")
    lines: tuple[tuple[str, Array, Look], ...] = (
        ("the rule", study.loss(study.rule), RULE),
        (f"always {CONSTANT} slices", study.loss(CONSTANT), DRAWN[CONSTANT]),
        ("always serial", study.loss(1), DRAWN[1]),
    )
    for name, whole, look in lines:
        drawn = np.minimum(whole, BEYOND_LOSS)
        shown = thinned(study.rows, drawn, MOST_LOSS_POINTS)
        rows_shown, loss = study.rows[shown], whole[shown]
        figure.add_scatter(
            x=rows_shown.tolist(),
            y=(100 * drawn[shown]).tolist(),
            mode="lines",
            name=name,
            line={**look.line, "width": RULE_WIDTH if look is RULE else 2},
            customdata=[
                f"{human(float(rows), 'rows')}, {name}: {significant(100 * value)} % longer than "
                f"the best, {human(float(best), 'slices')}"
                for rows, value, best in zip(rows_shown, loss, study.best[shown], strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    mark_present(figure, present)
    log_row_axis(figure, study.rows)
    figure.update_yaxes(
        title="longer than the best", ticksuffix=" %", range=[-0.2, 100 * LARGEST_LOSS]
    )
    return figure


def _add_present(figure: go.Figure, present: PresentPass) -> None:
    """Mark the scenario's own pass with a line at its rows and a star at its rate."""
    mark_present(figure, present.rows, 0.04)
    figure.add_scatter(
        x=[present.rows],
        y=[present.rate],
        mode="markers",
        name="this scenario",
        marker=PRESENT_MARK,
        customdata=[
            f"this scenario: {human(float(present.rows), 'rows')} in "
            f"{human(float(present.slices), 'slices')}, {significant(present.rate)} tokens/s"
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _add_points(figure: go.Figure, count: int, points: Sequence[MeasuredPass]) -> None:
    colour = DRAWN[count].colour if count in DRAWN else NEUTRAL
    step = list(DRAWN).index(count) - 1 if count in DRAWN else 0
    add_measured(
        figure,
        [point.rows * NEAR**step for point in points],
        [point.rate for point in points],
        [_measured_sentence(point) for point in points],
        f"measured, {'serial' if count == 1 else count}",
        colour,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [point.high - point.rate for point in points],
            "arrayminus": [point.rate - point.low for point in points],
            "color": colour,
            "thickness": 1.5,
        },
        legendgroup=str(count),
        showlegend=False,
    )


def _measured_sentence(point: MeasuredPass) -> str:
    text = (
        f"measured, {human(float(point.rows), 'rows')} in {human(float(point.slices), 'slices')}: "
        f"{significant(point.rate)} tokens/s"
    )
    if point.repetitions == 1:
        return f"{text}, one run"
    ends = f"{significant(point.low)} to {significant(point.high)}"
    return f"{text}, {ends} in {point.repetitions} runs"
