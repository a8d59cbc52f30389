"""Predicted against measured, row by row and summed up."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TypeVar

from explorer.config.presets import load_chip
from explorer.fidelity.fit import FitResult
from explorer.fidelity.fits import fitted_numbers, run_fits
from explorer.fidelity.measurements import Measurement, shipped_measurements
from explorer.fidelity.predict import predict
from explorer.fidelity.prediction import Prediction
from explorer.fidelity.profile import left_out_phases

ROUNDING = 0.005
"""Printed values are rounded: a row is above a bound only if it beats it by more."""
WELL_BELOW = 1 - ROUNDING


Key = TypeVar("Key")


@dataclass(frozen=True)
class Row:
    """One measurement and what the models say of it.

    Attributes:
        measurement: the measured value.
        prediction: the model's, or None.
        reason: why there is none.
        basis: how the prediction came about, and conditions that it did not use.
        left_out: prediction [SI] of a refit without this row (of a profile: without its length);
            None when no fit used it.
        beyond_fit: whether conditions lie outside the rows that a fit used.
    """

    measurement: Measurement
    prediction: Prediction[float] | None
    reason: str
    basis: str
    left_out: float | None
    beyond_fit: bool

    @property
    def predicted(self) -> float | None:
        """Predicted value in the unit of the measured one."""
        if self.prediction is None:
            return None
        return self.prediction.value / self.measurement.unit_size

    @property
    def error(self) -> float | None:
        """(predicted - measured) / measured."""
        return None if self.prediction is None else self._relative(self.prediction.value)

    @property
    def naive_error(self) -> float | None:
        """Error of a plain roofline."""
        return None if self.prediction is None else self._relative(self.prediction.naive)

    @property
    def left_out_error(self) -> float | None:
        """Error when nothing was fitted to this row."""
        return self.error if self.left_out is None else self._relative(self.left_out)

    @property
    def searched(self) -> bool:
        """Whether the plan is the model's best, since the measurement gives none."""
        return self.prediction is not None and self.prediction.searched

    @property
    def extrapolated(self) -> bool:
        """Whether the conditions leave what constants were fitted or measured on."""
        return self.prediction is not None and (self.prediction.extrapolated or self.beyond_fit)

    @property
    def above_bound(self) -> bool:
        """Whether the measured value beats what peak and bandwidth allow."""
        if self.prediction is None or not self.prediction.naive_is_bound:
            return False
        measured, bound = self.measurement.si_value, self.prediction.naive
        if self.measurement.dimension == "rate":
            return measured * WELL_BELOW > bound
        return measured < bound * WELL_BELOW

    def _relative(self, value: float) -> float:
        return value / self.measurement.si_value - 1


@dataclass(frozen=True)
class Summary:
    """Errors of some rows, as fractions of the measured value; None with no modelled row.

    Attributes:
        rows: measurements.
        modelled: those with a prediction.
        mape: mean absolute error.
        median: median absolute error.
        worst: largest absolute error.
        left_out_mape: mean absolute error with each row predicted by a refit without it.
        naive_mape: mean absolute error of a plain roofline.
    """

    rows: int
    modelled: int
    mape: float | None
    median: float | None
    worst: float | None
    left_out_mape: float | None
    naive_mape: float | None


@dataclass(frozen=True)
class SpeedUp:
    """A ratio of two measured times, over pairs that differ in one condition only."""

    name: str
    pairs: int
    measured: float
    predicted: float
    mape: float


@dataclass(frozen=True)
class FidelityReport:
    """All rows, and the refits of the fitted numbers."""

    rows: tuple[Row, ...]
    fits: tuple[FitResult, ...]

    @cached_property
    def summary(self) -> dict[str, Summary]:
        """Errors by quantity, in order of first appearance."""
        return _by(self.rows, lambda row: row.measurement.quantity)

    @cached_property
    def parts(self) -> dict[tuple[str, bool], Summary]:
        """Errors by quantity, rows whose plan had to be searched for apart from the others."""
        return _by(self.rows, lambda row: (row.measurement.quantity, row.searched))

    def groups(self, quantity: str, key: str) -> dict[str, Summary]:
        """Return errors of one quantity by the value of a condition."""
        rows = [row for row in self.rows if row.measurement.quantity == quantity]
        given = [row for row in rows if key in row.measurement.conditions]
        return _by(given, lambda row: row.measurement.conditions[key])

    @cached_property
    def speed_ups(self) -> tuple[SpeedUp, ...]:
        """FP16 over FP32 products, and MT over Flash Attention."""
        found = (
            _speed_up(self.rows, "fp16 over fp32", "dtype", "fp32", "fp16"),
            _speed_up(self.rows, "mt over flash", "method", "flash", "mt"),
        )
        return tuple(item for item in found if item is not None)

    @property
    def worst(self) -> tuple[Row, ...]:
        """Rows with a prediction, the largest absolute error first."""
        modelled = [row for row in self.rows if row.error is not None]
        return tuple(sorted(modelled, key=lambda row: -abs(row.error or 0.0)))

    @property
    def not_modelled(self) -> tuple[Row, ...]:
        """Rows without a prediction."""
        return tuple(row for row in self.rows if row.prediction is None)

    @property
    def not_refitted(self) -> tuple[tuple[str, str], ...]:
        """Chip and name of numbers marked as fitted that no refit covers."""
        covered = {(fit.spec.chip, name) for fit in self.fits for name in fit.constants}
        chips = dict.fromkeys(fit.spec.chip for fit in self.fits)
        return tuple(
            (chip, name)
            for chip in chips
            for name in fitted_numbers(load_chip(chip))
            if (chip, name) not in covered
        )


def fidelity_report(further: Iterable[Measurement] = ()) -> FidelityReport:
    """Return the report on the published measurements, and on further ones.

    Further rows are predicted and never fitted to; a row that repeats a published one exactly,
    apart from the name of its file, is that row.
    """
    shipped = _shipped_report()
    known = {row.measurement.content for row in shipped.rows}
    new = [measurement for measurement in further if measurement.content not in known]
    rows = tuple(_row(measurement, shipped.fits) for measurement in new)
    return FidelityReport((*shipped.rows, *rows), shipped.fits)


@cache
def _shipped_report() -> FidelityReport:
    measurements = shipped_measurements()
    fits = run_fits(measurements)
    phases = left_out_phases(measurements)
    return FidelityReport(tuple(_row(item, fits, phases) for item in measurements), fits)


def _row(
    measurement: Measurement,
    fits: Sequence[FitResult],
    phases: Mapping[tuple[str, str], float] = MappingProxyType({}),
) -> Row:
    outcome = predict(measurement)
    left_out, beyond = phases.get((measurement.file, measurement.id)), False
    for fit in fits:
        found = fit.left_out.get((measurement.file, measurement.id))
        left_out = found if found is not None else left_out
        if measurement.chip == fit.spec.chip and fit.spec.uses(measurement):
            beyond = beyond or _beyond(measurement, fit)
    basis = outcome.prediction.basis if outcome.prediction is not None else ""
    notes = "; ".join(note for note in (basis, outcome.note) if note)
    return Row(measurement, outcome.prediction, outcome.reason, notes, left_out, beyond)


def _beyond(measurement: Measurement, fit: FitResult) -> bool:
    """Return whether a condition lies outside the values that the fit's rows span."""
    for key in fit.spec.ranges:
        values = [float(row.conditions[key]) for row in fit.rows]
        text = measurement.conditions.get(key, "")
        if text.isdecimal() and not min(values) <= float(text) <= max(values):
            return True
    return False


def _by(rows: Sequence[Row], key: Callable[[Row], Key]) -> dict[Key, Summary]:
    parts: dict[Key, list[Row]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row)
    return {name: summarised(part) for name, part in parts.items()}


def summarised(rows: Sequence[Row]) -> Summary:
    """Return the errors of some rows."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    left_out = [abs(row.left_out_error) for row in rows if row.left_out_error is not None]
    naive = [abs(row.naive_error) for row in rows if row.naive_error is not None]
    if not errors:
        return Summary(len(rows), 0, None, None, None, None, None)
    return Summary(
        len(rows),
        len(errors),
        statistics.fmean(errors),
        statistics.median(errors),
        max(errors),
        statistics.fmean(left_out),
        statistics.fmean(naive),
    )


def _speed_up(rows: Sequence[Row], name: str, key: str, slow: str, fast: str) -> SpeedUp | None:
    """Return the ratio of the times with ``key`` = ``slow`` and ``fast``, all else equal."""
    halves: dict[str, dict[tuple[object, ...], Row]] = {slow: {}, fast: {}}
    for row in rows:
        m = row.measurement
        value = m.conditions.get(key, "")
        if row.prediction is not None and m.dimension == "time" and value in halves:
            others = frozenset(item for item in m.conditions.items() if item[0] != key)
            halves[value].setdefault((m.chip, m.model, m.quantity, others), row)
    common = [rest for rest in halves[slow] if rest in halves[fast]]
    if not common:
        return None
    measured, predicted = [], []
    for rest in common:
        before, after = halves[slow][rest], halves[fast][rest]
        if before.prediction is not None and after.prediction is not None:
            measured.append(before.measurement.si_value / after.measurement.si_value)
            predicted.append(before.prediction.value / after.prediction.value)
    errors = [abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)]
    return SpeedUp(
        name,
        len(common),
        statistics.fmean(measured),
        statistics.fmean(predicted),
        statistics.fmean(errors),
    )
