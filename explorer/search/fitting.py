"""The plans of a space that may fit, in blocks: most of a joint space fits nowhere.

A decode pool that breaks a constraint whatever the prefill pipelines are, or a pipeline that breaks
one whatever the pool is, is left out with all its combinations. Nothing that is feasible is lost,
so that sums and optima over feasible plans are those of the whole space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Mask
from explorer.search.certificate import LARGEST_BLOCK, Block, Blocks
from explorer.search.space import (
    DP_PREFILL,
    MICRO_BATCH_PREFILL,
    PP_PREFILL,
    SLICES,
    TP_PREFILL,
    Axis,
    Space,
    Values,
)
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import evaluate

LARGEST_MESH = 8_000_000
"""Combinations whose constraints are looked at together, each on the axes that it depends on."""

PIPELINE_PATHS = frozenset((TP_PREFILL, PP_PREFILL, MICRO_BATCH_PREFILL, SLICES))


@dataclass(frozen=True)
class FittingBlock:
    """All combinations of n decode pools, m prefill pipelines and d counts of these.

    Attributes:
        space: whose axes are set.
        columns: the values of each axis, in the order of the space: [n, 1, 1], [1, m, 1] or
            [1, 1, d].
        shape: (n, m, d).
        covered: plans of the space that are dealt with after this block, those left out included.
    """

    space: Space
    columns: tuple[AnyArray, ...]
    shape: tuple[int, int, int]
    covered: int

    @property
    def scenario(self) -> Scenario:
        """The scenario of all of them."""
        return with_columns(self.space, self.columns)

    def taken(self, at: AnyArray) -> tuple[AnyArray, ...]:
        """Return the values of each axis [k] at k flat indices."""
        places = np.unravel_index(at, self.shape)
        return tuple(
            column.reshape(-1)[places[int(np.argmax(column.shape))]]
            if column.size > 1
            else np.broadcast_to(column.reshape(-1), len(at))
            for column in self.columns
        )


def fitting_blocks(space: Space, largest: int = LARGEST_BLOCK) -> Iterator[FittingBlock]:
    """Yield all plans of a space but for those that cannot fit; blocks of about ``largest``."""
    pipelines = pipelines_axis(space)
    # With more pipelines a plan needs more clusters and breaks the same other constraints.
    fewest = space if pipelines is None else space.fixing({DP_PREFILL: pipelines.values[0]})
    depth = 1 if pipelines is None else len(pipelines)
    before = 0
    for block in Blocks(fewest, LARGEST_MESH):
        yield from _fitting(block, fewest, space, before, largest)
        before += block.size * depth


def pipelines_axis(space: Space) -> Axis | None:
    """Return the axis of DP_P where pools are apart, or None."""
    apart = space.base.plan.placement == "disaggregated"
    return space.axis(DP_PREFILL) if apart else None


def never_kept(space: Space) -> tuple[str, ...]:
    """Return the constraints that no plan of a space keeps; empty where each is kept by some."""
    pipelines = pipelines_axis(space)
    fewest = space if pipelines is None else space.fixing({DP_PREFILL: pipelines.values[0]})
    kept = dict.fromkeys(CONSTRAINTS, False)
    for block in Blocks(fewest, LARGEST_MESH):
        for constraint in evaluate(block.scenario).constraints:
            kept[constraint.name] |= bool(constraint.kept.any())
    return tuple(name for name, some in kept.items() if not some)


def with_columns(space: Space, columns: Sequence[AnyArray]) -> Scenario:
    """Return the base scenario with an array of values, taken from its own, set on each axis."""
    changes: dict[str, object] = {}
    for axis, column in zip(space.axes, columns, strict=True):
        changes |= dict.fromkeys(axis.paths, column)
    return space.base.unchecked(changes)


def _fitting(
    block: Block, fewest: Space, space: Space, before: int, largest: int
) -> Iterator[FittingBlock]:
    count = len(fewest.axes)
    pipeline = tuple(i for i, axis in enumerate(fewest.axes) if set(axis.paths) <= PIPELINE_PATHS)
    pool = tuple(i for i in range(count) if i not in pipeline)
    pools = pipelines = np.ones((1,) * count, dtype=bool)
    for constraint in evaluate(block.scenario).constraints:
        kept = constraint.kept
        kept = kept.reshape((1,) * (count - kept.ndim) + kept.shape)
        pools = pools & kept.any(axis=pipeline, keepdims=True)
        pipelines = pipelines & kept.any(axis=pool, keepdims=True)
    rows, height = _combinations(block.values, pool, pools)
    columns, width = _combinations(block.values, pipeline, pipelines)
    counted = pipelines_axis(space)
    depth = 1 if counted is None else len(counted)
    done = 0
    for down, across in _cuts(height, width, max(largest // depth, 1)):
        part = {i: values[down, None, None] for i, values in rows.items()}
        part |= {i: values[None, across, None] for i, values in columns.items()}
        others = (part[i] for i in range(count))
        shape = (down.stop - down.start, across.stop - across.start, depth)
        done += shape[0] * shape[1]
        yield FittingBlock(
            space,
            tuple(
                axis.array[None, None, :] if axis is counted else next(others)
                for axis in space.axes
            ),
            shape,
            before + depth * (block.size * done // (height * width)),
        )


def _cuts(height: int, width: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield rectangles of at most ``most`` cells that cover a table, row by row."""
    if not height or not width:
        return
    down, across = max(most // width, 1), min(width, most)
    for top in range(0, height, down):
        for left in range(0, width, across):
            yield (
                slice(top, min(top + down, height)),
                slice(left, min(left + across, width)),
            )


def _combinations(
    values: tuple[Values, ...], positions: tuple[int, ...], fitting: Mask
) -> tuple[dict[int, AnyArray], int]:
    """Return the values on some axes of all combinations that fit, and how many these are."""
    shape = tuple(len(each) if i in positions else 1 for i, each in enumerate(values))
    at = np.flatnonzero(np.broadcast_to(fitting, shape))
    places = np.unravel_index(at, shape) if shape else ()
    return {i: np.asarray(values[i])[places[i]] for i in positions}, len(at)
