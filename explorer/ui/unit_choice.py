"""Choices in the words of the chip's unit, kept whatever page or chip comes next.

A browser tells the options of a choice apart by their words, so that another chip's would reset it:
there is one widget a unit, and beside them what was last chosen in any.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from explorer.ui import state


def unit_name() -> str:
    """Return what the chip on the sliders is counted in: ``cluster`` or ``card``."""
    return state.scenario().chip_document().unit_name


def start(key: str, default: Any) -> str:
    """Return the key of this unit's widget, which holds what was last chosen.

    Args:
        key: of the choice.
        default: what it holds before anything was chosen.
    """
    widget = f"{key}:{unit_name()}"
    st.session_state.setdefault(widget, chosen(key, default))
    return widget


def chosen(key: str, default: Any) -> Any:
    """Return what a choice holds now, else what was last chosen on any chip."""
    held = st.session_state
    return held.get(f"{key}:{unit_name()}", held.get(key, default))


def keep(key: str, widget: str) -> None:
    """Keep what was chosen; for ``on_change``, with the key of the choice and of its widget."""
    st.session_state[key] = state.widget_value(widget)
