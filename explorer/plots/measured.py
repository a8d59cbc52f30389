"""Measured points: the same open circle with a thick outline on every chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from explorer.plots.palette import NEUTRAL

MEASURED_SYMBOL = "circle-open"


def measured_mark(colour: str = NEUTRAL) -> dict[str, object]:
    """Return the mark of measured points; in the colour of the line that they belong to."""
    return {
        "symbol": MEASURED_SYMBOL,
        "size": 11,
        "color": colour,
        "line": {"width": 2, "color": colour},
    }


def add_measured(
    figure: go.Figure,
    x: Sequence[float],
    y: Sequence[float],
    sentences: Sequence[str],
    name: str = "measured",
    colour: str = NEUTRAL,
    **more: Mapping[str, object] | str | bool,
) -> None:
    """Add measured points; hover reads as the sentences. Nothing is added for no points.

    ``more`` are further properties of the trace, such as ``error_y``.
    """
    if not x:
        return
    figure.add_scatter(
        x=list(x),
        y=list(y),
        mode="markers",
        name=name,
        marker=measured_mark(colour),
        customdata=list(sentences),
        hovertemplate="%{customdata}<extra></extra>",
        **more,
    )
