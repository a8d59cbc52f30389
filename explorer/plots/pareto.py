"""A Pareto front: the plans that no other one beats, and where the sliders stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.palette import NEUTRAL, PLUM
from explorer.plots.style import PRESENT_MARK, base_figure
from explorer.search.front_text import figures_text, row_text
from explorer.search.measures import Measure
from explorer.search.pareto import ParetoFront

MOST_DRAWN = 150
LOG_FROM, LOG_STEPS = 20.0, (1, 2, 5)
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


class FrontPoint(NamedTuple):
    """One plan: its place in the front (-1 for the sliders' own), figures, and a sentence."""

    place: int
    figures: tuple[float, ...]
    sentence: str


class FrontView(NamedTuple):
    """What the chart shows.

    ``hidden`` counts the plans of the front that are not drawn, evenly thinned.
    """

    measures: tuple[Measure, ...]
    points: tuple[FrontPoint, ...]
    now: FrontPoint | None
    hidden: int


def front_view(front: ParetoFront, now: Sequence[float] | None = None) -> FrontView:
    """Return the points to draw; ``now`` are the figures of the sliders' plan, if it fits."""
    every = [
        FrontPoint(index, point.figures, row_text(front, index))
        for index, point in enumerate(front.points)
    ]
    count = len(every)
    drawn = every
    if count > MOST_DRAWN:
        drawn = [every[i * (count - 1) // (MOST_DRAWN - 1)] for i in range(MOST_DRAWN)]
    own = None
    if now is not None:
        own = FrontPoint(-1, tuple(now), f"the sliders: {figures_text(front.measures, now)}")
    return FrontView(front.measures, tuple(drawn), own, count - len(drawn))


def pareto_figure(view: FrontView) -> go.Figure:
    """Draw the second measure along, the first up, and the third as colour."""
    figure = base_figure(420, "pareto")
    up, along, *others = view.measures
    points = sorted(view.points, key=lambda point: point.figures[1])
    if not others:
        figure.add_scatter(
            x=[point.figures[1] for point in points],
            y=[point.figures[0] for point in points],
            mode="lines",
            # Beside a plan, what it reaches can be had with more of what is to be small, too.
            line={"color": NEUTRAL, "width": 1, "shape": "hv" if along.sign > 0 else "vh"},
            hoverinfo="skip",
            showlegend=False,
        )
    marker: dict[str, object] = {"size": 11, "color": PLUM, "line": {"width": 1, "color": NEUTRAL}}
    if others:
        values = [point.figures[2] for point in points]
        marker |= {
            "color": values,
            "colorscale": "Cividis",
            "showscale": True,
            "colorbar": {
                "title": {"text": _title(others[0]), "side": "right"},
                "thickness": 14,
                "separatethousands": True,
            },
        }
    figure.add_scatter(
        x=[point.figures[1] for point in points],
        y=[point.figures[0] for point in points],
        mode="markers",
        name="plans that no other beats",
        marker=marker,
        customdata=[[point.place, point.sentence] for point in points],
        hovertemplate="%{customdata[1]}<extra></extra>",
    )
    if view.now is not None:
        figure.add_scatter(
            x=[view.now.figures[1]],
            y=[view.now.figures[0]],
            mode="markers",
            name="the sliders",
            marker=PRESENT_MARK,
            customdata=[[view.now.place, view.now.sentence]],
            hovertemplate="%{customdata[1]}<extra></extra>",
        )
    drawn = [*view.points, *([view.now] if view.now is not None else [])]
    figure.update_xaxes(title=_title(along), **_axis([p.figures[1] for p in drawn], along.unit))
    figure.update_yaxes(title=_title(up), **_axis([p.figures[0] for p in drawn], up.unit))
    figure.update_layout(clickmode="event+select", dragmode="pan")
    return figure


def _title(measure: Measure) -> str:
    return f"{measure.label} [{measure.unit}]" if measure.unit else measure.label


def _axis(values: Sequence[float], unit: str) -> dict[str, object]:
    positive = [value for value in values if value > 0]
    if not positive or max(positive) / min(positive) <= LOG_FROM:
        return {"rangemode": "tozero", "nticks": 8}
    decades = range(math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive))))
    ticks = [step * 10.0**decade for decade in decades for step in LOG_STEPS]
    return {"type": "log", "tickvals": ticks, "ticktext": [human(tick, unit) for tick in ticks]}
