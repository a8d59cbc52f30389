"""What to set on the real engine: pools, ranks, layers of each stage, and the chip's own recipe."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from explorer.costs.partition import stage_sizes
from explorer.serving.evaluate import Evaluation
from explorer.serving.report import number


def deploy_document(evaluation: Evaluation) -> dict[str, Any]:
    """Return what to set on the real engine for a plan without arrays, as JSON values."""
    scenario = evaluation.inputs.scenario
    plan, layers = scenario.plan, evaluation.inputs.model.layers
    return {
        "prefill": {
            "tp": plan.tp_prefill,
            "pp": plan.pp_prefill,
            "dp": plan.dp_prefill,
            "micro_batch": plan.micro_batch_prefill,
        },
        "decode": {
            "tp": plan.tp_decode,
            "pp": plan.pp_decode,
            "micro_batch": plan.micro_batch_decode,
        },
        "buffer_clusters": number(evaluation.buffer_clusters),
        "buffer_bytes": number(evaluation.buffer_kv_bytes),
        "pools": number(evaluation.pools),
        "layers": {
            "prefill": stage_layers(layers, int(plan.pp_prefill)),
            "decode": stage_layers(layers, int(plan.pp_decode)),
        },
        "ranks": rank_groups(evaluation),
        "environment": evaluation.machine.environment(),
        **evaluation.machine.deployment(),
    }


def stage_layers(layers: int, pp: int) -> list[list[int]]:
    """Return the first and the last layer of each pipeline stage, counted from 0."""
    ends = list(accumulate(stage_sizes(layers, pp)))
    return [[start, end - 1] for start, end in zip([0, *ends], ends, strict=False)]


def rank_groups(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the ranks of one pool, a rank a cluster or card, in the order of the request's way.

    Within a group a rank is (pipeline x stages + stage) x TP + TP rank. Further pools follow, each
    with as many ranks.
    """
    i = evaluation.inputs
    if i.shared:
        sizes = {"prefill and decode": i.pp_decode * i.tp_decode}
    else:
        sizes = {
            "prefill": i.dp_prefill * i.pp_prefill * i.tp_prefill,
            "buffer": evaluation.buffer_clusters,
            "decode": i.pp_decode * i.tp_decode,
        }
    groups, first = [], 0
    for name, size in sizes.items():
        groups.append({"group": name, "first_rank": first, "ranks": int(size)})
        first += int(size)
    return groups
