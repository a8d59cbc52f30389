"""Section "What would it take?": a target rate, what each number alone would have to be, pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import streamlit as st

from explorer.config.scenario import Scenario, parse_scenario
from explorer.config.units import SIGNIFICANT, given, human, significant
from explorer.search.objectives import THROUGHPUT
from explorer.search.verdict import SAME
from explorer.serving.evaluate import evaluate
from explorer.serving.levers import Lever, factor, lever_knob
from explorer.serving.targets import PHASES, Phase, Solution, needed_terms, rate_of, solve
from explorer.ui import fewest, state
from explorer.ui.best_plan import best_plan_button, with_best_plan
from explorer.ui.folded import folded
from explorer.ui.remedies import throughput
from explorer.ui.tables import show_table
from explorer.ui.text import plain

ASCEND = "ascend910a"
SERVICE: Phase = "service"
PHASE, TARGET, BEST_PLAN = "target:phase", "target:rate", "target:best_plan"
PHASE_NAMES = {
    "prefill": "One prefill pipeline",
    "decode": "One decode pipeline",
    SERVICE: "All pools",
}
TIME_FACTOR = "_time_factor"
"""Ending of the numbers that multiply times of today, told as a share of them."""
END_OF_RANGE = "end of its range"
REPORT_TARGET = 2000.0
"""Prefill rate that the report aims at (section 5.5)."""
MORE_THAN_NOW = 1.5
LARGEST_TARGET = 1e12
MOST_LEVERS, MOST_PAIRS = 12, 5
MOST_FIGURES = 12


def section(scenario: Scenario, measured: Sequence[tuple[int, dict[str, float]]] = ()) -> None:
    """Draw the section; ``measured`` are tables of a pass's rows and seconds by phase."""
    st.subheader("What would it take?", anchor=False)
    ascend = scenario.chip_document().family == ASCEND
    phase: Phase = st.segmented_control(
        "Rate of",
        PHASES,
        default="prefill" if ascend else SERVICE,
        # One a family: what another one begins with was not chosen here.
        key=f"{PHASE}:{scenario.chip_document().family}",
        required=True,
        format_func=PHASE_NAMES.__getitem__,
        persist_state="session",
        help="One pipeline: prompt tokens of its passes, or output tokens of its steps. All "
        "pools: output tokens of all of them together, prefill and decode.",
    )
    present = float(rate_of(scenario, phase))
    if math.isnan(present):
        st.info("The plan does not fit, so that it has no rate to raise.")
        return
    target = st.number_input(
        f"Target of {PHASE_NAMES[phase][0].lower()}{PHASE_NAMES[phase][1:]} [tokens/s]",
        min_value=1e-3,
        max_value=LARGEST_TARGET,
        value=first_target(scenario, phase, present),
        key=_target_key(scenario, phase),
        format="%.6g",
        persist_state="session",
        help=f"{_what_counts(phase)}; now {significant(present)} tokens/s.",
    )
    solution = solved(scenario, phase, float(target))
    plan = scenario.plan
    stages = int(plan.pp_prefill if phase == "prefill" else plan.pp_decode)
    st.markdown(f"{lead_sentence(solution, stages)}{pipelines_sentence(scenario, solution)}")
    if phase == SERVICE and not solution.reached:
        _best_plan(scenario, float(target))
    if solution.levers:
        ends = range_ends(scenario, solution.levers)
        show_table(_rows(solution.levers[:MOST_LEVERS], ends))
        st.caption(
            "In brackets: what on this machine keeps a number from going further, where the chip's "
            f"numbers say so; {END_OF_RANGE} is only as far as it is accepted, whether or not a "
            "machine could be built so."
        )
        _more(solution, ends)
        with folded("What would two numbers together take?", "pairs") as is_open:
            if is_open:
                _pairs(solved(scenario, phase, float(target), pairs=True))
        if phase == "prefill" and ascend:
            show_findings(solution)
    if phase == "prefill":
        for rows, table in measured:
            st.markdown(measured_sentence(rows, table, float(target)))


def first_target(scenario: Scenario, phase: Phase, present: float) -> float:
    """Return the target to begin with: the report's for its own prefill, else 1.5 times now."""
    if phase == "prefill" and scenario.chip_document().family == ASCEND:
        return REPORT_TARGET
    return float(f"{MORE_THAN_NOW * present:.3g}")


def solved(scenario: Scenario, phase: Phase, target: float, pairs: bool = False) -> Solution:
    """Return the solution, kept for as long as the sliders stand as they do.

    Looking for pairs takes longer than all the rest.
    """
    return _solved(json.dumps(scenario.to_json(), sort_keys=True), phase, target, pairs)


@st.cache_data(max_entries=64, show_spinner="Trying every number …")
def _solved(document: str, phase: Phase, target: float, pairs: bool) -> Solution:
    return solve(parse_scenario(json.loads(document)), phase, target, pairs)


def lead_sentence(solution: Solution, stages: int = 1) -> str:
    """Return the answer: whether one number can do it, and which changes least.

    With ``stages`` of a pipeline a pass or step ends as often as the slowest of them does.
    """
    rate, target = significant(solution.rate), given(solution.target)
    if solution.reached:
        return f"**{target} tokens/s** is reached already: this scenario delivers {rate}."
    if solution.phase == SERVICE:
        wall = f"**{target} tokens/s** from all pools; the plan as it is gives {rate} now."
        return _alone(wall, solution)
    unit, what = ("rows", "pass") if solution.phase == "prefill" else ("requests", "step")
    goal = human(solution.wall_seconds, "s")
    now = human(solution.rows / solution.rate, "s")
    wall = (
        f"**{target} tokens/s** of {solution.phase} for {human(solution.rows, unit)} is a {what} "
        + (
            f"of {goal}; now it takes {now} ({rate} tokens/s)."
            if stages == 1
            else f"every {goal}; now the slowest of {stages} stages ends one every {now} "
            f"({rate} tokens/s)."
        )
    )
    return _alone(wall, solution)


def pipelines_sentence(scenario: Scenario, solution: Solution) -> str:
    """Return what all pipelines do together, with a space before it; empty where there is one."""
    if solution.phase == SERVICE:
        return ""
    evaluation = evaluate(scenario)
    pools, each = int(evaluation.pools), 1
    if solution.phase == "prefill" and not evaluation.inputs.shared:
        each = int(scenario.plan.dp_prefill)
    count = pools * each
    if count <= 1:
        return ""
    which = f"{each} in each of {human(float(pools), 'pools')}" if each > 1 else "one a pool"
    return (
        f" This is one pipeline of {count} ({which}): all of them together do "
        f"{significant(count * solution.rate)} tokens/s of {solution.phase} now."
    )


def _target_key(scenario: Scenario, phase: Phase) -> str:
    """Return the key of the target of a chip and model, whose rates are of a size of their own."""
    return f"{TARGET}:{phase}:{scenario.chip_document().id}:{scenario.model_document().id}"


def _what_counts(phase: Phase) -> str:
    return (
        "Output tokens of all pools together"
        if phase == SERVICE
        else "Rate of one pipeline at the scenario's prompt length"
    )


def _best_plan(scenario: Scenario, target: float) -> None:
    """Tell what the best plan reaches, and offer to put it on the sliders."""
    st.markdown(best_plan_sentence(scenario, target))
    best_plan_button(scenario, throughput, BEST_PLAN)
    if not with_best_plan(scenario, THROUGHPUT).value >= target:
        fewest.section(scenario, target, _asked_target)


def _asked_target() -> float:
    """Return the target that the box holds now."""
    return float(st.session_state[_target_key(state.scenario(), SERVICE)])


def best_plan_sentence(scenario: Scenario, target: float) -> str:
    """Return whether the best plan reaches a throughput on the machine as it is."""
    best = with_best_plan(scenario, THROUGHPUT).value
    # Three figures of what just misses a target, or just reaches it, may read as the other.
    reached = f"reaches {_apart(best, target)} tokens/s on the machine as it is"
    if best >= target:
        return f"**A better plan is enough**: the best one {reached}."
    if THROUGHPUT.gap(float(rate_of(scenario, "service")), best) <= SAME:
        return f"No plan is enough: the one on the sliders is the best, and {reached}."
    return (
        f"No plan is enough: the best one {reached}. Put it on the sliders first, and what is "
        "needed beyond it is told here."
    )


def _apart(value: float, target: float) -> str:
    """Return a rate with as many figures as it takes to stand on its side of a target."""
    every = (significant(value, figures) for figures in range(SIGNIFICANT, MOST_FIGURES))
    told = (text for text in every if (float(text.replace(",", "")) >= target) == (value >= target))
    return next(told, significant(value, MOST_FIGURES))


def _alone(wall: str, solution: Solution) -> str:
    """Return what goes before, and which number does it alone with the least change."""
    if not solution.alone:
        nearest = solution.not_alone[:1]
        tail = "".join(
            f" The nearest, {plain(item.label)}, ends at {significant(item.best_rate)} tokens/s."
            for item in nearest
        )
        return f"{wall} **No single number can do it.**{tail}"
    first = solution.alone[0]
    others = len(solution.alone) - 1
    more = f" {others} more can do it alone." if others else ""
    times = f", a change of {_factor(first.times)}" if _finite(first.times) else ""
    return (
        f"{wall} The least change is **{plain(first.label)}**: from {shown(first, first.now)} to "
        f"{shown(first, first.needed)}{times}.{more}"
    )


def measured_sentence(rows: int, table: dict[str, float], target: float) -> str:
    """Return what a measured, device-synced table asks of its largest phase for a target."""
    wall = table["wall"]
    phases = {name: value for name, value in table.items() if name not in ("wall", "stack")}
    goal = rows / target
    lead = (
        f"By the measured device-synced table at {human(float(rows), 'rows')} "
        f"({significant(wall)} s, a pass that drains the device at every scope)"
    )
    if wall <= goal:
        return f"{lead}, {given(target)} tokens/s is reached already."
    needed = {name: value for name, value in needed_terms(phases, wall, goal).items() if value}
    if not needed:
        return f"{lead}, no phase alone can reach {given(target)} tokens/s."
    name = max(needed, key=lambda item: phases[item])
    value = needed[name]
    return (
        f"{lead}, {plain(name.replace('_', ' '))} would have to fall from "
        f"{human(phases[name], 's')} to **{human(value or 0.0, 's')}**, "
        f"**{significant(phases[name] / (value or 1.0))} times**, all else fixed."
    )


def shown(lever: Lever, value: float | str | None) -> str:
    """Return a lever's value for people."""
    if value is None or isinstance(value, str):
        return value or "–"
    if lever.path.endswith(TIME_FACTOR):
        return human(float(value), "fraction")
    return human(float(value), lever.unit)


def best_shown(lever: Lever, ends: Mapping[str, tuple[float, float]]) -> str:
    """Return a lever's best value, and what keeps it from going further.

    Args:
        lever: one number.
        ends: what ``range_ends`` gives.
    """
    value = shown(lever, lever.best)
    if lever.limit:
        return f"{value} ({lever.limit})"
    # Nothing is below zero, so that there no range stands in the way.
    at_end = lever.best > 0 and any(
        math.isclose(lever.best, end) for end in ends.get(lever.path, ())
    )
    return f"{value} ({END_OF_RANGE})" if at_end else value


def range_ends(scenario: Scenario, levers: Sequence[Lever]) -> dict[str, tuple[float, float]]:
    """Return the least and the largest value that is accepted for each lever, by path."""
    knobs = {lever.path: lever_knob(scenario, lever.path) for lever in levers}
    return {
        path: (float(knob.minimum), float(knob.maximum))
        for path, knob in knobs.items()
        if knob is not None
    }


def _finite(times: float | None) -> bool:
    """Return whether a change has a factor: from or to zero it has none."""
    return times is not None and math.isfinite(times)


def _factor(times: float | None) -> str:
    return "–" if times is None else f"{significant(times)} times"


def _rows(levers: Sequence[Lever], ends: Mapping[str, tuple[float, float]]) -> list[dict[str, str]]:
    return [
        {
            "number": plain(lever.label),
            "now": shown(lever, lever.now),
            "needed": "cannot" if lever.needed is None else shown(lever, lever.needed),
            "times": significant(lever.times or 0.0) if _finite(lever.times) else "–",
            "at its best": best_shown(lever, ends),
            "reaches [tokens/s]": significant(lever.best_rate),
        }
        for lever in levers
    ]


def _more(solution: Solution, ends: Mapping[str, tuple[float, float]]) -> None:
    rest = solution.levers[MOST_LEVERS:]
    if rest:
        cannot = all(lever.needed is None for lever in rest)
        title = f"{len(rest)} more{' that cannot' if cannot else ''}"
        with folded(title, "levers") as is_open:
            if is_open:
                show_table(_rows(rest, ends))


def _pairs(solution: Solution) -> None:
    if not solution.pairs:
        alone = solution.alone
        tail = f" than {plain(alone[0].label)} alone" if alone else " that reaches it"
        st.markdown(f"No pair of the nearest numbers is cheaper{tail}.")
        return
    least = solution.alone[0] if solution.alone else None
    tail = ""
    if least is not None and (least.times or 0.0) <= solution.pairs[0].cost:
        tail = f"; none changes less than {plain(least.label)} alone"
    st.markdown(f"**Two together**, the least product of both factors first{tail}:")
    show_table(
        [
            {
                "first": _part(pair.first, pair.first_value),
                "and": _part(pair.second, pair.second_value),
                "product of factors": significant(pair.cost),
            }
            for pair in solution.pairs[:MOST_PAIRS]
        ],
    )


def _part(lever: Lever, value: float) -> str:
    times = factor(lever.now, value)
    return (
        f"{plain(lever.label)}: {shown(lever, lever.now)} → {shown(lever, value)} "
        f"({_factor(times)})"
    )


def findings(solution: Solution) -> tuple[str, ...]:
    """Return what the report's section 6 rules out, as the solver finds it for these sliders."""
    found = []
    for name, paths in FINDINGS.items():
        levers = [lever for lever in solution.levers if lever.path in paths]
        if levers:
            found.append(_finding(name, levers[0], solution))
        else:
            found.append(f"**{name}** gains nothing: no value within its range beats the present.")
    return tuple(found)


FINDINGS = {
    "More slices": ("plan.slices",),
    "A cheaper collective": ("hardware.collective_fixed_seconds",),
    "Fewer collectives": ("hardware.all_reduces_per_layer",),
    "A faster link": ("hardware.link_bandwidth_bytes_per_second",),
    "Faster projections": ("hardware.projection_seconds_per_row_layer",),
    "Less host issue": ("hardware.host_*",),
    "A faster recurrence": ("hardware.recurrence_*", "hardware.recurrence_time_factor"),
}


def _finding(name: str, lever: Lever, solution: Solution) -> str:
    gain = significant(100 * (lever.best_rate / solution.rate - 1))
    if lever.needed is None:
        return (
            f"**{name}** cannot reach it alone: at its best ({_inner(lever)}) the pass "
            f"does {significant(lever.best_rate)} tokens/s, {gain} % more than now."
        )
    times = f", {_factor(lever.times)}" if _finite(lever.times) else ""
    return (
        f"**{name}** can: {plain(lever.label)} from {shown(lever, lever.now)} to "
        f"{shown(lever, lever.needed)}{times}."
    )


def _inner(lever: Lever) -> str:
    """Return a lever's best value for inside brackets."""
    value = shown(lever, lever.best)
    return f"{value}, {lever.limit}" if lever.limit else value


def show_findings(solution: Solution) -> None:
    """List the findings, where there are any."""
    found = findings(solution)
    if found:
        st.markdown("**What this rules out, for the present sliders**")
        st.markdown("\n".join(f"- {sentence}" for sentence in found))
