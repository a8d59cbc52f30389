"""The sliders whose effect on the answer is asked for, and the values that each is moved to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from explorer.config.knobs import scenario_knobs
from explorer.config.quantity import Knob
from explorer.config.scenario import WORD_FIELDS, Scenario, knob_at
from explorer.costs.memory import STORAGE_BYTES
from explorer.search.robustness import assumed_constants
from explorer.serving.levers import lever_paths

Setting: TypeAlias = float | int | str
FACTOR = 2
"""A tornado halves and doubles."""

STEP = 0.01
"""Relative step of a finite difference."""

LIMITS = ("limits.ttft_seconds", "limits.tpot_seconds", "limits.memory_headroom_fraction")
PRECISION_LABELS = {
    "precision.compute": "Arithmetic",
    "precision.weights": "Weights stored as",
    "precision.kv": "KV cache stored as",
}


@dataclass(frozen=True)
class Slider:
    """One slider and where it is moved to.

    Attributes:
        path: path in the scenario.
        label: its name.
        unit: unit to show values in; empty for words.
        kind: kind of a hardware number's source, such as ``assumed``; empty for others.
        now: present value.
        low, high: half and double within the slider's range; the ends of the stated range of an
            assumed constant; the next smaller and larger format. None where there is none.
        below, above: 1 % less and more, or one less and more of a small whole number; None for
            words, for zero and at the end of the range.
        stated: whether low and high are a stated range.
    """

    path: str
    label: str
    unit: str
    kind: str
    now: Setting
    low: Setting | None
    high: Setting | None
    below: Setting | None = None
    above: Setting | None = None
    stated: bool = False

    @property
    def values(self) -> dict[str, Setting]:
        """The values that it is moved to, by name."""
        every = {"low": self.low, "high": self.high, "below": self.below, "above": self.above}
        return {name: value for name, value in every.items() if value is not None}


def sliders(scenario: Scenario) -> tuple[Slider, ...]:
    """Return every slider but those of the plan: hardware, workload, limits set, and formats.

    The plan is what the search chooses. Numbers that only say what was measured are left out.
    """
    hardware = [path for path in lever_paths(scenario) if path.startswith("hardware.")]
    hardware = [path for path in hardware if not path.endswith("*")]
    workload = [path for path in scenario_knobs() if path.startswith("workload.")]
    limits = [path for path in LIMITS if scenario.value(path)]
    stated = {c.path: (c.low, c.high) for c in assumed_constants(scenario) if not c.held}
    numbers = [
        _number(scenario, knob, stated.get(path))
        for path in (*hardware, *workload, *limits)
        if (knob := knob_at(scenario, path)) is not None
    ]
    return (*numbers, *(_format(scenario, path) for path in PRECISION_LABELS))


def kind_of(scenario: Scenario, path: str) -> str:
    """Return the kind of a hardware number's source, ``override`` where a person set it."""
    section, _, name = path.partition(".")
    if section != "hardware":
        return ""
    return "override" if name in scenario.hardware else _quantity_kind(scenario, name)


def _quantity_kind(scenario: Scenario, name: str) -> str:
    return scenario.chip_document().quantities[name].kind


def _number(scenario: Scenario, knob: Knob, stated: tuple[float, float] | None) -> Slider:
    now = scenario.value(knob.path)
    ends = stated or (now / FACTOR, now * FACTOR)
    step = max(1, round(STEP * now)) if knob.whole else 0
    beside = (now - step, now + step) if knob.whole else (now / (1 + STEP), now * (1 + STEP))
    low, high = (_within(knob, now, value) for value in ends)
    below, above = (_within(knob, now, value, exact=True) for value in beside)
    return Slider(
        path=knob.path,
        label=knob.label,
        unit=knob.shown_unit,
        kind=kind_of(scenario, knob.path),
        now=now,
        low=low,
        high=high,
        below=below or None,
        above=above or None,
        stated=stated is not None,
    )


def _within(knob: Knob, now: float, value: float, exact: bool = False) -> float | int | None:
    """Return a value that the knob accepts, the nearest one unless ``exact``; None for ``now``."""
    inside = min(max(value, knob.minimum), knob.maximum)
    if exact and inside != value:
        return None
    if knob.whole:
        inside = math.floor(inside) if inside > now else math.ceil(inside)
    else:
        inside = float(inside)
    return None if inside == now else inside


def _format(scenario: Scenario, path: str) -> Slider:
    """Return a storage or arithmetic format with its neighbours by size."""
    formats = WORD_FIELDS[path]
    if path == "precision.compute":
        formats = scenario.chip_document().compute_precisions
    ordered = sorted(formats, key=lambda word: STORAGE_BYTES[word])
    now = scenario.value(path)
    at = ordered.index(now)
    return Slider(
        path=path,
        label=PRECISION_LABELS[path],
        unit="",
        kind="",
        now=now,
        low=ordered[at - 1] if at else None,
        high=ordered[at + 1] if at + 1 < len(ordered) else None,
    )
