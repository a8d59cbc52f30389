"""Measured points: the same open circle with a grey outline on every chart."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from explorer.plots.style import GREY

MEASURED_MARK = {
    "symbol": "circle-open",
    "size": 11,
    "color": GREY,
    "line": {"width": 2, "color": GREY},
}


def add_measured(
    figure: go.Figure,
    x: Sequence[float],
    y: Sequence[float],
    sentences: Sequence[str],
    name: str = "measured",
) -> None:
    """Add measured points; hover reads as the sentences. Nothing is added for no points."""
    if not x:
        return
    figure.add_scatter(
        x=list(x),
        y=list(y),
        mode="markers",
        name=name,
        marker=MEASURED_MARK,
        customdata=list(sentences),
        hovertemplate="%{customdata}<extra></extra>",
    )
