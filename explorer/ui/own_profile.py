"""A phase profile of the Ascend engine, pasted: its timed block becomes rows of measurements."""

from __future__ import annotations

import streamlit as st

from explorer.fidelity.profile_text import BELOW_WALL, LARGEST_TEXT
from explorer.ui import own_rows, state, uploads
from explorer.ui.text import plain

TEXT, ROWS, WALL = "own:profile text", "own:profile rows", "own:profile wall"
REFUSED = "own:profile refused"
LINES_HIGH = 200
EXAMPLE = """qwen_phase tag=prefill rank=0
  STACK.r seconds=1.2229
  gated_delta seconds=0.5493
  ...
prefill_seconds=1.2501 prefill_tokens_per_s=883.9"""


def paste() -> None:
    """Draw the text area and what became of the text."""
    st.subheader("A phase profile of the Ascend engine", anchor=False)
    st.caption(
        "What QWEN\\_PHASE\\_PROFILE=1 prints, warm-up blocks and all: the timed block is the one "
        f"whose stack is at most {100 * BELOW_WALL:.0f} % below the run's wall."
    )
    st.text_area(
        "Profile",
        key=TEXT,
        placeholder=EXAMPLE,
        height=LINES_HIGH,
        max_chars=LARGEST_TEXT,
        on_change=_take,
    )
    left, right = st.columns(2)
    with left:
        st.number_input(
            "Prompt tokens, if not in the text",
            min_value=1,
            max_value=10_000_000,
            value=None,
            key=ROWS,
            on_change=_take,
        )
    with right:
        st.number_input(
            "Wall [s], if not in the text",
            min_value=1e-6,
            max_value=1e6,
            value=None,
            format="%.4f",
            key=WALL,
            on_change=_take,
        )
    uploads.show_refused(REFUSED)
    pasted = own_rows.pasted_profile()
    if pasted is not None:
        _pasted(pasted)


def _pasted(pasted: own_rows.PastedProfile) -> None:
    st.text(f"{pasted.heading}.")
    for note in pasted.notes:
        st.text(f"{note[0].upper()}{note[1:]}.")
    with st.container(horizontal=True):
        st.download_button(
            "Download as CSV",
            data=pasted.content,
            file_name="profile-measurements.csv",
            mime="text/csv",
            on_click="ignore",
            key="download_profile",
            help=plain("Rows of phase_time, for this page and for calibrate --data."),
        )
        st.button("Leave the profile out again", key="forget_profile", on_click=_forget)


def _take() -> None:
    text = str(state.widget_value(TEXT) or "")
    rows, wall = state.widget_value(ROWS), state.widget_value(WALL)
    own_rows.take_profile(
        text,
        None if rows is None else int(rows),
        None if wall is None else float(wall),
        REFUSED,
    )


def _forget() -> None:
    st.session_state[TEXT] = ""
    st.session_state.pop(own_rows.PROFILE, None)
    st.session_state.pop(REFUSED, None)
