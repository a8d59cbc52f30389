"""One plan of a search, judged by the engine, with its excess over every constraint."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.search.objectives import Objective
from explorer.search.space import Axis, Space, Values
from explorer.serving.constraints import Constraint
from explorer.serving.evaluate import evaluate


@dataclass(frozen=True)
class Outcome:
    """What became of one plan.

    Attributes:
        values: one value an axis of the space, the solved axis included.
        value: the objective; NaN where infeasible.
        excess: by constraint, (value - limit) / (value + limit) in [-1, 1]; at most 0 where kept.
    """

    values: Values
    value: float
    excess: dict[str, float]

    @property
    def feasible(self) -> bool:
        """Whether every constraint holds and the objective is a number."""
        return not math.isnan(self.value)

    @property
    def violated(self) -> tuple[str, ...]:
        """Names of the constraints that do not hold."""
        return tuple(name for name, excess in self.excess.items() if excess > 0)

    @property
    def violation(self) -> float:
        """Sum of the excesses above 0."""
        return sum(excess for excess in self.excess.values() if excess > 0)


class Judge:
    """Evaluates the plans of a space, each once.

    A plan leaves the ``solved`` axes open and gets the best of all their combinations, which one
    broadcasting evaluation gives exactly; of equal ones that with the fewest clusters, then the
    lexicographically smallest.
    """

    def __init__(self, space: Space, objective: Objective, solved: tuple[Axis, ...] = ()) -> None:
        """Keep the space; ``solved`` are some of its axes.

        ``pending`` may be set to the plans that other processes are evaluating.
        """
        self.space = space
        self.objective = objective
        self.solved = solved
        self.axes = tuple(axis for axis in space.axes if axis not in solved)
        self._known: dict[tuple[int, ...], Outcome] = {}
        self.pending: frozenset[tuple[int, ...]] = frozenset()

    @property
    def distinct(self) -> int:
        """Distinct plans evaluated, solved axes not counted."""
        return len(self._known)

    def knows(self, indices: tuple[int, ...]) -> bool:
        """Return whether a plan, one index an axis of ``axes``, has been evaluated or is now."""
        return indices in self._known or indices in self.pending

    def learn(self, indices: tuple[int, ...], outcome: Outcome) -> None:
        """Take over what another process found."""
        self._known.setdefault(indices, outcome)

    def ranked(self) -> list[tuple[int, ...]]:
        """Return the plans evaluated, best first: feasible ones by value, others by violation."""
        sign = 1 if self.objective.minimised else -1

        def rank(item: tuple[tuple[int, ...], Outcome]) -> tuple[bool, float]:
            outcome = item[1]
            return not outcome.feasible, (
                sign * outcome.value if outcome.feasible else outcome.violation
            )

        return [indices for indices, _ in sorted(self._known.items(), key=rank)]

    def outcome(self, indices: tuple[int, ...]) -> Outcome:
        """Return the outcome of a plan, one index an axis of ``axes``."""
        if indices not in self._known:
            self._known[indices] = self._evaluated(indices)
        return self._known[indices]

    def indices_of(self, values: Values) -> tuple[int, ...]:
        """Return the plan, one index an axis of ``axes``, that has some values of all axes."""
        chosen = dict(zip(self.space.axes, values, strict=True))
        return tuple(axis.values.index(chosen[axis]) for axis in self.axes)

    def scenario(self, outcome: Outcome) -> Scenario:
        """Return the scenario of an outcome."""
        return self.space.scenario(outcome.values)

    def _evaluated(self, indices: tuple[int, ...]) -> Outcome:
        pairs = zip(self.axes, indices, strict=True)
        chosen = {axis.name: axis.values[index] for axis, index in pairs}
        changes: dict[str, object] = {
            path: chosen[axis.name] for axis in self.axes for path in axis.paths
        }
        for position, axis in enumerate(self.solved):
            shape = [1] * len(self.solved)
            shape[position] = -1
            changes |= dict.fromkeys(axis.paths, axis.array.reshape(shape))
        evaluation = evaluate(self.space.base.replacing(changes))
        mesh = tuple(map(len, self.solved))
        value = np.broadcast_to(evaluation.objective(self.objective.name), mesh)
        excess = {c.name: np.broadcast_to(relative_excess(c), mesh) for c in evaluation.constraints}
        at = self._best(value, excess, np.broadcast_to(evaluation.clusters, mesh))
        for axis, index in zip(self.solved, at, strict=True):
            chosen[axis.name] = axis.values[index]
        return Outcome(
            tuple(chosen[axis.name] for axis in self.space.axes),
            float(value[at]),
            {name: float(e[at]) for name, e in excess.items()},
        )

    def _best(self, value: Array, excess: dict[str, Array], clusters: Array) -> tuple[int, ...]:
        best = self.objective.best_of(value)
        if math.isnan(best):
            violation = sum(np.maximum(e, 0.0) for e in excess.values())
            at = np.argmin(violation)
        else:
            at = np.argmin(np.where(value == best, clusters, np.inf))
        return tuple(int(index) for index in np.unravel_index(at, value.shape))


def relative_excess(constraint: Constraint) -> Array:
    """Return the excess relative to value and limit: bounded, its sign that of the violation."""
    value, limit = np.broadcast_arrays(constraint.value, constraint.limit)
    size = np.abs(value) + np.abs(limit)
    relative = np.full(value.shape, -1.0)
    finite = np.isfinite(size)
    np.divide(value - limit, size, out=relative, where=finite & (size > 0))
    relative[finite & (size == 0)] = 0.0
    # Where value or limit is not finite only its sign remains.
    return np.where(constraint.kept, np.minimum(relative, 0.0), np.where(finite, relative, 1.0))
