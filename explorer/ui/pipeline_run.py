"""Running the simulation for a page: once for each scenario and trace."""

from __future__ import annotations

import json

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario, parse_scenario
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation import simulate
from explorer.serving.simulation_results import Detail, Simulation
from explorer.serving.trace import Trace, require_context
from explorer.ui.pipeline_controls import trace_digest
from explorer.ui.text import plain

GANTT_BATCHES, LEAST_GANTT, MOST_GANTT = 5, 16, 160
"""Batches whose micro-batches the Gantt shows, and least and most micro-batches of it."""


def simulated(scenario: Scenario, trace: Trace | None) -> Simulation | None:
    """Return the simulated service, or say why there is none and return None."""
    try:
        if trace is not None:
            require_context(trace, int(scenario.workload.max_context_tokens))
        return _kept(json.dumps(scenario.to_json()), trace_digest(), trace)
    except InputError as error:
        st.error(f"**This is not simulated.** {plain(str(error))}")
        return None


@st.cache_data(max_entries=24, show_spinner="Simulating")
def _kept(scenario_text: str, digest: str, _trace: Trace | None) -> Simulation:
    del digest
    scenario = parse_scenario(json.loads(scenario_text))
    kept = GANTT_BATCHES * int(evaluate(scenario).prefill_micro_batches)
    detail = Detail(micro_batches=min(max(kept, LEAST_GANTT), MOST_GANTT))
    return simulate(scenario, _trace, detail)
