"""A proved bound on a whole box of plans, from two views of it that are far smaller than the box.

Let c_P be the clusters of one prefill pipeline, c_D those of a pool beside prefill, and
C = DP_P c_P + c_D. A maximum is at least either of its sides, so for every plan

    C max(T_p / DP_P, T_d)  >=  c_P T_p + c_D T_d                                         (a)
    C max(T_p / DP_P, T_d)  >=  (c_P + c_D / DP_P) T_p                                    (b)
    C max(T_p / DP_P, T_d)  >=  (DP_P c_P + c_D) T_d                                      (c)

In (a) the first product depends on the prefill pool alone, the second on the decode pool alone:
the least of the sum over all plans is the sum of two least values over two small meshes, joined
where they share an axis (hardware, workload). (b) and (c) take the other pool's least clusters.
Of a batch of B = PP_D x micro_batch_decode, T_p / B is bounded with n >= B / micro_batch_prefill
and n >= 1: T_p / B >= t_p (max(1 / micro_batch_prefill, 1 / B_max) + (PP_P - 1) / B_max), and T_d /
(B N) is (1 - 1 / N) t_d / micro_batch_decode exactly, t_p and t_d being stage times. Whole pools:
pools = floor(total / C) <= total / C, and at most floor(total / least C) in (b) and (c). With
shared placement C max(...) is C (T_p + T_d), a sum already.

Stage times, memory and every constraint come from the engine. An axis of a view whose values are
taken in groups is an interval for it (``explorer.costs.intervals``), so that stairs need no
argument of their own: nothing is assumed to rise or fall with any number of a machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np

from explorer.costs.arrays import ONE, ZERO, Array, scalar
from explorer.costs.intervals import highest, lowest, stand_in
from explorer.search.objectives import Objective
from explorer.search.space import (
    BUFFER,
    DP_PREFILL,
    MICRO_BATCH_DECODE,
    MICRO_BATCH_PREFILL,
    PP_DECODE,
    PP_PREFILL,
    SLICES,
    TP_DECODE,
    TP_PREFILL,
    Axis,
    Space,
    Values,
)
from explorer.serving.evaluate import Evaluation, evaluate

MOST_POINTS = 100_000
"""Elements of one view; an axis is taken in groups of its values where there would be more."""
MOST_JOINT_POINTS = 400_000
"""Elements of a mesh over all axes: wider than a view, since stages need only parts of it."""
ROUNDING = 1e-12
"""Part by which a bound is lowered: what the sums above may be rounded up by, and far more."""

_RULE = ("plan.max_slices", "plan.min_rows_per_slice")
_PREFILL = frozenset((TP_PREFILL, PP_PREFILL, MICRO_BATCH_PREFILL, SLICES, *_RULE))
_DECODE = frozenset((TP_DECODE, PP_DECODE, MICRO_BATCH_DECODE, BUFFER))
_NEITHER = frozenset((DP_PREFILL,))


@dataclass(frozen=True)
class Groups:
    """Consecutive values of an axis, taken together."""

    axis: Axis
    parts: tuple[Values, ...]

    @property
    def exact(self) -> bool:
        """Whether every group is a single value."""
        return len(self.parts) == len(self.axis)

    def setting(self, position: int, dimensions: int) -> Array:
        """Return the groups along one dimension of a mesh."""
        shape = [1] * dimensions
        shape[position] = len(self.parts)
        first = np.reshape([part[0] for part in self.parts], shape)
        if self.exact:
            return first
        last = np.reshape([part[-1] for part in self.parts], shape)
        return stand_in(first.astype(np.float64), last.astype(np.float64))

    def hull(self) -> Array:
        """Return all values as one interval."""
        low, high = self.axis.values[0], self.axis.values[-1]
        return scalar(low) if low == high else stand_in(scalar(low), scalar(high))


@dataclass(frozen=True)
class Relaxation:
    """Lower bounds of a space's scores, see ``Objective.score``.

    Attributes:
        groups: how each axis was taken.
        by_group: for each axis, one bound a group: no feasible plan with such a value has a
            lower score; infinite where there is none.
    """

    groups: tuple[Groups, ...]
    by_group: tuple[Array, ...]

    @property
    def least(self) -> float:
        """Bound of the whole space; infinite when it is proved that nothing is feasible."""
        return max((float(bounds.min()) for bounds in self.by_group), default=0.0)


def relax(space: Space, objective: Objective) -> Relaxation:
    """Return proved bounds of all plans of a space; its axes need not be few nor short."""
    groups = _grouped(space, (_DECODE | _NEITHER, _PREFILL | _NEITHER), MOST_POINTS)
    prefill = _View(space, groups, _DECODE | _NEITHER)
    decode = _View(space, groups, _PREFILL | _NEITHER)
    bounds = _bounds(prefill, decode, objective, groups)
    return Relaxation(groups, tuple(bound * (1 - ROUNDING) for bound in bounds))


def relax_jointly(space: Space, objective: Objective) -> Relaxation:
    """Return proved bounds from the engine's own objective on one mesh over all axes.

    Exact where every group is a single value, and where the values of a group make no difference.
    """
    groups = _grouped(space, (frozenset(),), MOST_JOINT_POINTS)
    view = _View(space, groups, frozenset())
    value = view.evaluation.unconstrained_objective(objective.name)
    with np.errstate(divide="ignore"):
        score = lowest(value) if objective.minimised else 1 / highest(value)
    lengths = [len(group.parts) for group in groups]
    return Relaxation(groups, _least_by_axis(view.where_possible(score), ZERO, lengths))


class _View:
    """The engine on part of a space: some axes along the mesh, the others as one interval each."""

    def __init__(self, space: Space, groups: Sequence[Groups], whole: frozenset[str]) -> None:
        changes: dict[str, object] = {}
        for position, group in enumerate(groups):
            along = not set(group.axis.paths) <= whole
            value = group.setting(position, len(groups)) if along else group.hull()
            changes |= dict.fromkeys(group.axis.paths, value)
        self.dimensions = len(groups)
        self.evaluation: Evaluation = evaluate(space.base.unchecked(changes))

    def where_possible(self, value: Array) -> Array:
        """Return a value with infinity where a constraint is broken for sure."""
        kept = (
            lowest(constraint.value) <= highest(constraint.limit)
            for constraint in self.evaluation.constraints
        )
        possible = reduce(np.logical_and, kept)
        return _full_rank(np.where(possible, value, np.inf), self.dimensions)


def _bounds(
    prefill: _View, decode: _View, objective: Objective, groups: Sequence[Groups]
) -> tuple[Array, ...]:
    """Return the best of (a), (b) and (c) for each group of each axis."""
    e, d = prefill.evaluation, decode.evaluation
    decode_pace = _decode_pace(d, objective)
    prefill_pace = _prefill_pace(e, objective, _largest_batch(decode, prefill))
    lengths = [len(group.parts) for group in groups]
    if e.inputs.shared:
        shares = [_share(lowest(one.clusters), one, objective) for one in (e, d)]
        first = prefill.where_possible(_cost(shares[0], prefill_pace))
        second = decode.where_possible(_cost(shares[1], decode_pace))
        return _least_by_axis(first, second, lengths)
    own = lowest(e.inputs.prefill_clusters)
    rest = lowest(d.clusters_beside_prefill)
    fewest, most = (
        float(end) for end in (lowest(d.inputs.dp_prefill), highest(d.inputs.dp_prefill))
    )
    unit = _unit(objective, e)
    first = prefill.where_possible(unit * own * prefill_pace)
    second = decode.where_possible(_unit(objective, d) * rest * decode_pace)
    least_own = _least_beside(np.where(np.isfinite(first), own, np.inf), second)
    least_rest = _least_beside(np.where(np.isfinite(second), rest, np.inf), first)
    by_prefill = _cost(_share(fewest * own + least_rest, e, objective), prefill_pace / most)
    by_decode = _cost(_share(fewest * least_own + rest, d, objective), decode_pace)
    candidates = (
        _least_by_axis(first, second, lengths),
        _least_by_axis(np.where(np.isfinite(first), by_prefill, np.inf), ZERO, lengths),
        _least_by_axis(np.where(np.isfinite(second), by_decode, np.inf), ZERO, lengths),
    )
    result = [reduce(np.maximum, bounds) for bounds in zip(*candidates, strict=True)]
    for position, group in enumerate(groups):
        if DP_PREFILL in group.axis.paths:
            low = np.asarray([part[0] for part in group.parts])
            high = np.asarray([part[-1] for part in group.parts])
            fits = np.isfinite(_share(low * least_own.min() + least_rest.min(), e, objective))
            paces = (_least(prefill_pace, first), _least(decode_pace, second))
            clusters = (low * least_own.min(), least_rest.min() / high)
            fed = second.min() + np.min(unit) * _cost(clusters[0], paces[1])
            spread = first.min() + np.min(unit) * _cost(clusters[1], paces[0])
            own_bound = np.where(fits, np.maximum(fed, spread), np.inf)
            result[position] = np.maximum(result[position], own_bound)
    return tuple(result)


def _cost(share: Array, pace: Array | float) -> Array:
    """Return share x pace, infinite where the share is: what does not fit costs no less for 0 s."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(share), np.inf, share * pace)


def _least(values: Array, where: Array) -> float:
    """Return the least value where another is finite, infinity where it nowhere is."""
    return float(np.min(np.where(np.isfinite(where), values, np.inf)))


def _unit(objective: Objective, evaluation: Evaluation) -> Array:
    """Return what a cluster counts for: itself, or its part of all clusters."""
    if objective.minimised:
        return ONE
    return 1 / highest(evaluation.inputs.array("workload.clusters_total"))


def _share(clusters: Array, evaluation: Evaluation, objective: Objective) -> Array:
    """Return what a pool of so many clusters or more counts for; infinite where none fits."""
    total = highest(evaluation.inputs.array("workload.clusters_total"))
    with np.errstate(divide="ignore", invalid="ignore"):
        pools = np.floor(total / clusters)
        share = clusters if objective.minimised else 1 / pools
    return np.where(pools >= 1, share, np.inf)


def _largest_batch(decode: _View, prefill: _View) -> Array:
    """Return B_max: the largest batch of a possible decode pool, by what both views share."""
    batch = -decode.where_possible(-highest(decode.evaluation.batch))
    batch = np.where(np.isinf(batch), ONE, batch)
    other = _full_rank(lowest(prefill.evaluation.prefill_stage.seconds), prefill.dimensions)
    own = _own_dimensions(batch, other)
    return batch.max(axis=own, keepdims=True) if own else batch


def _prefill_pace(evaluation: Evaluation, objective: Objective, batch: Array) -> Array:
    """Return a bound of T_p per output token, or of T_p itself for a fixed batch."""
    i, stage = evaluation.inputs, lowest(evaluation.prefill_stage.seconds)
    fill = lowest(i.pp_prefill) - 1
    if objective.fixes_batch:
        return stage * (lowest(evaluation.prefill_micro_batches) + fill)
    passes = np.maximum(1 / highest(i.micro_batch_prefill), 1 / batch) + fill / batch
    pace: Array = stage * passes / highest(i.output_tokens)
    return pace


def _decode_pace(evaluation: Evaluation, objective: Objective) -> Array:
    """Return a bound of T_d per output token, or of T_d itself for a fixed batch."""
    i = evaluation.inputs
    if objective.fixes_batch:
        return lowest(evaluation.decode_seconds)
    share = 1 - 1 / lowest(i.output_tokens)
    pace: Array = share * lowest(evaluation.decode_stage.seconds) / highest(i.micro_batch_decode)
    return pace


def _least_beside(values: Array, other: Array) -> Array:
    """Return the least of some values over the dimensions that another array does not have."""
    own = _own_dimensions(values, other)
    return values.min(axis=own, keepdims=True) if own else values


def _least_by_axis(first: Array, second: Array, lengths: Sequence[int]) -> tuple[Array, ...]:
    """Return, for each dimension, the least of ``first + second`` at each place along it.

    Without adding them up over dimensions that only one of the two has.
    """
    dimensions = len(lengths)
    first, second = _full_rank(first, dimensions), _full_rank(second, dimensions)
    result = []
    for kept, length in enumerate(lengths):
        parts = []
        for one, other in ((first, second), (second, first)):
            own = tuple(d for d in _own_dimensions(one, other) if d != kept)
            parts.append(one.min(axis=own, keepdims=True) if own else one)
        summed = parts[0] + parts[1]
        others = tuple(d for d in range(dimensions) if d != kept)
        result.append(np.broadcast_to(summed.min(axis=others), (length,)))
    return tuple(result)


def _own_dimensions(values: Array, other: Array) -> tuple[int, ...]:
    pairs = zip(values.shape, other.shape, strict=True)
    return tuple(d for d, (mine, its) in enumerate(pairs) if mine > 1 and its == 1)


def _full_rank(values: Array, dimensions: int) -> Array:
    return np.reshape(values, (1,) * (dimensions - np.ndim(values)) + np.shape(values))


def _grouped(space: Space, views: Sequence[frozenset[str]], most_points: int) -> tuple[Groups, ...]:
    """Return each axis in as many groups as the size of all views admits.

    Where a view is too large, the axis whose groups then stay the narrowest is halved; a plan's
    own axes last, since much depends on each of them.

    Args:
        space: the plans.
        views: paths that each view takes as a whole.
        most_points: elements of a view.
    """
    counts = [len(axis) for axis in space.axes]
    while True:
        for whole in views:
            along = [k for k, axis in enumerate(space.axes) if not set(axis.paths) <= whole]
            if math.prod(counts[k] for k in along) > most_points:
                break
        else:
            break
        narrowest = min(
            (k for k in along if counts[k] > 1),
            key=lambda k: _rank_for_halving(space.axes[k], (counts[k] + 1) // 2),
        )
        counts[narrowest] = (counts[narrowest] + 1) // 2
    pairs = zip(space.axes, counts, strict=True)
    return tuple(Groups(axis, _parts(axis, count)) for axis, count in pairs)


def _parts(axis: Axis, count: int) -> tuple[Values, ...]:
    """Return the values of an axis in ``count`` groups of about equally many."""
    cuts = [len(axis) * k // count for k in range(count + 1)]
    return tuple(axis.values[a:b] for a, b in pairwise(cuts))


def _rank_for_halving(axis: Axis, count: int) -> tuple[bool, float]:
    """Return whether an axis is a plan's, and the widest group that it would have."""
    of_plan = axis.paths[0].startswith("plan.")
    return of_plan, max(_log_width(part[0], part[-1]) for part in _parts(axis, count))


def _log_width(first: float, last: float) -> float:
    if first == last:
        return 0.0
    return math.log(last / first) if first > 0 else math.inf
