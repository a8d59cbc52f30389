"""Controls that the mechanism views share, or that change the session's scenario."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from explorer.config.scenario import knob_at
from explorer.ui import state
from explorer.ui.controls import help_text, kind_of, marked
from explorer.ui.text import plain

PRECISIONS = ("fp32", "fp16")
NUMBER_WIDTH = 170


def control_row() -> DeltaGenerator:
    """Return a row that wraps where the window is narrow."""
    return st.container(horizontal=True, vertical_alignment="bottom", gap="medium")


def precision_control(place: DeltaGenerator) -> str:
    """Ask for a precision: FP32 first, for which the paper gives its tile and its kernel."""
    chosen = place.segmented_control(
        "Precision",
        PRECISIONS,
        default=PRECISIONS[0],
        format_func=str.upper,
        key="inside:precision",
        required=True,
    )
    return str(chosen)


def linked_number(place: DeltaGenerator, path: str, label: str) -> None:
    """Show one whole number of the scenario; what is typed is set on the sidebar's slider too."""
    scenario = state.scenario()
    knob = knob_at(scenario, path)
    if knob is None:
        return
    key = f"inside:{path}"
    st.session_state[key] = int(scenario.value(path))
    place.number_input(
        f"{plain(label)}{marked(kind_of(knob, scenario))}",
        min_value=int(knob.minimum),
        max_value=int(knob.maximum),
        step=1,
        width=NUMBER_WIDTH,
        key=key,
        help=help_text(knob, scenario),
        on_change=_typed,
        args=(path,),
    )


def _typed(path: str) -> None:
    state.apply({path: int(state.widget_value(f"inside:{path}"))})
