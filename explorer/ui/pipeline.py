"""Page "Does the plan hold in time?": requests arrive, wait, are prefilled and decoded."""

from __future__ import annotations

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.plots.simulation import (
    gantt_figure,
    gantt_rows,
    gantt_window_seconds,
    occupancy_figure,
    utilisation_figure,
    waiting_figure,
)
from explorer.serving.report import violation_message
from explorer.serving.simulation_plan import auto_rate, misfits
from explorer.serving.simulation_report import verdict
from explorer.serving.simulation_results import Quantiles, Simulation
from explorer.ui import state
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.page_style import METRIC_WIDTH
from explorer.ui.pipeline_controls import arrivals_controls, current_trace
from explorer.ui.pipeline_downloads import downloads
from explorer.ui.pipeline_policies import policies_section
from explorer.ui.pipeline_rates import rates_section
from explorer.ui.pipeline_run import simulated
from explorer.ui.remedies import remedies
from explorer.ui.text import plain

NEARLY_ALL = 0.999
NO_GAP = 1e-4


def page() -> None:
    """Draw the page for this session's scenario."""
    st.header("Does the plan hold when requests arrive?", anchor=False)
    # The answer stands above the controls that it depends on.
    answer = st.container()
    arrivals_controls()
    scenario, trace = state.scenario(), current_trace()
    broken = misfits(scenario, trace is not None)
    if broken:
        messages = " ".join(map(violation_message, broken))
        with answer:
            st.error(
                "**This plan does not fit, so there is nothing to simulate.** " + plain(messages)
            )
            remedies(scenario)
        return
    with answer:
        simulation = simulated(scenario, trace)
        if simulation is None:
            return
        st.markdown(answer_text(simulation))
        drawn = "" if trace is not None else drawn_text(scenario, simulation)
        if drawn:
            st.caption(drawn)
        _figures(simulation)
        for note in simulation.notes:
            st.caption(f"Note: {plain(note)}")
    _occupancy(simulation)
    _gantt(simulation)
    _waiting(simulation)
    _stages(simulation)
    policies_section(scenario, trace)
    if trace is None:
        rates_section(scenario)
    _beside_the_equations(simulation)
    downloads(scenario, trace, simulation)


def answer_text(simulation: Simulation) -> str:
    """Return whether the plan holds and why, the first sentence as the answer."""
    first, *rest = verdict(simulation)
    return " ".join((f"**{first}**", *rest))


def drawn_text(scenario: Scenario, simulation: Simulation) -> str:
    """Return how the arrivals as drawn differ from the rate asked for; empty where neither shows.

    Args:
        scenario: with made-up arrivals.
        simulation: its run.
    """
    offered = simulation.speed.offered_requests_per_second
    asked = scenario.simulation.rate_requests_per_second
    if scenario.simulation.arrivals == "saturated" or offered == float("inf"):
        return ""
    if isinstance(asked, str):
        asked = auto_rate(simulation.speed.capacity_requests_per_second)
    nominal, drawn = human(float(asked), "requests/s"), human(offered, "requests/s")
    if nominal == drawn:
        return ""
    return (
        f"The rate asked for is {nominal}; the {human(float(simulation.requests), 'requests')} "
        f"drawn for it arrive at {drawn}, from the first to the last."
    )


def _limits(simulation: Simulation) -> str:
    goodput = simulation.goodput
    if goodput is None:
        return ""
    parts = [
        f"{human(limit, 's')} {what}"
        for limit, what in (
            (goodput.ttft_limit_seconds, "to the first token"),
            (goodput.tpot_limit_seconds, "for each further token"),
        )
        if limit is not None
    ]
    return f"the limits of {' and '.join(parts)}" if parts else ""


def _figures(simulation: Simulation) -> None:
    speed = simulation.speed
    rows: list[tuple[str, str, str]] = []
    if not simulation.out_of_memory:
        rows.append(
            (
                "Throughput",
                human(speed.tokens_per_second, "tokens/s"),
                f"Output tokens a second of all pools, {_span(simulation)}.",
            )
        )
        rows += _times(simulation)
    if simulation.buffer is not None:
        rows.append(
            (
                "Buffer at its fullest",
                f"{human(simulation.buffer.peak_bytes, 'B')}",
                f"Of {human(simulation.buffer.limit_bytes, 'B')} in the buffer clusters of a pool.",
            )
        )
    if simulation.goodput is not None and _limits(simulation) and not simulation.out_of_memory:
        rows.append(
            (
                "Within the limits",
                f"{significant(100 * simulation.goodput.attained_fraction)} %",
                f"Requests that keep {_limits(simulation)}: "
                f"{human(simulation.goodput.tokens_per_second, 'tokens/s')} of goodput.",
            )
        )
    with st.container(horizontal=True, key="simulated_headline"):
        for label, value, explanation in rows:
            st.metric(label, value, help=explanation, border=True, width=METRIC_WIDTH)


def _times(simulation: Simulation) -> list[tuple[str, str, str]]:
    rows = []
    if simulation.speed.load < float("inf"):
        rows += [
            ("First token, median", human(simulation.ttft.p50, "s"), _error(simulation.ttft)),
            ("First token, 99 in 100", human(simulation.ttft.p99, "s"), _error(simulation.ttft)),
            ("Last token, 99 in 100", human(simulation.end_to_end.p99, "s"), "From arrival."),
        ]
    return [
        *rows,
        ("Each token, median", human(simulation.tpot.p50, "s"), _error(simulation.tpot)),
        ("Each token, 99 in 100", human(simulation.tpot.p99, "s"), _error(simulation.tpot)),
    ]


def _error(quantiles: Quantiles) -> str:
    exact = (
        "exact"
        if quantiles.relative_error == 0
        else f"to within {significant(100 * quantiles.relative_error)} %"
    )
    return (
        f"Over {human(float(quantiles.count), 'requests')}, {exact}; the mean is "
        f"{human(quantiles.mean, 's')}, the longest {human(quantiles.largest, 's')}."
    )


def _occupancy(simulation: Simulation) -> None:
    if simulation.occupancy is None:
        return
    st.subheader("Does the memory hold?", anchor=False)
    chart(
        occupancy_figure(simulation),
        "simulation_occupancy",
        "KV cache held in prefill, buffer and decode of one pool over time, with the limit",
    )
    buffer = simulation.buffer
    if buffer is None:
        st.caption("The same cards prefill and decode, so there is no buffer between them.")
        return
    room = (
        "without bound"
        if buffer.capacity_micro_batches == float("inf")
        else f"at most {human(buffer.capacity_micro_batches, 'micro-batches')} (Buf_max)"
    )
    st.caption(
        f"The first pool; caches are reserved at the largest context. Finished prefill may run "
        f"ahead {room}; the fullest buffer of any pool held "
        f"{significant(buffer.peak_micro_batches)} micro-batches."
    )


def _gantt(simulation: Simulation) -> None:
    rows, hidden = gantt_rows(simulation)
    window = gantt_window_seconds(simulation)
    if not rows:
        return
    st.subheader("When does each stage work?", anchor=False)
    chart(
        gantt_figure(rows, window),
        "simulation_gantt",
        "Bars of the first micro-batches in prefill stages and decode slots over time",
    )
    more = f" {hidden} more rows alike are left out." if hidden else ""
    st.caption(
        f"The first {human(window, 's')} of the first pool. A decode slot is one micro-batch "
        f"going round all decode stages.{more}"
    )


def _waiting(simulation: Simulation) -> None:
    waiting = simulation.waiting
    total = sum(part.total_seconds for part in (waiting.queue, waiting.blocked, waiting.buffer))
    st.subheader("Where do requests wait?", anchor=False)
    if not total > 0:
        st.markdown("No request waits anywhere.")
        return
    shares = {
        "before prefill starts": waiting.queue.total_seconds / total,
        "for room in the buffer": waiting.blocked.total_seconds / total,
        "in the buffer, for decode": waiting.buffer.total_seconds / total,
    }
    most = max(shares, key=lambda name: shares[name])
    st.markdown(
        f"Of all waiting, **{significant(100 * shares[most])} %** is {most}; a request waits "
        f"{human(total / simulation.requests, 's')} on average."
    )
    chart(
        waiting_figure(simulation),
        "simulation_waiting",
        "Share of requests that waited at most so long, before prefill and at the buffer",
    )


def _stages(simulation: Simulation) -> None:
    with folded("What does each stage do with its time?", "stages") as is_open:
        if not is_open:
            return
        chart(
            utilisation_figure(simulation.stages),
            "simulation_stages",
            "Share of the run that each stage computes, is paused, or idles",
        )
        st.caption("Stages of the first pool; over the whole run, filling and emptying included.")


def _beside_the_equations(simulation: Simulation) -> None:
    with folded("How far is this from the equations?", "equations") as is_open:
        if not is_open:
            return
        st.markdown(equations_text(simulation))
        if simulation.speed.load < NEARLY_ALL:
            st.caption(
                "Below saturation the service delivers what arrives, so that the gap is what the "
                "arrivals leave free, and no error of the equations; choose saturated arrivals to "
                "compare it with them."
            )


def equations_text(simulation: Simulation) -> str:
    """Return every rate of a run beside the equations, each with what it counts."""
    speed = simulation.speed
    lines = []
    if speed.load < float("inf"):
        lines.append(
            "arrivals, from the first request to the last: "
            f"{human(speed.offered_requests_per_second, 'requests/s')}, "
            f"{human(speed.load, 'fraction')} of the "
            f"{human(speed.capacity_requests_per_second, 'requests/s')} of the steady state"
        )
    lines += [
        f"simulated output, {_span(simulation)}: "
        f"{human(speed.tokens_per_second, 'tokens/s')} "
        f"({human(speed.requests_per_second, 'requests/s')} served)",
        "output of the steady state, max(n × stage / DP_P, T_d) a batch: "
        f"{human(speed.closed_form_tokens_per_second, 'tokens/s')} "
        f"({_gap(speed.closed_form_gap)})",
        "output by Eq. 21, which fills the prefill pipeline anew for every batch: "
        f"{human(speed.eq21_tokens_per_second, 'tokens/s')} ({_gap(speed.eq21_gap)})",
        "Little's law, over the whole run with filling and emptying: "
        f"{human(simulation.observed_rate, 'requests/s')} × "
        f"{human(simulation.end_to_end.mean, 's')} = "
        f"{significant(simulation.observed_rate * simulation.end_to_end.mean)} requests in the "
        f"system; counted: {significant(simulation.mean_in_system)}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _span(simulation: Simulation) -> str:
    """Return over which part of a run its output was measured."""
    if simulation.keeps_up and simulation.speed.load < float("inf"):
        return "from the first micro-batch that leaves to the last"
    return "over whole batches after the pipelines filled"


def _gap(gap: float) -> str:
    if abs(gap) < NO_GAP:
        return "the same"
    return f"the simulation is {significant(100 * abs(gap))} % {'above' if gap > 0 else 'below'}"
