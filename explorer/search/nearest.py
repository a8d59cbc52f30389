"""When nothing that was searched fits: the nearest plan that does, or the one that misses least."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.config.scenario import Scenario
from explorer.costs.arrays import ZERO, Array
from explorer.search.certificate import Block, Blocks
from explorer.search.space import Axis, Space, Value, Values, default_space
from explorer.search.trials import relative_excess
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.report import broken_constraints, violation_message

MOST_PLANS = 50_000_000
MOST_JUDGED = 4_000_000
"""Plans looked at for one that fits, and for the one that misses least, which takes longer."""
SHORTEST = 8
PER_OCTAVE = 0.01
"""What a factor of two in one setting weighs against moving another setting."""
OUTWEIGHS = 1e6
"""What exceeding a limit weighs against moving a setting."""


@dataclass(frozen=True)
class Moved:
    """A setting that a plan has other than the scenario."""

    path: str
    before: Value | str
    after: Value | str


@dataclass(frozen=True)
class Nearest:
    """The nearest plan that fits; where none does, the one that misses least.

    Attributes:
        scenario: the plan in its scenario.
        feasible: whether it keeps every constraint.
        moved: settings that it changes: as few as possible, each as little as possible.
        messages: of a plan that does not fit, what it needs against what there is.
        plans: how many were looked at.
    """

    scenario: Scenario
    feasible: bool
    moved: tuple[Moved, ...]
    messages: tuple[str, ...]
    plans: int


def nearest_plan(scenario: Scenario) -> Nearest:
    """Return the nearest plan to a scenario's own among all that its model admits.

    Workload, machine and limits stay. Of all plans of ``default_space``, thinned where there are
    more than 50 million, the one that moves the fewest settings fits best; of those the one that
    moves them by the fewest octaves. Where no plan fits, that with the least sum of relative
    excesses over its limits is returned.
    """
    space = default_space(scenario)
    thin = _thinned(space, scenario, MOST_PLANS)
    values = _least(
        thin,
        lambda block, tried: np.where(tried.feasible, _distance(block, thin, scenario), np.inf),
    )
    feasible = values is not None
    if values is None:
        thin = _thinned(space, scenario, MOST_JUDGED)
        values = _least(
            thin,
            lambda block, tried: OUTWEIGHS * _violation(tried) + _distance(block, thin, scenario),
        )
    plan = thin.scenario(values or thin.values_at([0] * len(thin.axes)))
    broken = () if feasible else broken_constraints(evaluate(plan))
    return Nearest(
        plan, feasible, _moved(scenario, plan), tuple(map(violation_message, broken)), thin.size
    )


def _least(space: Space, cost: Callable[[Block, Evaluation], Array]) -> Values | None:
    """Return the plan of least cost, the first of equal ones; None where all are infinite."""
    least, values = math.inf, None
    for block in Blocks(space):
        costs = cost(block, evaluate(block.scenario))
        costs = costs.reshape((1,) * (len(block.shape) - costs.ndim) + costs.shape)
        at = int(np.argmin(costs))
        if costs.flat[at] < least:
            least = float(costs.flat[at])
            indices = np.unravel_index(at, costs.shape)
            pairs = zip(block.values, indices, strict=True)
            values = tuple(axis[int(index)] for axis, index in pairs)
    return values


def _distance(block: Block, space: Space, scenario: Scenario) -> Array:
    """Return how far each plan of a block is from the scenario's own."""
    total = ZERO
    for position, (axis, values) in enumerate(zip(space.axes, block.values, strict=True)):
        shape = [1] * len(block.values)
        shape[position] = len(values)
        total = total + np.reshape(
            [_move(scenario.value(axis.paths[0]), value) for value in values], shape
        )
    return total


def _move(before: Any, after: Value) -> float:
    if before == after:
        return 0.0
    if not isinstance(before, int | float) or min(before, after) <= 0:
        return 1.0
    return 1.0 + PER_OCTAVE * abs(math.log2(after / before))


def _violation(tried: Evaluation) -> Array:
    excesses = sorted(map(relative_excess, tried.constraints), key=lambda excess: excess.size)
    total = ZERO
    for excess in excesses:
        total = total + np.maximum(excess, 0.0)
    return total


def _moved(scenario: Scenario, plan: Scenario) -> tuple[Moved, ...]:
    names = (f"plan.{name}" for name in type(plan.plan).model_fields)
    return tuple(
        Moved(path, scenario.value(path), plan.value(path))
        for path in names
        if scenario.value(path) != plan.value(path)
    )


def _thinned(space: Space, scenario: Scenario, most: int) -> Space:
    """Return the space with its longest axes thinned until there are few enough plans.

    The scenario's own value stays, and so do the ends.
    """
    axes = list(space.axes)
    while math.prod(map(len, axes)) > most:
        longest = max(range(len(axes)), key=lambda k: len(axes[k]))
        if len(axes[longest]) <= SHORTEST:
            break
        axes[longest] = _halved(axes[longest], scenario)
    return replace(space, axes=tuple(axes))


def _halved(axis: Axis, scenario: Scenario) -> Axis:
    """Return half of an axis's values, closer together where they are small."""
    count = (len(axis) + 1) // 2
    places = np.unique(np.round(np.geomspace(1, len(axis), count)).astype(np.int64) - 1)
    kept = {*places.tolist(), axis.nearest(scenario.value(axis.paths[0]))}
    return replace(axis, values=tuple(axis.values[place] for place in sorted(kept)))
