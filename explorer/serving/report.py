"""The evaluation document ``explorer.evaluation/1``: results of one plan as plain JSON values."""

from __future__ import annotations

import math
from typing import Any

from explorer.config.units import human
from explorer.costs.arrays import Array
from explorer.costs.memory import MemoryBudget
from explorer.costs.terms import Bound, Term
from explorer.serving.constraints import Constraint
from explorer.serving.evaluate import OBJECTIVES, Evaluation, bottleneck_name
from explorer.serving.notes import plan_notes

EVALUATION_SCHEMA = "explorer.evaluation/1"


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """Return the results of a scenario without arrays as JSON values.

    A plan that does not fit keeps its violations, memory and communication, and has None where
    a speed would stand.
    """
    feasible = bool(evaluation.feasible)
    return {
        "schema": EVALUATION_SCHEMA,
        "feasible": feasible,
        "violations": [violation_document(item) for item in broken_constraints(evaluation)],
        "notes": list(plan_notes(evaluation)),
        "memory": {
            "prefill": _memory(evaluation.prefill_memory),
            "decode": _memory(evaluation.decode_memory),
            "buffer": {
                "kv_bytes": number(evaluation.buffer_kv_bytes),
                "clusters": number(evaluation.buffer_clusters),
            },
        },
        "communication": {"tp_all_reduce_bytes": number(evaluation.tp_all_reduce_bytes)},
        "stages": _stages(evaluation, feasible),
        "pool": _pool(evaluation, feasible),
        "latency": {
            "ttft_seconds": number(evaluation.ttft_seconds) if feasible else None,
            "tpot_seconds": number(evaluation.tpot_seconds) if feasible else None,
            "total_seconds": number(evaluation.total_seconds) if feasible else None,
        },
    }


def number(value: Array | float) -> float | int | None:
    """Return a 0-d value as a JSON number: whole ones as int, not-a-number as None."""
    result = float(value)
    if not math.isfinite(result):
        return None
    return int(result) if result.is_integer() else result


def broken_constraints(evaluation: Evaluation) -> tuple[Constraint, ...]:
    """Return the constraints that a single plan breaks."""
    return tuple(item for item in evaluation.constraints if not item.kept.all())


def violation_document(constraint: Constraint) -> dict[str, Any]:
    """Return a broken constraint as JSON values, with a message for people."""
    return {
        "constraint": constraint.name,
        "value": number(constraint.value),
        "limit": number(constraint.limit),
        "unit": constraint.unit,
        "message": violation_message(constraint),
    }


def violation_message(constraint: Constraint) -> str:
    """Return one sentence: what is needed against what there is."""
    value, limit = float(constraint.value), float(constraint.limit)
    if constraint.name == "placement":
        return (
            "Shared placement uses the same cards for prefill and decode: prefill TP and PP must "
            "equal decode's, and DP_P must be 1."
        )
    needed, available = human(value, constraint.unit), human(limit, constraint.unit)
    if needed == available:
        # A difference too small for three figures still decides: show every digit of it.
        needed, available = (f"{_every_digit(x)} {constraint.unit}" for x in (value, limit))
    meaning = constraint.meaning[0].upper() + constraint.meaning[1:]
    verbs = {"ttft": "is", "tpot": "is", "context": "need"}
    verb = verbs.get(constraint.name, "needs")
    return f"{meaning} {verb} {needed}; the limit is {available}."


def why_not(evaluation: Evaluation) -> str:
    """Return the messages of the constraints that a single plan breaks; empty where it fits."""
    return " ".join(violation_message(item) for item in broken_constraints(evaluation))


def _every_digit(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:,}"


def term_documents(terms: tuple[Term, ...]) -> list[dict[str, Any]]:
    """Return the terms that add up to a time, those of zero left out."""
    return [
        {
            "name": term.name,
            "seconds": number(term.seconds),
            "busy_seconds": number(term.busy_seconds),
            "bytes": number(term.bytes),
            "macs": number(term.macs),
            "bound_by": Bound(int(term.bound_by)).label,
            "kinds": sorted(term.kinds),
        }
        for term in terms
        if float(term.seconds) != 0 or float(term.busy_seconds) != 0
    ]


def _memory(budget: MemoryBudget) -> dict[str, Any]:
    return {
        "params_bytes": number(budget.params_bytes),
        "kv_bytes": number(budget.kv_bytes),
        "state_bytes": number(budget.state_bytes),
        "overhead_bytes": number(budget.overhead_bytes),
        "imbalance_bytes": number(budget.imbalance_bytes),
        "total_bytes": number(budget.total_bytes),
        "limit_bytes": number(budget.limit_bytes),
    }


def _stages(evaluation: Evaluation, feasible: bool) -> dict[str, Any]:
    speeds: dict[str, Any] = {
        "prefill_seconds": number(evaluation.prefill_seconds),
        "decode_seconds": number(evaluation.decode_seconds),
        "prefill_stage_seconds": number(evaluation.prefill_stage.seconds),
        "decode_stage_seconds": number(evaluation.decode_stage.seconds),
        "prefill_terms": term_documents(evaluation.prefill_terms()),
        "decode_terms": term_documents(evaluation.decode_terms()),
    }
    if not feasible:
        speeds = dict.fromkeys(speeds)
    return {
        "batch": number(evaluation.batch),
        "prefill_micro_batches": number(evaluation.prefill_micro_batches),
        **speeds,
    }


def _pool(evaluation: Evaluation, feasible: bool) -> dict[str, Any]:
    eq22, per_token, throughput = (
        number(evaluation.objective(name)) if feasible else None for name in OBJECTIVES
    )
    return {
        "clusters": number(evaluation.clusters),
        "pools": number(evaluation.pools),
        "idle_clusters": number(evaluation.idle_clusters),
        "objective": eq22,
        "cluster_seconds_per_token": per_token,
        "throughput_tokens_per_second": throughput,
        "bottleneck": bottleneck_name(int(evaluation.bottleneck)),
    }
