"""Page "What should I choose?": the search, its proof, and the paper's own procedure."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human, significant
from explorer.plots.search import search_figure, search_trace
from explorer.search.certificate import Certificate, trap
from explorer.search.job import JobStatus, SearchJob
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.space import Space, default_space
from explorer.search.staged import fixed_batch_space, staged_plan
from explorer.search.study import SAMPLERS, SearchSettings
from explorer.serving.evaluate import evaluate
from explorer.serving.notes import plan_notes
from explorer.ui import state
from explorer.ui.text import plain

JOB, OF = "search_job", "search_scenario"
POLL_SECONDS = 0.5
PER_TOKEN = "cluster_seconds_per_token"
DEFAULT_TRIALS, MOST_TRIALS = 300, 5000
DEFAULT_SEED, LARGEST_SEED = 1, 2**31
SAMPLER_NAMES = {"tpe": "TPE", "random": "random", "nsga2": "NSGA-II"}


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("What should I choose?", anchor=False)
    st.markdown(
        "The search looks for the plan that serves the workload best on this machine. Everything "
        "but the plan stays as the sliders have it."
    )
    ready = _controls(scenario)
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
        st.info(
            "Nothing was searched yet. Search tries plans and then proves how good the best is."
        )
    else:
        st.fragment(_progress, run_every=POLL_SECONDS if running else None)()
    _staged(scenario)


def _controls(scenario: Scenario) -> bool:
    """Draw the settings of a search; return whether they can be used."""
    objective = OBJECTIVES[
        st.radio(
            "Objective",
            options=list(OBJECTIVES),
            format_func=lambda name: OBJECTIVES[name].label.capitalize(),
            captions=[item.equation for item in OBJECTIVES.values()],
            key="objective",
            persist_state="session",
        )
    ]
    if objective.fixes_batch:
        st.caption(
            "Eq. 22 as printed compares plans of one batch: the batch and decode pool of the "
            "staged procedure below are kept."
        )
        st.button("What would it pick without?", key="trap", on_click=_spring_trap)
        _show_trap(scenario)
    columns = st.columns(3)
    columns[0].number_input(
        "Trials", 1, MOST_TRIALS, DEFAULT_TRIALS, key="trials", persist_state="session"
    )
    columns[1].number_input(
        "Seed",
        0,
        LARGEST_SEED,
        DEFAULT_SEED,
        key="seed",
        help="The same seed gives the same answer.",
        persist_state="session",
    )
    columns[2].selectbox(
        "Sampler",
        SAMPLERS,
        format_func=lambda name: SAMPLER_NAMES[name],
        key="sampler",
        persist_state="session",
    )
    try:
        whole = default_space(scenario)
        names = {axis.paths[0]: _axis_label(scenario, axis.paths[0]) for axis in whole.axes}
        st.multiselect(
            "Keep as on the sliders",
            options=list(names),
            format_func=lambda path: names.get(path, path),
            key="pinned",
            help="Values that the search may not change.",
            persist_state="session",
        )
        settings, space = _chosen()
        searched = fixed_batch_space(space) if settings.objective.fixes_batch else space
        st.caption(f"{searched.size:,} plans.")
    except InputError as error:
        st.error(plain(str(error)))
        return False
    return True


def _chosen() -> tuple[SearchSettings, Space]:
    """Return what the controls hold now; raises InputError.

    A button's callback reads it here: what was handed to the button when it was drawn is older
    than a value that was typed just before the click.
    """
    held = st.session_state
    pinned = held["pinned"] or ()
    settings = SearchSettings(
        OBJECTIVES[held["objective"]], int(held["trials"]), int(held["seed"]), held["sampler"]
    )
    return settings, default_space(state.scenario(), frozenset(pinned))


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
    picked, staged = evaluate(found.scenario), staged_plan(scenario).scenario
    text = (
        f"Over {found.enumerated:,} plans of any batch, Eq. 22 as printed is least for a batch "
        f"of {human(float(picked.batch), 'requests')}: {human(found.optimum)} cluster-seconds a "
        f"batch, but {human(float(picked.objective(PER_TOKEN)))} a token."
    )
    if staged is not None:
        ratio = float(picked.objective(PER_TOKEN) / evaluate(staged).objective(PER_TOKEN))
        text += f" A token costs {significant(ratio)} times as much as in the staged plan."
    st.warning(text)


def _axis_label(scenario: Scenario, path: str) -> str:
    knob = knob_at(scenario, path)
    return path if knob is None else f"{knob.label}, now {scenario.value(path)}"


def _start() -> None:
    try:
        settings, space = _chosen()
    except InputError as error:
        state.notice(error.problems, "The search was not started")
        return
    _stop()
    st.session_state[OF] = state.scenario()
    st.session_state[JOB] = SearchJob(space, settings, certified=True).start()


def _stop() -> None:
    job: SearchJob | None = st.session_state.get(JOB)
    if job is not None:
        job.stop()


def _progress() -> None:
    """Draw what is known of the job; reruns alone while it runs, the page once when it ends."""
    job: SearchJob = st.session_state[JOB]
    status = job.status()
    if status.state == "failed":
        st.error(f"The search failed: {plain(status.error)}")
        return
    if not status.finished:
        share = status.done / status.total if status.total else 0.0
        doing = "trials" if status.state != "certifying" else "plans enumerated for the proof"
        st.progress(min(share, 1.0), f"{status.done:,} of {status.total:,} {doing}")
    _result(job, status)
    if status.finished and st.session_state.get("search_seen") != id(job):
        st.session_state["search_seen"] = id(job)
        st.rerun()


def _result(job: SearchJob, status: JobStatus) -> None:
    objective = job.settings.objective
    if status.best is None:
        if status.finished:
            _nothing_feasible(status)
        return
    best = evaluate(status.best)
    st.subheader(_verdict(objective, status), anchor=False)
    st.markdown(f"For {_machine_and_model(status.best)}.")
    rows = [
        (objective.label.capitalize(), human(status.best_value)),
        ("Throughput", human(float(best.objective("throughput")), "tokens/s")),
        ("Time to first token", human(float(best.ttft_seconds), "s")),
        ("Time per output token", human(float(best.tpot_seconds), "s")),
    ]
    with st.container(horizontal=True):
        for label, text in rows:
            st.metric(label, text, border=True, width=230)
    st.table(_plan_table(st.session_state[OF], status.best), hide_index=True)
    for note in plan_notes(best):
        st.caption(f"Note: {plain(note)}")
    if status.finished:
        _offer(status.best)
    proof = status.certificate
    optimum = proof.optimum if proof is not None and _proved(proof) else None
    trace = search_trace(status.history, optimum)
    st.plotly_chart(
        search_figure(trace, objective.label, objective.unit), key="trace", width="stretch"
    )
    _how_it_went(status)


def _machine_and_model(scenario: Scenario) -> str:
    chip, model = scenario.chip_document(), scenario.model_document()
    return f"{plain(model.name)} on {plain(chip.name)}"


def _offer(best: Scenario) -> None:
    """Offer to take the plan over, where it was made for what the sliders show."""
    now = state.scenario()
    same = (best.chip, best.model, best.versions) == (now.chip, now.model, now.versions)
    clicked = st.button(
        "Put this plan on the sliders", key="apply", type="primary", disabled=not same
    )
    if clicked:
        _apply(best)
        # The button stands in a fragment, whose own rerun would leave the sliders as they were.
        st.rerun()
    if not same:
        st.caption(f"The sliders now show {_machine_and_model(now)}: search again for a plan.")
    elif st.session_state[OF] != now:
        st.caption("The sliders have moved since: this is the best plan for how they were.")


def _verdict(objective: Objective, status: JobStatus) -> str:
    certificate = status.certificate
    if certificate is None or not _proved(certificate):
        return "Best so far, not proved" if status.state != "stopped" else "Best until stopped"
    gap = certificate.gap(status.best_value)
    over = f"proved over {certificate.enumerated:,} plans, {certificate.feasible:,} feasible"
    if gap == 0:
        return f"Optimal, {over}"
    return f"Within {significant(100 * gap)} % of the optimum, {over}"


def _proved(certificate: Certificate) -> bool:
    return certificate.complete and certificate.scenario is not None


def _nothing_feasible(status: JobStatus) -> None:
    counts: dict[str, int] = {}
    tried = "trials"
    if status.certificate is not None:
        counts, tried = status.certificate.excluded, "plans"
    elif status.result is not None:
        counts = status.result.excluded
    broken = sorted(((n, c) for n, c in counts.items() if c), key=lambda item: -item[1])
    words = "; ".join(f"{name.replace('_', ' ')}: {count:,} {tried}" for name, count in broken)
    st.warning(f"No feasible plan. Excluded by constraint: {words}.")


def _how_it_went(status: JobStatus) -> None:
    result = status.result
    if result is None:
        return
    solved = ", ".join(result.solved_exactly).replace("plan.", "") or "nothing"
    st.caption(
        f"{result.trials:,} trials, {result.feasible_trials:,} feasible, "
        f"{result.distinct_plans:,} distinct plans, {human(result.seconds, 's')}. Solved exactly "
        f"inside each trial: {plain(solved)}. The first trials are the sliders' plan and the "
        "staged procedure's; the later ones also try neighbours of the best."
    )


def _plan_table(before: Scenario, after: Scenario) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for name in type(after.plan).model_fields:
        path = f"plan.{name}"
        knob = knob_at(after, path)
        now, then = after.value(path), before.value(path)
        if knob is None or (now == then and name in UNCHANGED_HIDDEN):
            continue
        rows.append(
            {
                "setting": knob.label,
                "sliders": _value(then, knob.unit),
                "found": _value(now, knob.unit),
                "changed": "●" if now != then else "",
            }
        )
    return pd.DataFrame(rows)


UNCHANGED_HIDDEN = ("slices", "max_slices", "min_rows_per_slice")


def _value(value: object, unit: str) -> str:
    return human(float(value), unit) if isinstance(value, int | float) else str(value)


def _apply(best: Scenario) -> None:
    """Put the plan of a search on the sliders, whatever else they now show."""
    found = {f"plan.{name}": getattr(best.plan, name) for name in type(best.plan).model_fields}
    state.apply(found)


def _step_label(scenario: Scenario, what: str) -> str:
    knob = knob_at(scenario, what) if "." in what else None
    return what.capitalize() if knob is None else knob.label


def _staged(scenario: Scenario) -> None:
    st.subheader("The paper's staged procedure", anchor=False)
    staged = staged_plan(scenario)
    if staged.scenario is None:
        st.info(f"It finds no plan: {plain(staged.reason)}")
        return
    value = float(evaluate(staged.scenario).objective(PER_TOKEN))
    st.markdown(
        "THInfer fixes one setting after the other. For this scenario that gives "
        f"**{human(value, 'cluster-seconds')}** a token; the joint search above can only be as "
        "good or better."
    )
    labels = [_step_label(scenario, step.what) for step in staged.steps]
    st.table(
        pd.DataFrame(
            {
                "setting": labels,
                "chosen": [str(step.chosen) for step in staged.steps],
                "why": [step.why for step in staged.steps],
            }
        ),
        hide_index=True,
    )
    st.button(
        "Put the staged plan on the sliders",
        on_click=_apply,
        args=(staged.scenario,),
        key="apply_staged",
    )
