"""Where the time goes: the terms of one pass of each pool, longest first."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.terms import Bound, Stage
from explorer.plots.style import COLOUR_OF_BOUND, NAME_OF_BOUND, base_figure, words
from explorer.serving.evaluate import Evaluation

SMALLEST_SHARE = 0.005


class Part(NamedTuple):
    """One term of a pass: its share of the pass and what binds it."""

    pool: str
    name: str
    seconds: float
    share: float
    bound: Bound


def breakdown_data(evaluation: Evaluation) -> tuple[Part, ...]:
    """Return the terms of one prefill pass and one decode step; shares add up to 1 in each."""
    return (
        *_parts("prefill pass", evaluation.prefill_stage),
        *_parts("decode step", evaluation.decode_stage),
    )


def breakdown_figure(parts: tuple[Part, ...]) -> go.Figure:
    """Draw one stacked bar a pool, coloured by what binds each term."""
    figure = base_figure(230, "breakdown")
    named: set[str] = set()
    for part in parts:
        if part.share < SMALLEST_SHARE:
            continue
        resource = NAME_OF_BOUND[part.bound]
        figure.add_bar(
            y=[part.pool],
            x=[100 * part.share],
            orientation="h",
            name=resource,
            legendgroup=resource,
            showlegend=resource not in named,
            marker={
                "color": COLOUR_OF_BOUND[part.bound],
                "line": {"width": 1, "color": "white"},
            },
            text=[words(part.name)],
            textposition="inside",
            insidetextanchor="middle",
            hovertemplate=(
                f"{words(part.name)}: {human(part.seconds, 's')} of the {part.pool}, "
                f"%{{x:.1f}} %, bound by {resource}<extra></extra>"
            ),
        )
        named.add(resource)
    figure.update_layout(barmode="stack", uniformtext={"minsize": 9, "mode": "hide"})
    figure.update_xaxes(title="share of the time", ticksuffix=" %", range=[0, 100])
    figure.update_yaxes(autorange="reversed", title=None)
    return figure


def _parts(pool: str, stage: Stage) -> list[Part]:
    whole = float(stage.seconds)
    parts = [
        Part(
            pool,
            term.name,
            float(term.seconds),
            float(term.seconds) / whole,
            Bound(int(term.bound_by)),
        )
        for term in stage.terms
        if float(term.seconds) > 0
    ]
    return sorted(parts, key=lambda part: -part.seconds)
