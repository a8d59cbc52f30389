"""The strongest lever of a plan, in words."""

from __future__ import annotations

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.plots.tornado import percent, setting_text
from explorer.search.objectives import THROUGHPUT
from explorer.search.sensitivity import Effect, Outcome, hardware_sensitivity, strongest
from explorer.ui import background
from explorer.ui.text import plain


def lever_sentence(scenario: Scenario) -> str:
    """Return which number of the machine moves the throughput of the present plan most."""
    return _lever_sentence(background.fingerprint_of(scenario), scenario)


@st.cache_data(max_entries=256, show_spinner=False)
def _lever_sentence(fingerprint: str, _scenario: Scenario) -> str:
    best = strongest(hardware_sensitivity(_scenario, THROUGHPUT))
    if best is None:
        return "No number of the machine alone, halved or doubled, makes this plan faster."
    effect, outcome = best
    return (
        f"{moved_words(effect, outcome)} is worth "
        f"**{percent(effect.change(outcome))}** throughput: {human(outcome.value, 'tokens/s')}."
    )


def moved_words(effect: Effect, outcome: Outcome) -> str:
    """Return a move of a slider in words: doubling it, halving it, or from where to where."""
    slider = effect.slider
    label = plain(slider.label)
    if label[1:2].islower():
        label = label[0].lower() + label[1:]
    now, then = slider.now, outcome.setting
    numbers = isinstance(now, int | float) and isinstance(then, int | float)
    if numbers and then == 2 * now:
        return f"Doubling {label}"
    if numbers and 2 * then == now:
        return f"Halving {label}"
    ends = f"{setting_text(now, slider.unit)} to {setting_text(then, slider.unit)}"
    return f"Moving {label} from {ends}"
