"""What the eye meets first on the Search page: the answer, whose it is, what to do with it."""

from __future__ import annotations

import math

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.search.best_plan import best_plan
from explorer.search.job import JobStatus, SearchJob
from explorer.search.objectives import OBJECTIVES, THROUGHPUT, Objective
from explorer.search.space import Space
from explorer.search.verdict import SAME, at_most, verdict
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.ui import sensitivity_constants, state
from explorer.ui.background import space_fingerprint
from explorer.ui.believe_words import measured_sentence
from explorer.ui.best_plan import with_best_plan
from explorer.ui.search_answer import (
    COMPARING,
    apply_plan,
    machine_and_model,
    nothing_feasible,
    plan_figures,
    progress,
    searched_beside,
)
from explorer.ui.search_since import belongs_elsewhere, moves, other_effort, same_machine

MOST_LOOKED_THROUGH = 300_000_000
"""Plans of a space whose best one is found within a tenth of a second, without a word."""


def answer_first(job: SearchJob, status: JobStatus, asked: Scenario, objective: Objective) -> None:
    """Draw what a search found, after what is true of the sliders now where that is another thing.

    Args:
        job: the search.
        status: what is known of it.
        asked: the scenario that it was started for.
        objective: what the page now asks for, in the words of the chip on the sliders.
    """
    now = state.scenario()
    elsewhere = belongs_elsewhere(job, status, asked, objective)
    if elsewhere:
        st.markdown(best_possible(now, objective))
        st.info(elsewhere)
    searched = job.settings.objective.on(asked.chip_document().unit_name)
    if not status.finished and status.state != COMPARING:
        progress(status, searched)
    if status.best is None:
        if status.finished:
            nothing_feasible(status)
        return
    best = evaluate(status.best)
    _headline(status, bool(elsewhere))
    plan_figures(searched, status.best_value, best)
    if status.finished or status.state == COMPARING:
        _offer(job, status.best, asked, bool(elsewhere))
        _effort(job)
        _left_over(job, best)
        _how_sure(best)


def best_possible(scenario: Scenario, objective: Objective) -> str:
    """Return how good the best plan for these sliders is, and how far the present one is off."""
    best = with_best_plan(scenario, objective).value
    own = float(evaluate(scenario).objective(objective.name))
    if math.isnan(best):
        return (
            "**No plan fits this machine and workload.** A search counts what excludes them, and "
            "names the nearest plan that fits, where there is one."
        )
    reaches = f"**{human(best, objective.unit)}**"
    if math.isnan(own):
        return f"The best plan for these sliders reaches {reaches}; the present one does not fit."
    gap = objective.gap(own, best)
    if gap <= SAME:
        return f"**The plan on the sliders is the best one**: no other beats its {reaches}."
    return (
        f"The best plan for these sliders reaches {reaches}; the present one, "
        f"{human(own, objective.unit)}, is **{at_most(100 * gap)} % worse**."
    )


def _headline(status: JobStatus, elsewhere: bool) -> None:
    """Say how good the plan is; in smaller letters where it is not of what the page holds now."""
    words = verdict(status.proof, status.best_value)
    assert status.best is not None
    proved = bool(words)
    if not words:
        words = "best until stopped" if status.state == "stopped" else "best so far, not proved"
    if elsewhere:
        st.markdown(f"**{words[0].upper() + words[1:]}**")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(words[0].upper() + words[1:], anchor=False, width="content")
        if words.startswith("optimal"):
            st.badge("optimal", color="green")
        elif proved:
            st.badge(words.partition(" of the")[0], color="orange")
        else:
            st.badge("not proved", color="gray")
    st.markdown(f"For {machine_and_model(status.best)}.")


def _offer(job: SearchJob, best: Scenario, asked: Scenario, elsewhere: bool) -> None:
    """Offer to take the plan over, where it was made for what the sliders show."""
    now, beside = state.scenario(), searched_beside(job)
    same = same_machine(best, now)
    there = same and now.plan == best.plan
    there = there and all(now.value(path) == best.value(path) for path in beside)
    clicked = st.button(
        "Put this plan on the sliders", key="apply", type="primary", disabled=there or not same
    )
    if clicked:
        apply_plan(best, beside)
        # The button stands in a fragment, whose own rerun would leave the sliders as they were.
        st.rerun()
    if not same:
        st.caption(f"The sliders now show {machine_and_model(now)}: search again for a plan.")
    elif there:
        st.markdown(
            "**This plan is on the sliders.** The Overview says what it gives and what limits it, "
            "Share takes it along, and Undo brings back what was there before."
        )
    elif now != asked:
        if moves(job, best, asked):
            st.caption("The sliders have moved since: this is the best plan for how they were.")
            return
        far = "for what was searched" if elsewhere else "as far as the search has shown"
        st.caption(
            "The sliders have moved since, but nothing that decides which plan is best: this one "
            f"still is, {far}."
        )


def _effort(job: SearchJob) -> None:
    other = other_effort(job)
    if other:
        st.caption(
            f"Since this search was started, the page asks for another effort: {other}. Starting "
            "again uses it; what makes a plan the best one is the same."
        )


def _left_over(job: SearchJob, best: Evaluation) -> None:
    """Say what the best plan leaves idle, where that costs nothing by its objective."""
    unit = best.inputs.scenario.chip_document().unit_name
    idle, total = float(best.idle_clusters), float(best.inputs.array("workload.clusters_total"))
    if job.settings.objective.name == THROUGHPUT.name or not idle:
        return
    searched, other = job.settings.objective.on(unit), THROUGHPUT.on(unit)
    text = (
        f"It leaves **{human(idle)} of {human(total, f'{unit}s')} idle**: by "
        f"*{searched.label.capitalize()}* these cost nothing. The objective "
        f"*{other.label.capitalize()}* counts them"
    )
    most, own = _most_throughput(job.space), float(best.objective(THROUGHPUT.name))
    if math.isnan(most):
        st.markdown(f"{text}.")
        return
    if THROUGHPUT.gap(own, most) <= SAME:
        st.markdown(f"{text}, and this plan is the best by it too.")
        return
    st.markdown(
        f"{text}: its best plan reaches {human(most, other.unit)}, "
        f"**{significant(100 * (most / own - 1))} % more** than the {human(own, other.unit)} of "
        "this one."
    )


def _how_sure(best: Evaluation) -> None:
    """Say what the proof does not cover: how far the models are from the machine."""
    left_open = sensitivity_constants.headline(best.inputs.scenario)
    if left_open:
        st.markdown(f"**What is left open.** {left_open}")
    st.markdown(f"**What was measured.** {measured_sentence(best)}")


def _most_throughput(space: Space) -> float:
    """Return the most throughput of a space, NaN where finding it would keep the page waiting."""
    plans_only = all(path.startswith("plan.") for axis in space.axes for path in axis.paths)
    if not plans_only or space.size > MOST_LOOKED_THROUGH:
        return math.nan
    return _best_value(space_fingerprint(space), THROUGHPUT.name, space)


@st.cache_data(max_entries=64, show_spinner=False)
def _best_value(fingerprint: str, objective: str, _space: Space) -> float:
    return best_plan(_space, OBJECTIVES[objective]).value
