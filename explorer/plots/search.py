"""How a search went: each trial's value and the best so far, with the proved optimum as floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.palette import COMPARED, NEUTRAL
from explorer.plots.style import base_figure, tick_text

TICK_STEPS = (1, 2, 5)
FEWEST_TICKS, MOST_TICKS = 3, 8
MARGIN = 1.1


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
        marker={"color": NEUTRAL, "size": 6},
        customdata=[human(value, unit) for value in trace.values],
        hovertemplate="trial %{x:,} gave %{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=trace.trials,
        y=trace.best,
        mode="lines",
        name="best so far",
        line={**COMPARED[0].line, "width": 3, "shape": "hv"},
        customdata=[human(value, unit) for value in trace.best],
        hovertemplate="the best after trial %{x:,} is %{customdata}<extra></extra>",
    )
    if trace.optimum is not None and trace.trials:
        figure.add_scatter(
            x=[trace.trials[0], trace.trials[-1]],
            y=[trace.optimum, trace.optimum],
            mode="lines",
            name=f"{floor} {human(trace.optimum, unit)}",
            line={"color": NEUTRAL, "dash": "dash", "width": 2},
            hoverinfo="skip",
        )
    figure.update_xaxes(title="trial")
    figure.update_yaxes(title=f"{name} [{unit}]", **value_axis((*trace.values, *trace.best)))
    return figure


def value_axis(values: Sequence[float]) -> dict[str, object]:
    """Return a logarithmic axis whose every tick says its whole value, linear for a small range."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return {"nticks": 6}
    low, high = min(positive) / MARGIN, max(positive) * MARGIN
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in TICK_STEPS]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) < FEWEST_TICKS:
        return {"nticks": 6}
    if len(ticks) > MOST_TICKS:
        ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
    return {"type": "log", "tickvals": ticks, "ticktext": [tick_text(tick) for tick in ticks]}
