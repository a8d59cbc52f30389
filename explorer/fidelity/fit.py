"""Which numbers are fitted to which rows, and what the models say of rows that were left out.

A refit looks at a grid over all of a fit's constants, whole numbers among them, in one broadcast
call, and then moves the continuous ones to the nearest minimum within the knob's bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.optimize import least_squares

from explorer.config.chip import Chip
from explorer.costs.arrays import Array, Mask
from explorer.fidelity.measurements import Measurement

ERROR_SCALE = 0.05
"""Log errors above this count linearly, so that no single row rules a fit."""
MOST_STEPS = 30
TOLERANCE = 1e-7

STEP = 1e-6
"""Step of a factor for a derivative: models are computed to 1e-15, so that 1e-9 of it is good."""
TINIEST, LARGEST = 1e-30, 1e30
"""Predictions are held between these, so that a constant at 0 gives a large error and no NaN."""

Values: TypeAlias = Mapping[str, Array]
Model: TypeAlias = Callable[[Sequence[Measurement], Values], Array]
"""Predicted SI values [..., rows] from constants that broadcast with [rows]."""


@dataclass(frozen=True)
class Constant:
    """One fitted number of a chip.

    Attributes:
        name: its name in the chip document.
        grid: values to start from; for a whole number all that are tried.
        whole: whether it is a whole number.
    """

    name: str
    grid: tuple[float, ...]
    whole: bool = False


@dataclass(frozen=True)
class FitSpec:
    """Constants, the rows that they are fitted to, and the model between the two.

    Attributes:
        name: what is fitted, for people.
        chip: id of the chip.
        constants: the fitted numbers.
        uses: whether a row belongs to the fit.
        groups: conditions whose values are left out one at a time.
        ranges: conditions whose fitted range makes rows beyond it extrapolated.
        held: by group, constants that only the rows left out depend on; they keep their value.
        model: predicted SI values [..., rows] from constants that broadcast with [rows].
    """

    name: str
    chip: str
    constants: tuple[Constant, ...]
    uses: Callable[[Measurement], bool]
    groups: tuple[str, ...]
    model: Model
    ranges: tuple[str, ...] = ()
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class LeftOut:
    """Rows left out together, what the refit without them found, and how it predicts them."""

    key: str
    value: str
    rows: tuple[Measurement, ...]
    constants: Mapping[str, float]
    predicted: Array

    @property
    def errors(self) -> Array:
        """Signed relative errors of the rows left out."""
        measured = np.asarray([row.si_value for row in self.rows])
        errors: Array = self.predicted / measured - 1
        return errors

    @property
    def mape(self) -> float:
        """Mean absolute error."""
        return float(np.abs(self.errors).mean())

    @property
    def worst(self) -> float:
        """Largest absolute error."""
        return float(np.abs(self.errors).max())


@dataclass(frozen=True)
class FitResult:
    """A refit to all rows, and refits without some."""

    spec: FitSpec
    rows: tuple[Measurement, ...]
    constants: Mapping[str, float]
    by_row: tuple[LeftOut, ...]
    by_group: tuple[LeftOut, ...]

    @cached_property
    def left_out(self) -> dict[tuple[str, str], float]:
        """What is predicted of each row by a refit without it [SI], by file and id."""
        return {
            (fold.rows[0].file, fold.rows[0].id): float(fold.predicted[0]) for fold in self.by_row
        }

    def spread(self, name: str) -> tuple[float, float]:
        """Return the least and the largest value of a constant over all refits."""
        values = [fold.constants[name] for fold in (*self.by_row, *self.by_group)]
        return min(values, default=self.constants[name]), max(values, default=self.constants[name])


@dataclass(frozen=True)
class LogErrors:
    """Log errors of rows as functions of factors on some constants of their model.

    Attributes:
        model: gives the predictions.
        rows: what is predicted.
        scale: the free constants and their values at a factor of 1.
        fixed: constants that keep their values; arrays broadcast with the factors but for their
            last axis.
    """

    model: Model
    rows: tuple[Measurement, ...]
    scale: Mapping[str, float]
    fixed: Values = field(default_factory=dict)

    @cached_property
    def measured(self) -> Array:
        """Measured values [rows], SI."""
        return np.asarray([row.si_value for row in self.rows], dtype=np.float64)

    def values(self, factors: Array) -> dict[str, Array]:
        """Return the free constants at some factors [..., constants]."""
        return {name: factors[..., i] * size for i, (name, size) in enumerate(self.scale.items())}

    def at(self, factors: Array) -> tuple[Array, Array]:
        """Return log errors [..., rows] and their derivatives [..., rows, constants].

        Args:
            factors: on the free constants [..., constants]; one call of the model serves all.
        """
        count = len(self.scale)
        steps = STEP * np.concatenate([np.zeros((1, count)), np.eye(count)])
        points = np.asarray(factors, dtype=np.float64)[..., None, :] + steps
        free = {name: value[..., None] for name, value in self.values(points).items()}
        fixed = {name: np.asarray(value)[..., None, None] for name, value in self.fixed.items()}
        errors = self._errors({**fixed, **free}, points.shape[:-1])
        slopes = (errors[..., 1:, :] - errors[..., :1, :]) / STEP
        return errors[..., 0, :], np.moveaxis(slopes, -1, -2)

    def _errors(self, values: Values, shape: tuple[int, ...]) -> Array:
        predicted = np.nan_to_num(self.model(self.rows, values), nan=LARGEST)
        predicted = np.clip(predicted, TINIEST, LARGEST)
        errors: Array = np.log(predicted / self.measured)
        return np.broadcast_to(errors, (*shape, len(self.rows)))


def least_log_errors(
    errors: LogErrors, start: Array, bounds: tuple[Array, Array], robust: bool
) -> Array:
    """Return the factors [constants] of least squared log errors near ``start``, within bounds.

    Args:
        errors: what is made small.
        start: factors to start from, within the bounds.
        bounds: least and largest factors.
        robust: whether log errors above ``ERROR_SCALE`` count linearly (soft L1).
    """
    known: dict[bytes, tuple[Array, Array]] = {}

    def both(factors: Array) -> tuple[Array, Array]:
        key = factors.tobytes()
        if key not in known:
            known.clear()
            known[key] = errors.at(factors)
        return known[key]

    found = least_squares(
        lambda factors: both(factors)[0],
        start,
        jac=lambda factors: both(factors)[1],
        bounds=bounds,
        loss="soft_l1" if robust else "linear",
        f_scale=ERROR_SCALE if robust else 1.0,
        xtol=TOLERANCE,
        ftol=TOLERANCE,
        max_nfev=MOST_STEPS,
    )
    factors: Array = found.x
    return factors


def run_fit(spec: FitSpec, chip: Chip, rows: Sequence[Measurement]) -> FitResult | None:
    """Return the refits of a spec, or None with fewer rows than twice its constants.

    Args:
        spec: what is fitted.
        chip: gives the bounds of the constants.
        rows: measurements; those that the spec does not use are ignored.
    """
    used = tuple(row for row in rows if row.chip == spec.chip and spec.uses(row))
    if len(used) < 2 * len(spec.constants):
        return None
    refit = _Refit(spec, chip, used)
    everything = np.ones(len(used), dtype=bool)
    by_row = [
        refit.without(np.arange(len(used)) == index, "row", row.id)
        for index, row in enumerate(used)
    ]
    by_group = [
        refit.without(left, key, value, spec.held.get(key, ()))
        for key, value, left in _groups(spec, used)
        if int((~left).sum()) >= len(spec.constants)
    ]
    return FitResult(spec, used, refit.constants(everything), tuple(by_row), tuple(by_group))


def _groups(spec: FitSpec, rows: Sequence[Measurement]) -> Iterator[tuple[str, str, Mask]]:
    for key in spec.groups:
        values = [row.conditions.get(key, "") for row in rows]
        distinct = dict.fromkeys(values)
        if len(distinct) > 1:
            for value in distinct:
                yield key, value, np.asarray([other == value for other in values])


@dataclass(frozen=True)
class _Refit:
    spec: FitSpec
    chip: Chip
    rows: tuple[Measurement, ...]

    @cached_property
    def measured(self) -> Array:
        return np.asarray([row.si_value for row in self.rows], dtype=np.float64)

    @cached_property
    def grid_costs(self) -> Array:
        """Costs [grid of each constant..., rows], from one call of the model."""
        constants = self.spec.constants
        axes = np.meshgrid(
            *(np.asarray(c.grid, dtype=np.float64) for c in constants), indexing="ij", sparse=True
        )
        values = {c.name: axis[..., None] for c, axis in zip(constants, axes, strict=True)}
        predicted = self.spec.model(self.rows, values)
        shape = (*(len(c.grid) for c in constants), len(self.rows))
        return np.broadcast_to(_costs(self._residuals(predicted)), shape)

    def without(self, left: Mask, key: str, value: str, held: tuple[str, ...] = ()) -> LeftOut:
        """Return the refit to the other rows, and what it says of those left out."""
        constants = self.constants(~left, held)
        rows = tuple(row for row, out in zip(self.rows, left, strict=True) if out)
        values = {name: np.asarray(number) for name, number in constants.items()}
        return LeftOut(key, value, rows, constants, self.spec.model(rows, values))

    def constants(self, kept: Mask, held: tuple[str, ...] = ()) -> dict[str, float]:
        """Return the constants that fit the kept rows best; held ones stay as the chip has them."""
        costs = self.grid_costs[..., kept].sum(axis=-1)
        for axis, constant in enumerate(self.spec.constants):
            if constant.name in held:
                distance = np.abs(
                    np.asarray(constant.grid) - self.chip.quantities[constant.name].value
                )
                nearest = int(distance.argmin())
                shape = [-1 if other == axis else 1 for other in range(costs.ndim)]
                away = np.arange(len(constant.grid)).reshape(shape) != nearest
                costs = np.where(away, np.inf, costs)
        best = np.unravel_index(int(costs.argmin()), costs.shape)
        found = {
            constant.name: float(constant.grid[int(index)])
            for constant, index in zip(self.spec.constants, best, strict=True)
        }
        free = [constant.name for constant in self.spec.constants if not constant.whole]
        return self._polished(found, free, kept) if free else found

    def _polished(self, start: dict[str, float], free: list[str], kept: Mask) -> dict[str, float]:
        rows = tuple(row for row, keep in zip(self.rows, kept, strict=True) if keep)
        fixed = {n: np.asarray(value) for n, value in start.items() if n not in free}
        errors = LogErrors(self.spec.model, rows, {n: start[n] for n in free}, fixed)
        knobs = [self.chip.quantities[name] for name in free]
        lowest = np.asarray([k.minimum / start[n] for n, k in zip(free, knobs, strict=True)])
        highest = np.asarray([k.maximum / start[n] for n, k in zip(free, knobs, strict=True)])
        found = least_log_errors(errors, np.ones(len(free)), (lowest, highest), robust=True)
        return {**start, **{name: float(v) for name, v in errors.values(found).items()}}

    def _residuals(self, predicted: Array) -> Array:
        residuals: Array = np.log(predicted / self.measured)
        return residuals


def _costs(residuals: Array) -> Array:
    """Return twice the soft-L1 cost of log errors, the one that the polishing minimises."""
    costs: Array = ERROR_SCALE**2 * 2 * (np.sqrt(1 + (residuals / ERROR_SCALE) ** 2) - 1)
    return costs
