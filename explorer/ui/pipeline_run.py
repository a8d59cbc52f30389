"""Running the simulation for a page: short runs with the page, long ones beside it."""

from __future__ import annotations

import json
import time
from typing import NamedTuple

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario, parse_scenario
from explorer.config.units import human
from explorer.search.certificate import Progress, Stopped
from explorer.search.stopping import EndedError
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation import simulate
from explorer.serving.simulation_plan import SimulationPlan
from explorer.serving.simulation_results import Detail, RequestRows, RowReader, Simulation
from explorer.serving.trace import Trace, require_context
from explorer.ui import state
from explorer.ui.background import Prepared, fingerprint_of, offered
from explorer.ui.pipeline_controls import current_trace, trace_digest
from explorer.ui.text import plain

GANTT_BATCHES, LEAST_GANTT, MOST_GANTT = 5, 16, 160
"""Batches whose micro-batches the Gantt shows, and least and most micro-batches of it."""
MOST_WITH_THE_PAGE = 200_000
"""Requests that a person waits for with the page: a run of a second or two."""
PACE = "simulation_pace"


class Timed(NamedTuple):
    """A run, and how long it took [s]."""

    simulation: Simulation
    seconds: float


def simulated(scenario: Scenario, trace: Trace | None) -> Simulation | None:
    """Return the simulated service, or say why there is none yet and return None."""
    try:
        if trace is not None:
            require_context(trace, int(scenario.workload.max_context_tokens))
        if is_long(scenario, trace):
            return _beside(scenario, trace)
        run = _kept(json.dumps(scenario.to_json()), trace_digest(), trace)
        st.session_state[PACE] = (_requests(scenario, trace), run.seconds)
        return run.simulation
    except InputError as error:
        st.error(f"**This is not simulated.** {plain(str(error))}")
        return None


def is_long(scenario: Scenario, trace: Trace | None) -> bool:
    """Return whether a run has too many requests to wait for it with the page."""
    return _requests(scenario, trace) > MOST_WITH_THE_PAGE


def watched(progress: Progress, stopped: Stopped, total: int = 0) -> RowReader:
    """Return a reader that tells how many requests have finished, and ends the run when asked to.

    Args:
        progress: is told how many finished, and ``total``.
        stopped: asked whether to end.
        total: requests of all runs that it will read; 0 where nobody knows.
    """
    finished = 0

    def read(rows: RequestRows) -> None:
        nonlocal finished
        if stopped():
            raise EndedError
        finished += rows.request.size
        progress(finished, total)

    return read


@st.cache_data(max_entries=24, show_spinner="Simulating")
def _kept(scenario_text: str, digest: str, _trace: Trace | None) -> Timed:
    del digest
    scenario = parse_scenario(json.loads(scenario_text))
    start = time.perf_counter()
    simulation = simulate(scenario, _trace, _detail(scenario))
    return Timed(simulation, time.perf_counter() - start)


def _beside(scenario: Scenario, trace: Trace | None) -> Simulation | None:
    """Offer a long run, and return what it gave."""
    count = _requests(scenario, trace)
    answer = st.container()
    found: Simulation | None = offered(
        "simulation",
        fingerprint_of(scenario, trace_digest()),
        "Simulate them",
        _prepared,
        "requests",
    )
    if found is None:
        answer.markdown(
            f"**{human(float(count), 'requests')} take a while**{_at_the_last_pace(count)}. They "
            f"are simulated when asked for; up to {MOST_WITH_THE_PAGE:,} follow the sliders."
        )
    return found


def _at_the_last_pace(count: int) -> str:
    """Return how long a run would take, as a clause; empty before the first run of a session."""
    requests, seconds = st.session_state.get(PACE, (0, 0.0))
    if not requests or not seconds:
        return ""
    return (
        f", {human(count * seconds / requests, 's')} at the pace of the last "
        f"{human(float(requests), 'requests')} here"
    )


def _prepared() -> Prepared:
    scenario, trace = state.scenario(), current_trace()
    total = _requests(scenario, trace)

    def work(progress: Progress, stopped: Stopped) -> Simulation:
        reader = watched(progress, stopped, total)
        return simulate(scenario, trace, _detail(scenario), reader)

    return fingerprint_of(scenario, trace_digest()), work


def _requests(scenario: Scenario, trace: Trace | None) -> int:
    return SimulationPlan(scenario, evaluate(scenario), trace).requests


def _detail(scenario: Scenario) -> Detail:
    kept = GANTT_BATCHES * int(evaluate(scenario).prefill_micro_batches)
    return Detail(micro_batches=min(max(kept, LEAST_GANTT), MOST_GANTT))
