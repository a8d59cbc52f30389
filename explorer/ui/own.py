"""Page "Bring your own": what a person brings in place of the presets, one kind at a time."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explorer.ui import own_chip, own_measurements, own_model
from explorer.ui.views import chosen_view

CHOSEN, WIDGET = "own", "own:section"
SECTIONS: dict[str, Callable[[], None]] = {
    "Model": own_model.section,
    "Chip": own_chip.section,
    "Measurements": own_measurements.section,
}


def page() -> None:
    """Draw the section that is chosen."""
    st.header("Bring your own", anchor=False)
    chosen_view("What to bring", SECTIONS, CHOSEN, WIDGET)()
