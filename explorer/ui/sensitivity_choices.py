"""Section "Which choice of the plan matters?": shares of the variance over all feasible plans."""

from __future__ import annotations

import math

import streamlit as st

from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human, significant
from explorer.plots.importance import Share, importance_figure
from explorer.search.certificate import Progress, Stopped
from explorer.search.importance import AxisImportance, Importance, importance, sampled_importance
from explorer.search.objectives import Objective
from explorer.search.pareto import LARGEST_ENUMERATED
from explorer.search.space import default_space
from explorer.ui import asked, background, state
from explorer.ui.charts import chart
from explorer.ui.plan_words import setting_name
from explorer.ui.tables import show_table
from explorer.ui.text import plain

SECTION = "importance"
SEED, TRIALS = 1, 5000


def section(scenario: Scenario, objective: Objective) -> None:
    """Draw the section."""
    st.subheader("Which choice of the plan matters?", anchor=False)
    found = background.offered(
        SECTION,
        background.space_fingerprint(default_space(scenario), objective.name),
        "Compare all plans",
        _prepare,
        "plans",
    )
    if found is None:
        st.markdown("Every feasible plan is looked at, and its figures shared out among choices.")
        return
    if not found.feasible:
        st.info("No plan is feasible, so that no choice matters.")
        return
    st.markdown(sentence(found, scenario))
    shares = [Share(_label(scenario, item), item.share) for item in found.axes]
    title = "share of the variance" if found.exact else "importance (PED-ANOVA)"
    chart(
        importance_figure(shares, title),
        "importance",
        "How much of the differences between plans each choice explains",
    )
    if found.exact:
        _closeness(found, scenario)
    st.caption(
        "Share: variance of the answer's logarithm between the values of one choice, of all its "
        f"variance over {found.feasible:,} feasible plans, each counted once. Choices depend on "
        "each other where not everything fits, so that shares need not add up to 100 %."
        if found.exact
        else "PED-ANOVA: what tells the best tenth of random trials from all of them."
    )


def sentence(found: Importance, scenario: Scenario) -> str:
    """Return the choice that matters most, and the one that matters least."""
    first, last = found.axes[0], found.axes[-1]
    how = (
        f"over {found.feasible:,} feasible plans"
        if found.exact
        else f"in {found.feasible:,} feasible of {found.looked_at:,} random trials"
    )
    text = (
        f"**{_label(scenario, first)}** explains {significant(100 * first.share)} % of what plans "
        f"differ by, {how}"
    )
    if first is last:
        return f"{text}."
    return (
        f"{text}; {_label(scenario, last)} explains least, {significant(100 * last.share)} % alone."
    )


def _prepare() -> background.Prepared:
    objective = asked.asked()
    space = default_space(state.scenario())

    def work(progress: Progress, stopped: Stopped) -> Importance:
        if space.size <= LARGEST_ENUMERATED:
            return importance(space, objective, progress, stopped)
        return sampled_importance(space, objective, TRIALS, SEED, stopped)

    return background.space_fingerprint(space, objective.name), work


def _closeness(found: Importance, scenario: Scenario) -> None:
    show_table(
        [
            {
                "choice": setting_name(scenario, item.axis.paths[0]),
                "best value": _best(item, found.objective),
                "within 5 % of the optimum": _listed(item.close),
                "worst value loses": _worst(item, found),
            }
            for item in found.axes
        ]
    )


def _best(item: AxisImportance, objective: Objective) -> str:
    known = [
        (value, figure)
        for value, figure in zip(item.axis.values, item.best, strict=True)
        if not math.isnan(figure)
    ]
    choose = min if objective.minimised else max
    value, figure = choose(known, key=lambda pair: pair[1])
    return f"{value} ({human(figure, objective.unit)})"


def _listed(values: tuple[float | int, ...]) -> str:
    if len(values) <= MOST_LISTED:
        return ", ".join(map(str, values))
    return f"{values[0]} to {values[-1]}, {len(values)} values"


MOST_LISTED = 8


def _worst(item: AxisImportance, found: Importance) -> str:
    gaps = [found.objective.gap(figure, found.optimum) for figure in item.best]
    known = [gap for gap in gaps if not math.isnan(gap)]
    unfit = len(gaps) - len(known)
    text = f"{significant(100 * max(known))} %"
    return f"{text}; {human(float(unfit), 'values')} never fit" if unfit else text


def _label(scenario: Scenario, item: AxisImportance) -> str:
    knob = knob_at(scenario, item.axis.paths[0])
    return item.axis.name if knob is None else plain(knob.label)
