"""Which answer the page on sensitivity is asked about."""

from __future__ import annotations

import streamlit as st

from explorer.search.objectives import OBJECTIVES, Objective
from explorer.ui import state

KEY = "sensitivity:objective"
SEARCHED = ("throughput", "cluster_seconds_per_token")
"""Objectives that compare plans of any batch; Eq. 22 as printed does not."""


def ask() -> Objective:
    """Draw the choice and return the objective, in the words of the scenario's chip."""
    unit = _unit()
    # Options are told apart by their words: one choice a unit, else another chip's would empty it.
    key = f"{KEY}:{unit}"
    st.session_state.setdefault(key, st.session_state.get(KEY, SEARCHED[0]))
    st.radio(
        "Answer",
        SEARCHED,
        format_func=lambda name: OBJECTIVES[name].on(unit).label.capitalize(),
        key=key,
        horizontal=True,
        on_change=_keep,
        args=(key,),
    )
    return asked()


def asked() -> Objective:
    """Return the objective that the choice holds now; for callbacks."""
    held, unit = st.session_state, _unit()
    return OBJECTIVES[held.get(f"{KEY}:{unit}", held.get(KEY, SEARCHED[0]))].on(unit)


def _unit() -> str:
    return state.scenario().chip_document().unit_name


def _keep(key: str) -> None:
    st.session_state[KEY] = state.widget_value(key)
