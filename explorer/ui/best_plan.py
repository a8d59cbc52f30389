"""The best plan for the sliders as they stand: what it reaches, and a button that takes it over."""

from __future__ import annotations

import math
from collections.abc import Callable

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.sensitivity import Sensitivity, followed_sensitivity
from explorer.search.sliders import sliders
from explorer.search.space import Space, default_space
from explorer.ui import background, state


def with_best_plan(scenario: Scenario, objective: Objective, path: str | None) -> Sensitivity:
    """Return what one slider does when the plan follows; without a path, only the best plan."""
    space = default_space(scenario)
    return _with_best_plan(background.space_fingerprint(space), objective.name, path, space)


@st.cache_data(max_entries=64, show_spinner="Looking for the best plan …")
def _with_best_plan(
    fingerprint: str, objective: str, path: str | None, _space: Space
) -> Sensitivity:
    moved = [slider for slider in sliders(_space.base) if slider.path == path]
    return followed_sensitivity(_space, OBJECTIVES[objective], moved)


def reached_by_the_best(scenario: Scenario, objective: Objective) -> str:
    """Return what the best plan for these sliders reaches, as a clause; empty where none fits."""
    best = with_best_plan(scenario, objective, None).now
    if math.isnan(best):
        return ""
    unit = objective.on(scenario.chip_document().unit_name).unit
    return f"the best plan for these sliders reaches **{human(best, unit)}**"


def best_plan_button(scenario: Scenario, asked: Callable[[], Objective], key: str) -> None:
    """Offer to put the best plan on the sliders, where there is one and it is not there yet.

    Args:
        scenario: what the sliders hold.
        asked: gives the objective by which it is best, now and again when the button is pressed.
        key: of the button.
    """
    found = with_best_plan(scenario, asked(), None).plan
    if found and any(scenario.value(path) != value for path, value in found.items()):
        st.button("Put the best plan on the sliders", key=key, on_click=_put, args=(asked,))


def _put(asked: Callable[[], Objective]) -> None:
    found = with_best_plan(state.scenario(), asked(), None).plan
    if found:
        state.apply(found)
