"""The best plan for the sliders as they stand: what it reaches, and a button that takes it over."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.search.best_plan import best_plan
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.sliders import Setting
from explorer.search.space import Space, Value, default_space
from explorer.ui import background, state


class Best(NamedTuple):
    """The best plan: its objective, NaN where none fits, and its settings by path, or None."""

    value: float
    plan: dict[str, Value] | None


def with_best_plan(
    scenario: Scenario, objective: Objective, moved: tuple[str, Setting] | None = None
) -> Best:
    """Return the best plan for the sliders as they stand.

    Args:
        scenario: what the sliders hold.
        objective: by which it is best.
        moved: the path of one slider, and where it stands instead.
    """
    space = default_space(scenario)
    if moved is not None:
        space = Space(scenario.replacing(dict([moved])), space.axes)
    return _with_best_plan(background.space_fingerprint(space), objective.name, space)


@st.cache_data(max_entries=64, show_spinner="Looking for the best plan …")
def _with_best_plan(fingerprint: str, objective: str, _space: Space) -> Best:
    found = best_plan(_space, OBJECTIVES[objective])
    return Best(found.value, found.plan)


def reached_by_the_best(scenario: Scenario, objective: Objective) -> str:
    """Return what the best plan for these sliders reaches, as a clause; empty where none fits."""
    best = with_best_plan(scenario, objective).value
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
    found = with_best_plan(scenario, asked()).plan
    if found and any(scenario.value(path) != value for path, value in found.items()):
        st.button("Put the best plan on the sliders", key=key, on_click=_put, args=(asked,))


def _put(asked: Callable[[], Objective]) -> None:
    found = with_best_plan(state.scenario(), asked()).plan
    if found:
        state.apply(found)
