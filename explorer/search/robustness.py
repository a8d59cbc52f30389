"""What the assumed constants leave open: the interval of an answer, and the regret of a plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario, knob_at
from explorer.costs.arrays import Array, Mask
from explorer.search.objectives import THROUGHPUT, Objective
from explorer.serving.evaluate import Evaluation, evaluate

ASSUMED = "assumed"
MOST_AT_CORNERS = 8
"""Constants whose corners are all evaluated: 2 to the power of them."""

SAMPLES = 64
"""Points of the Sobol sequence, a power of two as its balance asks for."""

SEED = 1
LINE_POINTS = 5
LOG_SCALES = ("log", "log_integers", "powers_of_two")
ROUNDING = 1e-12


@dataclass(frozen=True)
class AssumedConstant:
    """A constant that nobody published, with the range in which its source says that it lies.

    Attributes:
        path: path of its knob.
        label: its name.
        unit: unit to show it in.
        now: its value.
        low, high: the stated range; both are ``now`` for a constant that is held.
        log: whether it is sampled on a logarithmic scale.
        held: why it is not varied; empty when it is.
    """

    path: str
    label: str
    unit: str
    now: float
    low: float
    high: float
    log: bool
    held: str = ""


@dataclass(frozen=True)
class Interval:
    """Where an answer may lie while the assumed constants take values in their stated ranges.

    Attributes:
        objective: what the answer is of.
        now: the answer at the present values; NaN where the plan does not fit.
        low, high: smallest and largest answer of the points where the plan fits; NaN without any.
        constants: what was varied, and what was held.
        corners, samples: points evaluated at the corners of the box and inside it.
        unfit: points at which the plan does not fit.
        unfit_because: constraints that are broken there, the most frequent first.
        monotone: whether the answer runs one way along each constant, and no point inside the box
            lies outside what its corners span: the interval is then that of the corners.
    """

    objective: Objective
    now: float
    low: float
    high: float
    constants: tuple[AssumedConstant, ...]
    corners: int
    samples: int
    unfit: int
    unfit_because: tuple[str, ...]
    monotone: bool

    @property
    def varied(self) -> tuple[AssumedConstant, ...]:
        """Constants that were varied."""
        return tuple(constant for constant in self.constants if not constant.held)

    @property
    def points(self) -> int:
        """Points evaluated."""
        return self.corners + self.samples


def assumed_constants(scenario: Scenario) -> tuple[AssumedConstant, ...]:
    """Return the assumed constants of the scenario's chip.

    Held are those whose range is not stated, those that a person moved (they are then somebody's
    choice), and those set outside their stated range.
    """
    found = []
    for name, quantity in scenario.chip_document().quantities.items():
        path = f"hardware.{name}"
        knob = knob_at(scenario, path)
        if quantity.kind != ASSUMED or knob is None:
            continue
        now = float(scenario.value(path))
        held = ""
        low, high = quantity.stated_range or (now, now)
        if quantity.stated_range is None:
            held = "no range is stated"
        elif name in scenario.hardware:
            held = "set by you"
        elif not low <= now <= high:
            held = "outside its stated range"
        if held:
            low = high = now
        log = low > 0 and knob.scale in LOG_SCALES
        range_ = (float(low), float(high))
        found.append(AssumedConstant(path, knob.label, knob.shown_unit, now, *range_, log, held))
    return tuple(found)


def interval(scenario: Scenario, objective: Objective = THROUGHPUT) -> Interval:
    """Return the interval of an objective over the box of the stated ranges, in one evaluation.

    All corners are evaluated (up to 8 constants), five points along each constant alone, and a
    scrambled Sobol sequence of a fixed seed inside the box.

    Args:
        scenario: a scenario of single values.
        objective: what the answer is of.
    """
    constants = assumed_constants(scenario)
    varied = [constant for constant in constants if not constant.held]
    corners, lines, inside = corner_points(varied), _line_points(varied), sample_points(varied)
    present = [[constant.now for constant in varied]]
    values = np.concatenate([corners, lines, inside, present])
    evaluation = evaluate(at_points(scenario, varied, values))
    found = np.broadcast_to(evaluation.objective(objective.name), (len(values),))
    box, fits = found[:-1], ~np.isnan(found[:-1])
    along = found[len(corners) : len(corners) + len(lines)].reshape(len(varied), LINE_POINTS)
    return Interval(
        objective=objective,
        now=float(found[-1]),
        low=float(box[fits].min()) if fits.any() else math.nan,
        high=float(box[fits].max()) if fits.any() else math.nan,
        constants=constants,
        corners=len(corners),
        samples=len(lines) + len(inside),
        unfit=int(np.count_nonzero(~fits)),
        unfit_because=_broken(evaluation, np.append(~fits, False)),
        monotone=_one_way(along) and _within(box[len(corners) :], box[: len(corners)]),
    )


def corner_points(constants: Sequence[AssumedConstant]) -> Array:
    """Return all corners of the box [2^n, n]; none where there are too many constants."""
    if len(constants) > MOST_AT_CORNERS:
        return np.empty((0, len(constants)))
    ends = [(constant.low, constant.high) for constant in constants]
    mesh = np.meshgrid(*ends, indexing="ij")
    return np.stack([axis.reshape(-1) for axis in mesh], axis=1) if ends else np.empty((1, 0))


def sample_points(constants: Sequence[AssumedConstant], count: int = SAMPLES) -> Array:
    """Return points inside the box [count, n]: a scrambled Sobol sequence of a fixed seed."""
    if not constants:
        return np.empty((0, 0))
    unit = qmc.Sobol(len(constants), scramble=True, seed=SEED).random(count)
    columns = [_between(c, share) for c, share in zip(constants, unit.T, strict=True)]
    return np.stack(columns, axis=1)


def at_points(scenario: Scenario, constants: Sequence[AssumedConstant], values: Array) -> Scenario:
    """Return the scenario with each constant set to a column of ``values`` [p, n]."""
    changes: dict[str, object] = {}
    for constant, column in zip(constants, values.T, strict=True):
        changes[constant.path] = _fitting_type(scenario, constant, column)
    return scenario.unchecked(changes)


def _fitting_type(scenario: Scenario, constant: AssumedConstant, column: Array) -> AnyArray:
    knob = knob_at(scenario, constant.path)
    whole = knob is not None and knob.whole
    return column.round().astype(np.int64) if whole else column


def _between(constant: AssumedConstant, share: Array) -> Array:
    """Return values from low (0) to high (1) on the constant's own scale."""
    if constant.log:
        return constant.low * (constant.high / constant.low) ** share
    return constant.low + (constant.high - constant.low) * share


def _line_points(constants: Sequence[AssumedConstant]) -> Array:
    """Return points along each constant in turn, the others at their present values."""
    count = len(constants)
    lines = np.tile([constant.now for constant in constants], (count, LINE_POINTS, 1))
    for position, constant in enumerate(constants):
        lines[position, :, position] = _between(constant, np.linspace(0.0, 1.0, LINE_POINTS))
    return lines.reshape(count * LINE_POINTS, count)


def _one_way(along: Array) -> bool:
    """Return whether each row only rises or only falls; a row that stops fitting stays out."""
    steps = np.diff(along, axis=1)
    slack = ROUNDING * np.abs(along[:, 1:])
    rises, falls = ~(steps < -slack), ~(steps > slack)
    return bool((rises.all(axis=1) | falls.all(axis=1)).all())


def _within(inner: Array, corners: Array) -> bool:
    """Return whether the span of the corners holds all inner values; False without corners."""
    if np.isnan(corners).all() or np.isnan(inner).all():
        return False
    low, high = np.nanmin(corners), np.nanmax(corners)
    outside = (inner < low * (1 - ROUNDING)) | (inner > high * (1 + ROUNDING))
    return not bool(outside.any())


def _broken(evaluation: Evaluation, unfit: Mask) -> tuple[str, ...]:
    counts = Counter(
        {
            constraint.name: int(
                np.count_nonzero(np.broadcast_to(~constraint.kept, unfit.shape) & unfit)
            )
            for constraint in evaluation.constraints
        }
    )
    return tuple(name for name, count in counts.most_common() if count)
