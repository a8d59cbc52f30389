"""Bounded least squares on a chip's constants: from where they start to where the rows want them.

Constants are moved as factors on their values before, so that all have one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.config.chip import Chip
from explorer.config.errors import refuse
from explorer.costs.arrays import Array
from explorer.fidelity.conditions import Conditions, NotModelledError
from explorer.fidelity.effects import Effects
from explorer.fidelity.fit import LogErrors, Model, Values, least_log_errors
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.predict import modelled
from explorer.fidelity.scenarios import OnChip
from explorer.fidelity.together import fit_together

START_FACTORS = (0.2, 0.5, 2.0, 5.0)
"""A fit starts from where these, on all constants or on one, fit best."""
AT_BOUND = 1e-6
"""A fit stays this little inside its bounds where it would leave them."""
SMALL_SHARE = 1e-3
"""Of a knob's maximum: the scale of a constant that starts at 0."""


def chip_model(chip: Chip) -> Model:
    """Return the app's own predictions of rows as a model of this chip's constants."""

    def model(rows: Sequence[Measurement], values: Values) -> Array:
        # The last axis of the values is that of the rows, on which they do not depend.
        hardware = {name: np.asarray(value)[..., 0] for name, value in values.items()}
        shape = np.broadcast_shapes(*(value.shape for value in hardware.values()))
        on = OnChip(chip, hardware)
        found = [np.broadcast_to(_value(row, on), shape) for row in rows]
        return np.stack(found, axis=-1)

    return model


def _value(row: Measurement, on: OnChip) -> Array:
    try:
        return modelled(row, Conditions(row.conditions), on).value
    except NotModelledError as error:
        raise refuse(row.id, "", f"{error}, at other values of the constants") from None


@dataclass(frozen=True)
class Solution:
    """Constants fitted to some rows.

    Attributes:
        errors: log errors of the rows as functions of factors on these constants.
        start: factors before [constants]: 1, or 0 for a constant that was 0.
        bounds: least and largest factors [constants], from the chip's knobs.
        factors: as fitted [constants].
    """

    errors: LogErrors
    start: Array
    bounds: tuple[Array, Array]
    factors: Array

    @property
    def names(self) -> tuple[str, ...]:
        """The constants."""
        return tuple(self.errors.scale)

    @cached_property
    def _here(self) -> tuple[Array, Array]:
        return self.errors.at(self.factors)

    @property
    def residuals(self) -> Array:
        """Log errors of the rows [rows]."""
        return self._here[0]

    @property
    def slopes(self) -> Array:
        """Derivatives of the log errors by the factors [rows, constants]."""
        return self._here[1]

    @cached_property
    def effects(self) -> Effects:
        """Effects of these constants here."""
        return Effects(self.names, _effects(self.slopes, self.factors))

    @cached_property
    def predicted(self) -> Array:
        """Predicted values of the rows [rows], SI."""
        predicted: Array = self.errors.measured * np.exp(self.residuals)
        return predicted


@dataclass(frozen=True)
class Problem:
    """A chip, and the rows that its constants are fitted to."""

    chip: Chip
    rows: tuple[Measurement, ...]

    @cached_property
    def model(self) -> Model:
        """Predictions of rows from constants of the chip."""
        return chip_model(self.chip)

    def solved(self, names: Sequence[str]) -> Solution:
        """Return the least-squares fit of some constants, from the best of several starts."""
        scale = {name: self._scale(name) for name in names}
        errors = LogErrors(self.model, self.rows, scale)
        bounds, here = self._bounds(names), self._start(names)
        if not names:
            return Solution(errors, here, bounds, here)
        which = np.concatenate([np.ones((1, len(names))), np.eye(len(names))])
        factors = np.where(which[None] > 0, np.asarray(START_FACTORS)[:, None, None], 1.0)
        others = factors.reshape(-1, len(names)) * here
        starts = np.clip(np.concatenate([here[None], others]), *bounds)
        costs = (errors.at(starts)[0] ** 2).sum(axis=-1)
        tried = np.unique(np.stack([here, starts[int(costs.argmin())]]), axis=0)
        ends = np.stack([least_log_errors(errors, s, bounds, robust=False) for s in tried])
        # The last digits, and bounds that are met exactly.
        kept, free = (np.ones((len(ends), n), dtype=bool) for n in (len(self.rows), len(names)))
        found = fit_together(errors, ends, bounds, kept, free)
        best = _on_bounds(found.factors[int(found.costs.argmin())], bounds)
        return Solution(errors, here, bounds, best)

    def effects(self, names: Sequence[str], at: Solution) -> Effects:
        """Return effects of any constants where those of a solution have moved."""
        where = dict(zip(at.names, at.factors.tolist(), strict=True))
        moved = {
            name: np.asarray(factor * self._scale(name))
            for name, factor in where.items()
            if name not in names
        }
        scale = {name: self._scale(name) for name in names}
        starts = dict(zip(names, self._start(names).tolist(), strict=True))
        factors = np.asarray([where.get(name, starts[name]) for name in names])
        _, slopes = LogErrors(self.model, self.rows, scale, moved).at(factors)
        return Effects(tuple(names), _effects(slopes, factors))

    def _scale(self, name: str) -> float:
        quantity = self.chip.quantities[name]
        return float(quantity.value) or SMALL_SHARE * float(quantity.maximum)

    def _start(self, names: Sequence[str]) -> Array:
        values = [float(self.chip.quantities[name].value) for name in names]
        return np.asarray([v / self._scale(n) for n, v in zip(names, values, strict=True)])

    def _bounds(self, names: Sequence[str]) -> tuple[Array, Array]:
        knobs = [self.chip.quantities[name] for name in names]
        scales = np.asarray([self._scale(name) for name in names])
        lowest = np.asarray([float(knob.minimum) for knob in knobs]) / scales
        return lowest, np.asarray([float(knob.maximum) for knob in knobs]) / scales


def _on_bounds(factors: Array, bounds: tuple[Array, Array]) -> Array:
    """Return factors, those that all but reached a bound exactly on it."""
    snapped = factors
    for bound in bounds:
        near = np.abs(factors - bound) <= AT_BOUND * np.maximum(bound, 1.0)
        snapped = np.where(near, bound, snapped)
    return snapped


def _effects(slopes: Array, factors: Array) -> Array:
    """Return d ln(prediction) / d ln(constant); of a constant at 0, by its scale."""
    effects: Array = slopes * np.where(factors > 0, factors, 1.0)
    return effects
