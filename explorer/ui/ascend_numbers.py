"""What the Ascend's numbers are made of: terms, formulas, inputs, measured rows."""

from __future__ import annotations

import streamlit as st

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_formulas import (
    unfolded_decode,
    unfolded_prefill,
    unfolded_prices,
    unfolded_synced,
)
from explorer.chips.formulas import Unfolding
from explorer.costs.terms import slowest
from explorer.fidelity.comparable import comparable_passes
from explorer.fidelity.measurements import shipped_measurements
from explorer.serving.evaluate import Evaluation
from explorer.serving.stages import slowest_decode_share, slowest_prefill_share
from explorer.ui import numbers

ABLATIONS = "ablation_gated_delta"


def pass_and_step(evaluation: Evaluation) -> None:
    """Show the terms of a prefill pass and of a decode step, and the machine's numbers in them."""
    machine, scenario = evaluation.machine, evaluation.inputs.scenario
    if isinstance(machine, Ascend910a):
        numbers.machine_numbers(
            [_running(evaluation, machine), _step(evaluation, machine)], scenario
        )


def show(evaluation: Evaluation) -> None:
    """Show everything behind the attribution page, for a scenario on the Ascend."""
    machine, scenario = evaluation.machine, evaluation.inputs.scenario
    if not isinstance(machine, Ascend910a):
        return
    share = slowest_prefill_share(evaluation)
    one = machine.prefill_pass(share)
    synced, prices = unfolded_synced(one), unfolded_prices(one)
    running = _running(evaluation, machine)
    st.markdown(
        "**The device-synced profile**, serial: its phases add up to the stack; the wall adds "
        "head × t_after + embedding × rows × t_before."
    )
    profile = machine.synced_profile(share)
    phases = {name: float(part) for name, part in profile.phases.items()}
    whole = {"stack": float(profile.stack_seconds), "wall": float(profile.wall_seconds)}
    numbers.terms_and_inputs(synced, {"time": {**phases, **whole}})
    decode = _step(evaluation, machine)
    st.markdown("**One all-reduce of this pass**, by each of the report's routes.")
    numbers.terms_and_inputs(
        prices,
        {"time": {price.route: float(price.seconds) for price in machine.collective_prices}},
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


def _running(evaluation: Evaluation, machine: Ascend910a) -> Unfolding:
    """Show the running pass, and return its formulas."""
    unfolding = unfolded_prefill(machine.prefill_pass(slowest_prefill_share(evaluation)))
    stage = slowest(evaluation.modelled_prefill_stages)
    st.markdown("**A prefill pass as it runs**: exposed time and work, term by term.")
    columns = {"exposed": numbers.exposed(stage), "work": numbers.worked(stage)}
    numbers.terms_and_inputs(unfolding, columns)
    return unfolding


def _step(evaluation: Evaluation, machine: Ascend910a) -> Unfolding:
    """Show one decode step, and return its formulas."""
    held = slowest_decode_share(evaluation)
    unfolding = unfolded_decode(machine.work(held, evaluation.inputs.tp_decode))
    st.markdown("**A decode step**: its terms follow one another.")
    numbers.terms_and_inputs(unfolding, {"time": numbers.exposed(evaluation.decode_stage)})
    return unfolding
