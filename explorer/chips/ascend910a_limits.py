"""What no kernel, link or engine of the Ascend 910A can beat, number by number.

A number that was measured may be improved up to the chip's own rates: products to the FP16 peak,
streams to the HBM bandwidth. Those two are themselves what another chip would bring.
"""

from __future__ import annotations

import numpy as np

from explorer.chips.ascend910a_numbers import RECURRENCE_GROUPS, Ascend910aNumbers
from explorer.chips.ascend910a_scale import attention_ratio, recurrence_ratio
from explorer.chips.ascend910a_work import RECURRENCE_PASSES, Work
from explorer.chips.machine import Limit
from explorer.costs.arrays import ONE, Array
from explorer.costs.attention import full_attention_macs
from explorer.costs.collective import all_reduce_rank_bytes

PEAK, HBM = "FP16 peak", "HBM bandwidth"
HOP = "one card-to-card latency"


def physical_limits(work: Work) -> tuple[Limit, ...]:
    """Return the limits of a scenario without arrays; ``work`` holds the whole model."""
    n = work.numbers
    hbm, peak = n.hbm_bandwidth_bytes_per_second, n.peak_macs_per_second_fp16
    sent = all_reduce_rank_bytes(ONE, n.measured_tp)
    return (
        Limit("weight_stream_bytes_per_second", hbm, HBM, most=True),
        Limit("link_bandwidth_bytes_per_second", hbm / sent, HBM, most=True),
        Limit("collective_fixed_seconds", n.link_latency_seconds, HOP),
        Limit("outside_fixed_seconds", work.head_weight_bytes / hbm, HBM),
        _projections(work),
        *_recurrence(work, n, peak),
        *_attention(work, n, peak),
    )


def _projections(work: Work) -> Limit:
    """Return the products of a row in an average layer; weights are read once a pass."""
    i, n = work.inputs, work.numbers
    rows = i.micro_batch_prefill * i.prompt_tokens
    arithmetic = work.passed_elements / work.mean_layers / n.peak_macs_per_second_fp16
    read = work.layer_weights_bytes(rows) / work.mean_layers
    reading = read / n.hbm_bandwidth_bytes_per_second / rows
    least = np.maximum(arithmetic, reading) / work.split
    reason = PEAK if arithmetic >= reading else HBM
    return Limit("projection_seconds_per_row_layer", least, reason)


def _recurrence(work: Work, n: Ascend910aNumbers, peak: Array) -> tuple[Limit, ...]:
    """Return one pass over the state at the peak for each group, and all for the factor.

    Nothing for a model without recurrence.
    """
    ratio = recurrence_ratio(work.inputs.model)
    if not ratio:
        return ()
    least = work.recurrence_macs(ONE) / peak / work.split / ratio
    groups = tuple(
        Limit(name, least / RECURRENCE_PASSES / n.recurrence_time_factor, PEAK)
        for name in RECURRENCE_GROUPS
    )
    whole = work.recurrence_seconds_per_row / work.split / ratio
    return (
        *groups,
        Limit("recurrence_time_factor", n.recurrence_time_factor * least / whole, PEAK),
    )


def _attention(work: Work, n: Ascend910aNumbers, peak: Array) -> tuple[Limit, ...]:
    """Return the least time of a pair of tokens, and of both numbers together."""
    i = work.inputs
    heads, head_dim = i.model.query_heads / work.tp, ONE * i.model.head_dim
    pairs = i.prompt_tokens**2
    macs = full_attention_macs(ONE, i.prompt_tokens, heads, head_dim) / attention_ratio(i.model)
    least = macs / peak / pairs / work.split
    name = "full_attention_seconds_per_pair_layer"
    now = (
        n.full_attention_seconds_per_row_layer / i.prompt_tokens
        + n.full_attention_seconds_per_pair_layer
    )
    return Limit(name, least, PEAK), Limit("full_*", least / now, PEAK)
