"""Several objectives: the plans of a space that no other plan beats in every measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.config.errors import refuse
from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import fitting_blocks
from explorer.search.measures import Measure
from explorer.search.nondominated import nondominated, not_clearly_behind
from explorer.search.space import Space, Values
from explorer.serving.evaluate import Evaluation, evaluate

LARGEST_ENUMERATED = 2_000_000_000
"""Plans up to which a front is found by looking at all of them."""

LARGEST_FRONT = 50_000
"""Plans that a front may hold; none is ever left out of one in silence."""


@dataclass(frozen=True)
class ParetoPoint:
    """One plan that no other plan beats.

    Attributes:
        figures: one value a measure, in its unit.
        values: one value an axis of the space; of plans with the same figures the one with the
            fewest clusters a pool.
    """

    figures: tuple[float, ...]
    values: Values


@dataclass(frozen=True)
class ParetoFront:
    """What a space offers in several measures at once.

    Attributes:
        measures: what is traded.
        space: the plans.
        points: the plans that no other one beats, the best in the first measure first.
        looked_at: plans that the front is of: all of an enumerated space, else distinct trials.
        feasible: plans among them that keep every constraint and have all figures.
        exact: whether all plans of the space were looked at, so that none is missing.
        seconds: time taken.
        complete: False when stopped early.
        sampler: which sampler chose the plans; empty for an enumeration.
    """

    measures: tuple[Measure, ...]
    space: Space
    points: tuple[ParetoPoint, ...]
    looked_at: int
    feasible: int
    exact: bool
    seconds: float
    complete: bool = True
    sampler: str = ""

    def scenario(self, point: ParetoPoint) -> Scenario:
        """Return the scenario of a point."""
        return self.space.scenario(point.values)

    def best(self, position: int) -> ParetoPoint:
        """Return the point that is best in one measure; raises ValueError when there is none."""
        sign = self.measures[position].sign
        return min(self.points, key=lambda point: sign * point.figures[position])


def pareto_front(
    space: Space,
    measures: Sequence[Measure],
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> ParetoFront:
    """Return the exact front of all plans of a space, block by block at bounded memory.

    Args:
        space: the plans.
        measures: what is traded.
        progress: called with plans done and plans in all, after each block.
        stopped: asked after each block; True ends the enumeration, marked incomplete.

    Raises:
        InputError: when more plans than can be held beat each other nowhere.
    """
    started = time.perf_counter()
    archive = Archive(tuple(measures))
    complete = True
    for block in fitting_blocks(space):
        archive.add(evaluate(block.scenario), block.columns, block.shape)
        if progress is not None:
            progress(block.covered, space.size)
        if stopped is not None and stopped() and block.covered < space.size:
            complete = False
            break
    return ParetoFront(
        measures=archive.measures,
        space=space,
        points=archive.points(),
        looked_at=space.size,
        feasible=archive.feasible,
        exact=True,
        seconds=time.perf_counter() - started,
        complete=complete,
    )


@dataclass
class Archive:
    """The front of all plans seen so far."""

    measures: tuple[Measure, ...]
    feasible: int = 0
    _figures: Array = field(init=False)
    _clusters: Array = field(init=False)
    _values: list[AnyArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._figures = np.empty((0, len(self.measures)))
        self._clusters = np.empty(0)

    def add(
        self, evaluation: Evaluation, columns: Sequence[AnyArray], shape: tuple[int, ...]
    ) -> Array:
        """Take those plans that nothing seen so far beats; return which are feasible [shape].

        Args:
            evaluation: of plans of this shape.
            columns: the values of each axis of the space, broadcasting to ``shape``.
            shape: of the plans.
        """
        figures = [
            np.broadcast_to(measure.sign * measure.of(evaluation), shape)
            for measure in self.measures
        ]
        valid = ~np.isnan(figures[0])
        for figure in figures[1:]:
            valid &= ~np.isnan(figure)
        at = np.nonzero(valid)
        self.feasible += len(at[0])
        points = np.stack([figure[at] for figure in figures], axis=1)
        left = not_clearly_behind(self._figures, points)
        chosen = tuple(index[left] for index in at)
        clusters = np.broadcast_to(evaluation.clusters, shape)[chosen]
        values = [np.broadcast_to(column, shape)[chosen] for column in columns]
        self._merge(points[left], clusters, values)
        return valid

    def points(self) -> tuple[ParetoPoint, ...]:
        """Return the front, the best in the first measure first."""
        signs = np.array([measure.sign for measure in self.measures])
        figures = (self._figures * signs).tolist()
        values = zip(*(column.tolist() for column in self._values), strict=True)
        plans = list(values) if self._values else [()] * len(figures)
        return tuple(
            ParetoPoint(tuple(figure), plan) for figure, plan in zip(figures, plans, strict=True)
        )

    def _merge(self, points: Array, clusters: Array, values: list[AnyArray]) -> None:
        known = self._values or [column[:0] for column in values]
        everything = np.concatenate([self._figures, points])
        every_clusters = np.concatenate([self._clusters, clusters])
        kept = nondominated(everything, every_clusters)
        if len(kept) > LARGEST_FRONT:
            names = ", ".join(measure.name for measure in self.measures)
            accepted = f"more than {LARGEST_FRONT:,} plans beat each other nowhere"
            raise refuse("pareto", names, f"{accepted}; expected fewer measures or fewer values")
        self._figures, self._clusters = everything[kept], every_clusters[kept]
        pairs = zip(known, values, strict=True)
        self._values = [np.concatenate([old, new])[kept] for old, new in pairs]
