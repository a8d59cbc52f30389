"""Page "What should I choose?": the search, its proof, and the paper's own procedure."""

from __future__ import annotations

import math

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.search.job import SearchJob
from explorer.search.objectives import Objective
from explorer.search.verdict import SAME, at_most
from explorer.serving.evaluate import evaluate
from explorer.ui import search_studies, state
from explorer.ui.presence import leaving
from explorer.ui.search_answer import answer, progress
from explorer.ui.search_compare import compare_section
from explorer.ui.search_controls import chosen, controls, objective_choice
from explorer.ui.search_staged import staged_section, trap_section
from explorer.ui.sensitivity import with_best_plan
from explorer.ui.text import plain

JOB, OF = "search_job", "search_scenario"
POLL_SECONDS = 0.5


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("What should I choose?", anchor=False)
    answered = st.container()
    objective = objective_choice()
    if objective.fixes_batch:
        trap_section(scenario)
    ready = controls(scenario)
    search_studies.name_field()
    job: SearchJob | None = st.session_state.get(JOB)
    running = job is not None and not job.status().finished
    with st.container(horizontal=True):
        st.button(
            "Start the search",
            type="primary",
            on_click=_start,
            disabled=running or not ready,
            key="search",
        )
        st.button("Stop the search", on_click=_stop, disabled=not running, key="stop")
    if job is None:
        answered.markdown(best_possible(scenario, objective))
        st.caption(
            "Nothing was searched yet. A search shows the plan and how it is found, proves that "
            "none is better, and ranks the plan on the sliders. Everything but the plan stays as "
            "the sliders have it, unless it is searched too."
        )
    else:
        st.fragment(_progress, run_every=POLL_SECONDS if running else None)()
    if ready:
        compare_section(job)
    search_studies.section()
    staged_section(scenario, job, st.session_state.get(OF))


def best_possible(scenario: Scenario, objective: Objective) -> str:
    """Return how good the best plan for these sliders is, and how far the present one is off."""
    best = with_best_plan(scenario, objective, None).now
    own = float(evaluate(scenario).objective(objective.name))
    if math.isnan(best):
        return (
            "**No plan fits this machine and workload.** A search counts what excludes them, and "
            "names the nearest plan that fits."
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


def _start() -> None:
    try:
        settings, space, how = chosen()
    except InputError as error:
        state.notice(error.problems, "The search was not started")
        return
    _stop()
    st.session_state[OF] = state.scenario()
    stored = search_studies.recorder()
    job = SearchJob(
        space,
        settings,
        certified=True,
        stored=stored,
        proof=how,
        plain=True,
        abandoned=leaving(),
    )
    st.session_state[JOB] = job.start()


def _stop() -> None:
    job: SearchJob | None = st.session_state.get(JOB)
    if job is not None:
        job.stop()


def _progress() -> None:
    """Draw what is known of the job; reruns alone while it runs, the page once when it ends."""
    job: SearchJob = st.session_state[JOB]
    asked: Scenario = st.session_state[OF]
    status = job.status()
    if status.state == "failed":
        st.error(f"The search failed: {plain(status.error)}")
        return
    if not status.finished:
        progress(status, job.settings.objective)
    answer(job, status, asked)
    if status.finished and st.session_state.get("search_seen") != id(job):
        st.session_state["search_seen"] = id(job)
        st.rerun()
