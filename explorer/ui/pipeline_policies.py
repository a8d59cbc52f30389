"""What the bounded buffer is worth: the same arrivals under each policy."""

from __future__ import annotations

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.serving.simulation_plan import misfits
from explorer.serving.simulation_results import Simulation
from explorer.serving.trace import Trace
from explorer.ui.folded import folded
from explorer.ui.pipeline_run import MOST_WITH_THE_PAGE, is_long, simulated
from explorer.ui.tables import show_table

POLICY = "simulation.policy"
POLICY_NAMES = {
    "bounded": "bounded buffer, prefill pauses",
    "unbounded": "unbounded, prefill never pauses",
    "no_buffer": "no buffer, prefill hands over itself",
}


def policies_section(scenario: Scenario, trace: Trace | None) -> None:
    """Show the same arrivals under each policy, when the part is open."""
    if scenario.plan.placement == "shared":
        return
    with folded("What is the bounded buffer worth?", "policies") as is_open:
        if not is_open:
            return
        if is_long(scenario, trace):
            st.markdown(
                f"Three runs of so many requests are not made here. Policies are compared for up "
                f"to {MOST_WITH_THE_PAGE:,} requests; `python -m explorer simulate --policy …` "
                "takes any number."
            )
            return
        _policies(scenario, trace)


def _policies(scenario: Scenario, trace: Trace | None) -> None:
    rows = []
    for policy, name in POLICY_NAMES.items():
        changed = scenario.replacing({POLICY: policy})
        if misfits(changed, trace is not None):
            continue
        simulation = simulated(changed, trace)
        if simulation is not None:
            rows.append(_row(name, simulation))
    show_table(rows)
    st.caption(
        "The same arrivals under each policy. A run that overflows its buffer's memory has no "
        "throughput: the service would have died there. Without a buffer its clusters still count."
    )


def _row(name: str, simulation: Simulation) -> dict[str, str]:
    buffer = simulation.buffer
    dead = simulation.out_of_memory
    row = {
        "policy": name,
        "throughput": "–" if dead else human(simulation.speed.tokens_per_second, "tokens/s"),
        "first token, 99 in 100": "–" if dead else human(simulation.ttft.p99, "s"),
    }
    if buffer is not None:
        row["buffer at its fullest"] = human(buffer.peak_bytes, "B")
        row["prefill paused"] = f"{significant(100 * buffer.paused_fraction)} %"
        moment = buffer.out_of_memory_seconds
        row["out of memory"] = "never" if moment is None else f"after {human(moment, 's')}"
    return row
