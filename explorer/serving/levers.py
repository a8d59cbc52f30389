"""Levers: single numbers of a scenario, or groups of its times, that a person could move."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from explorer.chips.machine import Limit
from explorer.config.knobs import scenario_knobs
from explorer.config.quantity import Knob
from explorer.config.scenario import Scenario, knob_at, legal_values
from explorer.costs.arrays import Array
from explorer.serving.evaluate import evaluate

Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]
SCANNED = 65
MOST_WHOLE_VALUES = 4096
SMALLEST_SHARE_OF_RANGE = 1e-9
NOTE_OF_MEASUREMENT = "measured"
"""Numbers with this word in their name say what was measured; moving them builds nothing."""


_SHARED_TIES = {"plan.tp_decode": "plan.tp_prefill", "plan.pp_decode": "plan.pp_prefill"}


@dataclass(frozen=True)
class Lever:
    """One knob moved alone.

    Attributes:
        path: path of the knob, or of a group such as ``hardware.recurrence_*``.
        label: the knob's name.
        unit: unit to show values in.
        now: present value; a word where the scenario lets a rule choose.
        needed: nearest value that reaches the target; None where no value does.
        best: value of the highest rate within the knob's bounds and the machine's limits.
        best_rate: rate at ``best`` [tokens/s].
        limit: what keeps ``best`` from going further on this machine; empty where nothing does.
    """

    path: str
    label: str
    unit: str
    now: float | str
    needed: float | None
    best: float
    best_rate: float
    limit: str = ""

    @property
    def times(self) -> float | None:
        """Factor between the present and the needed value, at least 1; None without one."""
        return None if self.needed is None else factor(self.now, self.needed)


@dataclass(frozen=True)
class Bounded:
    """A lever's definition with its range cut to what the machine can be, and what cut it."""

    knob: Knob
    below: str
    above: str

    def limit_at(self, value: float) -> str:
        """Return what keeps a lever from going beyond ``value``; empty where nothing does."""
        if self.above and value >= self.knob.maximum:
            return self.above
        return self.below if self.below and value <= self.knob.minimum else ""


def factor(now: float | str, value: float) -> float | None:
    """Return how many times larger or smaller a value is, at least 1; None for a word or zero."""
    if isinstance(now, str) or now == value == 0:
        return None
    return math.inf if min(now, value) <= 0 else max(now / value, value / now)


def lever_paths(scenario: Scenario) -> tuple[str, ...]:
    """Return the numeric knobs of chip and plan; with shared placement one for both pools."""
    plan = [path for path in scenario_knobs() if path.startswith("plan.")]
    if scenario.plan.placement == "shared":
        plan = [path for path in plan if path not in _SHARED_TIES.values()]
    names = scenario.chip_document().quantities
    hardware = [f"hardware.{name}" for name in names if NOTE_OF_MEASUREMENT not in name]
    return (*group_paths(scenario), *hardware, *plan)


def group_paths(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Return the times of the chip that share the first word of their names, as groups.

    A group is a lever of its own: one factor on all its numbers, now 1.
    """
    chip = scenario.chip_document()
    groups: dict[str, list[str]] = {}
    for name, quantity in chip.quantities.items():
        if quantity.unit == "s" and float(scenario.value(f"hardware.{name}")) > 0:
            first = f"hardware.{name.partition('_')[0]}_*"
            groups.setdefault(first, []).append(f"hardware.{name}")
    scaled = {f"hardware.{name.partition('_')[0]}_*" for name in chip.quantities if _scales(name)}
    return {
        name: tuple(paths)
        for name, paths in groups.items()
        if len(paths) > 1 and name not in scaled
    }


def changes_of(scenario: Scenario, path: str, value: Any) -> dict[str, Any]:
    """Return the values, by path of the scenario, that set a lever; arrays stay arrays."""
    group = group_paths(scenario).get(path) if path.endswith("*") else None
    if group is not None:
        return {item: float(scenario.value(item)) * value for item in group}
    if isinstance(value, float) and (knob := knob_at(scenario, path)) is not None and knob.whole:
        value = int(value)
    changes = {path: value}
    if scenario.plan.placement == "shared" and path in _SHARED_TIES:
        changes[_SHARED_TIES[path]] = value
    return changes


def lever_knob(scenario: Scenario, path: str) -> Knob | None:
    """Return the definition of a lever; a group's is a share of its present numbers."""
    group = group_paths(scenario).get(path) if path.endswith("*") else None
    return knob_at(scenario, path) if group is None else _group_knob(scenario, group)


def lever_limits(scenario: Scenario) -> dict[str, tuple[Limit, ...]]:
    """Return what levers of the chip cannot pass, by path; a group's by its strictest number."""
    found: dict[str, list[Limit]] = {}
    for limit in evaluate(scenario).machine.limits():
        found.setdefault(f"hardware.{limit.name}", []).append(limit)
    for group, paths in group_paths(scenario).items():
        if group in found:
            continue
        for path in paths:
            now = float(scenario.value(path))
            for limit in found.get(path, ()):
                found.setdefault(group, []).append(replace(limit, value=limit.value / now))
    return {path: tuple(limits) for path, limits in found.items()}


def within_limits(knob: Knob, limits: Iterable[Limit], now: object) -> Bounded:
    """Return a lever's range with its limits; a value that is beyond one already may stay."""
    low, high = float(knob.minimum), float(knob.maximum)
    below = above = ""
    for limit in limits:
        value = float(limit.value)
        if limit.most and value < high:
            high, above = value, limit.reason
        elif not limit.most and value > low:
            low, below = value, limit.reason
    if isinstance(now, int | float):
        low, high = min(low, now), max(high, now)
    if knob.whole:
        low, high = math.ceil(low), math.floor(high)
    return Bounded(knob.model_copy(update={"minimum": low, "maximum": high}), below, above)


def lever_now(scenario: Scenario, path: str) -> Any:
    """Return the present value of a lever."""
    return 1.0 if path.endswith("*") else scenario.value(path)


def scan(scenario: Scenario, knob: Knob, now: object) -> Values:
    """Return ascending values over a knob's whole range, the present one among them."""
    legal = legal_values(scenario, knob.path)
    if legal:
        return np.asarray(legal, dtype=np.int64)
    low, high = float(knob.minimum), float(knob.maximum)
    if knob.scale == "powers_of_two":
        powers = 2 ** np.arange(0, int(math.log2(high)) + 1)
        return _with(powers[powers >= low].astype(np.int64), now)
    if knob.whole:
        if high - low < MOST_WHOLE_VALUES:
            return np.arange(int(low), int(high) + 1, dtype=np.int64)
        spread = np.geomspace(max(low, 1), high, MOST_WHOLE_VALUES).round()
        return _with(np.unique(spread.astype(np.int64)), now)
    if low <= 0:
        spread = np.geomspace(SMALLEST_SHARE_OF_RANGE * high, high, SCANNED)
        return _with(np.concatenate([[0.0], spread]), now)
    spread = np.geomspace(low, high, SCANNED)
    spread[0], spread[-1] = low, high
    return _with(spread, now)


def between(start: float, end: float, count: int, whole: bool) -> Values:
    """Return values from start to end, both included, in this order."""
    if whole:
        whole_cuts = np.unique(np.linspace(start, end, count).round().astype(np.int64))
        return whole_cuts if start <= end else whole_cuts[::-1]
    spread = np.geomspace if start > 0 and end > 0 else np.linspace
    cuts = spread(start, end, count)
    cuts[0], cuts[-1] = start, end
    return cuts


def distance(now: float | str, values: Values) -> Array:
    """Return |log change| of each value, infinite to and from zero; from a word, its order."""
    if isinstance(now, str):
        return np.arange(values.size, dtype=np.float64)
    if now <= 0:
        return np.abs(values - now).astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.abs(np.log(values / now))


def overlapping(first: str, second: str) -> bool:
    """Return whether one lever scales the other: a group, or a factor of the chip's own."""

    def part_of(one: str, other: str) -> bool:
        whole = one.endswith("*") or _scales(one)
        return whole and other.startswith(one.partition("_")[0] + "_")

    return part_of(first, second) or part_of(second, first)


def _scales(name: str) -> bool:
    """Return whether a number of the chip is itself a factor on others of its first word."""
    return name.endswith("_time_factor")


def _group_knob(scenario: Scenario, paths: tuple[str, ...]) -> Knob:
    knobs = [knob for path in paths if (knob := knob_at(scenario, path)) is not None]
    values = [float(scenario.value(path)) for path in paths]
    first = paths[0].partition(".")[2].partition("_")[0].capitalize()
    return Knob(
        path=paths[0],
        label=f"{_shared_words(knobs) or first}, {len(paths)} numbers together",
        unit="fraction",
        minimum=max(float(knob.minimum) / value for knob, value in zip(knobs, values, strict=True)),
        maximum=min(float(knob.maximum) / value for knob, value in zip(knobs, values, strict=True)),
        scale="log",
        raising="",
        source="",
    )


def _with(values: Values, now: object) -> Values:
    """Return ascending values with the present one at its place among them."""
    if isinstance(now, bool) or not isinstance(now, int | float):
        return values
    place = int(np.searchsorted(values, now))
    known = place < values.size and values[place] == now
    return values if known else np.insert(values, place, now)


def _shared_words(knobs: list[Knob]) -> str:
    """Return the words that all labels begin with, without an article at the end."""
    columns = zip(*(knob.label.split() for knob in knobs), strict=False)
    shared = [words[0] for words in takewhile(lambda words: len(set(words)) == 1, columns)]
    return " ".join(shared).rstrip(":").removesuffix(" a")
