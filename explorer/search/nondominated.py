"""Which points no other point beats, in any number of coordinates that are all to be small."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from explorer.costs.arrays import Array, Mask

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
CHUNK = 256
STRONGEST = 48
"""Points of a front that are tried first on what may lie behind it."""


def nondominated(points: Array, preference: Array | None = None) -> Indices:
    """Return the indices of the points that no other one dominates, in lexicographic order.

    One point dominates another when it is nowhere larger and somewhere smaller.

    Args:
        points: numbers [n, k]; no NaN.
        preference: [n]; of equal points the one with the least preference is returned, and
            without any, or where these are equal too, the first.
    """
    keys = points if preference is None else np.column_stack([points, preference])
    order = np.lexsort(keys.T[::-1])
    ranked = points[order]
    fresh = np.ones(len(ranked), dtype=bool)
    fresh[1:] = (ranked[1:] != ranked[:-1]).any(axis=1)
    order, ranked = order[fresh], ranked[fresh]
    # Nothing is dominated by what comes after it, and what comes before is not larger in the
    # first coordinate: the others decide.
    rest = np.ascontiguousarray(ranked[:, 1:].T)
    kept = np.zeros(len(ranked), dtype=bool)
    for start in range(0, len(ranked), CHUNK):
        chunk = slice(start, start + CHUNK)
        alive = ~_some_below(rest[:, :start][:, kept[:start]], rest[:, chunk])
        own = rest[:, chunk][:, alive]
        alive[alive] = ~_some_below(own, own, earlier=True)
        kept[chunk] = alive
    return np.asarray(order[kept])


def not_clearly_behind(front: Array, points: Array) -> Indices:
    """Return the indices of points that none of the strongest points of a front dominates.

    A cheap first pass over many points: what it leaves may still be dominated.

    Args:
        front: some points [f, k].
        points: other points [n, k].
    """
    left = np.arange(len(points))
    for strong in front[_strongest(front)]:
        candidates = points[left]
        behind = (strong <= candidates).all(axis=1) & (strong < candidates).any(axis=1)
        left = left[~behind]
    return left


def _some_below(front: Array, points: Array, earlier: bool = False) -> Mask:
    """Return which points [k, n] some point of the front [k, f] is nowhere larger than.

    With ``earlier`` both are the same points, and only those before a point count.
    """
    below = np.ones((front.shape[1], points.shape[1]), dtype=bool)
    for some, other in zip(front, points, strict=True):
        below &= some[:, None] <= other[None, :]
    if earlier:
        below &= np.tri(len(below), k=-1, dtype=bool).T
    return np.asarray(below.any(axis=0))


def _strongest(front: Array) -> Indices:
    """Return points spread over a front: every so many in the order of each coordinate."""
    if len(front) <= STRONGEST:
        return np.arange(len(front))
    places = np.linspace(0, len(front) - 1, STRONGEST // front.shape[1]).round().astype(np.int64)
    return np.unique(np.concatenate([column.argsort()[places] for column in front.T]))
