"""Measured passes of a model: prefill, decode steps, their phases, all-reduces."""

from __future__ import annotations

import re

from explorer.chips.ascend910a import ALL_REDUCES_PER_LAYER, Ascend910a
from explorer.config.errors import shown
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array, scalar, total
from explorer.costs.collective import marginal_all_reduce_seconds
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
from explorer.fidelity.scenarios import base_scenario, chip_machine, with_layers
from explorer.serving.evaluate import Evaluation, evaluate

RULE = "rule"
NOTHING = "none"
HOST_TERM = "host_issue_wait"
FEWEST_OUTPUT_TOKENS = 2
PHASE_TERMS = {
    "gated_delta": "gated_delta",
    "full_attention": "full_attention",
    "projections": "projections",
    "norms": "norms",
}
WHOLE_PASS = ("wall", "stack")
ALL_REDUCE = "tp_all_reduce"
PLACES = ("engine", "standalone")
MEMORY = ("prefill_memory", "decode_memory")


def prefill_throughput(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict prefill of ``rows`` prompt tokens at ``tp`` with ``slices``."""
    _not_ablated(conditions)
    evaluation = _prefill(row, conditions)
    rows = float(evaluation.inputs.prompt_tokens)
    seconds, basis = evaluation.prefill_stage.seconds, ""
    if conditions.flag("device_synced"):
        seconds = total([term.seconds for term in _device_terms(evaluation)])
        basis = "device-synced: host issue not raced against"
    naive = float(naive_prefill_seconds(evaluation))
    return Prediction(rows / float(seconds), rows / naive, basis, _extrapolated(evaluation))


def phase_time(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict one phase of a device-synced, serial prefill pass of ``rows``."""
    _not_ablated(conditions)
    phases = (*WHOLE_PASS, *PHASE_TERMS, ALL_REDUCE)
    return _phase(row, conditions, conditions.word("phase", phases))


def ablation_gated_delta(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict the recurrence of a pass of ``rows`` with parts of its kernel left out."""
    _not_ablated(conditions)
    return _phase(row, conditions, "gated_delta")


def decode_throughput(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict decode of ``rows`` requests at ``context``."""
    evaluation = _decode(row, conditions)
    rows = float(evaluation.inputs.micro_batch_decode)
    steps = float(evaluation.inputs.pp_decode * evaluation.decode_stage.seconds)
    naive = float(evaluation.inputs.pp_decode * naive_decode_seconds(evaluation))
    return Prediction(
        rows / steps, rows / naive, extrapolated=_decode_extrapolated(row, evaluation)
    )


def decode_step_time(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict one decode step of ``rows`` requests at ``context`` through ``layers``."""
    evaluation = _decode(row, conditions)
    step = float(evaluation.inputs.pp_decode * evaluation.decode_stage.seconds)
    naive = float(evaluation.inputs.pp_decode * naive_decode_seconds(evaluation))
    return Prediction(step, naive, extrapolated=_decode_extrapolated(row, evaluation))


def all_reduce_time(row: Measurement, conditions: Conditions) -> Prediction:
    """Predict one all-reduce of ``bytes`` among ``world`` cards."""
    machine = _ascend(row.chip)
    world = scalar(conditions.whole("world"))
    payload = scalar(conditions.whole("bytes"))
    place = conditions.word("where", PLACES, PLACES[0])
    fixed, wire = _all_reduce(machine, payload, world)
    naive = float(payload / machine.numbers.link_bandwidth_bytes_per_second)
    basis = "the standalone probe's fixed term" if place == PLACES[0] else ""
    extrapolated = bool(world != machine.numbers.measured_tp)
    # The bandwidth is a measured slope, not a published peak: it bounds nothing.
    return Prediction(float(fixed + wire), naive, basis, extrapolated, naive_is_bound=False)


def _phase(row: Measurement, conditions: Conditions, phase: str) -> Prediction:
    """Return a phase of the serial pass: nothing overlaps, the host is not raced against."""
    machine = _ascend(row.chip)
    evaluation = _prefill(row, conditions, serial=True)
    terms = {term.name: term for term in _device_terms(evaluation)}
    extrapolated, basis, bound = _extrapolated(evaluation), "", True
    if phase in WHOLE_PASS:
        seconds = total([term.seconds for term in terms.values()])
        naive = naive_prefill_seconds(evaluation)
        basis = "the device's terms of the serial pass; profiling itself is not modelled"
    elif phase == ALL_REDUCE:
        i = evaluation.inputs
        payload = i.prompt_tokens * i.model.hidden_size * i.compute_bytes
        calls = ALL_REDUCES_PER_LAYER * i.model.layers + 1
        fixed, wire = _all_reduce(machine, payload, i.tp_prefill)
        seconds, naive, bound = calls * (fixed + wire), calls * wire, False
        basis = f"{calls} all-reduces with the standalone probe's fixed term"
    else:
        term = terms.get(PHASE_TERMS[phase])
        if term is None:
            raise NotModelledError(f"the model has no term for the phase {phase}")
        seconds, naive = term.busy_seconds, _term_roofline(evaluation, term)
        bound = float(naive) > 0
    naive_seconds = max(float(naive), 0.0)
    return Prediction(float(seconds), naive_seconds, basis, extrapolated, bound)


def _prefill(row: Measurement, conditions: Conditions, serial: bool = False) -> Evaluation:
    tp, rows = conditions.whole("tp", 1), conditions.whole("rows")
    slices = _slices(conditions)
    changes: dict[str, object] = {
        "plan.micro_batch_prefill": 1,
        "plan.micro_batch_decode": 1,
        "plan.slices": 1 if serial else slices,
        "workload.prompt_tokens": rows,
        "workload.max_context_tokens": rows + FEWEST_OUTPUT_TOKENS,
        "workload.output_tokens": FEWEST_OUTPUT_TOKENS,
    }
    return _fitting(evaluate(_scenario(row, conditions, tp).replacing(changes)))


def _decode(row: Measurement, conditions: Conditions) -> Evaluation:
    tp, rows = conditions.whole("tp", 1), conditions.whole("rows", 1)
    context = conditions.whole("context")
    changes: dict[str, object] = {
        "plan.micro_batch_prefill": 1,
        "plan.micro_batch_decode": rows,
        "workload.prompt_tokens": context,
        "workload.max_context_tokens": context + FEWEST_OUTPUT_TOKENS,
        "workload.output_tokens": FEWEST_OUTPUT_TOKENS,
    }
    return _fitting(evaluate(_scenario(row, conditions, tp).replacing(changes)))


def _scenario(row: Measurement, conditions: Conditions, tp: int) -> Scenario:
    """Return shared placement on ``tp`` cards or clusters, the model cut to ``layers``."""
    if not row.model:
        raise NotModelledError("the row names no model")
    base = base_scenario(row.chip, row.model)
    layers = conditions.whole("layers", base.model_shape().layers)
    plan = {"plan.tp_prefill": tp, "plan.tp_decode": tp, "workload.clusters_total": tp}
    scenario = with_layers((row.chip, row.model), layers)
    return scenario.replacing({"plan.placement": "shared", "plan.dp_prefill": 1, **plan})


def _fitting(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation; what does not fit has no speed."""
    for constraint in evaluation.constraints:
        if constraint.name in MEMORY and not constraint.kept.all():
            value, limit = float(constraint.value), float(constraint.limit)
            raise NotModelledError(
                f"does not fit: {constraint.meaning} needs {value / 1e9:.1f} of "
                f"{limit / 1e9:.1f} GB"
            )
    return evaluation


def _slices(conditions: Conditions) -> int | str:
    conditions.used.add("slices")
    text = conditions.texts.get("slices", RULE)
    if text == RULE:
        return RULE
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise NotModelledError(f"slices={shown(text)} is neither a whole number nor {RULE}")
    return int(text)


def _not_ablated(conditions: Conditions) -> None:
    conditions.used.add("ablated")
    ablated = conditions.texts.get("ablated", NOTHING)
    if ablated != NOTHING:
        raise NotModelledError(
            f"ablated={shown(ablated)}: the recurrence is one term, without instruction groups"
        )


def _device_terms(evaluation: Evaluation) -> tuple[Term, ...]:
    return tuple(term for term in evaluation.prefill_stage.terms if term.name != HOST_TERM)


def _extrapolated(evaluation: Evaluation) -> bool:
    return bool(evaluation.machine.notes())


def _decode_extrapolated(row: Measurement, evaluation: Evaluation) -> bool:
    """Return whether a step leaves what was measured: batch, TP, or the number of layers."""
    machine, i = evaluation.machine, evaluation.inputs
    if not isinstance(machine, Ascend910a):
        return _extrapolated(evaluation)
    n = machine.numbers
    cut = i.model.layers != base_scenario(row.chip, row.model).model_shape().layers
    beyond = i.micro_batch_decode > n.largest_measured_decode_batch
    return bool(cut or beyond or i.tp_decode != n.measured_tp)


def _ascend(chip: str) -> Ascend910a:
    machine = chip_machine(chip)
    if not isinstance(machine, Ascend910a):
        raise NotModelledError(f"only the Ascend 910A is modelled by phase, not {chip}")
    return machine


def _all_reduce(machine: Ascend910a, payload: Array, world: Array) -> tuple[Array, Array]:
    n = machine.numbers
    return marginal_all_reduce_seconds(
        payload,
        world,
        n.collective_fixed_seconds,
        n.link_bandwidth_bytes_per_second,
        n.measured_tp,
    )


def _term_roofline(evaluation: Evaluation, term: Term) -> Array:
    roof = roof_of(evaluation.machine, evaluation.inputs.scenario.precision.compute)
    peak, bandwidth = roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    return roofline_seconds(term.macs, term.bytes, peak, bandwidth)
