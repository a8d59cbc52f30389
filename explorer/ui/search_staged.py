"""The paper's staged procedure beside the search: its plan, and what it loses."""

from __future__ import annotations

import streamlit as st

from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human, significant
from explorer.search.certificate import Certificate, trap
from explorer.search.job import FINAL_STATES, JobStatus, SearchJob
from explorer.search.space import default_space
from explorer.search.staged import StagedPlan, on_the_machine_of, staged_plan
from explorer.search.verdict import SAME, at_most
from explorer.serving.evaluate import evaluate
from explorer.ui import state
from explorer.ui.background import fingerprint_of
from explorer.ui.search_answer import apply_plan, machine_and_model
from explorer.ui.search_since import moves
from explorer.ui.tables import show_table
from explorer.ui.text import plain

PER_TOKEN = "cluster_seconds_per_token"


def staged_section(scenario: Scenario, job: SearchJob | None, asked: Scenario | None) -> None:
    """Draw the staged plan of the sliders, and its loss against the best plan of a search."""
    st.subheader("The paper's staged procedure", anchor=False)
    staged = _staged(scenario)
    if staged.scenario is None:
        st.info(f"It finds no plan: {plain(staged.reason)}")
        return
    unit = scenario.chip_document().unit_name
    value = float(evaluate(staged.scenario).objective(PER_TOKEN))
    st.markdown(
        "THInfer fixes one setting after the other. For this scenario that gives "
        f"**{human(value, f'{unit}-seconds')}** a token; a joint search of the whole plan can "
        "only be as good or better."
    )
    if job is not None and asked is not None:
        st.markdown(_loss(job, job.status(), scenario, asked))
    steps = [(*_step_words(scenario, step.what), step) for step in staged.steps]
    show_table(
        [
            {"setting": label, "chosen": human(float(step.chosen), of), "why": step.why}
            for label, of, step in steps
        ]
    )
    st.button(
        "Put the staged plan on the sliders",
        on_click=apply_plan,
        args=(staged.scenario,),
        key="apply_staged",
    )


def trap_section(scenario: Scenario) -> None:
    """Say what Eq. 22 as printed is meant for, and offer what it picks without a fixed batch."""
    st.caption(
        "Eq. 22 as printed compares plans of one batch: the batch and decode pool of the "
        "staged procedure below are kept."
    )
    st.button("What would it pick without?", key="trap", on_click=_spring_trap)
    _show_trap(scenario)


def _staged(scenario: Scenario) -> StagedPlan:
    """Return the staged plan of a scenario; that of a search's own is asked for in every run."""
    return _staged_plan(fingerprint_of(scenario), scenario)


@st.cache_data(max_entries=64, show_spinner=False)
def _staged_plan(fingerprint: str, _scenario: Scenario) -> StagedPlan:
    return staged_plan(_scenario)


def _loss(job: SearchJob, status: JobStatus, scenario: Scenario, asked: Scenario) -> str:
    """Return what the staged plan loses against the best one known, by the search's objective.

    Where the sliders now hold what the search was not started for, it is that scenario's loss.
    """
    if status.state not in FINAL_STATES or status.best is None:
        return ""
    moved = bool(moves(job, status.best, asked))
    base = asked if moved else scenario
    objective = job.settings.objective.on(base.chip_document().unit_name)
    there = on_the_machine_of(status.best, base, job.space)
    plan = _staged(there).scenario
    if plan is None:
        return ""
    lead = f"By {objective.label} it"
    if moved:
        lead = (
            f"The search was of **{machine_and_model(asked)}** before the sliders moved: by "
            f"{objective.label} the staged plan for that"
        )
    value = float(evaluate(plan).objective(objective.name))
    reaches = f"{lead} reaches {human(value, objective.unit)}"
    if objective.gap(status.best_value, value) > SAME:
        return (
            f"{reaches}, better than the best plan found: the search kept settings that the "
            "staged procedure is free to choose."
        )
    gap = objective.gap(value, status.best_value)
    if not gap > SAME:
        return f"{lead} is as good as the best plan found."
    where = " on the machine that the search found" if there != base else ""
    return f"{reaches}{where} and so loses **{at_most(100 * gap)} %** against the best plan."


def _spring_trap() -> None:
    scenario = state.scenario()
    st.session_state["trap_result"] = (scenario, trap(default_space(scenario)))


def _show_trap(scenario: Scenario) -> None:
    """Show the joint optimum of Eq. 22 as printed, with what its tokens cost."""
    known = st.session_state.get("trap_result")
    if known is None or known[0] != scenario:
        return
    found: Certificate = known[1]
    if found.scenario is None:
        st.caption("No plan is feasible.")
        return
    unit = scenario.chip_document().unit_name
    picked, staged = evaluate(found.scenario), _staged(scenario).scenario
    text = (
        f"Over {found.enumerated:,} plans of any batch, Eq. 22 as printed is least for a batch "
        f"of {human(float(picked.batch), 'requests')}: {human(found.optimum)} {unit}-seconds a "
        f"batch, but {human(float(picked.objective(PER_TOKEN)))} a token."
    )
    if staged is not None:
        ratio = float(picked.objective(PER_TOKEN) / evaluate(staged).objective(PER_TOKEN))
        text += f" A token costs {significant(ratio)} times as much as in the staged plan."
    st.warning(text)


def _step_words(scenario: Scenario, what: str) -> tuple[str, str]:
    """Return what a step is called, and the unit of what it chooses."""
    knob = knob_at(scenario, what) if "." in what else None
    return (what.capitalize(), "requests") if knob is None else (knob.label, knob.shown_unit)
