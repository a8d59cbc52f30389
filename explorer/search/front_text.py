"""The plans of a Pareto front as text: as few figures as tell a plan from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.config.units import SIGNIFICANT, human
from explorer.search.measures import Measure
from explorer.search.pareto import ParetoFront

MOST_FIGURES = 5
"""Significant figures up to which neighbours are told apart."""


def figures_text(measures: Sequence[Measure], figures: Sequence[float]) -> str:
    """Return the figures of a plan with their names."""
    pairs = zip(measures, figures, strict=True)
    return _named(measures, [human(value, measure.unit) for measure, value in pairs])


def row_texts(front: ParetoFront, place: int) -> list[str]:
    """Return the figures of a plan, so exact that they differ from those of its neighbours.

    Args:
        front: its plans in the order in which they are shown.
        place: of the plan among them.
    """
    own = front.points[place].figures
    beside = [front.points[i].figures for i in (place - 1, place + 1) if 0 <= i < len(front.points)]
    return [
        human(
            value, measure.unit, max([SIGNIFICANT, *(_apart(measure, value, b[i]) for b in beside)])
        )
        for i, (measure, value) in enumerate(zip(front.measures, own, strict=True))
    ]


def row_text(front: ParetoFront, place: int) -> str:
    """Return the same on one line, with the names of the measures."""
    return _named(front.measures, row_texts(front, place))


def _apart(measure: Measure, one: float, other: float) -> int:
    """Return how many figures tell two values apart; the usual ones where the most do not."""
    counts = range(SIGNIFICANT, MOST_FIGURES + 1)
    return next(
        (n for n in counts if human(one, measure.unit, n) != human(other, measure.unit, n)),
        SIGNIFICANT,
    )


def _named(measures: Sequence[Measure], texts: Sequence[str]) -> str:
    pairs = zip(measures, texts, strict=True)
    return ", ".join(f"{measure.label} {text}" for measure, text in pairs)
