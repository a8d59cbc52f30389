"""Measured passes of a model: prefill, decode steps, their phases, all-reduces."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_synced import (
    ALL_REDUCE,
    ENGINE,
    FULL_ATTENTION,
    GATED_DELTA,
    NORMS,
    OTHER,
    PHASES,
    PROJECTIONS,
    STACK,
    STANDALONE,
    WALL,
    SyncedProfile,
    all_reduce_by,
)
from explorer.config.errors import shown
from explorer.costs.arrays import Array, scalar, total
from explorer.costs.roofline import roofline_seconds
from explorer.costs.terms import Term
from explorer.fidelity.conditions import Conditions, NotModelledError
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.prediction import (
    Prediction,
    naive_decode_seconds,
    naive_prefill_seconds,
    roof_of,
)
from explorer.fidelity.scenarios import OnChip
from explorer.serving.evaluate import Evaluation

RULE = "rule"
CARDS, REQUESTS = ("tp", "world"), ("rows", "batch", "requests")
"""Names that a group's size, and the requests of a decode step, go by."""
NOTHING = "none"
FEWEST_OUTPUT_TOKENS = 2
PLACES = (ENGINE, STANDALONE)
ABLATIONS = {
    "none": "whole",
    "broadcast_rows": "without_broadcast_rows",
    "rank1_update": "without_rank1_update",
    "both": "without_both",
}
OTHER_TERM = "other_operators"
BASES = {
    ENGINE: "two-point fit of the device-synced profile",
    STANDALONE: "the standalone probe's fixed term and slope",
}
RUNNING_WORK = "as it runs: what the device works on the phase, hidden or not"
RUNNING_CLOCK = "as it runs: wall-clock time"
RUNNING = {
    GATED_DELTA: ("gated_delta",),
    FULL_ATTENTION: ("full_attention",),
    PROJECTIONS: ("projections",),
    ALL_REDUCE: ("collectives_fixed", "all_reduce_bytes"),
    NORMS: ("norms",),
    OTHER: ("other_operators", "device_fixed"),
}
"""Terms of a running pass by the phase of the profile that they are."""
SYNCED = "device-synced: the profile's fixed terms, nothing overlaps"
MEMORY = ("prefill_memory", "decode_memory")


def prefill_throughput(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict prefill of ``rows`` prompt tokens at ``tp`` with ``slices``.

    Device-synced runs are the wall of the serial profile; ``ablated`` leaves out groups of the
    recurrence.
    """
    evaluation = _prefill(row, conditions, on)
    rows = evaluation.inputs.prompt_tokens
    seconds, basis = evaluation.prefill_stage.seconds, ""
    if conditions.flag("device_synced"):
        seconds, basis = _profile(evaluation, on).wall_seconds, SYNCED
    naive = naive_prefill_seconds(evaluation)
    return Prediction(rows / seconds, rows / naive, basis, _extrapolated(evaluation))


def phase_time(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict one phase of a prefill pass of ``rows``.

    Of a device-synced pass, which the report profiled, by that profile. Of a running pass by the
    time that the device works on the phase, whatever overlaps it; wall and stack are the clock's.

    Raises:
        NotModelledError: for a device-synced pass in slices, which was never profiled.
    """
    phase = conditions.word("phase", (WALL, STACK, *PHASES))
    if not conditions.flag("device_synced", default=True):
        return _running_phase(row, conditions, on, phase)
    if _slices(conditions, default=1) not in (0, 1):
        raise NotModelledError(
            "a device-synced pass was profiled serially only: in slices its scopes would drain "
            "the device at every slice, at a cost that nobody measured"
        )
    return _phase(row, conditions, on, phase)


def ablation_gated_delta(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict the recurrence of a pass of ``rows`` with parts of its kernel left out."""
    return _phase(row, conditions, on, GATED_DELTA)


def decode_throughput(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict decode of ``rows`` requests at ``context``."""
    evaluation = _decode(row, conditions, on)
    rows = evaluation.inputs.micro_batch_decode
    steps = evaluation.inputs.pp_decode * evaluation.decode_stage.seconds
    naive = evaluation.inputs.pp_decode * naive_decode_seconds(evaluation)
    beyond = _decode_extrapolated(row, evaluation, on)
    return Prediction(rows / steps, rows / naive, extrapolated=beyond)


def decode_step_time(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict one decode step of ``rows`` requests at ``context`` through ``layers``."""
    evaluation = _decode(row, conditions, on)
    step = evaluation.inputs.pp_decode * evaluation.decode_stage.seconds
    naive = evaluation.inputs.pp_decode * naive_decode_seconds(evaluation)
    return Prediction(step, naive, extrapolated=_decode_extrapolated(row, evaluation, on))


def all_reduce_time(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict one all-reduce of ``bytes`` among ``world`` cards."""
    machine = _ascend(on)
    world = scalar(conditions.whole_of(("world", "tp")))
    payload = scalar(conditions.whole("bytes"))
    place = conditions.word("where", PLACES, PLACES[0])
    fixed, wire = all_reduce_by(place, machine.numbers, payload, world)
    naive = payload / machine.numbers.link_bandwidth_bytes_per_second
    basis = BASES[place]
    extrapolated = bool(np.any(world != machine.numbers.measured_tp))
    # The bandwidth is a measured slope, not a published peak: it bounds nothing.
    return Prediction(fixed + wire, naive, basis, extrapolated, naive_is_bound=False)


def _phase(row: Measurement, conditions: Conditions, on: OnChip, phase: str) -> Prediction[Array]:
    """Return a phase of the device-synced serial pass."""
    evaluation = _prefill(row, conditions, on, serial=True)
    seconds = _profile(evaluation, on).seconds(phase)
    naive, bound = _naive_phase(evaluation, phase)
    return Prediction(seconds, naive, SYNCED, _extrapolated(evaluation), bound)


def _running_phase(
    row: Measurement, conditions: Conditions, on: OnChip, phase: str
) -> Prediction[Array]:
    """Return a phase of the pass as it runs: the work of its terms, or the clock's time."""
    evaluation = _prefill(row, conditions, on)
    if not isinstance(evaluation.machine, Ascend910a):
        raise NotModelledError(f"only the Ascend 910A is modelled by phase, not {on.name}")
    stage = evaluation.prefill_stage
    terms = {term.name: term for term in stage.terms}
    worked = total([terms[name].busy_seconds for name in RUNNING.get(phase, ())])
    stack = stage.seconds - terms["outside_layers"].seconds
    seconds = {WALL: stage.seconds, STACK: stack}.get(phase, worked)
    naive, bound = _naive_phase(evaluation, phase)
    basis = RUNNING_CLOCK if phase in (WALL, STACK) else RUNNING_WORK
    # No phase of a running pass was ever measured; its wall was.
    return Prediction(seconds, naive, basis, phase != WALL or _extrapolated(evaluation), bound)


def _naive_phase(evaluation: Evaluation, phase: str) -> tuple[Array, bool]:
    """Return a phase by plain roofline [s], and whether that bounds it."""
    if phase in (WALL, STACK):
        return naive_prefill_seconds(evaluation), True
    terms = {term.name: term for term in evaluation.prefill_stage.terms}
    if phase == ALL_REDUCE:
        # The bandwidth is a measured slope, not a published peak.
        return terms["all_reduce_bytes"].busy_seconds, False
    term = terms[OTHER_TERM if phase == OTHER else phase]
    naive = np.maximum(_term_roofline(evaluation, term), 0.0)
    return naive, bool(np.all(naive > 0))


def _profile(evaluation: Evaluation, on: OnChip) -> SyncedProfile:
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        raise NotModelledError(f"only the Ascend 910A is modelled by phase, not {on.name}")
    return machine.synced_profile(evaluation.prefill_shares[0])


def _prefill(
    row: Measurement, conditions: Conditions, on: OnChip, serial: bool = False
) -> Evaluation:
    tp, rows = conditions.whole_of(CARDS, 1), conditions.whole("rows")
    slices = _slices(conditions)
    changes: dict[str, object] = {
        "kernel.recurrence": ABLATIONS[conditions.word("ablated", tuple(ABLATIONS), NOTHING)],
        "plan.micro_batch_prefill": 1,
        "plan.micro_batch_decode": 1,
        "plan.slices": 1 if serial else slices,
        "workload.prompt_tokens": rows,
        "workload.max_context_tokens": rows + FEWEST_OUTPUT_TOKENS,
        "workload.output_tokens": FEWEST_OUTPUT_TOKENS,
    }
    return _fitting(_evaluation(row, conditions, on, tp, changes))


def _decode(row: Measurement, conditions: Conditions, on: OnChip) -> Evaluation:
    tp, rows = conditions.whole_of(CARDS, 1), conditions.whole_of(REQUESTS, 1)
    context = conditions.whole("context")
    changes: dict[str, object] = {
        "plan.micro_batch_prefill": 1,
        "plan.micro_batch_decode": rows,
        "workload.prompt_tokens": context,
        "workload.max_context_tokens": context + FEWEST_OUTPUT_TOKENS,
        "workload.output_tokens": FEWEST_OUTPUT_TOKENS,
    }
    return _fitting(_evaluation(row, conditions, on, tp, changes))


def _evaluation(
    row: Measurement, conditions: Conditions, on: OnChip, tp: int, changes: Mapping[str, object]
) -> Evaluation:
    """Return shared placement on ``tp`` cards or clusters, the model cut to ``layers``."""
    if not row.model:
        raise NotModelledError("the row names no model")
    layers = conditions.whole("layers", on.layers(row.model))
    plan = {"plan.tp_prefill": tp, "plan.tp_decode": tp, "workload.clusters_total": tp}
    shared = {"plan.placement": "shared", "plan.dp_prefill": 1}
    return on.evaluation(row.model, layers, {**shared, **plan, **changes})


def _fitting(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation; what does not fit has no speed."""
    for constraint in evaluation.constraints:
        if constraint.name in MEMORY and not constraint.kept.all():
            value, limit = float(np.max(constraint.value)), float(np.min(constraint.limit))
            raise NotModelledError(
                f"does not fit: {constraint.meaning} needs {value / 1e9:.1f} of "
                f"{limit / 1e9:.1f} GB"
            )
    return evaluation


def _slices(conditions: Conditions, default: int | str = RULE) -> int | str:
    conditions.used.add("slices")
    text = conditions.texts.get("slices", str(default))
    if text == RULE:
        return RULE
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise NotModelledError(f"slices={shown(text)} is neither a whole number nor {RULE}")
    return int(text)


def _extrapolated(evaluation: Evaluation) -> bool:
    return bool(evaluation.machine.notes())


def _decode_extrapolated(row: Measurement, evaluation: Evaluation, on: OnChip) -> bool:
    """Return whether a step leaves what was measured: batch, TP, or the number of layers."""
    machine, i = evaluation.machine, evaluation.inputs
    if not isinstance(machine, Ascend910a):
        return _extrapolated(evaluation)
    n = machine.numbers
    cut = i.model.layers != on.layers(row.model)
    beyond = i.micro_batch_decode > n.largest_measured_decode_batch
    return bool(np.any(cut | beyond | (i.tp_decode != n.measured_tp)))


def _ascend(on: OnChip) -> Ascend910a:
    machine = on.machine
    if not isinstance(machine, Ascend910a):
        raise NotModelledError(f"only the Ascend 910A is modelled by phase, not {on.name}")
    return machine


def _term_roofline(evaluation: Evaluation, term: Term) -> Array:
    roof = roof_of(evaluation.machine, evaluation.inputs.scenario.precision.compute)
    peak, bandwidth = roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    return roofline_seconds(term.macs, term.bytes, peak, bandwidth)
