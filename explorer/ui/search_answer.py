"""How a search went: the best plan beside the one it began with, its rank, and the trials."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import streamlit as st

from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human
from explorer.plots.search import search_figure, search_trace
from explorer.search.bound import Bound, BoundReport
from explorer.search.certificate import Certificate
from explorer.search.job import JobStatus, SearchJob
from explorer.search.nearest import Nearest
from explorer.search.objectives import Objective
from explorer.search.samplers import SAMPLERS
from explorer.search.study import SearchResult
from explorer.search.verdict import SAME, at_most, plans
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.notes import plan_notes
from explorer.ui import state
from explorer.ui.background import waiting_words
from explorer.ui.charts import chart
from explorer.ui.page_style import METRIC_WIDTH
from explorer.ui.tables import show_table
from explorer.ui.text import plain

UNCHANGED_HIDDEN = ("slices", "max_slices", "min_rows_per_slice")
COMPARING = "comparing"
CONSTRAINT_WORDS = {"ttft": "time to first token", "tpot": "time per output token"}
DOING = {
    "searching": "trials",
    "certifying": "plans evaluated for the proof",
    COMPARING: "trials of the sampler alone",
}


def found_how(job: SearchJob, status: JobStatus, asked: Scenario) -> None:
    """Draw the best plan beside the sliders' own, and how it was found.

    Args:
        job: the search.
        status: what is known of it.
        asked: the scenario that it was started for.
    """
    if status.best is None:
        return
    objective = job.settings.objective.on(asked.chip_document().unit_name)
    show_table(_plan_table(asked, status.best, job))
    for note in plan_notes(evaluate(status.best)):
        st.caption(f"Note: {plain(note)}")
    _standing(status, objective)
    st.markdown("**How it was found**")
    if status.state == COMPARING:
        st.caption(
            "The answer stands. What still runs only tells how far the sampler alone would have "
            "come."
        )
        progress(status, objective)
    trace = search_trace(status.history, _floor(status))
    figure = search_figure(trace, objective.label, objective.unit, _floor_name(status))
    chart(figure, "trace", "How the search went: each trial, the best so far and the proved floor")
    for sentence in _how_it_went(status, objective):
        st.caption(sentence)


def progress(status: JobStatus, objective: Objective) -> None:
    """Draw how far a search is."""
    if status.state == "waiting":
        st.progress(0.0, waiting_words(status.ahead))
        return
    if status.state == "bounding":
        _bounding(status.report, status, objective)
        return
    share = status.done / status.total if status.total else 0.0
    doing = DOING.get(status.state, "trials")
    st.progress(min(share, 1.0), f"{status.done:,} of {status.total:,} {doing}")


def apply_plan(found: Scenario, paths: tuple[str, ...] = ()) -> None:
    """Put a plan on the sliders, and what else was searched, whatever they now show."""
    changes = {f"plan.{name}": getattr(found.plan, name) for name in type(found.plan).model_fields}
    state.apply({**changes, **{path: found.value(path) for path in paths}})


def machine_and_model(scenario: Scenario) -> str:
    """Return what a plan is for."""
    chip, model = scenario.chip_document(), scenario.model_document()
    return f"{plain(model.name)} on {plain(chip.name)}"


def plan_figures(objective: Objective, value: float, best: Evaluation) -> None:
    """Draw what a search's best plan gives, its objective first."""
    # The label names the token: with it the unit would be cut.
    unit = objective.unit.removesuffix("/token")
    rows = [
        (objective.label.capitalize(), human(value, unit)),
        ("Throughput", human(float(best.objective("throughput")), "tokens/s")),
        ("Time to first token", human(float(best.ttft_seconds), "s")),
        ("Time per output token", human(float(best.tpot_seconds), "s")),
    ]
    with st.container(horizontal=True):
        for label, text in rows:
            st.metric(label, text, border=True, width=METRIC_WIDTH)


def plan_value(value: object, unit: str) -> str:
    """Return a setting as a table shows it."""
    return human(float(value), unit) if isinstance(value, int | float) else str(value)


def _standing(status: JobStatus, objective: Objective) -> None:
    """Say how far the study and the sliders' own plan are from the best one."""
    result, proof = status.result, status.proof
    if result is not None and result.best is not None:
        gap = objective.gap(result.best_value, status.best_value)
        if gap > SAME:
            st.markdown(
                f"The proof met this plan. The study's own best is {at_most(100 * gap)} % worse: "
                f"{human(result.best_value, objective.unit)}."
            )
    if not isinstance(proof, Certificate) or not proof.complete:
        return
    if proof.own is None:
        st.markdown("The plan on the sliders has no rank: it does not fit, or is of another batch.")
        return
    own = proof.own
    far = at_most(100 * proof.gap(own.value))
    better = "none is better" if not own.better else f"{human(own.better, 'plans')} are better"
    st.markdown(
        f"The plan on the sliders was number **{own.rank:,}** of {proof.feasible:,} feasible ones: "
        f"{better}, and it is {far} % from the optimum."
    )


def _floor(status: JobStatus) -> float | None:
    if isinstance(status.proof, Bound):
        return status.proof.bound
    proof = status.certificate
    return proof.optimum if proof is not None and proof.complete else None


def _floor_name(status: JobStatus) -> str:
    return (
        "proved bound"
        if status.bound is not None and not status.bound.closed
        else ("proved optimum")
    )


def _how_it_went(status: JobStatus, objective: Objective) -> list[str]:
    result = status.result
    if result is None:
        return []
    sampler = result.sampler
    sentences = [
        f"{result.trials:,} trials by {plain(sampler.sampler.label)} ({plain(sampler.why)}), "
        f"{result.feasible_trials:,} feasible, {result.distinct_plans:,} distinct plans, "
        f"{human(result.seconds, 's')}."
    ]
    if not sampler.sampler.exhaustive:
        sentences.append(
            "The first trials are the sliders' plan and the staged procedure's. After two fifths "
            "of them the best plan is improved along whole ranges of one and of two settings, and "
            "its neighbours are tried."
        )
    sentences.append(_solved(result, status.plain, status, objective))
    if isinstance(status.proof, Bound):
        proof = status.proof
        left = plans(proof.open_plans) if proof.open_plans else "none"
        sentences.append(
            f"The proof looked at {human(proof.cells, 'parts')} of the space in "
            f"{human(proof.seconds, 's')} and evaluated {proof.enumerated:,} plans one by one; "
            f"{left} left to rule out."
        )
    return sentences


def _solved(
    result: SearchResult, alone: SearchResult | None, status: JobStatus, objective: Objective
) -> str:
    """Say which settings each trial solves exactly, and what the sampler alone reached."""
    names = [
        plain(knob.label) if (knob := knob_at(result.space.base, axis.paths[0])) else axis.name
        for axis in result.space.axes
        if axis.name in result.solved_exactly
    ]
    text = (
        f"Solved exactly inside each trial, by evaluating all their values at once: "
        f"{', '.join(names)}."
        if names
        else "No setting is solved inside a trial."
    )
    if alone is None:
        return text
    label = SAMPLERS[alone.sampler.sampler.name].label
    if alone.best is None:
        reached = "found no feasible plan"
    else:
        gap = objective.gap(alone.best_value, status.best_value)
        far = f"{at_most(100 * gap)} % worse" if gap > SAME else "no worse"
        reached = f"reached {human(alone.best_value, objective.unit)}, {far} than the best"
    return (
        f"{text} {label} alone, with all {len(alone.space.axes)} settings to choose and as many "
        f"trials, {reached}."
    )


def _bounding(report: BoundReport | None, status: JobStatus, objective: Objective) -> None:
    if report is None:
        st.caption("Bounding the optimum…")
        return
    gap = objective.gap(status.best_value, report.bound)
    known = f"; the best plan is within {at_most(100 * gap)} %" if math.isfinite(gap) else ""
    st.caption(
        f"Bounding the optimum: none can be better than {human(report.bound, objective.unit)}"
        f"{known}. {plans(report.open_plans)} left to rule out."
    )


def searched_beside(job: SearchJob) -> tuple[str, ...]:
    """Return the paths that were searched beside the plan."""
    paths = (path for axis in job.space.axes for path in axis.paths)
    return tuple(path for path in paths if not path.startswith("plan."))


def _plan_table(before: Scenario, after: Scenario, job: SearchJob) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    own = (f"plan.{name}" for name in type(after.plan).model_fields)
    for path in (*searched_beside(job), *own):
        knob = knob_at(after, path)
        now, then = after.value(path), before.value(path)
        hidden = path.partition(".")[2] in UNCHANGED_HIDDEN
        if knob is None or (now == then and hidden):
            continue
        rows.append(
            {
                "setting": knob.label,
                "sliders at the start": plan_value(then, knob.shown_unit),
                "found": plan_value(now, knob.shown_unit),
                "changed": "●" if now != then else "",
            }
        )
    return pd.DataFrame(rows)


def nothing_feasible(status: JobStatus) -> None:
    """Say what excludes most plans, and offer the nearest one that fits."""
    if status.state == "stopped" and not status.done:
        st.info("Stopped before any plan was tried.")
        return
    counts: dict[str, int] = {}
    tried, number = "trials", 0
    if status.result is not None:
        counts, number = status.result.excluded, status.result.trials
    if status.certificate is not None:
        proof = status.certificate
        counts, tried, number = proof.excluded, "plans", proof.enumerated
    broken = sorted(((n, c) for n, c in counts.items() if c), key=lambda item: -item[1])
    proved = status.certificate is not None and status.certificate.complete
    closed = status.bound is not None and status.bound.closed
    lead = "No feasible plan" + (", proved" if proved or closed else " found")
    words = "; ".join(f"{_constraint(name)}: {count:,}" for name, count in broken[1:])
    most = ""
    if broken:
        most = f" Most are excluded by **{_constraint(broken[0][0])}**: {broken[0][1]:,} of "
        most += f"{number:,} {tried}."
    st.warning(f"{lead}.{most}{f' Also broken: {words}.' if words else ''}")
    if status.nearest is not None:
        _nearest(status.nearest)


def _constraint(name: str) -> str:
    """Return the name of a constraint in words."""
    return CONSTRAINT_WORDS.get(name, name.replace("_", " "))


def _nearest(nearest: Nearest) -> None:
    moves = []
    for moved in nearest.moved:
        knob = knob_at(nearest.scenario, moved.path)
        name, unit = (moved.path, "") if knob is None else (knob.label, knob.shown_unit)
        before, after = plan_value(moved.before, unit), plan_value(moved.after, unit)
        moves.append(f"- {plain(name)}: {before} → {after}")
    if not nearest.feasible:
        messages = " ".join(map(plain, nearest.messages))
        st.markdown(
            "No plan of this model fits. The closest misses by this much: "
            f"{messages}\n" + "\n".join(moves)
        )
        return
    st.markdown("The nearest plan that fits changes:\n" + "\n".join(moves))
    if st.button("Put the nearest plan on the sliders", key="apply_nearest"):
        apply_plan(nearest.scenario)
        st.rerun()
