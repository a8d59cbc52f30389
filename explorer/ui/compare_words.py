"""The first words of the page that compares: which scenario is best for what, by how much, why."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.config.units import human, significant
from explorer.plots.style import capital, joined, lowered
from explorer.serving.comparison import FEWEST, Comparison, FigureRow, InputRow
from explorer.ui.text import plain

THROUGHPUT, TIMES = "throughput_tokens_per_second", ("ttft_seconds", "tpot_seconds")
MANY_TIMES = 2.0
"""Ratio from which a lead is told as a factor."""
NAMED = 2
"""Inputs that differ that are named with their values; of more their number is told."""


def lead(comparison: Comparison) -> str:
    """Return which scenario is best for what and by how much, which do not fit, what differs."""
    names = [f"**{plain(candidate.name)}**" for candidate in comparison.candidates]
    figures = {figure.name: figure for figure in comparison.figures}
    rate = figures[THROUGHPUT]
    unfit = [names[i] for i, value in enumerate(rate.values) if value is None]
    parts = [
        _most(rate, names),
        *_times([figures[name] for name in TIMES], names, _winners(rate)),
        _misfits(unfit),
        _differences(comparison.inputs, names),
    ]
    return " ".join(filter(None, parts))


def _misfits(unfit: Sequence[str]) -> str:
    if not unfit:
        return ""
    one = len(unfit) == 1
    return f"The plan{'' if one else 's'} of {joined(unfit)} {'does' if one else 'do'} not fit."


def _most(rate: FigureRow, names: Sequence[str]) -> str:
    ranked, winners = _ranked(rate), _winners(rate)
    if not winners:
        return ""
    shown = _shown(rate, winners[0])
    if len(winners) == len(names):
        return f"All deliver the same: {shown}."
    best = rate.values[winners[0]] or 0.0
    behind = [
        f"{_ahead(best / value)} {names[i]}"
        for i in ranked
        if i not in winners and (value := rate.values[i])
    ]
    tail = f", {joined(behind)}" if behind else ""
    return f"Most is delivered by {joined([names[i] for i in winners])}: {shown}{tail}."


def _ahead(ratio: float) -> str:
    if ratio >= MANY_TIMES:
        return f"{significant(ratio)} times as much as"
    return f"{significant(100 * (ratio - 1))} % more than"


def _times(figures: Sequence[FigureRow], names: Sequence[str], most: Sequence[int]) -> list[str]:
    """Return who has the least of each time, those of the same scenarios in one sentence.

    The scenarios that deliver most, of which the text has just told, come first.
    """
    told: dict[tuple[int, ...], list[str]] = {}
    for figure in figures:
        ranked, winners = _ranked(figure), _winners(figure)
        behind = [i for i in ranked if i not in winners]
        if not behind:
            continue
        best, next_one = figure.values[winners[0]] or 0.0, figure.values[behind[0]] or 0.0
        than = f" than {names[behind[0]]}" if len(ranked) > FEWEST else ""
        told.setdefault(tuple(winners), []).append(
            f"the least {lowered(figure.label)} ({_shown(figure, winners[0])}, "
            f"{significant(100 * (1 - best / next_one))} % less{than})"
        )
    first = tuple(most)
    return [
        f"{capital(joined(times))} {'is that' if len(times) == 1 else 'are those'} of "
        f"{joined([names[i] for i in holders])}{', too' if holders == first else ''}."
        for holders, times in sorted(told.items(), key=lambda item: item[0] != first)
    ]


def _differences(rows: Sequence[InputRow], names: Sequence[str]) -> str:
    if not rows:
        return "They do not differ in any input."
    named = [row for row in rows if row.everywhere][:NAMED]
    words = [f"{plain(lowered(row.label))}, {_against(row.values, names)}" for row in named]
    more = len(rows) - len(named)
    if more:
        words.append(f"{human(float(more))} more below")
    return f"They differ in {'; '.join(words)}."


def _against(values: Sequence[str], names: Sequence[str]) -> str:
    """Return the values in the order of the scenarios; those of several are told once, of whom."""
    holders: dict[str, list[str]] = {}
    for value, name in zip(values, names, strict=True):
        holders.setdefault(value, []).append(name)
    if len(holders) == len(values):
        return " against ".join(map(plain, values))
    *fewer, (most, _) = sorted(holders.items(), key=lambda item: len(item[1]))
    told = [f"{plain(value)} in {joined(of)}" for value, of in fewer]
    return " against ".join([*told, f"{plain(most)} in the others"])


def _ranked(figure: FigureRow) -> list[int]:
    """Return the scenarios that have a figure, the best first."""
    known = [(value, i) for i, value in enumerate(figure.values) if value is not None]
    return [i for _, i in sorted(known, key=lambda item: (_sign(figure) * item[0], item[1]))]


def _winners(figure: FigureRow) -> list[int]:
    """Return the scenarios that are best as far as people are shown it."""
    ranked = _ranked(figure)
    return [i for i in ranked if _shown(figure, i) == _shown(figure, ranked[0])]


def _sign(figure: FigureRow) -> int:
    return -1 if figure.more_is_better else 1


def _shown(figure: FigureRow, place: int) -> str:
    return human(figure.values[place], figure.unit)
