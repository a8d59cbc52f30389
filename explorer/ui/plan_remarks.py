"""Remarks on the scenario's plan, in a place of their own."""

from __future__ import annotations

import streamlit as st

from explorer.serving.evaluate import Evaluation
from explorer.serving.notes import plan_notes
from explorer.ui.text import plain


def remarks(evaluation: Evaluation) -> None:
    """Show what is to be known of a plan.

    Their place is always there: a remark that comes or goes would move all that follows, and the
    browser would draw the page anew.
    """
    with st.container():
        for note in plan_notes(evaluation):
            st.caption(f"Note: {plain(note)}")
