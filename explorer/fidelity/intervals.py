"""How far fitted constants can be believed: intervals, and fits without some of the rows.

The interval comes from the Jacobian at the solution. It assumes that rows scatter independently
around the model, rows that share constants all by the same relative amount (taken from their own
residuals), and that the model is right otherwise. The jackknife assumes less: it takes the
spread of the fits that each leave some rows out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from explorer.costs.arrays import Array, Mask
from explorer.fidelity.effects import Effects, Pair
from explorer.fidelity.solution import Solution
from explorer.fidelity.together import fit_together

CONFIDENCE = 0.95
MOST_FOLDS = 60
"""Fits without some rows; with more rows than this, several are left out together."""
TRADED = 0.8
ODD = 5.0
"""Studentised residual (without the row itself) above which a row is called odd."""
FEWEST_FOR_ODD = 4
SMALLEST_ODD = 0.01
LEAST_ROOM = 1e-9
LEAST_APART = 1e-6
"""Part of a constant's effects that the others lack, below which none of them has an interval."""


@dataclass(frozen=True)
class Interval:
    """A fitted constant, in its own unit; None where nothing can be said.

    Attributes:
        value: as fitted.
        low: lower end at ``CONFIDENCE``, cut off at the knob's minimum.
        high: upper end, cut off at its maximum.
        jackknife_low: the same from fits that leave rows out.
        jackknife_high: the same.
        at: ``minimum`` or ``maximum`` where the rows would have it beyond that.
        degrees: rows less constants that share them.
    """

    value: float
    low: float | None
    high: float | None
    jackknife_low: float | None
    jackknife_high: float | None
    at: str
    degrees: int

    @property
    def reach(self) -> float | None:
        """Half the interval over the value; infinite around 0."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.value if self.value > 0 else math.inf


@dataclass(frozen=True)
class LeftOutFits:
    """Fits that each leave out one row, or one of ``MOST_FOLDS`` parts of the rows.

    Attributes:
        folds: how many.
        fold: of each row [rows]; -1 where no fitted constant matters to it.
        factors: found without each [folds, constants].
        predicted: of each row by the fit without it [rows], SI.
    """

    folds: int
    fold: Array
    factors: Array
    predicted: Array


@dataclass(frozen=True)
class Found:
    """Intervals of fitted constants, and what the rows say of them together.

    Attributes:
        by_name: the intervals.
        traded: pairs of constants of which one can rise for the other to fall.
        odd: rows far off what the others say.
    """

    by_name: dict[str, Interval]
    traded: tuple[Pair, ...]
    odd: tuple[int, ...]


def left_out_fits(solution: Solution) -> LeftOutFits:
    """Return the fits without each row, or without each of some parts of the rows.

    A constant of which the rows left say nothing keeps its value from before.
    """
    seen = solution.effects.seen
    matters = np.flatnonzero(seen.any(axis=1))
    folds = min(len(matters), MOST_FOLDS)
    fold = np.full(len(seen), -1)
    fold[matters] = np.arange(len(matters)) % max(folds, 1)
    kept: Mask = np.arange(folds)[:, None] != fold
    free = np.logical_or.reduce(kept[:, :, None] & seen, axis=1)
    start = np.where(free, solution.factors, solution.start)
    found = fit_together(solution.errors, start, solution.bounds, kept, free)
    residuals = np.array(solution.residuals)
    residuals[matters] = found.errors[fold[matters], matters]
    predicted: Array = solution.errors.measured * np.exp(residuals)
    return LeftOutFits(folds, fold, found.factors, predicted)


def intervals(solution: Solution, without: LeftOutFits | None) -> Found:
    """Return intervals of the fitted constants.

    Args:
        solution: the fit.
        without: fits without some rows, for the jackknife.
    """
    names, factors, effects = solution.names, solution.factors, solution.effects
    places = [
        _Place(factor, low, high, solution.errors.scale[name])
        for name, factor, low, high in zip(names, factors, *solution.bounds, strict=True)
    ]
    spread = np.full(len(names), np.inf)
    degrees = np.zeros(len(names), dtype=int)
    correlations = np.eye(len(names))
    odd: list[int] = []
    for rows, members in effects.groups():
        moving = np.asarray([index for index in members if not places[index].end], dtype=int)
        degrees[members] = len(rows) - len(moving)
        matrix = solution.slopes[np.ix_(rows, moving)]
        inverse = _inverse(matrix)
        if inverse is None:
            continue
        sizes = np.sqrt(np.diag(inverse))
        correlations[np.ix_(moving, moving)] = inverse / np.outer(sizes, sizes)
        free = len(rows) - len(moving)
        if free > 0:
            own = solution.residuals[rows]
            spread[moving] = np.sqrt(own @ own / free) * sizes
            leverage = np.einsum("ij,jk,ik->i", matrix, inverse, matrix)
            odd += rows[_odd(own, leverage, free)].tolist()
    jackknife = _jackknife(without, effects)
    found = {
        name: _interval(places[i], float(spread[i]), jackknife[i], int(degrees[i]))
        for i, name in enumerate(names)
    }
    return Found(found, _traded(names, correlations), tuple(sorted(odd)))


def _inverse(matrix: Array) -> Array | None:
    """Return the inverse of the normal equations; None where they determine nothing."""
    norms = np.linalg.norm(matrix, axis=0)
    if not len(norms) or not norms.all():
        return None
    scaled = matrix / norms
    if np.linalg.matrix_rank(scaled, tol=LEAST_APART) < len(norms):
        return None
    inverse: Array = np.linalg.inv(scaled.T @ scaled) / np.outer(norms, norms)
    return inverse


def _traded(names: Sequence[str], correlations: Array) -> tuple[Pair, ...]:
    return tuple(
        Pair(first, names[j], float(correlations[i, j]))
        for i, first in enumerate(names)
        for j in range(i + 1, len(names))
        if abs(correlations[i, j]) >= TRADED
    )


@dataclass(frozen=True)
class _Place:
    """Where a factor ended up, and its bounds."""

    factor: float
    lowest: float
    highest: float
    scale: float

    @property
    def end(self) -> str:
        """The bound that it ended at, if any."""
        if self.factor <= self.lowest:
            return "minimum"
        return "maximum" if self.factor >= self.highest else ""

    def around(self, spread: float, degrees: float) -> tuple[float | None, float | None]:
        if not np.isfinite(spread) or degrees < 1:
            return None, None
        reach = float(student.ppf((1 + CONFIDENCE) / 2, degrees)) * spread
        low, high = max(self.factor - reach, self.lowest), min(self.factor + reach, self.highest)
        return float(low * self.scale), float(high * self.scale)


def _interval(place: _Place, spread: float, jackknife: tuple[float, int], degrees: int) -> Interval:
    value = float(place.factor * place.scale)
    if place.end:
        return Interval(value, None, None, None, None, place.end, degrees)
    low, high = place.around(spread, degrees)
    return Interval(value, low, high, *place.around(*jackknife), "", degrees)


def _odd(residuals: Array, leverage: Array, degrees: int) -> Mask:
    """Return which rows lie far off what the others say."""
    room = np.maximum(1 - leverage, LEAST_ROOM)
    share = residuals**2 / room
    others = np.maximum(residuals @ residuals - share, 0.0) / max(degrees - 1, 1)
    enough = degrees > FEWEST_FOR_ODD
    odd: Mask = enough & (np.abs(residuals) > SMALLEST_ODD) & (share > ODD**2 * others)
    return odd


def _jackknife(without: LeftOutFits | None, effects: Effects) -> list[tuple[float, int]]:
    """Return standard error and degrees of freedom of each constant from fits without rows."""
    nothing = (np.inf, 0)
    if without is None:
        return [nothing] * len(effects.names)
    result = []
    for index in range(len(effects.names)):
        rows, members = next(group for group in effects.groups() if index in group[1])
        folds = np.unique(without.fold[rows])
        values = without.factors[folds[folds >= 0], index]
        number = len(values)
        if number <= len(members):
            result.append(nothing)
            continue
        variance = (number - 1) / number * float(((values - values.mean()) ** 2).sum())
        result.append((float(np.sqrt(variance)), number - 1))
    return result
