"""Words of the page on trade-offs: where the sliders' plan stands, and what one measure costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from explorer.config.units import human, significant
from explorer.plots.style import joined
from explorer.search.front_text import figures_text
from explorer.search.measures import Measure
from explorer.search.pareto import ParetoFront, ParetoPoint
from explorer.serving.evaluate import Evaluation
from explorer.serving.report import why_not
from explorer.ui.text import plain

WORTH_GIVING = 0.1
"""Part of the first measure that the answer offers to give up."""
ROUNDING = 1e-9
"""Figures within this fraction of each other are the same."""
MANY_TIMES = 2.0
"""Ratio from which a gain or a cost is told as a factor."""


def standing(evaluation: Evaluation) -> str:
    """Return what the plan on the sliders gives and takes, or why it has nothing to trade."""
    if not evaluation.feasible:
        return (
            "**The plan on the sliders does not fit**, so that it has nothing to trade. "
            f"{plain(why_not(evaluation))} All plans that are found here fit."
        )
    unit = evaluation.inputs.scenario.chip_document().unit_name
    rate = human(float(evaluation.objective("throughput")), "tokens/s")
    each = float(evaluation.tpot_seconds)
    further = "" if math.isnan(each) else f" and {human(each, 's')} for each further one"
    idle = float(evaluation.idle_clusters)
    left = f"; {human(idle, f'{unit}s')} stay{'s' if idle == 1 else ''} idle" if idle else ""
    return (
        f"The plan on the sliders delivers **{rate}**, with "
        f"**{human(float(evaluation.ttft_seconds), 's')}** to the first token{further}, in "
        f"{human(float(evaluation.pools), 'pools')} of "
        f"**{human(float(evaluation.clusters), f'{unit}s')}**{left}."
    )


def no_value(absent: Sequence[Measure]) -> str:
    """Return why measures that no plan has a value of cannot be traded, and what to do."""
    labels = joined([f"**{measure.label.capitalize()}**" for measure in absent])
    return (
        f"{labels} cannot be traded here: a request ends with its first output token, so that no "
        "plan has one. Choose another measure, or a longer output."
    )


def promise(measures: Sequence[Measure], plans: int, exact: bool) -> str:
    """Return what a search for the trade-offs will show.

    Args:
        measures: what is traded, the first against the others.
        plans: how many the space has.
        exact: whether all of them are looked at.
    """
    first, *others = measures
    better = [f"{_more(measure, measure.sign < 0)} {measure.label}" for measure in others]
    wanted = joined(better, "or")
    how = "are compared" if exact else "are too many to compare, so that NSGA-II tries some"
    return (
        f"The trade-offs will show what {wanted} would cost in {first.label}: all {plans:,} plans "
        f"for this machine and workload {how}, and what stays are those that no other plan beats "
        "in all measures at once."
    )


def answer(front: ParetoFront, own: Sequence[float] | None) -> str:
    """Return the trade in numbers, how many plans offer one, and where the sliders' plan stands.

    Args:
        front: with at least one plan.
        own: the figures of the plan on the sliders; None where it does not fit.
    """
    count = len(front.points)
    of_all = (
        f"Of {front.feasible:,} feasible plans, **{human(float(count), 'plans')}** "
        f"{'is' if count == 1 else 'are'} beaten by no other."
    )
    return " ".join((_trade(front), of_all, _own_standing(front, own)))


def _trade(front: ParetoFront) -> str:
    measures = front.measures
    for at, other in combinations(range(len(measures)), 2):
        top, end = _best(front, at, other), _best(front, other, at)
        if _text(measures[other], top, other) != _text(measures[other], end, other):
            return _told(front, (at, other), top, end)
    top = _best(front, *range(len(measures)))
    if all(_text(m, top, i) == _text(m, front.best(i), i) for i, m in enumerate(measures)):
        best = figures_text(measures, top.figures)
        return f"**There is nothing to trade**: one plan is the best in each, {best}."
    return (
        "**No two of these measures are traded for each other**: for any two of them one plan is "
        "the best in both."
    )


def _told(front: ParetoFront, pair: tuple[int, int], top: ParetoPoint, end: ParetoPoint) -> str:
    """Return what more of one measure costs in another, from its best plan to the other's."""
    at, other = pair
    first, second = front.measures[at], front.measures[other]
    step = _step(front, top, at, other)
    gain = _change(second, step.figures[other] / top.figures[other])
    cost = _change(first, step.figures[at] / top.figures[at])
    if first.sign < 0:
        cost = f"{_percent(step.figures[at] / top.figures[at])} of the {first.label}"
    text = (
        f"**{gain} {'costs' if second.unit else 'cost'} {cost}**: from {_pair(front, top, pair)} "
        f"to {_pair(front, step, pair)}."
    )
    if _text(second, step, other) == _text(second, end, other):
        return text
    most = "most" if second.sign < 0 else ("least" if second.unit else "fewest")
    return f"{text} At the {most} {second.label} it is {_pair(front, end, pair)}."


def _step(front: ParetoFront, top: ParetoPoint, at: int, other: int) -> ParetoPoint:
    """Return the best plan in another measure where little is given up; all, where that is none."""
    first, second = front.measures[at], front.measures[other]
    # A tenth less of what is to be large, a tenth more of what is to be small.
    limit = first.sign * top.figures[at] * (1 + first.sign * WORTH_GIVING)
    near = [point for point in front.points if first.sign * point.figures[at] <= limit]
    step = _best_of(near, front.measures, (other, at))
    if _text(second, step, other) == _text(second, top, other):
        return _best(front, other, at)
    return step


def _best(front: ParetoFront, *order: int) -> ParetoPoint:
    return _best_of(front.points, front.measures, order)


def _best_of(
    points: Sequence[ParetoPoint], measures: Sequence[Measure], order: Sequence[int]
) -> ParetoPoint:
    """Return the best plan in one measure; of those that read alike in it, the best in the next."""
    left = list(points)
    for i in order:
        measure = measures[i]
        best = min(left, key=lambda point: measure.sign * point.figures[i])
        told = _text(measure, best, i)
        left = [point for point in left if _text(measure, point, i) == told]
        last = best
    return last


def _text(measure: Measure, point: ParetoPoint, place: int) -> str:
    return human(point.figures[place], measure.unit)


def _pair(front: ParetoFront, point: ParetoPoint, pair: tuple[int, int]) -> str:
    return " at ".join(_figure(front.measures[i], point.figures[i]) for i in pair)


def _figure(measure: Measure, value: float) -> str:
    if measure.unit:
        return human(value, measure.unit)
    counted, _, of = measure.label.partition(" of ")
    return f"{human(value, counted)} {of}"


def _own_standing(front: ParetoFront, own: Sequence[float] | None) -> str:
    if own is None:
        return "The plan on the sliders does not fit."
    beaten = sum(_beats(front.measures, point.figures, own) for point in front.points)
    if not beaten:
        return "None of them beats the plan on the sliders."
    by = "it" if len(front.points) == 1 else f"**{beaten:,}** of them"
    return f"The plan on the sliders ({figures_text(front.measures, own)}) is beaten by {by}."


def _beats(measures: Sequence[Measure], figures: Sequence[float], own: Sequence[float]) -> bool:
    """Return whether a plan is no worse in anything, and better in something."""
    margins = [
        measure.sign * (mine - its) / abs(mine)
        for measure, its, mine in zip(measures, figures, own, strict=True)
    ]
    return min(margins) >= -ROUNDING and max(margins) > ROUNDING


def _change(measure: Measure, ratio: float) -> str:
    """Return a change of a measure, such as ``20.0 % less time to first token``."""
    if ratio >= MANY_TIMES:
        return f"{significant(ratio)} times the {measure.label}"
    return f"{_percent(ratio)} {_more(measure, ratio > 1)} {measure.label}"


def _more(measure: Measure, more: bool) -> str:
    return "more" if more else ("less" if measure.unit else "fewer")


def _percent(ratio: float) -> str:
    return f"{significant(100 * abs(ratio - 1))} %"
