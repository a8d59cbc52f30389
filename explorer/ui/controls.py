"""One slider for every knob, all made from the knob's own definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import streamlit as st

from explorer.config.quantity import Knob
from explorer.config.scenario import OPTIONAL_PATHS, Scenario, knob_at, legal_values
from explorer.config.units import human
from explorer.serving.levers import SMALLEST_SHARE_OF_RANGE
from explorer.ui import state
from explorer.ui.text import plain

Value = float | int | str | None
LOG_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
WHOLE_LOG_STEPS = (1, 1.25, 1.5, 1.75)
REACH = 64
MOST_INTEGERS = 2000
"""Whole numbers a slider shows one by one; of a longer range it shows some of each size."""
LINEAR_STEPS = 20
NO_BOUND_WORD = "none"
MARKED_KINDS = ("assumed", "fitted")


def knob_slider(path: str, place: str = "knob") -> None:
    """Show the slider of one knob of this session's scenario; moving it changes that value.

    ``place`` tells apart two sliders of one knob on the same page.
    """
    scenario = state.scenario()
    knob = knob_at(scenario, path)
    if knob is None:
        return
    current: Value = scenario.value(path)
    reference: Value = state.baseline().value(path) if _in_baseline(path) else current
    options = _with(_options(knob, legal_values(scenario, path), reference), current)
    if path in OPTIONAL_PATHS:
        options = [None, *[option for option in options if option is not None]]
    options = _told_apart(options, current, knob.shown_unit)
    key = state.widget_key(f"{place}:{path}")
    if key not in st.session_state or st.session_state[key] != current:
        st.session_state[key] = current
    if len(options) == 1:
        st.caption(
            f"{_label(knob, scenario)}: {_shown(current, knob.shown_unit)}, the only legal value"
        )
        return
    st.select_slider(
        _label(knob, scenario),
        options=options,
        key=key,
        format_func=lambda value: _shown(value, knob.shown_unit),
        help=help_text(knob, scenario),
        on_change=_moved,
        args=(path, key),
    )


def _moved(path: str, key: str) -> None:
    changes = {path: state.widget_value(key)}
    for tied in tied_paths(state.scenario(), path):
        changes[tied] = changes[path]
    state.apply(changes)


def tied_paths(scenario: Scenario, path: str) -> tuple[str, ...]:
    """Return knobs that must follow another: with shared placement both pools are one."""
    ties = {
        "plan.tp_decode": ("plan.tp_prefill",),
        "plan.pp_decode": ("plan.pp_prefill",),
    }
    return ties.get(path, ()) if scenario.plan.placement == "shared" else ()


def help_text(knob: Knob, scenario: Scenario) -> str:
    """Return what raising a knob does, its range and its source."""
    bounds = f"{_shown(knob.minimum, knob.shown_unit)} to {_shown(knob.maximum, knob.shown_unit)}"
    kind = kind_of(knob, scenario)
    provenance = f"{kind}: " if kind else ""
    return (
        f"**Raising it:** {plain(knob.raising)}\n\n**Accepted:** {plain(bounds)}\n\n"
        f"**Source:** {plain(provenance + knob.source)}\n\n**In links:** {plain(knob.path)}"
    )


def kind_of(knob: Knob, scenario: Scenario) -> str:
    """Return the kind of a hardware number's source; empty for plan and workload."""
    section, _, name = knob.path.partition(".")
    if section != "hardware":
        return ""
    if name in scenario.hardware:
        return "set by you; the preset's value is " + scenario.chip_document().quantities[name].kind
    return scenario.chip_document().quantities[name].kind


def _label(knob: Knob, scenario: Scenario) -> str:
    """Return the label of a control; marks are words, since labels are read out as they are."""
    kind = kind_of(knob, scenario)
    return f"{plain(knob.label)}{marked(kind)}"


def marked(kind: str) -> str:
    """Return the end of a label that says that a number is assumed or fitted; else nothing."""
    return f" ({kind})" if kind in MARKED_KINDS else ""


def _in_baseline(path: str) -> bool:
    section, _, name = path.partition(".")
    return section != "hardware" or name in state.baseline().chip_document().quantities


@lru_cache(maxsize=16_384)
def _shown(value: Value, unit: str) -> str:
    if value is None:
        return NO_BOUND_WORD
    if isinstance(value, str):
        return value
    return human(float(value), unit)


def _with(options: Sequence[Value], current: Value) -> list[Value]:
    """Return the options with the current value in its place, so that nothing is rounded."""
    if current in options or current is None:
        return list(options)
    words = [option for option in options if isinstance(option, str)]
    numbers = [option for option in options if isinstance(option, int | float)]
    if isinstance(current, str):
        return [current, *options]
    return [*words, *sorted([*numbers, current])]


def _told_apart(options: Sequence[Value], current: Value, unit: str) -> list[Value]:
    """Return the options without those that read like another one; the current one stays.

    The browser knows an option by its words alone, so two that read alike would be one.
    """
    kept: dict[str, Value] = {}
    for option in options:
        kept.setdefault(_shown(option, unit), option)
    kept[_shown(current, unit)] = current
    return list(kept.values())


def _options(knob: Knob, legal: tuple[int, ...], reference: Value) -> list[Value]:
    if legal:
        return [*knob.words, *legal]
    near = float(reference) if isinstance(reference, int | float) else 0.0
    return [*knob.words, *_grid(knob.scale, knob.minimum, knob.maximum, near)]


@lru_cache(maxsize=512)
def _grid(scale: str, minimum: float, maximum: float, near: float) -> tuple[Value, ...]:
    """Return the steps of a slider over the knob's range."""
    if scale == "integers" and maximum - minimum < MOST_INTEGERS:
        return tuple(range(int(minimum), int(maximum) + 1))
    if scale == "powers_of_two":
        first = max(math.ceil(math.log2(max(minimum, 1))), 0)
        return tuple(2**power for power in range(first, int(math.log2(maximum)) + 1))
    if scale in ("integers", "log_integers"):
        low = max(int(minimum), 1)
        steps = {
            int(2**power * step)
            for power in range(int(math.log2(maximum)) + 1)
            for step in WHOLE_LOG_STEPS
        }
        start = (0,) if minimum == 0 else ()
        return (*start, *sorted({*(step for step in steps if low <= step < maximum), int(maximum)}))
    if scale == "log":
        return _log_grid(minimum, maximum, near)
    top = min(maximum, 4 * near) if near > 0 else maximum
    return tuple(float(f"{value:.6g}") for value in np.linspace(minimum, top, LINEAR_STEPS + 1))


def _log_grid(minimum: float, maximum: float, near: float) -> tuple[Value, ...]:
    floor = minimum if minimum > 0 else SMALLEST_SHARE_OF_RANGE * maximum
    low, high = (floor, maximum) if near <= 0 else (near / REACH, near * REACH)
    low, high = max(low, floor), min(high, maximum)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [float(f"{step * 10.0**decade:.6g}") for decade in decades for step in LOG_STEPS]
    start = (0.0,) if minimum == 0 else ()
    return (*start, *(step for step in steps if low <= step <= high))
