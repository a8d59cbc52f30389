"""The certified optimum: every plan of a space evaluated, block by block, and counted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, EQ22, Objective
from explorer.search.space import FIXED_BATCH_PATHS, Space, Value, Values
from explorer.search.staged import fixed_batch_space
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import Evaluation, evaluate

LARGEST_BLOCK = 600_000
"""Plans evaluated at once: enough to amortise a call, few enough to stay within some MB."""

SMALLEST_TIMED, LONG_ENOUGH = 20_000, 2.0
"""Plans of a first block to estimate by; where a whole block then takes less than these seconds,
that is timed instead, since small blocks are slower a plan."""

Progress = Callable[[int, int], None]
Stopped = Callable[[], bool]


SAME_VALUE = 1e-12
"""Relative difference below which two plans count as equally good where one is ranked."""


@dataclass(frozen=True)
class Standing:
    """Where one plan stands among the feasible plans of a space.

    Attributes:
        value: its objective.
        better: feasible plans that are better.
        equal: feasible plans that are as good, itself included where the space holds it.
    """

    value: float
    better: int
    equal: int

    @property
    def rank(self) -> int:
        """1 for a plan that none is better than."""
        return self.better + 1


@dataclass(frozen=True)
class Certificate:
    """What the enumeration of a space found.

    Attributes:
        objective: what was optimised.
        space: the plans that were enumerated (for ``eq22`` those of the fixed batch).
        optimum: best value of a feasible plan, in the objective's unit; NaN when there is none.
        plan: its values by path, or None.
        scenario: its scenario, or None.
        enumerated: plans looked at.
        feasible: plans among them that keep every constraint.
        ties: feasible plans whose value equals the optimum to the last bit; of these ``plan`` is
            the one with the fewest clusters a pool, then the lexicographically smallest values
            in the order of the axes.
        excluded: plans that violate each constraint; one plan may violate several.
        seconds: time taken.
        complete: False when stopped early, so that ``optimum`` certifies nothing.
        own: where the plan that was compared stands; None where it is infeasible or, for
            ``eq22``, of another batch.
    """

    objective: Objective
    space: Space
    optimum: float
    plan: dict[str, Value] | None
    scenario: Scenario | None
    enumerated: int
    feasible: int
    ties: int
    excluded: dict[str, int]
    seconds: float
    complete: bool
    own: Standing | None = None

    def gap(self, value: float) -> float:
        """Return how far a value is from the optimum, as a fraction of it."""
        return self.objective.gap(value, self.optimum)


def certify(
    space: Space,
    objective: Objective,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
    compared: Scenario | None = None,
) -> Certificate:
    """Return the optimum over all plans of a space, by evaluating every one of them.

    For an objective that is meant for a given batch (``eq22``) the decode pool and its batch are
    fixed first, see ``fixed_batch_space``.

    Args:
        space: the plans; any number of axes, any values.
        objective: what to optimise.
        progress: called with plans done and plans in all, after each block.
        stopped: asked after each block; True ends the enumeration, marked incomplete.
        compared: a scenario to rank among the plans; by default the space's own.
    """
    own = space.base if compared is None else compared
    if not objective.fixes_batch:
        return enumerated(space, objective, progress, stopped, own)
    chosen = fixed_batch_space(space)
    same = all(own.value(path) == chosen.base.value(path) for path in FIXED_BATCH_PATHS)
    return enumerated(chosen, objective, progress, stopped, own if same else None)


def trap(
    space: Space, progress: Progress | None = None, stopped: Stopped | None = None
) -> Certificate:
    """Return the optimum of Eq. 22 as printed over the whole space, batch included.

    It shows why Eq. 22 needs a fixed batch: cluster-seconds of a batch are least for the smallest
    one, whatever a token then costs.
    """
    return enumerated(space, EQ22, progress, stopped)


def enumerated(
    space: Space,
    objective: Objective,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
    compared: Scenario | None = None,
) -> Certificate:
    """Return the optimum over exactly the plans of a space, whatever the objective is meant for."""
    started = time.perf_counter()
    tally = _Tally(objective, _own_value(compared, objective))
    blocks = Blocks(space)
    complete = True
    for block in blocks:
        tally.add(block, evaluate(block.scenario))
        if progress is not None:
            progress(tally.enumerated, space.size)
        if stopped is not None and stopped() and tally.enumerated < space.size:
            complete = False
            break
    found = tally.values is not None
    return Certificate(
        objective=objective,
        space=space,
        optimum=tally.optimum,
        plan=space.plan(tally.values) if tally.values is not None else None,
        scenario=space.scenario(tally.values) if tally.values is not None else None,
        enumerated=tally.enumerated,
        feasible=tally.feasible,
        ties=tally.ties if found else 0,
        excluded=tally.excluded,
        seconds=time.perf_counter() - started,
        complete=complete,
        own=tally.standing,
    )


def _own_value(compared: Scenario | None, objective: Objective) -> float:
    if compared is None:
        return math.nan
    return float(evaluate(compared).objective(objective.name))


def estimated_seconds(space: Space) -> float:
    """Return about how long the enumeration of a space takes, from timing its first block [s]."""
    for largest in (SMALLEST_TIMED, LARGEST_BLOCK):
        block = next(iter(Blocks(space, largest)))
        # CPU, not the clock: what else the machine does is no property of the space.
        started = time.thread_time()
        evaluate(block.scenario).objective(CLUSTER_SECONDS_PER_TOKEN.name)
        seconds = time.thread_time() - started
        if seconds * LARGEST_BLOCK > LONG_ENOUGH * block.size or block.size == space.size:
            break
    return seconds * space.size / block.size


@dataclass(frozen=True)
class Block:
    """Part of a space: a scenario whose arrays are an open mesh over ``values``."""

    scenario: Scenario
    values: tuple[Values, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Values on each axis."""
        return tuple(map(len, self.values))

    @property
    def size(self) -> int:
        """Plans in the block."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Blocks:
    """A space cut into blocks of at most ``largest`` plans, in lexicographic order.

    The last axes stay whole, one axis is cut into runs of values, the ones before it take a
    single value a block.
    """

    space: Space
    largest: int = LARGEST_BLOCK

    def __iter__(self) -> Iterator[Block]:
        lengths = [len(axis) for axis in self.space.axes]
        cut, inner = len(lengths), 1
        while cut and inner * lengths[cut - 1] <= self.largest:
            cut -= 1
            inner *= lengths[cut]
        runs = [1] * cut + lengths[cut:]
        if cut:
            runs[cut - 1] = max(self.largest // inner, 1)
        yield from self._from(self.space.base, runs, ())

    def _from(
        self, scenario: Scenario, runs: list[int], before: tuple[Values, ...]
    ) -> Iterator[Block]:
        position, axes = len(before), self.space.axes
        if position == len(axes):
            yield Block(scenario, before)
            return
        axis, run = axes[position], runs[position]
        for start in range(0, len(axis), run):
            values = axis.values[start : start + run]
            setting = values[0] if len(values) == 1 else _along(values, position, len(axes))
            changed = scenario.replacing(dict.fromkeys(axis.paths, setting))
            yield from self._from(changed, runs, (*before, values))


def _along(values: Values, position: int, dimensions: int) -> AnyArray:
    shape = [1] * dimensions
    shape[position] = len(values)
    return np.asarray(values).reshape(shape)


@dataclass
class _Tally:
    """What has been found so far."""

    objective: Objective
    own_value: float = math.nan
    optimum: float = math.nan
    values: Values | None = None
    clusters: float = math.inf
    enumerated: int = 0
    feasible: int = 0
    ties: int = 0
    better: int = 0
    equal: int = 0
    excluded: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONSTRAINTS, 0))

    @property
    def standing(self) -> Standing | None:
        """Where the plan of ``own_value`` stands; None without one."""
        if math.isnan(self.own_value):
            return None
        return Standing(self.own_value, self.better, self.equal)

    def add(self, block: Block, evaluation: Evaluation) -> None:
        """Count a block and keep its best plan if it is the best so far.

        A mask over some of the axes counts for each combination of the others.
        """
        self.enumerated += block.size
        for constraint in evaluation.constraints:
            kept = constraint.kept
            violating = kept.size - int(np.count_nonzero(kept))
            self.excluded[constraint.name] += violating * (block.size // kept.size)
        mask = evaluation.feasible
        feasible = int(np.count_nonzero(mask)) * (block.size // mask.size)
        self.feasible += feasible
        if not feasible:
            return
        values = evaluation.objective(self.objective.name)
        self._rank(values, block.size)
        best = self.objective.best_of(values)
        if math.isnan(best) or self.objective.better(self.optimum, best):
            return
        self._keep(block, _full_rank(values, len(block.shape)), best, evaluation.clusters)

    def _rank(self, values: Array, plans: int) -> None:
        if math.isnan(self.own_value):
            return
        repeats, margin = plans // values.size, SAME_VALUE * abs(self.own_value)
        low, high = self.own_value - margin, self.own_value + margin
        if self.objective.minimised:
            better, as_good = np.count_nonzero(values < low), np.count_nonzero(values <= high)
        else:
            better, as_good = np.count_nonzero(values > high), np.count_nonzero(values >= low)
        self.better += int(better) * repeats
        self.equal += int(as_good - better) * repeats

    def _keep(self, block: Block, values: Array, best: float, clusters: Array) -> None:
        at_best = np.flatnonzero(values == best)
        here = np.broadcast_to(clusters, values.shape).reshape(-1)[at_best]
        fewest = int(np.argmin(here))
        ties = len(at_best) * (block.size // values.size)
        if best != self.optimum:
            self.optimum, self.ties, self.clusters = best, 0, math.inf
        self.ties += ties
        if here[fewest] < self.clusters:
            self.clusters = float(here[fewest])
            indices = np.unravel_index(at_best[fewest], values.shape)
            self.values = tuple(
                axis[int(index)] for axis, index in zip(block.values, indices, strict=True)
            )


def _full_rank(values: Array, dimensions: int) -> Array:
    missing = dimensions - values.ndim
    return values.reshape((1,) * missing + values.shape)
