"""The regret of a plan: what it loses to the plan that would be best, if the constants differ."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.search.best_plan import best_plan
from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import with_columns
from explorer.search.objectives import Objective
from explorer.search.robustness import (
    AssumedConstant,
    assumed_constants,
    at_points,
    corner_points,
    sample_points,
)
from explorer.search.space import Space, Value, Values
from explorer.serving.evaluate import evaluate

SAMPLES = 32
AS_GOOD = 1e-9


@dataclass(frozen=True)
class Rival:
    """A plan that is best at some of the points, or the chosen one, judged at all of them.

    Attributes:
        values: one value an axis of the space.
        best_at: points at which it is the best plan or as good.
        worst, mean: largest and mean regret, a fraction of the best value, where it fits.
        unfit: points at which it does not fit although another plan does.
    """

    values: tuple[Value | str, ...]
    best_at: int
    worst: float
    mean: float
    unfit: int


@dataclass(frozen=True)
class Regret:
    """How robust the chosen plan is against what the assumed constants leave open.

    Attributes:
        objective: what is optimised.
        space: the plans among which the best is looked for.
        constants: the constants that were varied.
        chosen: the scenario's own plan.
        rivals: the plans that are best somewhere, the most frequent first.
        points: sets of constants at which some plan fits.
        worst_at: the constants at the chosen plan's largest regret, by path; None where it never
            fits.
        complete: False when stopped early.
    """

    objective: Objective
    space: Space
    constants: tuple[AssumedConstant, ...]
    chosen: Rival
    rivals: tuple[Rival, ...]
    points: int
    worst_at: dict[str, float] | None
    complete: bool

    @property
    def safest(self) -> Rival:
        """The plan that fits most often, and then loses least in the worst case."""
        everyone = (self.chosen, *self.rivals)
        return min(everyone, key=lambda rival: (rival.unfit, _finite(rival.worst), rival.mean))


def regret(
    scenario: Scenario,
    space: Space,
    objective: Objective,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Regret:
    """Return the regret of a scenario's plan over the box of stated ranges.

    At each corner and at 32 points of a Sobol sequence of fixed seed the best plan of the space is
    found exactly; every plan found is then judged at all points.

    Args:
        scenario: holds the chosen plan, which need not lie on the axes of the space.
        space: the plans among which the best is looked for.
        objective: what is optimised; not one that fixes the batch.
        progress: called with points done and in all.
        stopped: asked after each point; True ends the search, marked incomplete.
    """
    constants = tuple(c for c in assumed_constants(scenario) if not c.held)
    points = np.concatenate([corner_points(constants), sample_points(constants, SAMPLES)])
    best: list[Values | None] = []
    known: Values | None = None
    for number, point in enumerate(points):
        there = Space(_at_point(space.base, constants, point), space.axes)
        found = best_plan(there, objective, known)
        known = found.values or known
        best.append(found.values)
        if progress is not None:
            progress(number + 1, len(points))
        if stopped is not None and stopped():
            break
    plans = Counter(values for values in best if values is not None)
    looked = points[: len(best)]
    losses = _losses(scenario, space, objective, tuple(plans), at=(constants, looked))
    some_fits = np.array([values is not None for values in best])
    chosen, *rivals = (
        Rival(values, count, *_worst_and_mean(loss), int(np.count_nonzero(np.isnan(loss))))
        for (values, count), loss in zip(
            [(_own_values(scenario, space), 0), *plans.items()],
            losses[:, some_fits],
            strict=True,
        )
    )
    own = losses[0]
    as_good = int(np.count_nonzero(own[some_fits] <= AS_GOOD))
    worst = None if np.isnan(own).all() else looked[int(np.nanargmax(own))]
    return Regret(
        objective=objective,
        space=space,
        constants=constants,
        chosen=replace(chosen, best_at=as_good),
        rivals=tuple(sorted(rivals, key=lambda rival: -rival.best_at)),
        points=int(np.count_nonzero(some_fits)),
        worst_at=None
        if worst is None
        else {c.path: float(value) for c, value in zip(constants, worst, strict=True)},
        complete=len(best) == len(points),
    )


def _losses(
    scenario: Scenario,
    space: Space,
    objective: Objective,
    plans: tuple[Values, ...],
    at: tuple[tuple[AssumedConstant, ...], Array],
) -> Array:
    """Return regret [1 + plans, points] of the scenario's own plan and of others; NaN if unfit."""
    constants, points = at
    own = evaluate(at_points(scenario, constants, points)).objective(objective.name)
    values = [np.broadcast_to(own, (1, len(points)))]
    if plans:
        columns = [np.array(column)[:, None] for column in zip(*plans, strict=True)]
        there = at_points(with_columns(space, columns), constants, points)
        found = evaluate(there).objective(objective.name)
        values.append(np.broadcast_to(found, (len(plans), len(points))))
    every = np.concatenate(values)
    with warnings.catch_warnings():
        # At a point where no plan fits there is nothing to compare with.
        warnings.simplefilter("ignore", RuntimeWarning)
        best = (np.nanmin if objective.minimised else np.nanmax)(every, axis=0)
    return np.asarray(np.abs(every - best) / np.abs(best))


def _at_point(scenario: Scenario, constants: tuple[AssumedConstant, ...], point: Array) -> Scenario:
    there = at_points(scenario, constants, point[None, :])
    single = {c.path: there.value(c.path)[0].item() for c in constants}
    return scenario.unchecked(single)


def _own_values(scenario: Scenario, space: Space) -> tuple[Value | str, ...]:
    return tuple(scenario.value(axis.paths[0]) for axis in space.axes)


def _worst_and_mean(loss: Array) -> tuple[float, float]:
    known = loss[~np.isnan(loss)]
    return (float(known.max()), float(known.mean())) if known.size else (math.nan, math.nan)


def _finite(value: float) -> float:
    return math.inf if math.isnan(value) else value
