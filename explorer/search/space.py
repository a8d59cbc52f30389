"""The plans that a search looks among: axes of values around a base scenario."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import TypeAlias

import numpy as np

from explorer.config.errors import refuse
from explorer.config.numbers import AnyArray
from explorer.config.quantity import Knob
from explorer.config.scenario import Scenario, knob_at, legal_values, paths_of, unknown_field
from explorer.serving.evaluate import evaluate

Value: TypeAlias = int | float
Values: TypeAlias = tuple[Value, ...]

TP_DECODE, PP_DECODE = "plan.tp_decode", "plan.pp_decode"
TP_PREFILL, PP_PREFILL = "plan.tp_prefill", "plan.pp_prefill"
MICRO_BATCH_DECODE, MICRO_BATCH_PREFILL = "plan.micro_batch_decode", "plan.micro_batch_prefill"
DP_PREFILL, BUFFER, SLICES = "plan.dp_prefill", "plan.buffer_clusters", "plan.slices"
FIXED_BATCH_PATHS = (TP_DECODE, PP_DECODE, MICRO_BATCH_DECODE)
"""What the staged procedure fixes before Eq. 22 is minimised: the decode pool and its batch."""

DISAGGREGATED_AXES = (
    (TP_DECODE,),
    (PP_DECODE,),
    (MICRO_BATCH_DECODE,),
    (MICRO_BATCH_PREFILL,),
    (PP_PREFILL,),
    (DP_PREFILL,),
)
SHARED_AXES = (
    (TP_DECODE, TP_PREFILL),
    (PP_DECODE, PP_PREFILL),
    (MICRO_BATCH_DECODE,),
    (MICRO_BATCH_PREFILL,),
)
"""The same cards prefill and decode, so their TP and PP are one choice each."""


@dataclass(frozen=True)
class Axis:
    """One choice of a search: ascending values, set at one path or at several tied ones."""

    name: str
    paths: tuple[str, ...]
    values: Values

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in pairwise(self.values))
        if not self.values or not self.paths or not ascending:
            raise ValueError(f"axis {self.name} needs a path and ascending values")

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def array(self) -> AnyArray:
        """The values [n], int64 or float64."""
        return np.asarray(self.values)

    def nearest(self, value: object) -> int:
        """Return the index of the value closest to ``value``, the lower one of two.

        A word such as ``rule``, or no value at all, is closest to the first.
        """
        if not isinstance(value, int | float):
            return 0
        return int(np.argmin(np.abs(self.array - value)))


@dataclass(frozen=True)
class Space:
    """All combinations of the axes' values, everything else as in the base scenario."""

    base: Scenario
    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Number of plans."""
        return prod(map(len, self.axes))

    def axis(self, path: str) -> Axis | None:
        """Return the axis that sets ``path``, or None."""
        return next((axis for axis in self.axes if path in axis.paths), None)

    def candidates(self, path: str) -> Values:
        """Return the values that ``path`` can take: its axis, or the base's single value."""
        axis = self.axis(path)
        return axis.values if axis is not None else (self.base.value(path),)

    def values_at(self, indices: Sequence[int]) -> Values:
        """Return one value an axis from one index an axis."""
        pairs = zip(self.axes, indices, strict=True)
        return tuple(axis.values[index] for axis, index in pairs)

    def indices_of(self, scenario: Scenario) -> tuple[int, ...]:
        """Return the indices of the plan in the space nearest to a scenario's."""
        return tuple(axis.nearest(scenario.value(axis.paths[0])) for axis in self.axes)

    def plan(self, values: Sequence[Value]) -> dict[str, Value]:
        """Return the values by path, from one value an axis, in the order of ``axes``."""
        pairs = zip(self.axes, values, strict=True)
        return {path: value for axis, value in pairs for path in axis.paths}

    def scenario(self, values: Sequence[Value]) -> Scenario:
        """Return the base scenario with one value an axis set.

        Raises:
            InputError: when a value is not accepted.
        """
        return self.base.replacing(self.plan(values))

    def fixing(self, changes: Mapping[str, Value]) -> Space:
        """Return the space without the axes of some paths, which take a single value instead.

        Raises:
            InputError: when a value is not accepted.
        """
        everything = dict(changes)
        for axis in self.axes:
            for path in axis.paths:
                if path in changes:
                    everything |= dict.fromkeys(axis.paths, changes[path])
        kept = tuple(axis for axis in self.axes if not set(axis.paths) & set(everything))
        return replace(self, base=self.base.replacing(everything), axes=kept)


def default_space(
    scenario: Scenario,
    pinned: Iterable[str] = frozenset(),
    vary: Mapping[str, Values] | None = None,
) -> Space:
    """Return the joint design space of a scenario's plan.

    Pools apart: TP and PP of decode, both micro-batches, PP and DP of prefill. Shared placement:
    one TP, one PP, both micro-batches, and the slices where the chip's times depend on them.
    Ranges are those of the knobs. The buffer is sized automatically unless pinned or varied.

    Args:
        scenario: gives everything that is not searched.
        pinned: paths that keep the scenario's value.
        vary: further paths, or other values for the paths above, as ``parse_vary`` returns.

    Raises:
        InputError: when a path is unknown, or tied paths are given different values.
    """
    held, chosen = frozenset(pinned), dict(vary or {})
    for path in sorted(held):
        if path not in paths_of(scenario):
            raise unknown_field(scenario, path)
    shared = scenario.plan.placement == "shared"
    groups = [*(SHARED_AXES if shared else DISAGGREGATED_AXES)]
    changes: dict[str, Value | str] = {} if BUFFER in held | set(chosen) else {BUFFER: "auto"}
    if shared and DP_PREFILL not in held | set(chosen):
        changes[DP_PREFILL] = 1
    base = scenario.replacing(changes)
    if SLICES not in held | set(chosen) and _depends_on_slices(base):
        groups.append((SLICES,))
    axes = []
    for paths in groups:
        if held & set(paths) and not set(chosen) & set(paths):
            continue
        values = _chosen_values(paths, chosen) or _knob_values(base, paths[0])
        axes.append(Axis(paths[0].partition(".")[2], paths, values))
    return Space(base, (*_further_axes(chosen, axes), *axes))


def varied_space(scenario: Scenario, vary: Mapping[str, Values]) -> Space:
    """Return the space in which only the given paths vary.

    With shared placement the TP and PP of prefill and decode stay tied when only one is given.

    Raises:
        InputError: when a path is unknown, or tied paths are given different values.
    """
    shared = scenario.plan.placement == "shared"
    groups = SHARED_AXES if shared else DISAGGREGATED_AXES
    axes = [
        Axis(paths[0].partition(".")[2], paths, values)
        for paths in groups
        if (values := _chosen_values(paths, vary))
    ]
    return Space(scenario, (*_further_axes(vary, axes), *axes))


def powers_of_two(knob: Knob) -> tuple[int, ...]:
    """Return the powers of two within a knob's bounds."""
    powers = (2**exponent for exponent in range(int(knob.maximum).bit_length()))
    return tuple(power for power in powers if knob.minimum <= power <= knob.maximum)


def _chosen_values(paths: tuple[str, ...], chosen: Mapping[str, Values]) -> Values:
    given = {path: chosen[path] for path in paths if path in chosen}
    if len(set(given.values())) > 1:
        raise refuse(
            paths[-1],
            f"unlike {paths[0]}",
            "shared placement ties prefill and decode; expected the same values for both",
        )
    return next(iter(given.values()), ())


def _further_axes(chosen: Mapping[str, Values], axes: Sequence[Axis]) -> list[Axis]:
    known = {path for axis in axes for path in axis.paths}
    return [Axis(path, (path,), chosen[path]) for path in chosen if path not in known]


def _knob_values(scenario: Scenario, path: str) -> Values:
    knob = knob_at(scenario, path)
    if knob is None:
        raise unknown_field(scenario, path)
    if knob.scale == "divisors":
        return legal_values(scenario, path)
    if knob.scale == "powers_of_two":
        return powers_of_two(knob)
    # No and one slice are the same serial path.
    lowest = max(int(knob.minimum), 1) if path == SLICES else int(knob.minimum)
    return tuple(range(lowest, int(knob.maximum) + 1))


@dataclass(frozen=True)
class _Asked:
    """A scenario that is told apart by its text, so that what was found of it can be kept."""

    text: str
    scenario: Scenario = field(compare=False)


def _depends_on_slices(scenario: Scenario) -> bool:
    """Return whether prefill takes another shape when slices do: no chip is known here."""
    return _found_to_depend(_Asked(json.dumps(scenario.to_json()), scenario))


@lru_cache(maxsize=64)
def _found_to_depend(asked: _Asked) -> bool:
    tried = evaluate(asked.scenario.replacing({SLICES: np.array([1, 2])}))
    return bool(np.ndim(tried.prefill_seconds))
