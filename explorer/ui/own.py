"""Page "Bring your own": what a person brings in place of the presets, one kind at a time."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explorer.ui import own_chip, own_measurements, own_model

CHOSEN, WIDGET = "own", "own:section"
SECTIONS: dict[str, Callable[[], None]] = {
    "Model": own_model.section,
    "Chip": own_chip.section,
    "Measurements": own_measurements.section,
}


def page() -> None:
    """Draw the section that is chosen."""
    st.header("Bring your own", anchor=False)
    # A widget that another page does not draw is forgotten; the choice is kept beside it.
    if WIDGET not in st.session_state:
        st.session_state[WIDGET] = st.session_state.get(CHOSEN, next(iter(SECTIONS)))
    chosen = st.segmented_control(
        "What to bring",
        options=list(SECTIONS),
        key=WIDGET,
        required=True,
        label_visibility="collapsed",
    )
    st.session_state[CHOSEN] = chosen
    SECTIONS[str(chosen)]()
