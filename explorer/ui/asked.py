"""Which answer the page on sensitivity is asked about."""

from __future__ import annotations

import streamlit as st

from explorer.search.objectives import OBJECTIVES, Objective

KEY = "sensitivity:objective"
SEARCHED = ("throughput", "cluster_seconds_per_token")
"""Objectives that compare plans of any batch; Eq. 22 as printed does not."""


def ask() -> Objective:
    """Draw the choice and return the objective."""
    return OBJECTIVES[
        st.radio(
            "Answer",
            SEARCHED,
            format_func=lambda name: OBJECTIVES[name].label.capitalize(),
            key=KEY,
            horizontal=True,
            persist_state="session",
        )
    ]


def asked() -> Objective:
    """Return the objective that the choice holds now; for callbacks."""
    return OBJECTIVES[st.session_state[KEY]]
