"""A map of the space over two sliders: the answer, what limits it, and what does not fit why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.config.errors import refuse
from explorer.config.knobs import scenario_knobs
from explorer.config.quantity import Knob
from explorer.config.scenario import Scenario, knob_at, legal_values, unknown_field
from explorer.costs.arrays import Array, Codes
from explorer.search.best_plan import best_plan
from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import never_kept
from explorer.search.objectives import Objective
from explorer.search.sliders import LIMITS
from explorer.search.space import Space, Value, Values, powers_of_two
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import CAPACITY_CODE, Evaluation, evaluate
from explorer.serving.levers import changes_of, lever_paths

CELLS, COARSE_CELLS = 40, 12
REACH = 16.0
"""A slider on a logarithmic scale is drawn from a 16th to 16 times its present value."""

LINEAR_REACH = 4.0
MOST_INTEGERS, LEAST_WHOLE = 512, 1.0
FITS, SEVERAL = -1, -2
"""Reasons of a cell where the plan fits, and where no single constraint excludes every plan."""


@dataclass(frozen=True)
class MapAxis:
    """One slider of a map.

    Attributes:
        path: path of its knob.
        label: its name.
        unit: unit to show values in.
        values: ascending, the present one among them.
        now: index of the present value; None for a word such as ``auto``.
    """

    path: str
    label: str
    unit: str
    values: Values
    now: int | None


@dataclass(frozen=True)
class SpaceMap:
    """The answer over two sliders.

    Attributes:
        objective: what the answer is of.
        x, y: the sliders.
        values: objective [y, x]; NaN where nothing fits.
        limits: codes of what limits a batch [y, x], as ``Evaluation.bottleneck`` has them.
        reasons: index into ``CONSTRAINTS`` of what excludes a cell most [y, x]; ``FITS`` where
            the plan fits, ``SEVERAL`` where no constraint alone excludes every plan.
        follows: whether each cell has its own best plan.
        complete: False when stopped early: cells not reached have NaN and ``SEVERAL``.
    """

    objective: Objective
    x: MapAxis
    y: MapAxis
    values: Array
    limits: Codes
    reasons: Codes
    follows: bool
    complete: bool = True


def map_axis(scenario: Scenario, path: str, cells: int = CELLS) -> MapAxis:
    """Return the values of a slider for a map, at most about ``cells`` of them.

    Raises:
        InputError: when there is no such number.
    """
    knob = knob_at(scenario, path)
    if knob is None:
        raise unknown_field(scenario, path)
    now = scenario.value(path)
    values = _values(knob, legal_values(scenario, path), now, cells)
    if isinstance(now, int | float) and not isinstance(now, bool):
        values = sorted({*values, now})
    at = values.index(now) if now in values else None
    return MapAxis(path, knob.label, knob.shown_unit, tuple(values), at)


def map_space(
    scenario: Scenario, objective: Objective, x: str, y: str, cells: int = CELLS
) -> SpaceMap:
    """Return the map of the plan as it is over two sliders, from one evaluation of their mesh.

    Raises:
        InputError: when a path is no number, or both are the same.
    """
    across, down = _axes(scenario, x, y, cells)
    changes = {
        **changes_of(scenario, x, np.asarray(across.values)[None, :]),
        **changes_of(scenario, y, np.asarray(down.values)[:, None]),
    }
    evaluation = evaluate(scenario.unchecked(changes))
    shape = (len(down.values), len(across.values))
    return SpaceMap(
        objective,
        across,
        down,
        np.broadcast_to(evaluation.objective(objective.name), shape),
        np.broadcast_to(evaluation.bottleneck, shape),
        _reasons(evaluation, shape),
        follows=False,
    )


def followed_map(
    space: Space,
    objective: Objective,
    x: str,
    y: str,
    cells: int = COARSE_CELLS,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> SpaceMap:
    """Return the map with the best plan of the space in each cell.

    A slider of the plan that is on the map is not searched.

    Args:
        space: the plans.
        objective: what is optimised; not one that fixes the batch.
        x: path of the slider along the map.
        y: path of the slider up the map.
        cells: about how many values each slider takes.
        progress: called with cells done and in all.
        stopped: asked after each cell; True ends the map, marked incomplete.

    Raises:
        InputError: when a path is no number, or both are the same.
    """
    across, down = _axes(space.base, x, y, cells)
    shape = (len(down.values), len(across.values))
    values, limits = np.full(shape, np.nan), np.full(shape, CAPACITY_CODE)
    reasons = np.full(shape, SEVERAL)
    known: dict[int, Values | None] = {}
    for number, (row, column) in enumerate(np.ndindex(shape)):
        if number and stopped is not None and stopped():
            return SpaceMap(objective, across, down, values, limits, reasons, True, complete=False)
        at = {x: across.values[column], y: down.values[row]}
        there = _fixed(space, at)
        best = best_plan(there, objective, known.get(column, known.get(column - 1)))
        known[column] = best.values
        if best.scenario is None:
            excluded = never_kept(there)
            reasons[row, column] = CONSTRAINTS.index(excluded[0]) if excluded else SEVERAL
        else:
            values[row, column], reasons[row, column] = best.value, FITS
            limits[row, column] = int(evaluate(best.scenario).bottleneck)
        if progress is not None:
            progress(number + 1, math.prod(shape))
    return SpaceMap(objective, across, down, values, limits, reasons, follows=True)


def mappable_paths(scenario: Scenario) -> tuple[str, ...]:
    """Return the sliders that a map can have: hardware, workload, plan, and limits that are set."""
    levers = [path for path in lever_paths(scenario) if not path.endswith("*")]
    workload = [path for path in scenario_knobs() if path.startswith("workload.")]
    limits = [path for path in LIMITS if scenario.value(path)]
    return (*levers, *workload, *limits)


def _axes(scenario: Scenario, x: str, y: str, cells: int) -> tuple[MapAxis, MapAxis]:
    if x == y:
        raise refuse("map", x, "expected two different sliders")
    return map_axis(scenario, x, cells), map_axis(scenario, y, cells)


def _values(knob: Knob, legal: Values, now: Any, cells: int) -> list[Value]:
    """Return ascending values around the present one, as the knob's scale spreads them."""
    if legal:
        return list(legal)
    if knob.scale == "powers_of_two":
        return list(powers_of_two(knob))
    number = float(now) if isinstance(now, int | float) else 0.0
    low, high = float(knob.minimum), float(knob.maximum)
    if knob.scale == "linear":
        high = min(high, LINEAR_REACH * number) if number > 0 else high
        return [float(value) for value in np.linspace(low, high, cells)]
    if knob.scale == "integers" and high - low < MOST_INTEGERS:
        step = max(1, math.ceil((high - low + 1) / cells))
        return list(range(int(low), int(high) + 1, step))
    if number > 0:
        low, high = max(low, number / REACH), min(high, number * REACH)
    spread = np.geomspace(max(low, LEAST_WHOLE if knob.whole else 0.0) or high / REACH, high, cells)
    spread = spread.clip(low, high)
    exact = np.unique(spread.round().astype(np.int64) if knob.whole else spread)
    return [value.item() for value in exact]


def _fixed(space: Space, at: dict[str, Value]) -> Space:
    changes: dict[str, Any] = {}
    for path, value in at.items():
        changes |= changes_of(space.base, path, value)
    return space.fixing(changes)


def _reasons(evaluation: Evaluation, shape: tuple[int, int]) -> Codes:
    """Return which constraint is exceeded by the largest factor, ``FITS`` where none is."""
    factors = np.ones((len(CONSTRAINTS), *shape))
    for position, constraint in enumerate(evaluation.constraints):
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(constraint.kept, 1.0, constraint.value / constraint.limit)
        factors[position] = factor
    return np.where(evaluation.feasible, FITS, factors.argmax(axis=0))
