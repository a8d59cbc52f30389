"""What the attribution page's numbers are made of: terms, formulas, inputs, measured rows."""

from __future__ import annotations

import streamlit as st

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_formulas import (
    unfolded_decode,
    unfolded_prefill,
    unfolded_prices,
    unfolded_synced,
)
from explorer.config.scenario import Scenario
from explorer.fidelity.comparable import comparable_passes
from explorer.fidelity.measurements import shipped_measurements
from explorer.serving.evaluate import evaluate
from explorer.serving.stages import slowest_decode_share, slowest_prefill_share
from explorer.ui import numbers

ABLATIONS = "ablation_gated_delta"


def show(scenario: Scenario) -> None:
    """Show everything for a scenario on the Ascend."""
    evaluation = evaluate(scenario)
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return
    share = slowest_prefill_share(evaluation)
    one = machine.prefill_pass(share)
    running, synced = unfolded_prefill(one), unfolded_synced(one)
    decode = unfolded_decode(
        machine.work(slowest_decode_share(evaluation), evaluation.inputs.tp_decode)
    )
    prices = unfolded_prices(one)
    st.markdown("**The pass as it runs**: exposed time and work, term by term.")
    modelled = one.stage()
    numbers.terms_and_inputs(
        running,
        {"exposed": numbers.exposed(modelled), "work": numbers.worked(modelled)},
        scenario,
    )
    st.markdown(
        "**The device-synced profile**, serial: its phases add up to the stack; the wall adds "
        "head × t_after + embedding × rows × t_before."
    )
    profile = machine.synced_profile(share)
    phases = {name: float(part) for name, part in profile.phases.items()}
    whole = {"stack": float(profile.stack_seconds), "wall": float(profile.wall_seconds)}
    numbers.terms_and_inputs(synced, {"time": {**phases, **whole}}, scenario)
    st.markdown("**One decode step**, which a decode target is a target of.")
    numbers.terms_and_inputs(decode, {"time": numbers.exposed(evaluation.decode_stage)}, scenario)
    st.markdown("**One all-reduce of this pass**, by each of the report's routes.")
    numbers.terms_and_inputs(
        prices,
        {"time": {price.route: float(price.seconds) for price in machine.collective_prices}},
        scenario,
    )
    st.markdown("**Numbers of the machine in these formulas**")
    numbers.machine_numbers([running, synced, decode, prices], scenario)
    st.markdown(
        "**How the other figures follow.** The replay runs the same operators, sites and issue "
        "times event by event, and ends at the same time. A kernel without a group is the pass "
        "with that symbol at 0. A target's needed value is found by evaluating the pass over the "
        "number's whole range, cut to what the chip's FP16 peak, HBM bandwidth and card-to-card "
        "latency allow, and halving in on the nearest value that reaches it. Conflicts name the "
        "section of each figure beside it."
    )
    measured = [
        *(row for row in comparable_passes(scenario) if row.quantity == "phase_time"),
        *(row for row in shipped_measurements() if row.quantity in (ABLATIONS, "all_reduce_time")),
    ]
    st.markdown("**Measured values**")
    numbers.measured_rows(measured)
