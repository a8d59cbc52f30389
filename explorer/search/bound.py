"""A proved bound of the optimum of a space too large to enumerate: branch and bound."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from explorer.config.scenario import Scenario
from explorer.search.certificate import enumerated
from explorer.search.climb import climb
from explorer.search.objectives import Objective
from explorer.search.relaxation import MOST_JOINT_POINTS, ROUNDING, Relaxation, relax, relax_jointly
from explorer.search.space import Space, Values
from explorer.search.staged import fixed_batch_space, staged_plan

LARGEST_LEAF = 1_000_000
"""Plans of a cell that is enumerated instead of being bounded."""
SECONDS = 20.0
MOST_CELLS = 100_000
SHRUNK = 0.5
"""Part of a cell's plans that may be left for it to be looked at again before it is cut."""

Stopped = Callable[[], bool]


@dataclass(frozen=True)
class BoundReport:
    """What is known after each cell: the bound so far and the plans not yet ruled out."""

    cells: int
    bound: float
    open_plans: int


Progress = Callable[[BoundReport], None]


@dataclass(frozen=True)
class Bound:
    """What was proved of a space.

    Attributes:
        objective: what is optimised.
        space: the plans (for ``eq22`` those of the fixed batch).
        bound: no feasible plan is better than this, in the objective's unit; the optimum itself
            where ``closed``, and then NaN when nothing is feasible.
        best: scenario of the best plan met on the way, or None.
        best_value: its objective; NaN without one.
        cells: boxes of plans looked at.
        enumerated: plans evaluated one by one.
        open_plans: plans that neither the bound nor an evaluation has ruled out.
        seconds: time taken.
    """

    objective: Objective
    space: Space
    bound: float
    best: Scenario | None
    best_value: float
    cells: int
    enumerated: int
    open_plans: int
    seconds: float

    @property
    def closed(self) -> bool:
        """Whether every plan was ruled out or evaluated, so that the bound is the optimum."""
        return self.open_plans == 0

    def gap(self, value: float) -> float:
        """Return how far a value is from the bound, as a fraction of it."""
        return self.objective.gap(value, self.bound)


def prove(
    space: Space,
    objective: Objective,
    start: Scenario | None = None,
    seconds: float = SECONDS,
    most_cells: int = MOST_CELLS,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Bound:
    """Return a proved bound of the best plan of a space, as tight as the time admits.

    Best-first branch and bound. A cell is a box of plans. ``relax`` bounds it, and each value of
    each axis in it: values that cannot beat the best known plan leave the cell. What remains is
    looked at again when much has gone, enumerated when it is small, and cut in two otherwise.
    The bound is the least of the best known plan and of the bounds of all cells still open, so
    that it holds whenever the search ends.

    Args:
        space: the plans; any number of axes, any values.
        objective: what to optimise; ``eq22`` has its decode pool and batch fixed first.
        start: a plan such as a study found, or None; the nearest one of the space is improved by
            ``climb`` and is the first to beat.
        seconds: time after which no further cell is begun.
        most_cells: cells after which the search ends.
        progress: called after each cell.
        stopped: asked after each cell; True ends the search.
    """
    chosen = fixed_batch_space(space) if objective.fixes_batch else space
    ends = time.perf_counter() + seconds

    def over() -> bool:
        return time.perf_counter() >= ends or (stopped is not None and stopped())

    search = _Search(chosen, objective, over)
    if chosen.size > LARGEST_LEAF:
        plan = start or staged_plan(chosen.base, chosen).scenario or chosen.base
        search.climb_from(chosen.values_at(chosen.indices_of(chosen.base)), planes=False)
        search.climb_from(chosen.values_at(chosen.indices_of(plan)), planes=True)
    while not search.done:
        search.step()
        if progress is not None:
            progress(BoundReport(search.cells, search.bound, search.open_plans))
        if search.cells >= most_cells or over():
            break
    return search.result()


class _Search:
    """Open cells by their bound, and the best plan known."""

    def __init__(self, space: Space, objective: Objective, over: Stopped) -> None:
        self.space = space
        self.objective = objective
        self.over = over
        self.known, self.best_value = math.inf, math.nan
        self.best: Values | None = None
        self.cells = self.enumerated = 0
        self.started = time.perf_counter()
        self._order = itertools.count()
        self._open: list[tuple[float, int, Space]] = []
        self._push(space, 0.0)

    @property
    def done(self) -> bool:
        """Whether no open cell can hold a better plan than the best known."""
        return not self._open or self._open[0][0] >= self.known

    @property
    def bound(self) -> float:
        """Proved bound in the objective's unit, NaN when nothing is feasible."""
        if self.done:
            return self.best_value
        # What the inverse of an inverse may be rounded by.
        return self.objective.value(self._open[0][0] * (1 - ROUNDING))

    @property
    def open_plans(self) -> int:
        """Plans of cells that might hold a better one."""
        return sum(cell.size for bound, _, cell in self._open if bound < self.known)

    def step(self) -> None:
        """Look at the open cell of the least bound."""
        bound, _, cell = heapq.heappop(self._open)
        self.cells += 1
        if cell.size <= LARGEST_LEAF:
            self._enumerate(cell)
            return
        if self.best is not None and self.cells > 1:
            pairs = zip(cell.axes, self.best, strict=True)
            nearest = tuple(axis.values[axis.nearest(value)] for axis, value in pairs)
            self.climb_from(nearest, planes=False)
        for relaxed in (relax, relax_jointly):
            relaxation = relaxed(cell, self.objective)
            left = _left(cell, relaxation, self.known)
            if left is None:
                return
            bound = max(bound, relaxation.least)
            if left.size <= max(SHRUNK * cell.size, LARGEST_LEAF):
                self._push(left, bound)
                return
            cell = left
            if plans_of(cell) > MOST_JOINT_POINTS:
                break
        for part, of_part in _cut(cell, relaxation, self.known):
            self._push(part, max(bound, of_part))

    def _push(self, cell: Space, bound: float) -> None:
        if bound < self.known:
            heapq.heappush(self._open, (bound, next(self._order), cell))

    def _enumerate(self, cell: Space) -> None:
        found = enumerated(cell, self.objective)
        self.enumerated += found.enumerated
        if found.plan is not None and self.objective.score(found.optimum) < self.known:
            self.climb_from(tuple(found.plan[axis.paths[0]] for axis in cell.axes), planes=True)

    def climb_from(self, values: Values, planes: bool) -> None:
        """Take the plan that a climb reaches as the one to beat, if it is better."""
        reached, value = climb(self.space, self.objective, values, planes, self.over)
        score = math.inf if math.isnan(value) else self.objective.score(value)
        if score < self.known:
            self.known, self.best, self.best_value = score, reached, value

    def result(self) -> Bound:
        """Return what has been proved."""
        best = self.best
        return Bound(
            self.objective,
            self.space,
            self.bound,
            None if best is None else self.space.scenario(best),
            self.best_value,
            self.cells,
            self.enumerated,
            self.open_plans,
            time.perf_counter() - self.started,
        )


def plans_of(cell: Space) -> int:
    """Return how many settings of the plan alone a cell holds."""
    return math.prod(len(axis) for axis in cell.axes if axis.paths[0].startswith("plan."))


def _left(cell: Space, relaxation: Relaxation, known: float) -> Space | None:
    """Return the cell without values that cannot beat the best known plan; None for nothing."""
    axes = []
    for groups, bounds in zip(relaxation.groups, relaxation.by_group, strict=True):
        kept = [part for part, bound in zip(groups.parts, bounds, strict=True) if bound < known]
        if not kept:
            return None
        values = tuple(itertools.chain.from_iterable(kept))
        axes.append(replace(groups.axis, values=values))
    return replace(cell, axes=tuple(axes))


def _cut(cell: Space, relaxation: Relaxation, known: float) -> list[tuple[Space, float]]:
    """Return two halves of a cell with their bounds, cut where they differ most.

    Where no cut tells them apart, an axis that was taken in groups is cut, the longest one.
    """
    options = []
    for position, axis in enumerate(cell.axes):
        if len(axis) < 2:  # noqa: PLR2004 - a single value is not cut
            continue
        groups, bounds = relaxation.groups[position], relaxation.by_group[position]
        kept = [(p, b) for p, b in zip(groups.parts, bounds, strict=True) if b < known]
        middle = (len(kept) + 1) // 2
        lower, upper = kept[:middle], kept[middle:]
        if not upper:
            values = kept[0][0]
            half = len(values) // 2
            lower, upper = [(values[:half], kept[0][1])], [(values[half:], kept[0][1])]
        least = [min(bound for _, bound in side) for side in (lower, upper)]
        gain = abs(least[0] - least[1]) / max(min(least), math.ulp(0.0))
        options.append((round(gain, 2), not groups.exact, len(axis), position, lower, upper, least))
    _, _, _, position, lower, upper, least = max(options, key=lambda option: option[:4])
    result = []
    for side, bound in ((lower, least[0]), (upper, least[1])):
        values = tuple(itertools.chain.from_iterable(part for part, _ in side))
        axes = list(cell.axes)
        axes[position] = replace(axes[position], values=values)
        result.append((replace(cell, axes=tuple(axes)), bound))
    return result
