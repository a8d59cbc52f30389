"""Page "What should I choose?": the search, its proof, and the paper's own procedure."""

from __future__ import annotations

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.job import SearchJob
from explorer.search.objectives import Objective
from explorer.ui import search_studies, state
from explorer.ui.presence import leaving
from explorer.ui.search_answer import found_how
from explorer.ui.search_compare import compare_section
from explorer.ui.search_controls import chosen, controls, objective_choice
from explorer.ui.search_first import answer_first, best_possible
from explorer.ui.search_staged import staged_section, trap_section
from explorer.ui.text import plain

JOB, OF = "search_job", "search_scenario"
POLL_SECONDS = 0.5


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("What should I choose?", anchor=False)
    first = st.container()
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
    every = POLL_SECONDS if running else None
    if job is None:
        first.markdown(best_possible(scenario, objective))
        st.caption(
            "Nothing was searched yet. A search shows the plan and how it is found, proves that "
            "none is better, and ranks the plan on the sliders. Everything but the plan stays as "
            "the sliders have it, unless it is searched too."
        )
    else:
        with first:
            st.fragment(_answer, run_every=every)(objective)
        st.fragment(_how, run_every=every)()
    if ready:
        compare_section(job)
    search_studies.section()
    staged_section(scenario, job, st.session_state.get(OF))


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


def _answer(objective: Objective) -> None:
    """Draw what is known of the job; reruns alone while it runs, the page once when it ends."""
    job: SearchJob = st.session_state[JOB]
    asked: Scenario = st.session_state[OF]
    status = job.status()
    if status.state == "failed":
        st.error(f"The search failed: {plain(status.error)}")
        return
    answer_first(job, status, asked, objective)
    if status.finished and st.session_state.get("search_seen") != id(job):
        st.session_state["search_seen"] = id(job)
        st.rerun()


def _how() -> None:
    """Draw how the answer was found; reruns alone while the job runs."""
    job: SearchJob = st.session_state[JOB]
    found_how(job, job.status(), st.session_state[OF])
