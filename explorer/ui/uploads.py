"""Files that a person brings: read once, when they arrive, or refused with reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

from explorer.config.errors import InputError, printable
from explorer.ui import state

MOST_REASONS = 8
Content = TypeVar("Content")


def read_upload(
    widget: str,
    refused: str,
    read: Callable[[bytes, str], Content],
    outcome: str = "was not used",
) -> Content | None:
    """Return what an uploader's file holds; None when it was taken back or is refused.

    Args:
        widget: key of the uploader.
        refused: where the reasons are kept for which a file was refused.
        read: reads content and name of a file; raises InputError.
        outcome: what the reasons begin with, after the file's name.
    """
    st.session_state.pop(refused, None)
    uploaded = state.widget_value(widget)
    if uploaded is None:
        return None
    name = printable(uploaded.name) or "file"
    try:
        return read(uploaded.getvalue(), name)
    except InputError as error:
        st.session_state[refused] = reasons(error, f"{name} {outcome}")
        return None


def reasons(error: InputError, lead: str) -> tuple[str, ...]:
    """Return what is wrong, a sentence each, the first ones of many."""
    every = [f"{lead}: {item.sentence()}." for item in error.problems]
    if len(every) > MOST_REASONS:
        every[MOST_REASONS:] = [f"And {len(every) - MOST_REASONS} more problems."]
    return tuple(every)


def show_refused(refused: str) -> None:
    """Draw the reasons for which what a person brought last was refused.

    It stands right under the uploader: page.css hides it there once the browser itself refuses a
    later file, of which this program hears nothing.
    """
    reasons_now = st.session_state.get(refused, ())
    if not reasons_now:
        return
    with st.container(key=f"refused:{refused}"):
        for reason in reasons_now:
            st.text(f"⚠ {reason}")
