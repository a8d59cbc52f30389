"""Gantt chart of one loop over blocks: loads of X2 and W2, compute, stores of Y2."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.buffering import Interval, Timeline
from explorer.plots.palette import ACTIVATIONS, COMPUTE, NEUTRAL, WEIGHTS
from explorer.plots.style import RESOURCE_OF_COLOUR, base_figure, hatched, legend_entry

MOST_BARS = 180
US = 1e6
ROWS = {
    "load_x": ("T1 · X2 in", ACTIVATIONS),
    "load_w": ("T2 · W2 in", WEIGHTS),
    "compute": ("T3 · compute", COMPUTE),
    "store": ("T4 · Y2 out", ACTIVATIONS),
}
OTHER_BLOCK = "x"
"""Pattern of every second block of Y2."""


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
    """Draw a row for each kind of work; every second block of Y2 is hatched."""
    figure = base_figure(300, "gantt")
    named: set[str] = set()
    for what, (row, colour) in ROWS.items():
        bars = [bar for bar in gantt.bars if bar.what == what]
        figure.add_bar(
            y=[row] * len(bars),
            x=[US * (bar.end_seconds - bar.start_seconds) for bar in bars],
            base=[US * bar.start_seconds for bar in bars],
            orientation="h",
            **legend_entry(RESOURCE_OF_COLOUR[colour], named),
            marker={
                "color": colour,
                "pattern": {
                    **hatched(colour, ""),
                    "shape": [OTHER_BLOCK if bar.block % 2 else "" for bar in bars],
                },
                "line": {"width": 0.5, "color": NEUTRAL},
            },
            customdata=[
                f"block {bar.block + 1}, {'tile' if what == 'store' else 'iteration'} "
                f"{bar.iteration + 1}: {human(bar.end_seconds - bar.start_seconds, 's')}"
                for bar in bars
            ],
            hovertemplate=f"{row}, %{{customdata}}<extra></extra>",
        )
    figure.add_bar(
        x=[None],
        y=[None],
        orientation="h",
        name="hatched: every second block",
        marker={"color": NEUTRAL, "pattern": hatched(NEUTRAL, OTHER_BLOCK)},
        hoverinfo="skip",
    )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="time since the first load [µs]", rangemode="tozero")
    names = [row for row, _ in ROWS.values()]
    figure.update_yaxes(
        categoryorder="array", categoryarray=names, autorange="reversed", title=None
    )
    return figure
