"""One decode step of the Ascend 910A: every operator waits for the one before, so terms add up.

Sources: Ascend TP Collective Overlap sections 4 to 6, and rates measured by the report's project.
"""

from __future__ import annotations

import numpy as np

from explorer.chips.ascend910a_scale import attention_ratio
from explorer.chips.ascend910a_work import RECURRENCE_NUMBERS, Work
from explorer.config.sizes import caches_tokens
from explorer.costs.arrays import ZERO, Array, scalar
from explorer.costs.attention import decode_attention
from explorer.costs.collective import all_reduce_rank_bytes
from explorer.costs.memory import attended_tokens, kv_bytes_per_token_layer
from explorer.costs.terms import Bound, Stage, Term


def decode_stage(work: Work) -> Stage:
    """Return one step of ``micro_batch_decode`` requests at mean context.

    Weights and output head are streamed once at the measured rate of single-row products (until
    their MACs take longer); every layer launches its small operators; each request adds its rows
    (recurrence, attention, norms), its KV cache, its state, and its bytes in every all-reduce.
    Host issue of prefill does not carry over: 129 of its slices alone would exceed the step.
    """
    i, n = work.inputs, work.numbers
    tp, requests, layers = work.tp, i.micro_batch_decode, work.share.layer_count
    caching = work.full + work.sliding
    attention = n.full_attention_seconds_per_row_layer * attention_ratio(i.model)
    row_layers = layers * requests
    return Stage(
        (
            _streamed(
                work,
                "weight_streaming",
                work.layer_weights_bytes(requests),
                work.passed_elements,
            ),
            _streamed(
                work,
                "output_head",
                work.head_weight_bytes,
                work.head_weight_bytes / i.weight_bytes,
            ),
            *_collectives(work, requests),
            work.term(
                "decode_issue",
                layers * n.decode_fixed_seconds_per_layer,
                Bound.HOST,
                ("decode_fixed_seconds_per_layer",),
            ),
            work.term(
                "gated_delta",
                work.linear * requests * work.recurrence_seconds_per_row,
                Bound.INSTRUCTION_ISSUE,
                RECURRENCE_NUMBERS,
            ),
            _from_hbm(
                work,
                "recurrent_state",
                work.linear * 2 * requests * i.model.state_bytes_per_layer / tp,
                work.linear * work.recurrence_macs(requests),
            ),
            work.term(
                "full_attention",
                caching * requests * attention * work.split,
                Bound.COMPUTE,
                ("full_attention_seconds_per_row_layer",),
            ),
            _kv_cache(work),
            work.term(
                "norms",
                row_layers * n.norm_seconds_per_row_layer * work.width,
                Bound.ACTIVATIONS,
                ("norm_seconds_per_row_layer",),
            ),
            work.term(
                "other_operators",
                row_layers * n.other_seconds_per_row_layer * work.width,
                Bound.ACTIVATIONS,
                ("other_seconds_per_row_layer",),
            ),
            work.hand_over(requests, i.pp_decode),
        )
    )


def _kv_cache(work: Work) -> Term:
    """Return reading the caches: all of a context, or its window in a sliding layer."""
    i, tp = work.inputs, work.tp
    moved, macs = ZERO, ZERO
    for kind, count in work.share.layers.items():
        if not caches_tokens(kind):
            continue
        cache = decode_attention(
            i.micro_batch_decode,
            attended_tokens(i.model, kind, i.mean_context_tokens),
            i.model.query_heads / tp,
            kv_bytes_per_token_layer(i.model, tp, i.kv_bytes),
            scalar(i.model.head_dim),
            scalar(i.compute_bytes),
        )
        moved, macs = moved + count * cache.bytes, macs + count * cache.macs
    return _from_hbm(work, "kv_cache", moved, macs)


def _streamed(work: Work, name: str, weight_bytes: Array, passed: Array) -> Term:
    """Return weights read once, or the MACs of what each row passes where those take longer."""
    n, macs = work.numbers, work.inputs.micro_batch_decode * passed
    seconds = np.maximum(
        weight_bytes / n.weight_stream_bytes_per_second, macs / n.peak_macs_per_second_fp16
    )
    names = ("weight_stream_bytes_per_second",)
    return work.term(name, seconds, Bound.WEIGHTS, names, weight_bytes, macs)


def _collectives(work: Work, rows: Array) -> tuple[Term, Term]:
    fixed, wire = work.all_reduce_seconds(rows)
    reduces, payload = work.all_reduces, work.payload_bytes(rows)
    return (
        work.term(
            "collectives_fixed",
            reduces * fixed,
            Bound.COLLECTIVE,
            ("collective_fixed_seconds",),
        ),
        work.term(
            "collectives_bytes",
            reduces * wire,
            Bound.COLLECTIVE,
            ("link_bandwidth_bytes_per_second",),
            reduces * all_reduce_rank_bytes(payload, work.tp),
        ),
    )


def _from_hbm(work: Work, name: str, bytes_moved: Array, macs: Array) -> Term:
    seconds = bytes_moved / work.numbers.hbm_bandwidth_bytes_per_second
    names = ("hbm_bandwidth_bytes_per_second",)
    return work.term(name, seconds, Bound.KV_CACHE, names, bytes_moved, macs)
