"""What the assumed constants leave open: the answer's interval, together and one at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.palette import PLUM, STEEL
from explorer.plots.style import ASSUMED_SHAPE, PRESENT_MARK, base_figure, hatched, untagged
from explorer.search.robustness import Interval
from explorer.search.sensitivity import Sensitivity

ROW_PIXELS, FRAME_PIXELS = 34, 90
TOGETHER = "all together"


class Span(NamedTuple):
    """Where the answer lies while some constants vary; NaN where a plan does not fit."""

    label: str
    low: float
    high: float
    now: float


def spans(found: Interval, alone: Sensitivity) -> tuple[Span, ...]:
    """Return the interval of all constants together, then of each alone, the widest first."""
    rows = []
    for constant in found.varied:
        effect = alone.effect(constant.path)
        if effect is None:
            continue
        ends = [end.value for end in (effect.low, effect.high) if end is not None]
        known = [value for value in (*ends, found.now) if not math.isnan(value)]
        rows.append(Span(constant.label, min(known), max(known), found.now))
    rows.sort(key=lambda row: row.low - row.high)
    return (Span(TOGETHER, found.low, found.high, found.now), *rows)


def interval_figure(rows: Sequence[Span], name: str, unit: str) -> go.Figure:
    """Draw a bar from the least to the largest answer in each row, and a mark where it is now."""
    figure = base_figure(FRAME_PIXELS + ROW_PIXELS * len(rows), "interval")
    labels = [untagged(row.label) for row in rows]
    figure.add_bar(
        orientation="h",
        y=labels,
        base=[row.low for row in rows],
        x=[row.high - row.low for row in rows],
        marker={
            "color": [PLUM if row.label == TOGETHER else STEEL for row in rows],
            "pattern": hatched(PLUM, ASSUMED_SHAPE),
        },
        customdata=[
            f"{label}: {human(row.low, unit)} to {human(row.high, unit)}"
            for label, row in zip(labels, rows, strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    figure.add_scatter(
        x=[row.now for row in rows],
        y=labels,
        mode="markers",
        name="at the values now",
        marker=PRESENT_MARK,
        customdata=[f"{human(row.now, unit)} at the values now" for row in rows],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(title=f"{name} [{unit}]")
    figure.update_yaxes(autorange="reversed")
    return figure
