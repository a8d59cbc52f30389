"""Gantt chart of one loop over blocks: loads of X2 and W2, compute, stores of Y2."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.buffering import Interval, Timeline
from explorer.plots.style import BLUE, GREEN, GREY, ORANGE, SKY, base_figure

MOST_BARS = 180
US = 1e6
ROWS = {
    "load_x": ("T1 · X2 in", SKY),
    "load_w": ("T2 · W2 in", ORANGE),
    "compute": ("T3 · compute", BLUE),
    "store": ("T4 · Y2 out", GREEN),
}
FAINT, STRONG = 0.5, 1.0


class Gantt(NamedTuple):
    """Bars to draw, and how many more there are."""

    bars: tuple[Interval, ...]
    hidden: int


def gantt_data(timeline: Timeline) -> Gantt:
    """Return the first bars of a timeline by start, as many as a chart can carry."""
    ordered = sorted(timeline.intervals, key=lambda bar: bar.start_seconds)
    drawn = [bar for bar in ordered if bar.end_seconds > bar.start_seconds]
    return Gantt(tuple(drawn[:MOST_BARS]), max(len(drawn) - MOST_BARS, 0))


def gantt_figure(gantt: Gantt) -> go.Figure:
    """Draw a row for each kind of work; blocks of Y2 alternate strong and faint."""
    figure = base_figure(260, "gantt")
    for what, (row, colour) in ROWS.items():
        bars = [bar for bar in gantt.bars if bar.what == what]
        figure.add_bar(
            y=[row] * len(bars),
            x=[US * (bar.end_seconds - bar.start_seconds) for bar in bars],
            base=[US * bar.start_seconds for bar in bars],
            orientation="h",
            name=row,
            showlegend=False,
            marker={
                "color": colour,
                "opacity": [FAINT if bar.block % 2 else STRONG for bar in bars],
                "line": {"width": 0.5, "color": GREY},
            },
            customdata=[
                f"block {bar.block + 1}, {'tile' if what == 'store' else 'iteration'} "
                f"{bar.iteration + 1}: {human(bar.end_seconds - bar.start_seconds, 's')}"
                for bar in bars
            ],
            hovertemplate=f"{row}, %{{customdata}}<extra></extra>",
        )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="time since the first load [µs]", rangemode="tozero")
    names = [row for row, _ in ROWS.values()]
    figure.update_yaxes(
        categoryorder="array", categoryarray=names, autorange="reversed", title=None
    )
    return figure
