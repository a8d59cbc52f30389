"""Several scenarios in one picture: rooflines over each other, budgets and times side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.costs.terms import Bound, Stage
from explorer.plots.memory import Bar, add_parts, memory_bars
from explorer.plots.palette import COMPARED
from explorer.plots.roofline import Roofline, roofline_data
from explorer.plots.style import (
    COLOUR_OF_BOUND,
    EDGE,
    NAME_OF_BOUND,
    base_figure,
    legend_entry,
    resource,
    untagged,
    words,
)
from explorer.serving.comparison import Candidate

OPEN = {"prefill": "", "decode": "-open"}
LONGEST_NAME = 28
LEGEND_ROW, LEGEND_SHARE = 22, 0.5
"""Height of a legend's entry [px], and the part of a figure that a legend may take at most."""


class BudgetBar(NamedTuple):
    """One capacity of one scenario."""

    scenario: str
    bar: Bar


class TimeBar(NamedTuple):
    """Seconds of one pool's batch in one scenario, by what binds them."""

    scenario: str
    pool: str
    seconds: dict[Bound, float]

    @property
    def total_seconds(self) -> float:
        """All of them; none where a request ends with its first token and nothing is decoded."""
        return sum(self.seconds.values())

    def share(self, bound: Bound) -> float:
        """Return the part of the time that a bound takes, 0 of no time."""
        total = self.total_seconds
        return self.seconds.get(bound, 0.0) / total if total else 0.0


def short(name: str) -> str:
    """Return a name that fits beside a bar."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def short_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return their names, short and unlike: bars of one name would be stacked on each other."""
    names: list[str] = []
    for candidate in candidates:
        name, count = short(candidate.name), 1
        while name in names:
            count += 1
            name = f"{short(candidate.name)} ({count})"
        names.append(name)
    return names


def budget_bars(candidates: Sequence[Candidate]) -> tuple[BudgetBar, ...]:
    """Return the memory budgets of every scenario, the same part of each beside the other."""
    bars = [
        BudgetBar(name, bar)
        for name, candidate in zip(short_names(candidates), candidates, strict=True)
        for bar in memory_bars(candidate.evaluation, None)
    ]
    order = list(dict.fromkeys(_place(bar.bar) for bar in bars))
    return tuple(sorted(bars, key=lambda bar: order.index(_place(bar.bar))))


def _place(bar: Bar) -> str:
    return bar.name.partition(" ")[0].rstrip(",")


def budget_figure(bars: Sequence[BudgetBar]) -> go.Figure:
    """Draw every budget as a share of its capacity; past 100 % it does not fit."""
    figure = base_figure(100 + 34 * len(bars), "compare_memory")
    labels = [untagged(f"{bar.bar.name} · {bar.scenario}") for bar in bars]
    add_parts(figure, labels, [bar.bar for bar in bars])
    figure.update_layout(
        barmode="stack",
        xaxis={"title": "share of capacity", "ticksuffix": " %", "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
    )
    return figure


def time_bars(candidates: Sequence[Candidate]) -> tuple[TimeBar, ...]:
    """Return what binds the time of a batch in each pool; plans that do not fit have none."""
    bars = []
    for pool in ("prefill", "decode"):
        for name, candidate in zip(short_names(candidates), candidates, strict=True):
            evaluation = candidate.evaluation
            if not evaluation.feasible:
                continue
            terms = evaluation.prefill_terms() if pool == "prefill" else evaluation.decode_terms()
            seconds = Stage(terms).seconds_by_bound()
            found = {bound: float(value) for bound, value in seconds.items() if float(value) > 0}
            bars.append(TimeBar(name, pool, found))
    return tuple(bars)


def time_figure(bars: Sequence[TimeBar]) -> go.Figure:
    """Draw the time of a batch in each pool of each scenario, coloured by what binds it.

    Two bounds of one resource, such as all-reduces and the network, share its legend entry.
    """
    named: set[str] = set()
    names = {resource(bound) for bar in bars for bound in bar.seconds}
    room = LEGEND_ROW / LEGEND_SHARE * len(names)
    figure = base_figure(round(max(100 + 38 * len(bars), room)), "compare_times")
    labels = [untagged(f"{bar.pool} · {bar.scenario}") for bar in bars]
    for bound in dict.fromkeys(bound for bar in bars for bound in bar.seconds):
        seconds = [bar.seconds.get(bound, 0.0) for bar in bars]
        figure.add_bar(
            y=labels,
            x=seconds,
            orientation="h",
            **legend_entry(resource(bound), named),
            marker={"color": COLOUR_OF_BOUND[bound], "line": EDGE},
            customdata=[
                f"{label}: {human(value, 's')} of {human(bar.total_seconds, 's')} a batch, "
                f"{significant(100 * bar.share(bound))} %, bound by "
                f"{NAME_OF_BOUND[bound]}"
                for label, value, bar in zip(labels, seconds, bars, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        xaxis={"title": "time of one batch [s]", "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
    )
    return figure


def rooflines(candidates: Sequence[Candidate]) -> tuple[tuple[str, Roofline], ...]:
    """Return the roofline of every scenario that fits."""
    return tuple(
        (name, roofline_data(candidate.evaluation, None))
        for name, candidate in zip(short_names(candidates), candidates, strict=True)
        if candidate.evaluation.feasible
    )


def rooflines_figure(named: Sequence[tuple[str, Roofline]]) -> go.Figure:
    """Draw rooflines over each other: a colour, dash and mark a scenario, decode marks open."""
    figure = base_figure(460, "compare_roofline")
    for (called, data), look in zip(named, COMPARED, strict=False):
        name = untagged(called)
        for number, roof in enumerate(data.roofs):
            figure.add_scatter(
                x=roof.intensities,
                y=roof.macs_per_second,
                mode="lines",
                name=name,
                legendgroup=name,
                showlegend=number == 0,
                line=look.line,
                # A name within the template could hold variables of Plotly's.
                customdata=[
                    f"{name}, {roof.name}: at most {human(roof.macs_per_second[-1], 'MAC/s')}, "
                    f"from {significant(roof.threshold)} MAC/B on"
                ]
                * len(roof.intensities),
                hovertemplate="%{customdata}<extra></extra>",
            )
        figure.add_scatter(
            x=[point.intensity for point in data.points],
            y=[point.macs_per_second for point in data.points],
            mode="markers",
            name=name,
            legendgroup=name,
            showlegend=False,
            marker={
                "symbol": [look.symbol + OPEN[point.pool] for point in data.points],
                "size": 10,
                "color": look.colour,
            },
            customdata=[
                f"{name}, {point.pool} {words(point.name)}: "
                f"{human(point.macs_per_second, 'MAC/s')} at "
                f"{significant(point.intensity)} MAC/B, bound by {NAME_OF_BOUND[point.bound]}"
                for point in data.points
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(
        xaxis={"type": "log", "title": "intensity [MAC/B]", "dtick": 1},
        yaxis={
            "type": "log",
            "title": "rate [MAC/s] (1 MAC = 2 FLOP)",
            "exponentformat": "SI",
            "dtick": 1,
        },
    )
    return figure
