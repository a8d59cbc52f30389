"""Constants of a chip fitted to measurements of one's own, and how far each can be believed.

Bounded least squares on log ratios of predicted to measured. Few constants: those that the rows
determine and can tell apart (``effects``), unless a person names others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np

from explorer.config.chip import Chip, ChipQuantity
from explorer.config.errors import refuse, shown
from explorer.config.presets import load_chip, versions_of
from explorer.config.quantity import WHOLE_SCALES
from explorer.fidelity.effects import Pair
from explorer.fidelity.intervals import Interval, LeftOutFits, intervals, left_out_fits
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.predict import predict
from explorer.fidelity.scenarios import OnChip
from explorer.fidelity.selection import Search, fittable
from explorer.fidelity.solution import Problem, Solution

MOST_ROWS = 500
"""Rows of one chip in one calibration."""
MOST_REASONS = 3


@dataclass(frozen=True)
class FittedConstant:
    """One constant, before and after.

    Attributes:
        name: its name in the chip document.
        before: its value there.
        interval: its fitted value and how far that can be believed.
        rows: ids of the rows that say something of it.
    """

    name: str
    before: float
    interval: Interval
    rows: tuple[str, ...]

    @property
    def value(self) -> float:
        """Its fitted value."""
        return self.interval.value

    @property
    def moved(self) -> bool:
        """Whether the value before lies outside the interval, or no interval can be given."""
        low, high = self.interval.low, self.interval.high
        return low is None or high is None or not low <= self.before <= high


@dataclass(frozen=True)
class CalibratedRow:
    """One measurement: what is predicted of it [SI], or why nothing is.

    Attributes:
        measurement: the measured value.
        before: prediction with the chip as it was; None when the row is not used.
        after: with the fitted constants.
        left_out: by a fit without this row.
        effects: of the fitted constants on it, those that count.
        reason: why the row is not used.
        note: conditions that the prediction leaves unused.
    """

    measurement: Measurement
    before: float | None = None
    after: float | None = None
    left_out: float | None = None
    effects: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    note: str = ""

    def error(self, predicted: float | None) -> float | None:
        """Return (predicted - measured) / measured."""
        return None if predicted is None else predicted / self.measurement.si_value - 1


@dataclass(frozen=True)
class Calibration:
    """What some rows say of a chip's constants.

    Attributes:
        chip: the chip that was started from.
        rows: all rows, in their order.
        constants: those fitted.
        not_fitted: why other constants that could be fitted are not, by name.
        offered: constants that are measured or derived and that the rows determine too.
        alike: pairs of constants that the rows can hardly tell apart.
        traded: pairs of fitted values of which one can rise for the other to fall.
        odd: ids of rows far off what the others say.
        folds: parts that the rows were left out in.
    """

    chip: Chip
    rows: tuple[CalibratedRow, ...]
    constants: tuple[FittedConstant, ...]
    not_fitted: Mapping[str, str]
    offered: tuple[str, ...]
    alike: tuple[Pair, ...]
    traded: tuple[Pair, ...]
    odd: tuple[str, ...]
    folds: int

    @cached_property
    def used(self) -> tuple[CalibratedRow, ...]:
        """Rows that have a prediction."""
        return tuple(row for row in self.rows if not row.reason)

    @cached_property
    def not_used(self) -> tuple[CalibratedRow, ...]:
        """Rows that have none."""
        return tuple(row for row in self.rows if row.reason)

    def mean_error(self, which: str) -> float:
        """Return the mean absolute error ``before``, ``after`` or ``left_out``."""
        errors = [row.error(getattr(row, which)) for row in self.used]
        return statistics.fmean(abs(error) for error in errors if error is not None)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that the used rows stand in."""
        return tuple(dict.fromkeys(row.measurement.file for row in self.used))


def calibrate(
    measurements: Sequence[Measurement], chip: Chip, names: Sequence[str] = ()
) -> Calibration:
    """Return the constants of a chip that fit some measurements best, and what they are worth.

    Args:
        measurements: of this chip; rows of another, or without a prediction, are told apart.
        chip: where the constants start, and their bounds.
        names: constants to fit; without any, those that are fitted or assumed and that the rows
            determine.

    Raises:
        InputError: for a name that cannot be fitted, for more names than usable rows, without
            any usable row, or for more than ``MOST_ROWS`` of the chip.
    """
    _check_names(chip, names)
    count = sum(_is_of(row.chip, chip) for row in measurements)
    if count > MOST_ROWS:
        raise refuse("rows", count, f"more than the {MOST_ROWS} that a calibration takes")
    first = tuple(_first_looks(measurements, chip))
    used = tuple(row.measurement for row in first if not row.reason)
    if not used:
        named = {row.reason: row.measurement.id for row in reversed(first)}
        reasons = "; ".join(
            f"{row}: {why}" for why, row in list(named.items())[::-1][:MOST_REASONS]
        )
        raise refuse("rows", "", f"none can be used: {reasons}")
    if len(names) > len(used):
        accepted = f"more constants than the {len(used)} usable rows; expected fewer"
        raise refuse("constants", ",".join(names), accepted)
    problem = Problem(chip, used)
    search = Search(problem, tuple(names))
    choice, solution = search.found()
    without = left_out_fits(solution)
    found = intervals(solution, without)
    everything = problem.effects(fittable(chip, named=True), solution)
    return Calibration(
        chip,
        tuple(_told(first, solution, without)),
        tuple(
            FittedConstant(
                name,
                float(chip.quantities[name].value),
                _within(interval, chip.quantities[name]),
                tuple(used[i].id for i in np.flatnonzero(solution.effects.seen_of(name))),
            )
            for name, interval in found.by_name.items()
        ),
        choice.reasons,
        search.offered(everything, choice),
        everything.only([*choice.names, *choice.reasons]).alike(),
        found.traded,
        tuple(used[index].id for index in found.odd),
        without.folds,
    )


def _within(interval: Interval, knob: ChipQuantity) -> Interval:
    """Return the interval with a value that rounding carries neither off its bound nor past it."""
    low, high = float(knob.minimum), float(knob.maximum)
    ends = {"minimum": low, "maximum": high}
    return replace(interval, value=ends.get(interval.at, min(max(interval.value, low), high)))


def _check_names(chip: Chip, names: Sequence[str]) -> None:
    known = fittable(chip, named=True)
    for name in names:
        if name in known:
            continue
        quantity = chip.quantities.get(name)
        if quantity is None:
            why = f"{chip.name} has no such number"
        elif quantity.scale in WHOLE_SCALES:
            why = "is a whole number, and steps of it cannot be fitted by least squares"
        else:
            why = f"is {quantity.kind}"
        near = get_close_matches(name, known, n=3) or known
        raise refuse("constants", name, f"{why}; expected some of {', '.join(near)}")
    if len(set(names)) < len(names):
        raise refuse("constants", ",".join(names), "expected each constant once")


def _first_looks(rows: Sequence[Measurement], chip: Chip) -> Iterator[CalibratedRow]:
    """Yield rows with their predictions by the chip as it is, or why they are not used."""
    seen: dict[tuple[object, ...], Measurement] = {}
    for row in rows:
        same = seen.setdefault(row.content, row)
        if same is not row:
            yield CalibratedRow(row, reason=f"is the same as {same.id} in {same.file}")
        else:
            yield _first_look(row, chip)


def _first_look(row: Measurement, chip: Chip) -> CalibratedRow:
    if not _is_of(row.chip, chip):
        return CalibratedRow(row, reason=f"is of {shown(row.chip)}, not of {chip.id}")
    outcome = predict(row, OnChip(chip))
    if outcome.prediction is None:
        return CalibratedRow(row, reason=outcome.reason)
    return CalibratedRow(row, before=outcome.prediction.value, note=outcome.note)


def _is_of(name: str, chip: Chip) -> bool:
    """Return whether rows that name a chip are of this one, or of a preset of its family."""
    if name == chip.id:
        return True
    return name in versions_of("chips") and load_chip(name).family == chip.family


def _told(
    first: Sequence[CalibratedRow], solution: Solution, without: LeftOutFits
) -> Iterator[CalibratedRow]:
    """Yield all rows, the used ones with what the fits say of them."""
    effects = solution.effects
    used = iter(range(len(solution.errors.rows)))
    for row in first:
        if row.reason:
            yield row
            continue
        place = next(used)
        seen = {
            name: float(effects.matrix[place, i])
            for i, name in enumerate(effects.names)
            if effects.seen[place, i]
        }
        after, left_out = solution.predicted[place], without.predicted[place]
        yield replace(row, after=float(after), left_out=float(left_out), effects=seen)
