"""What makes a plan fit that does not, by one click: a single slider, or the best plan."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.search.objectives import THROUGHPUT, Objective
from explorer.serving.advice import single_changes_that_fit
from explorer.ui import state, story
from explorer.ui.best_plan import best_plan_button, reached_by_the_best
from explorer.ui.text import plain

MOST_CHANGES = 4
BEST_PLAN = "fit:best_plan"


def throughput() -> Objective:
    """Return the objective of pages that ask for none."""
    return THROUGHPUT


def _single_changes(scenario: Scenario) -> None:
    """Offer the sliders that make a plan fit alone, or say that none does."""
    changes = single_changes_that_fit(scenario)
    if not changes:
        st.markdown("No single slider can repair it; the search looks at all of them together.")
        return
    st.markdown("Any one of these makes it fit:" if len(changes) > 1 else "This makes it fit:")
    with st.container(horizontal=True):
        for change in changes[:MOST_CHANGES]:
            st.button(
                f"{plain(change.label)} → {human(float(change.value), change.unit)}",
                key=f"fit:{change.path}",
                on_click=state.apply,
                args=({change.path: change.value},),
            )


def remedies(scenario: Scenario, asked: Callable[[], Objective] = throughput) -> None:
    """Offer all that makes a plan fit; where no plan does, the way to the search.

    Args:
        scenario: a scenario whose plan does not fit.
        asked: gives the objective by which a plan is best.
    """
    _single_changes(scenario)
    reached = reached_by_the_best(scenario, asked())
    if not reached:
        st.markdown(
            "As machine, workload and limits are, no plan fits: a search says what excludes them."
        )
        story.link(story.SEARCH)
        return
    st.markdown(f"With all settings of the plan at once, {reached}:")
    best_plan_button(scenario, asked, BEST_PLAN)
