"""Page "What do the mechanisms do?": one mechanism of the MT-3000 at a time."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explorer.chips.inputs import Inputs
from explorer.chips.mt3000 import Mt3000
from explorer.config.errors import InputError
from explorer.ui import (
    inside_attention,
    inside_batching,
    inside_blocking,
    inside_buffering,
    inside_fp16,
    inside_fusion,
    inside_kernel,
    inside_launches,
    state,
    story,
)
from explorer.ui.text import plain
from explorer.ui.views import chosen_view

FAMILY = "mt3000"
CHOSEN, WIDGET = "mechanism", "inside:mechanism"
VIEWS: dict[str, Callable[[Mt3000], None]] = {
    "Blocking": inside_blocking.view,
    "Triple buffering": inside_buffering.view,
    "Micro-kernel": inside_kernel.view,
    "FP16": inside_fp16.view,
    "Attention": inside_attention.view,
    "Fusion": inside_fusion.view,
    "Launches": inside_launches.view,
    "Batching": inside_batching.view,
}


def page() -> None:
    """Draw the mechanism that is chosen, for this session's scenario."""
    scenario = state.scenario()
    chip = scenario.chip_document()
    st.header("What do the mechanisms do?", anchor=False)
    if chip.family != FAMILY:
        st.info(
            f"These mechanisms are the MT-3000's, and this scenario runs on the "
            f"{plain(chip.name)}. What its own time goes to is told here:"
        )
        story.elsewhere(story.INSIDE, chip.family)
        return
    view = chosen_view("Mechanism", VIEWS, CHOSEN, WIDGET)
    try:
        view(Mt3000.of(Inputs(scenario)))
    except InputError as error:
        st.error("**This cannot be shown.** " + plain(str(error)))
