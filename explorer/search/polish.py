"""Local search beside the sampler: untried neighbours of the best plans, closest first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from explorer.search.space import Axis
from explorer.search.trials import Judge

LONG_FROM = 16
"""Consecutive integers this many and more make a long axis: log scale, longer steps."""


def is_long(axis: Axis) -> bool:
    """Return whether an axis holds consecutive integers from 1 up, and many of them."""
    consecutive = all(b - a == 1 for a, b in pairwise(axis.values))
    return consecutive and len(axis) >= LONG_FROM and axis.values[0] >= 1


def next_neighbour(judge: Judge) -> tuple[int, ...] | None:
    """Return a plan worth trying next to the best ones so far, or None when all are known.

    First one step on one axis around the eight best, so that equal plans and several hills get
    their turn; then longer and double steps around the best; then around the twenty best.
    """
    ranked = judge.ranked()
    for around, steps, double in ((8, (1,), False), (1, (1, 2, 3, 4, 6), True), (20, (2,), False)):
        for indices in ranked[:around]:
            for neighbour in _neighbours(indices, judge.axes, steps, double):
                if not judge.knows(neighbour):
                    return neighbour
    return None


def _neighbours(
    indices: tuple[int, ...], axes: tuple[Axis, ...], steps: tuple[int, ...], double: bool
) -> Iterator[tuple[int, ...]]:
    for step in steps:
        for position, axis in enumerate(axes):
            if step == 1 or is_long(axis):
                yield from _moved(indices, axes, ((position, -step),))
                yield from _moved(indices, axes, ((position, step),))
    if double:
        for first, second in combinations(range(len(axes)), 2):
            for a, b in product((-1, 1), repeat=2):
                yield from _moved(indices, axes, ((first, a), (second, b)))


def _moved(
    indices: tuple[int, ...], axes: tuple[Axis, ...], moves: tuple[tuple[int, int], ...]
) -> Iterator[tuple[int, ...]]:
    moved = list(indices)
    for position, step in moves:
        moved[position] += step
    if all(0 <= index < len(axis) for index, axis in zip(moved, axes, strict=True)):
        yield tuple(moved)
