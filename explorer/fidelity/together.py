"""Many small least-squares fits at once: refits without some rows, or with other whole numbers.

The model is called once for all of them, so that a hundred refits take little longer than one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from explorer.costs.arrays import Array, Mask
from explorer.fidelity.fit import LogErrors

MOST_STEPS = 25
SMALLEST_STEP = 1e-7
SHORTEST = 1 / 64


@dataclass(frozen=True)
class Fits:
    """Fits side by side.

    Attributes:
        factors: on the free constants [fits, constants].
        errors: log errors of every row [fits, rows], those left out of the fit included.
        costs: sums of squared log errors of the rows that each fit is made to [fits].
    """

    factors: Array
    errors: Array
    costs: Array


def fit_together(
    errors: LogErrors, start: Array, bounds: tuple[Array, Array], kept: Mask, free: Mask
) -> Fits:
    """Return least-squares fits of log errors, each to its own rows.

    Every step solves the linearised problem of each fit within the bounds; a step that makes a
    fit worse is halved.

    Args:
        errors: of all rows; fixed constants may be arrays [fits].
        start: factors [fits, constants], within the bounds.
        bounds: least and largest factors [constants].
        kept: rows that each fit is made to [fits, rows].
        free: constants that each fit may move [fits, constants].
    """
    factors = np.array(start, dtype=np.float64)
    values, slopes = errors.at(factors)
    costs = _costs(values, kept)
    step = _steps(values, slopes, factors, bounds, kept, free)
    length = np.ones(len(factors))
    for _ in range(MOST_STEPS):
        moving = (length > 0) & (np.abs(step).max(axis=1, initial=0.0) > SMALLEST_STEP)
        if not moving.any():
            break
        tried = np.where(moving[:, None], factors + length[:, None] * step, factors)
        tried_values, tried_slopes = errors.at(tried)
        tried_costs = _costs(tried_values, kept)
        better = moving & (tried_costs <= costs)
        length = np.where(moving & ~better, length / 2, length)
        length = np.where(length < SHORTEST, 0.0, length)
        factors = np.where(better[:, None], tried, factors)
        values = np.where(better[:, None], tried_values, values)
        slopes = np.where(better[:, None, None], tried_slopes, slopes)
        costs = np.where(better, tried_costs, costs)
        renewed = _steps(values, slopes, factors, bounds, kept, free & better[:, None])
        step = np.where(better[:, None], renewed, step)
        length = np.where(better, 1.0, length)
    return Fits(factors, values, costs)


def _costs(values: Array, kept: Mask) -> Array:
    costs: Array = (values**2 * kept).sum(axis=-1)
    return costs


def _steps(
    values: Array,
    slopes: Array,
    factors: Array,
    bounds: tuple[Array, Array],
    kept: Mask,
    free: Mask,
) -> Array:
    """Return the step [fits, constants] to the minimum of each linearised fit."""
    step = np.zeros_like(factors)
    lowest, highest = bounds
    for index, moves in enumerate(free):
        if moves.any():
            here = factors[index, moves]
            room = (lowest[moves] - here, highest[moves] - here)
            rows = kept[index]
            matrix = slopes[index][np.ix_(rows, moves)]
            step[index, moves] = lsq_linear(
                matrix, -values[index, rows], bounds=room, method="bvls"
            ).x
    return step
