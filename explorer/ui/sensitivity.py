"""Page "What is the answer sensitive to?": sliders, a map, assumed constants, choices."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import streamlit as st

from explorer.config.scenario import Scenario
from explorer.plots.tornado import MOST_ROWS, percent, setting_text, tornado_figure, tornado_rows
from explorer.search.certificate import Progress, Stopped
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.sensitivity import (
    Effect,
    Sensitivity,
    followed_sensitivity,
    sensitivity,
    strongest,
)
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from explorer.ui import (
    asked,
    background,
    sensitivity_choices,
    sensitivity_constants,
    sensitivity_map,
    state,
)
from explorer.ui.best_plan import with_best_plan
from explorer.ui.charts import chart
from explorer.ui.lever_words import moved_words
from explorer.ui.remedies import remedies
from explorer.ui.tables import show_table
from explorer.ui.text import plain

SECTION, FOLLOWED = "sensitivity:section", "followed"
MOST_SLOPES = 20
UNMOVED = 5e-4


def page() -> None:
    """Draw the section that is chosen, for this session's scenario."""
    scenario = state.scenario()
    st.header("What is the answer sensitive to?", anchor=False)
    st.markdown(answer(scenario, asked.asked()))
    if not evaluate(scenario).feasible:
        remedies(scenario, asked.asked)
    objective = asked.ask()
    chosen = st.segmented_control(
        "Section",
        list(SECTIONS),
        default=next(iter(SECTIONS)),
        key=SECTION,
        required=True,
        label_visibility="collapsed",
        persist_state="session",
    )
    SECTIONS[str(chosen)](scenario, objective)


def answer(scenario: Scenario, objective: Objective) -> str:
    """Return what the most telling hardware number is worth, with the plan as it is and without."""
    as_is = of_plan(scenario, objective)
    if math.isnan(as_is.now):
        if math.isnan(with_best_plan(scenario, objective).value):
            return "**Neither this plan nor any other fits this machine.**"
        return "**This plan does not fit**, so that it has no answer to move."
    best = strongest(as_is)
    if best is None:
        return "**No single hardware number changes the answer of this plan.**"
    effect, outcome = best
    best_now = with_best_plan(scenario, objective).value
    best_there = with_best_plan(scenario, objective, (effect.slider.path, outcome.setting)).value
    room = (
        f" For the sliders as they stand, the best plan is worth "
        f"**{percent(best_now / as_is.now - 1)}**."
        if objective.gap(as_is.now, best_now) > UNMOVED
        else " This plan is the best for these sliders."
    )
    return (
        f"{moved_words(effect, outcome)} is worth **{percent(effect.change(outcome))}** "
        f"{objective.label}, the most of the machine's own numbers; with the best plan before and "
        f"after, **{percent(best_there / best_now - 1)}**.{room}"
    )


def of_plan(scenario: Scenario, objective: Objective) -> Sensitivity:
    """Return the effects on the plan as it is, kept for as long as the sliders stand as they do."""
    return _of_plan(background.fingerprint_of(scenario), objective.name, scenario)


@st.cache_data(max_entries=64, show_spinner=False)
def _of_plan(fingerprint: str, objective: str, _scenario: Scenario) -> Sensitivity:
    return sensitivity(_scenario, OBJECTIVES[objective])


def _sliders(scenario: Scenario, objective: Objective) -> None:
    as_is = of_plan(scenario, objective)
    fits = not math.isnan(as_is.now)
    st.subheader("What are half and double of each slider worth?", anchor=False)
    followed = background.offered(
        FOLLOWED,
        background.space_fingerprint(default_space(scenario), objective.name),
        "Let the plan follow",
        _prepare,
        "optimisations",
    )
    if fits and followed is None:
        st.caption(
            "The bars are of the plan as it is. When the plan may follow, the best one is looked "
            "for at each value: some 150 optimisations."
        )
    if not fits and followed is None:
        state.says_that_it_does_not_fit(evaluate(scenario))
        return
    rows = tornado_rows(as_is if fits else None, followed)
    if not rows:
        st.info("No slider changes this answer.")
        return
    chart(
        tornado_figure(rows),
        "tornado",
        "Change of the answer when each slider is halved or doubled",
    )
    more = len((followed or as_is).moving) - MOST_ROWS
    st.caption(
        "What changes the answer by the largest factor comes first; half counts as much as "
        "double. Below each name the two values it is moved to: half and "
        "double, or the stated range of an assumed constant, within the slider's own range. "
        "Changes of the best plan are against the best plan now. The sliders of the plan itself "
        "are left out: they are what a search "
        f"chooses.{f' {more} more sliders have a smaller effect.' if more > 0 else ''}"
    )
    _slopes(as_is if fits else None, followed)


def _prepare() -> background.Prepared:
    objective = asked.asked()
    space = default_space(state.scenario())

    def work(progress: Progress, stopped: Stopped) -> Sensitivity:
        return followed_sensitivity(space, objective, progress=progress, stopped=stopped)

    return background.space_fingerprint(space, objective.name), work


def _slopes(as_is: Sensitivity | None, followed: Sensitivity | None) -> None:
    st.subheader("And one per cent of it?", anchor=False)
    main = as_is if as_is is not None else followed
    if main is None:
        return
    st.markdown(_slope_sentence(main))
    show_table(slope_table(main, followed if as_is is not None else None))
    st.caption(
        "Slope: per cent that the answer changes by for one per cent more of the slider (its "
        "elasticity, by a central difference of 1 %, or of one where that is less), and towards "
        "less and more alone. Where these differ, or nothing moves nearby but does further away, "
        "the answer is a stair: whole rounds, whole pools, and blocks that just fit. A dash: no "
        "such value, or the plan does not fit there."
    )


def _slope_sentence(found: Sensitivity) -> str:
    known = [effect for effect in found.effects if not math.isnan(effect.elasticity)]
    stairs = [effect for effect in known if effect.stairs]
    steep = [e for e in known if not e.stairs and abs(e.elasticity) > UNMOVED]
    lead = "With the best plan, the" if found.follows else "The"
    beside = (
        f"{len(stairs)} of {len(known)} sliders stand beside a stair, so that their slope holds "
        "only here."
    )
    if not steep:
        return f"One per cent of any slider changes nothing but at a stair. {beside}"
    first = max(steep, key=lambda effect: abs(effect.elasticity))
    return (
        f"{lead} steepest slope is that of **{plain(first.slider.label)}**: one per cent more of "
        f"it changes the answer by {percent(first.elasticity / 100)}. {beside}"
    )


def slope_table(found: Sensitivity, followed: Sensitivity | None) -> pd.DataFrame:
    """Return the elasticities, the largest first; of the best plan too where there is one."""
    known = [effect for effect in found.effects if _has_slope(effect, followed)]
    known.sort(key=lambda effect: (-abs(effect.elasticity), not effect.stairs))
    rows = []
    for effect in known[:MOST_SLOPES]:
        slider = effect.slider
        row = {
            "slider": plain(slider.label),
            "now": setting_text(slider.now, slider.unit),
            "source": slider.kind or "–",
            "slope": _slope_text(effect.elasticity),
            "to less": _slope_text(effect.elasticity_down),
            "to more": _slope_text(effect.elasticity_up),
            "stair": "●" if effect.stairs else "",
        }
        if followed is not None:
            there = followed.effect(slider.path)
            row["best plan"] = "–" if there is None else _slope_text(there.elasticity)
        rows.append(row)
    return pd.DataFrame(rows)


def _has_slope(effect: Effect, followed: Sensitivity | None) -> bool:
    """Return whether a slider's slope is worth a line: not zero in each, or beside a stair."""
    there = None if followed is None else followed.effect(effect.slider.path)
    slopes = [effect.elasticity_down, effect.elasticity_up]
    if there is not None:
        slopes.append(there.elasticity)
    return effect.stairs or any(abs(slope) >= LEAST_SLOPE for slope in slopes)


def _slope_text(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:+.2f}".replace("-", "−") if abs(value) >= LEAST_SLOPE else "0"


LEAST_SLOPE = 5e-3
SECTIONS: dict[str, Callable[[Scenario, Objective], None]] = {
    "Sliders": _sliders,
    "Map": sensitivity_map.section,
    "Assumed constants": sensitivity_constants.section,
    "Choices of the plan": sensitivity_choices.section,
}
