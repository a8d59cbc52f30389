"""The best plan of a space, exactly, without looking at each of its plans.

An enumeration proves an optimum and counts everything on its way. Where only the optimum is asked
for, and for hundreds of machines in turn, two facts save most of the work: decode pools and prefill
pipelines that fit nowhere are left out, and of the number of prefill pipelines only the relaxed
optimum is evaluated, until its bound says that a combination of the others can still win.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array, Mask
from explorer.search.certificate import LARGEST_BLOCK
from explorer.search.fitting import FittingBlock, fitting_blocks, pipelines_axis, with_columns
from explorer.search.objectives import THROUGHPUT, Objective
from explorer.search.space import DP_PREFILL, Axis, Space, Value, Values
from explorer.search.staged import fixed_batch_space
from explorer.serving.evaluate import Evaluation, evaluate

FIRST_TRIED, GROWTH = 1024, 4
ROUNDING = 1e-9
"""A bound within this fraction of the best value may still be reached: both are rounded."""


@dataclass(frozen=True)
class BestPlan:
    """The optimum over all plans of a space.

    Attributes:
        objective: what was optimised.
        space: the plans among which it is best (for ``eq22`` those of the fixed batch).
        value: its objective; NaN when no plan is feasible.
        values: one value an axis, or None; of equal plans the one with the fewest clusters, then
            the lexicographically smallest.
    """

    objective: Objective
    space: Space
    value: float
    values: Values | None

    @property
    def plan(self) -> dict[str, Value] | None:
        """The values by path, or None."""
        return None if self.values is None else self.space.plan(self.values)

    @property
    def scenario(self) -> Scenario | None:
        """Its scenario, or None."""
        return None if self.values is None else self.space.scenario(self.values)


def best_plan(space: Space, objective: Objective, known: Values | None = None) -> BestPlan:
    """Return the optimum that ``certify`` finds, without its counts.

    With pools apart, clusters x max(T_p / DP_P, T_d) is least over real DP_P at T_p / T_d, or at
    the nearest end of what the clusters admit; whole numbers and whole pools can only be worse.
    Combinations are tried from the best such bound on, until no bound beats the best plan.

    Args:
        space: the plans.
        objective: what to optimise.
        known: a plan of the space, one value an axis, that may be good already: it saves time.
    """
    chosen = fixed_batch_space(space) if objective.fixes_batch else space
    leader = _Leader(objective)
    if known is not None and chosen is space:
        leader.offer(evaluate(space.scenario(known)), [np.atleast_1d(v) for v in known], (1,))
    pipelines = pipelines_axis(chosen)
    fewest = chosen if pipelines is None else chosen.fixing({DP_PREFILL: pipelines.values[0]})
    for block in fitting_blocks(fewest):
        if pipelines is None:
            leader.offer(evaluate(block.scenario), block.columns, block.shape)
        else:
            _search_block(block, chosen, pipelines, leader)
    return BestPlan(objective, chosen, leader.value, leader.values)


@dataclass
class _Leader:
    """The best plan so far."""

    objective: Objective
    value: float = math.nan
    clusters: float = math.inf
    values: Values | None = None

    def offer(
        self, evaluation: Evaluation, columns: Sequence[AnyArray], shape: tuple[int, ...]
    ) -> None:
        """Take the best of some plans if it beats the best so far.

        Args:
            evaluation: of plans of this shape.
            columns: the values of each axis of the space, broadcasting to ``shape``.
            shape: of the plans.
        """
        found = np.broadcast_to(evaluation.objective(self.objective.name), shape)
        best = self.objective.best_of(found)
        if math.isnan(best) or self.objective.better(self.value, best):
            return
        at = np.nonzero(found == best)
        clusters = np.broadcast_to(evaluation.clusters, shape)[at]
        fewest = float(clusters.min())
        rows = [np.broadcast_to(column, shape)[at][clusters == fewest] for column in columns]
        first = int(np.lexsort(rows[::-1])[0]) if rows else 0
        values = tuple(row[first].item() for row in rows)
        if best != self.value or (fewest, values) < (self.clusters, self.values or ()):
            self.value, self.clusters, self.values = best, fewest, values

    def may_lose_to(self, bounds: Array) -> Mask:
        """Return where a bound is at least as good as the best value."""
        if math.isnan(self.value):
            return ~np.isnan(bounds)
        sign = 1.0 if self.objective.minimised else -1.0
        return np.asarray(sign * bounds <= sign * self.value + abs(self.value) * ROUNDING)


def _search_block(block: FittingBlock, space: Space, pipelines: Axis, leader: _Leader) -> None:
    """Offer the combinations of a block with every DP_P, the most promising ones first."""
    bounds = _bounds(block, pipelines, leader.objective).reshape(-1)
    score = bounds if leader.objective.minimised else -bounds
    most = max(LARGEST_BLOCK // len(pipelines), 1)
    count = min(FIRST_TRIED, most)
    promising = np.flatnonzero(leader.may_lose_to(bounds))
    if len(promising) > count:
        # The best bounds first: most of the others then need not even be sorted.
        order = np.argpartition(score[promising], count)
        _offer_group(block, space, pipelines, promising[order[:count]], leader)
        others = promising[order[count:]]
        promising = others[leader.may_lose_to(bounds[others])]
    promising = promising[np.argsort(score[promising])]
    while promising.size and leader.may_lose_to(bounds[promising[0]]):
        count = min(count * GROWTH, most)
        _offer_group(block, space, pipelines, promising[:count], leader)
        promising = promising[count:]


def _offer_group(
    block: FittingBlock, space: Space, pipelines: Axis, group: AnyArray, leader: _Leader
) -> None:
    """Offer some combinations of a block, each with every DP_P."""
    others = (values[:, None] for values in block.taken(group))
    columns = [
        pipelines.array[None, :] if axis is pipelines else next(others) for axis in space.axes
    ]
    tried = evaluate(with_columns(space, columns))
    leader.offer(tried, columns, (len(group), len(pipelines)))


def _bounds(block: FittingBlock, pipelines: Axis, objective: Objective) -> Array:
    """Return what no DP_P can beat, for each combination; NaN where none is feasible.

    With C clusters besides those of prefill and c of one pipeline, (C + DP c) max(T_p / DP, T_d)
    over real DP is least at T_p / T_d, where it is C T_d + c T_p, or at the nearest end of what the
    axis and the clusters admit.
    """
    fewest = evaluate(block.scenario)
    clusters_total = fewest.inputs.array("workload.clusters_total")
    others, pipeline = fewest.clusters_beside_prefill, fewest.inputs.prefill_clusters
    most = np.minimum(pipelines.values[-1] * pipeline, clusters_total - others)
    decode, work = fewest.decode_seconds, pipeline * fewest.prefill_seconds
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.maximum(
            work + others * np.maximum(work / most, decode), fewest.clusters * decode
        )
    if objective.fixes_batch:
        bounds = least
    elif objective.name == THROUGHPUT.name:
        # Whole pools: no more of them than all clusters over those of one.
        bounds = clusters_total * fewest.batch_tokens / least
    else:
        bounds = least / fewest.batch_tokens
    return np.broadcast_to(np.where(fewest.feasible, bounds, np.nan), block.shape)
