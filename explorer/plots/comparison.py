"""Samplers compared: the best so far of each, against trials or time, over the proved floor."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.palette import NEUTRAL, look
from explorer.plots.search import value_axis
from explorer.plots.style import base_figure
from explorer.search.certificate import Certificate
from explorer.search.comparison import Comparison


class Line(NamedTuple):
    """One sampler's best so far, a step at each improvement."""

    name: str
    trials: tuple[float, ...]
    seconds: tuple[float, ...]
    best: tuple[float, ...]


class Lines(NamedTuple):
    """What the chart shows; the floor is NaN where none is proved."""

    lines: tuple[Line, ...]
    floor: float
    floor_name: str
    unit: str


def comparison_lines(found: Comparison) -> Lines:
    """Return what the chart shows; a sampler that found nothing feasible has no line."""
    lines = tuple(
        Line(
            curve.label,
            tuple(float(point.trial) for point in curve.points),
            tuple(point.seconds for point in curve.points),
            tuple(point.best for point in curve.points),
        )
        for curve in found.curves
        if curve.points
    )
    proof = found.proof
    exact = isinstance(proof, Certificate) or (proof is not None and proof.closed)
    name = "proved optimum" if exact else "proved bound"
    return Lines(lines, found.floor, name, found.settings.objective.unit)


def comparison_figure(found: Lines, by: Literal["trial", "seconds"], value_title: str) -> go.Figure:
    """Draw the best so far of each sampler as steps, and the floor as a dashed line."""
    figure = base_figure(300, f"comparison-{by}")
    ends = [0.0]
    for index, line in enumerate(found.lines):
        along = line.trials if by == "trial" else line.seconds
        ends.append(along[-1])
        figure.add_scatter(
            x=along,
            y=line.best,
            mode="lines+markers",
            name=line.name,
            line={**look(index).line, "shape": "hv"},
            marker={"size": 7, "symbol": look(index).symbol},
            customdata=[
                f"{line.name} found {human(best, found.unit)} {_when(by, at)}"
                for at, best in zip(along, line.best, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    if not math.isnan(found.floor):
        figure.add_scatter(
            x=[0.0, max(ends)],
            y=[found.floor, found.floor],
            mode="lines",
            name=f"{found.floor_name} {human(found.floor, found.unit)}",
            line={"color": NEUTRAL, "dash": "dash", "width": 2},
            hoverinfo="skip",
        )
    figure.update_xaxes(title="trial" if by == "trial" else "time [s]")
    every = [value for line in found.lines for value in line.best]
    figure.update_yaxes(title=value_title, **value_axis([*every, found.floor]))
    if by == "seconds":
        # The chart above it has the same lines.
        figure.update_layout(showlegend=False)
    return figure


def _when(by: Literal["trial", "seconds"], at: float) -> str:
    return f"in trial {at:,.0f}" if by == "trial" else f"after {human(at, 's')}"
