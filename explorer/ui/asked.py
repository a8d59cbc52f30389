"""Which objective a page is asked about, in the words of the chip on the sliders."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer.search.objectives import OBJECTIVES, Objective
from explorer.ui import unit_choice

KEY = "sensitivity:objective"
SEARCHED = ("throughput", "cluster_seconds_per_token")
"""Objectives that compare plans of any batch; Eq. 22 as printed does not."""


def ask() -> Objective:
    """Draw the choice of the page on sensitivity and return the objective."""
    return choose("Answer", SEARCHED, KEY)


def asked() -> Objective:
    """Return the objective that this choice holds now; for callbacks."""
    return chosen_objective(SEARCHED, KEY)


def choose(label: str, names: Sequence[str], key: str, help_text: str | None = None) -> Objective:
    """Draw a choice of objectives and return the chosen one, in the words of the chip.

    Args:
        label: what to write above it.
        names: of the objectives to choose from, the first by default.
        key: under which the choice is kept, whatever page or chip comes next.
        help_text: what its help says.
    """
    unit, widget = unit_choice.unit_name(), unit_choice.start(key, names[0])
    st.radio(
        label,
        names,
        format_func=lambda name: OBJECTIVES[name].on(unit).label.capitalize(),
        horizontal=True,
        key=widget,
        help=help_text,
        on_change=unit_choice.keep,
        args=(key, widget),
    )
    return chosen_objective(names, key)


def chosen_objective(names: Sequence[str], key: str) -> Objective:
    """Return what a choice holds now, else what was last chosen on any chip."""
    return OBJECTIVES[unit_choice.chosen(key, names[0])].on(unit_choice.unit_name())
