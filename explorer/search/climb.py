"""Local search by whole lines and planes: from a plan, the best along each pair of axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from explorer.search.objectives import Objective
from explorer.search.space import Space, Values
from explorer.serving.evaluate import evaluate

LARGEST_PLANE = 25_000
"""Plans of a pair of axes that are evaluated at once; of longer pairs each line on its own."""
MOST_SWEEPS = 8

Stopped = Callable[[], bool]


def climb(
    space: Space,
    objective: Objective,
    start: Values,
    planes: bool = True,
    stopped: Stopped | None = None,
) -> tuple[Values, float]:
    """Return a plan that no other value of one axis, or of two at once, improves, and its value.

    Two at once, because under a budget no single number can be raised without lowering another.

    Args:
        space: the plans.
        objective: what to optimise.
        start: one value an axis; the plan need not be feasible.
        planes: False leaves it at single axes, which is far cheaper.
        stopped: asked after each line or plane; True ends the climb where it is.

    Returns:
        One value an axis, and the objective; the start and NaN where nothing feasible was met.
    """
    long = [k for k, axis in enumerate(space.axes) if len(axis) > 1]
    lines: list[tuple[int, ...]] = [(k,) for k in long]
    pairs: list[tuple[int, ...]] = [
        (a, b)
        for a, b in combinations(long, 2)
        if len(space.axes[a]) * len(space.axes[b]) <= LARGEST_PLANE
    ]
    values, best = start, _value(space, objective, start)
    for moves in (lines, pairs) if planes else (lines,):
        for _ in range(MOST_SWEEPS):
            before = values
            for move in moves:
                found, value = _best_of(space, objective, values, move)
                if objective.better(value, best):
                    values, best = found, value
                if stopped is not None and stopped():
                    return values, best
            if values == before:
                break
    return values, best


def _best_of(
    space: Space, objective: Objective, values: Values, plane: tuple[int, ...]
) -> tuple[Values, float]:
    axes = [space.axes[k] for k in plane]
    changes: dict[str, object] = {**space.plan(values)}
    for axis, mesh in zip(axes, np.ix_(*(axis.array for axis in axes)), strict=True):
        changes |= dict.fromkeys(axis.paths, mesh)
    shape = tuple(map(len, axes))
    evaluation = evaluate(space.base.unchecked(changes))
    results = np.broadcast_to(evaluation.objective(objective.name), shape)
    best = objective.best_of(results)
    if math.isnan(best):
        return values, best
    at = np.unravel_index(int(np.flatnonzero(results == best)[0]), shape)
    moved = list(values)
    for k, axis, index in zip(plane, axes, at, strict=True):
        moved[k] = axis.values[int(index)]
    return tuple(moved), best


def _value(space: Space, objective: Objective, values: Values) -> float:
    evaluation = evaluate(space.base.unchecked(space.plan(values)))
    return float(evaluation.objective(objective.name))
