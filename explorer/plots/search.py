"""How a search went: each trial's value and the best so far, with the proved optimum as floor."""

from __future__ import annotations

import math
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.style import BLUE, GREEN, GREY, base_figure


class SearchTrace(NamedTuple):
    """Trials that were feasible, and the best so far after each."""

    trials: tuple[int, ...]
    values: tuple[float, ...]
    best: tuple[float, ...]
    optimum: float | None


def search_trace(
    history: tuple[tuple[int, float, float], ...], optimum: float | None
) -> SearchTrace:
    """Return what the chart shows; infeasible trials have no value and are left out."""
    feasible = [point for point in history if not math.isnan(point[2])]
    return SearchTrace(
        tuple(number + 1 for number, _, _ in feasible),
        tuple(value for _, value, _ in feasible),
        tuple(best for _, _, best in feasible),
        optimum,
    )


def search_figure(
    trace: SearchTrace, name: str, unit: str, floor: str = "proved optimum"
) -> go.Figure:
    """Draw trials as dots, the best so far as steps, the optimum or its bound as a dashed line."""
    figure = base_figure(300, "search")
    figure.add_scatter(
        x=trace.trials,
        y=trace.values,
        mode="markers",
        name="trial",
        marker={"color": GREY, "size": 6},
        hovertemplate=f"trial %{{x}}: %{{y:.3g}} {unit}<extra></extra>",
    )
    figure.add_scatter(
        x=trace.trials,
        y=trace.best,
        mode="lines",
        name="best so far",
        line={"color": BLUE, "width": 3, "shape": "hv"},
        hovertemplate=f"best after trial %{{x}}: %{{y:.3g}} {unit}<extra></extra>",
    )
    if trace.optimum is not None and trace.trials:
        figure.add_scatter(
            x=[trace.trials[0], trace.trials[-1]],
            y=[trace.optimum, trace.optimum],
            mode="lines",
            name=f"{floor} {human(trace.optimum, unit)}",
            line={"color": GREEN, "dash": "dash", "width": 2},
            hoverinfo="skip",
        )
    figure.update_xaxes(title="trial")
    figure.update_yaxes(title=f"{name} [{unit}]", type="log", nticks=6)
    return figure
