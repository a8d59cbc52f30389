"""Section "What do the assumed constants leave open?": the answer's interval, a plan's regret."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.plots.robustness import interval_figure, spans
from explorer.search.certificate import Progress, Stopped
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.regret import Regret, Rival, regret
from explorer.search.robustness import Interval, interval
from explorer.search.sensitivity import sensitivity
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from explorer.ui import asked, background, state
from explorer.ui.charts import chart
from explorer.ui.plan_words import plan_words
from explorer.ui.tables import show_table
from explorer.ui.text import plain

REGRET = "regret"
MOST_RIVALS = 6
NO_RANGE = 1e-4


def known_interval(scenario: Scenario, objective: Objective) -> Interval:
    """Return the interval, kept for as long as the sliders stand as they do."""
    return _known_interval(background.fingerprint_of(scenario), objective.name, scenario)


@st.cache_data(max_entries=64, show_spinner=False)
def _known_interval(fingerprint: str, objective: str, _scenario: Scenario) -> Interval:
    unit = _scenario.chip_document().unit_name
    return interval(_scenario, OBJECTIVES[objective].on(unit))


def headline(scenario: Scenario) -> str:
    """Return what stands beside the throughput: the interval that the constants leave open."""
    found = known_interval(scenario, OBJECTIVES["throughput"])
    if not found.varied or math.isnan(found.low):
        return ""
    names = f"{len(found.varied)} assumed constants within their stated ranges"
    if _still(found):
        text = f"The {names} do not change the throughput"
    else:
        text = (
            f"The {names} leave a throughput of **{human(found.low, found.objective.unit)} to "
            f"{human(found.high, found.objective.unit)}**"
        )
    return f"{text}{_unfit_text(found)}."


def section(scenario: Scenario, objective: Objective) -> None:
    """Draw the section."""
    st.subheader("What do the assumed constants leave open?", anchor=False)
    if state.says_that_it_does_not_fit(evaluate(scenario)):
        return
    found = replace(known_interval(scenario, objective), objective=objective)
    st.markdown(sentence(found))
    if found.varied and not math.isnan(found.low):
        rows = spans(found, sensitivity(scenario, objective))
        chart(
            interval_figure(rows, objective.label, objective.unit),
            "interval",
            "The answer's interval for all assumed constants together and for each alone",
        )
    _constants(found)
    if found.varied:
        _regret(scenario, objective)


def sentence(found: Interval) -> str:
    """Return the interval, how it was found, and whether the plan always fits."""
    unit = found.objective.unit
    if not found.varied:
        return "No constant is assumed with a stated range, so that nothing is left open."
    if math.isnan(found.low):
        return "Within the stated ranges this plan fits nowhere."
    if _still(found):
        return (
            f"Nothing: the answer stays {human(found.now, unit)} while {len(found.varied)} assumed "
            f"constants take any value in their stated ranges{_unfit_text(found)}."
        )
    lead = (
        f"Between **{human(found.low, unit)}** and **{human(found.high, unit)}** (now "
        f"{human(found.now, unit)}) while {len(found.varied)} assumed constants take any value in "
        f"their stated ranges{_unfit_text(found)}."
    )
    if not found.corners:
        return f"{lead} Found from {found.samples} points inside the box, which has no few corners."
    how = (
        f"These are the extremes of the {found.corners} corners of the box; the {found.samples} "
        "points inside it all lie between"
        if found.monotone
        else f"Found at the {found.corners} corners of the box and {found.samples} points inside "
        "it: the answer is not monotone, so that others could lie beyond"
    )
    return f"{lead} {how}."


def _still(found: Interval) -> bool:
    return found.high - found.low < NO_RANGE * found.high


def _unfit_text(found: Interval) -> str:
    if not found.unfit:
        return ""
    because = ", ".join(name.replace("_", " ") for name in found.unfit_because)
    share = significant(100 * found.unfit / found.points)
    return f"; at {share} % of the points tried this plan does not fit ({because})"


def _constants(found: Interval) -> None:
    rows = [
        {
            "assumed constant": plain(item.label),
            "now": human(item.now, item.unit),
            "range": f"held: {item.held}"
            if item.held
            else f"{human(item.low, item.unit)} to {human(item.high, item.unit)}",
        }
        for item in found.constants
    ]
    if rows:
        show_table(rows)


def _regret(scenario: Scenario, objective: Objective) -> None:
    st.subheader("Would I regret this plan?", anchor=False)
    found = background.offered(
        REGRET,
        background.fingerprint_of(scenario, objective.name),
        "Judge this plan",
        _prepare,
        "sets of constants",
    )
    if found is None:
        st.markdown(
            "At each corner of the box and at 32 points inside, the best plan is looked for and "
            "compared with this one."
        )
        return
    st.markdown(regret_sentence(found))
    show_table(_rivals(found))
    st.caption(
        "Regret: how far a plan is from the one that would be best, for the same constants. The "
        "safest plan is the one among these that fits most often and then loses least in its "
        "worst case."
    )


def regret_sentence(found: Regret) -> str:
    """Return what the chosen plan loses at worst, and which plan is the safest."""
    own = found.chosen
    if math.isnan(own.worst):
        return f"This plan fits at none of the {found.points} sets of constants."
    misfit = f" It does not fit at {own.unfit}." if own.unfit else ""
    lead = (
        f"At **{own.best_at} of {found.points}** sets of constants this plan is the best. At worst "
        f"it loses **{significant(100 * own.worst)} %** to the plan that would be best there, on "
        f"average {significant(100 * own.mean)} %.{misfit}"
    )
    safest = found.safest
    if safest is own or (safest.worst >= own.worst and safest.unfit >= own.unfit):
        return f"{lead} None of the plans found is safer."
    return f"{lead} The safest plan found loses at most {significant(100 * safest.worst)} %."


def _prepare() -> background.Prepared:
    scenario = state.scenario()
    objective = asked.asked()
    space = default_space(scenario)

    def work(progress: Progress, stopped: Stopped) -> Regret:
        return regret(scenario, space, objective, progress, stopped)

    return background.fingerprint_of(scenario, objective.name), work


def _rivals(found: Regret) -> pd.DataFrame:
    shown: list[tuple[str, Rival]] = [("this plan", found.chosen)]
    if found.safest is not found.chosen:
        shown.append(("safest", found.safest))
    others = [rival for rival in found.rivals if rival is not found.safest]
    shown += [("", rival) for rival in others[: MOST_RIVALS - len(shown)]]
    return pd.DataFrame(
        [
            {
                "": name,
                "best at": f"{rival.best_at} of {found.points}",
                "worst regret": _percent(rival.worst),
                "mean": _percent(rival.mean),
                "does not fit at": str(rival.unfit),
                "plan": plan_words(found.space, rival.values),
            }
            for name, rival in shown
        ]
    )


def _percent(fraction: float) -> str:
    return "–" if math.isnan(fraction) else f"{significant(100 * fraction)} %"
