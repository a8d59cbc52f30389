"""Where the time goes: the terms of one pass of each pool, longest first."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.terms import Bound, Stage
from explorer.plots.palette import text_on
from explorer.plots.style import (
    ASSUMED_KINDS,
    ASSUMED_SHAPE,
    COLOUR_OF_BOUND,
    EDGE,
    NAME_OF_BOUND,
    SMALLEST_TEXT,
    add_assumed_key,
    base_figure,
    hatched,
    legend_entry,
    resource,
    words,
)
from explorer.serving.evaluate import Evaluation

SMALLEST_SHARE = 0.005


class Part(NamedTuple):
    """One term of a pass: its share of the pass, what binds it, and whether that is assumed."""

    pool: str
    name: str
    seconds: float
    share: float
    bound: Bound
    assumed: bool


def breakdown_data(evaluation: Evaluation) -> tuple[Part, ...]:
    """Return the terms of one prefill pass and one decode step; shares add up to 1 in each."""
    return (
        *_parts("prefill pass", evaluation.prefill_stage),
        *_parts("decode step", evaluation.decode_stage),
    )


def breakdown_figure(parts: tuple[Part, ...]) -> go.Figure:
    """Draw one stacked bar a pool: the colour is what binds a term, hatched what is assumed."""
    figure = base_figure(270, "breakdown")
    named: set[str] = set()
    for part in parts:
        if part.share < SMALLEST_SHARE:
            continue
        name, colour = resource(part.bound), COLOUR_OF_BOUND[part.bound]
        figure.add_bar(
            y=[part.pool],
            x=[100 * part.share],
            orientation="h",
            **legend_entry(name, named),
            marker={
                "color": colour,
                "line": EDGE,
                "pattern": hatched(colour, ASSUMED_SHAPE if part.assumed else ""),
            },
            text=[words(part.name)],
            textposition="inside",
            textangle=0,
            insidetextanchor="middle",
            insidetextfont={"color": text_on(colour)},
            hovertemplate=(
                f"{words(part.name)}: {human(part.seconds, 's')} of the {part.pool}, "
                f"%{{x:.3g}} %, bound by {NAME_OF_BOUND[part.bound]}"
                f"{', by assumed or fitted numbers' if part.assumed else ''}<extra></extra>"
            ),
        )
    if any(part.assumed and part.share >= SMALLEST_SHARE for part in parts):
        add_assumed_key(figure)
    figure.update_layout(barmode="stack", uniformtext={"minsize": SMALLEST_TEXT, "mode": "hide"})
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
            bool(term.kinds & ASSUMED_KINDS),
        )
        for term in stage.terms
        if float(term.seconds) > 0
    ]
    return sorted(parts, key=lambda part: -part.seconds)
