"""The Ascend 910A's terms written out, as the cost functions beside this file compute them.

A test evaluates every formula and compares it with the term, so that none of them goes stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from explorer.chips.ascend910a_numbers import RECURRENCE_GROUPS, Ascend910aNumbers
from explorer.chips.ascend910a_prefill import OPERATORS_PER_LAYER, PrefillPass
from explorer.chips.ascend910a_scale import (
    attention_ratio,
    hidden_ratio,
    measured_model,
    recurrence_ratio,
)
from explorer.chips.ascend910a_work import Work
from explorer.chips.formulas import Formula, Symbol, Unfolding
from explorer.config.sizes import has_experts
from explorer.costs.arrays import Array, scalar
from explorer.costs.attention import causal_keys
from explorer.costs.memory import kv_bytes_per_token_layer

SPLIT = "measured_TP / TP"
RECURRENCE = f"factor * (t_broadcast + t_rank1 + t_rest) * {SPLIT} * state_ratio"
ATTENTION = f"(t_row + prompt * t_pair) * {SPLIT} * head_ratio"
IN_WINDOWS = (
    "(full * (t_row + prompt * t_pair) + sliding * (t_row + window_keys * t_pair))"
    f" * {SPLIT} * head_ratio"
)
PROJECTIONS = f"mean_layers * rows * t_projection * {SPLIT}"
WIRE = "payload / byte_rate * ring"
SITES = (
    "exposed: one slice of each site's product, fixed part and bytes, and all slices of the "
    "slowest of the three; the rest runs under it"
)
NUMBER_OF = {
    "factor": "recurrence_time_factor",
    "t_broadcast": RECURRENCE_GROUPS[0],
    "t_rank1": RECURRENCE_GROUPS[1],
    "t_rest": RECURRENCE_GROUPS[2],
    "t_row": "full_attention_seconds_per_row_layer",
    "t_pair": "full_attention_seconds_per_pair_layer",
    "t_projection": "projection_seconds_per_row_layer",
    "t_norm": "norm_seconds_per_row_layer",
    "t_other": "other_seconds_per_row_layer",
    "t_device": "device_fixed_seconds_per_layer",
    "t_collective": "collective_fixed_seconds",
    "byte_rate": "link_bandwidth_bytes_per_second",
    "t_before": "outside_seconds_per_row",
    "t_after": "outside_fixed_seconds",
    "t_issue": "host_issue_seconds_per_layer",
    "t_slice": "host_issue_seconds_per_collective",
    "t_decode": "decode_fixed_seconds_per_layer",
    "latency": "link_latency_seconds",
    "stream_rate": "weight_stream_bytes_per_second",
    "hbm": "hbm_bandwidth_bytes_per_second",
    "peak": "peak_macs_per_second_fp16",
    "measured_TP": "measured_tp",
    "sites_a_layer": "all_reduces_per_layer",
    "s_attention": "synced_full_attention_fixed_seconds_per_layer",
    "s_projection": "synced_projection_fixed_seconds_per_layer",
    "s_collective": "synced_collective_fixed_seconds",
    "s_norm": "synced_norm_fixed_seconds_per_layer",
    "s_other": "synced_other_fixed_seconds_per_layer",
    "w_collective": "sweep_collective_fixed_seconds",
    "probe_rate": "probe_bytes_per_second",
}
"""Numbers of the chip by the symbol that stands for them."""

PREFILL = {
    "gated_delta": Formula(f"linear * rows * {RECURRENCE}"),
    "full_attention": Formula(f"full * rows * {ATTENTION}"),
    "projections": Formula(PROJECTIONS, SITES),
    "collectives_fixed": Formula("calls * t_collective", SITES),
    "all_reduce_bytes": Formula(f"reduces * {WIRE}", SITES),
    "norms": Formula("layers * rows * t_norm * width_ratio"),
    "other_operators": Formula("layers * rows * t_other * width_ratio"),
    "device_fixed": Formula("layers * t_device"),
    "outside_layers": Formula("embedding * rows * t_before * width_ratio + head * t_after"),
    "stage_hand_over": Formula("hand_overs * (latency + payload / byte_rate)"),
    "host_issue_wait": Formula(
        "layers * t_issue + calls * t_slice"
        f" + (embedding + head) * t_issue / {OPERATORS_PER_LAYER}",
        "exposed: by how much the latest 'issued, and then device work still to go' is later than "
        "the device's own chain of work",
    ),
}
SYNCED = {
    "gated_delta": PREFILL["gated_delta"],
    "full_attention": Formula(f"full * (rows * {ATTENTION} + s_attention)"),
    "projections": Formula(f"{PROJECTIONS} + layers * s_projection"),
    "tp_all_reduce": Formula(f"reduces * (s_collective + {WIRE})"),
    "norms": Formula("layers * (rows * t_norm * width_ratio + s_norm)"),
    "other": Formula("layers * (rows * t_other * width_ratio + s_other)"),
}
DECODE = {
    "weight_streaming": Formula(
        "max(layer_weights / stream_rate, requests * layer_weights / weight_bytes / peak)"
    ),
    "output_head": Formula(
        "max(head_weights / stream_rate, requests * head_weights / weight_bytes / peak)"
    ),
    "collectives_fixed": Formula("reduces * t_collective"),
    "collectives_bytes": Formula(f"reduces * {WIRE}"),
    "decode_issue": Formula("layers * t_decode"),
    "gated_delta": Formula(f"linear * requests * {RECURRENCE}"),
    "recurrent_state": Formula("linear * 2 * requests * state / TP / hbm"),
    "full_attention": Formula(f"full * requests * t_row * {SPLIT} * head_ratio"),
    "kv_cache": Formula("full * requests * (context * kv_a_token + token_bytes) / hbm"),
    "norms": Formula("layers * requests * t_norm * width_ratio"),
    "other_operators": Formula("layers * requests * t_other * width_ratio"),
    "stage_hand_over": PREFILL["stage_hand_over"],
}
WITH_WINDOWS = {
    "prefill": {"full_attention": Formula(f"rows * {IN_WINDOWS}")},
    "synced": {"full_attention": Formula(f"rows * {IN_WINDOWS} + (full + sliding) * s_attention")},
    "decode": {
        "full_attention": Formula(f"(full + sliding) * requests * t_row * {SPLIT} * head_ratio"),
        "kv_cache": Formula(
            "requests * ((full * context + sliding * window_context) * kv_a_token"
            " + (full + sliding) * token_bytes) / hbm"
        ),
    },
}
"""What reads otherwise for a model with sliding windows."""
WITH_EXPERTS = {
    "prefill": {"projections": Formula(f"{PROJECTIONS} + experts_reading", SITES)},
    "synced": {"projections": Formula(f"{PROJECTIONS} + experts_reading + layers * s_projection")},
    "decode": {
        "weight_streaming": Formula(
            "max(layer_weights / stream_rate, requests * passed_weights / peak)"
        )
    },
}
"""What reads otherwise for a model with experts."""
PRICES = {
    "engine": Formula(f"several * s_collective + {WIRE}"),
    "sweep": Formula(f"several * w_collective + {WIRE}"),
    "standalone": Formula("several * t_collective + payload / probe_rate * ring"),
}
"""One all-reduce by each of the report's routes."""


def unfolded_prefill(one: PrefillPass) -> Unfolding:
    """Return the terms of a running pass through one stage."""
    work, sites = one.work, one.work.all_reduces - one.work.share.embedding
    several = np.where(work.tp > 1, 1.0, 0.0)
    calls = several * (sites * one.slices + work.share.embedding)
    own = {
        "slices": Symbol("slices that an all-reduce runs in", one.slices, source=_PLAN),
        "calls": Symbol(
            "collectives issued: slices of every site, and the hidden state's",
            calls,
            source="(all-reduces - embedding) x slices + embedding; none on one card",
        ),
    }
    return _unfolding(_for_model("prefill", work), work, {**_of_rows(one), **own})


def unfolded_synced(one: PrefillPass) -> Unfolding:
    """Return the phases of the device-synced serial profile of the same stage."""
    return _unfolding(_for_model("synced", one.work), one.work, _of_rows(one))


def unfolded_prices(one: PrefillPass) -> Unfolding:
    """Return the prices of one all-reduce of a pass."""
    return _unfolding(PRICES, one.work, _of_rows(one))


def unfolded_decode(work: Work) -> Unfolding:
    """Return the terms of one decode step through one stage."""
    i, tp = work.inputs, work.tp
    token_bytes = 2 * i.model.query_heads / tp * i.model.head_dim * i.compute_bytes
    own = {
        "requests": Symbol("requests of a decode step", i.micro_batch_decode, source=_PLAN),
        "context": Symbol(
            "mean context of a step: prompt + output / 2",
            i.mean_context_tokens,
            "tokens",
            source="workload",
        ),
        "layer_weights": Symbol(
            "weights of the stage's layers that a step reads on a card",
            work.layer_weights_bytes(i.micro_batch_decode),
            "B",
            source="model, precision and TP",
        ),
        "passed_weights": Symbol(
            "weights of the stage's layers that a row passes on a card, a MAC each",
            work.passed_elements,
            source="model and TP",
        ),
        "window_context": Symbol(
            "context in a sliding layer: no longer than its window",
            np.minimum(i.mean_context_tokens, i.model.sliding_window),
            "tokens",
            source="workload and model",
        ),
        "head_weights": Symbol(
            "weights of the output head on a card",
            work.head_weight_bytes,
            "B",
            source="model, precision and TP",
        ),
        "weight_bytes": Symbol(
            "bytes of a stored weight", np.asarray(float(i.weight_bytes)), "B", source="precision"
        ),
        "state": Symbol(
            "recurrent state of a request in a layer, all cards",
            np.asarray(float(i.model.state_bytes_per_layer)),
            "B",
            source="model: value heads x head dimension squared x element",
        ),
        "kv_a_token": Symbol(
            "KV cache of a token in a full-attention layer on a card",
            kv_bytes_per_token_layer(i.model, tp, i.kv_bytes),
            "B",
            source="model, precision and TP",
        ),
        "token_bytes": Symbol(
            "query and output of a token on a card",
            token_bytes,
            "B",
            source="model, precision and TP",
        ),
    }
    symbols = {**_common(work, i.micro_batch_decode, i.pp_decode), **own}
    return _unfolding(_for_model("decode", work), work, symbols)


def _for_model(part: str, work: Work) -> dict[str, Formula]:
    """Return the formulas of a part as they read for the model: without ratios that are 1."""
    formulas = {"prefill": PREFILL, "synced": SYNCED, "decode": DECODE}[part]
    model = work.inputs.model
    if model.layers_with("sliding_attention"):
        formulas = {**formulas, **WITH_WINDOWS[part]}
    if any(map(has_experts, model.kinds)):
        formulas = {**formulas, **WITH_EXPERTS[part]}
    left_out = [f" * {name}" for name, (_, ratio) in _ratios(work).items() if ratio == 1]
    return {name: _without(formula, left_out) for name, formula in formulas.items()}


def _without(formula: Formula, parts: Sequence[str]) -> Formula:
    expression = formula.expression
    for part in parts:
        expression = expression.replace(part, "")
    return replace(formula, expression=expression)


def _ratios(work: Work) -> dict[str, tuple[str, float]]:
    """Return what slopes scale with from the measured model to this one."""
    model = work.inputs.model
    return {
        "state_ratio": ("recurrent state of a layer", recurrence_ratio(model)),
        "head_ratio": ("heads x head dimension", attention_ratio(model)),
        "width_ratio": ("hidden size", hidden_ratio(model)),
    }


_PLAN, _STAGE = "workload and plan", "model and plan: what the stage holds"


def _of_rows(one: PrefillPass) -> dict[str, Symbol]:
    """Return the symbols of any prefill pass."""
    i = one.work.inputs
    rows = "rows of the pass: prompt tokens of its micro-batch"
    return {
        **_common(one.work, one.rows, i.pp_prefill),
        "rows": Symbol(rows, one.rows, source=_PLAN),
        "prompt": Symbol(
            "prompt tokens of a request", i.prompt_tokens, path="workload.prompt_tokens"
        ),
        "window_keys": Symbol(
            "twice the mean keys that a query sees in its window: 2 W - W^2 / prompt",
            causal_keys(i.prompt_tokens, i.model.sliding_window),
            "tokens",
            source="workload and model",
        ),
        "mean_layers": Symbol(
            "layers, weighted by their products' weights over the measured model's average layer",
            one.work.mean_layers,
            source="model",
        ),
        "experts_reading": Symbol(
            "by how much reading the weights of experts outlasts their arithmetic",
            one.all_gemm_seconds - one.work.mean_layers * one.projection_seconds,
            "s",
            source="model, plan and hardware.weight_stream_bytes_per_second",
        ),
    }


def _common(work: Work, rows: Array, pp: Array) -> dict[str, Symbol]:
    share, n = work.share, work.numbers
    ring = ((work.tp - 1) / work.tp) / ((n.measured_tp - 1) / n.measured_tp)
    several = np.where(work.tp > 1, 1.0, 0.0)
    held = {
        "layers": ("layers of the stage", share.layer_count),
        "linear": ("gated-delta layers of the stage", work.linear),
        "full": ("full-attention layers of the stage", work.full),
        "sliding": ("sliding-window layers of the stage", work.sliding),
        "embedding": ("1 where the stage holds the embedding", share.embedding),
        "head": ("1 where the stage holds the output head", share.head),
    }
    return {
        **{name: Symbol(*told, source=_STAGE) for name, told in held.items()},
        **{
            name: Symbol(f"{what} over {measured_model().name}'s", scalar(ratio), source="model")
            for name, (what, ratio) in _ratios(work).items()
        },
        "TP": Symbol("cards that share a layer", work.tp, source="plan"),
        "hand_overs": Symbol(
            "1 where the hidden state goes on to another stage",
            np.where(pp > 1, 1.0, 0.0),
            source="plan",
        ),
        "several": Symbol("1 with several cards, 0 on one", several, source="plan"),
        "reduces": Symbol(
            "all-reduces of a pass: some a layer, and the hidden state's",
            several * work.all_reduces,
            source="all_reduces_per_layer x layers + embedding; none on one card",
        ),
        "payload": Symbol(
            "bytes of one all-reduce: rows x hidden size x element",
            work.payload_bytes(rows),
            "B",
            source="workload, plan, model and precision",
        ),
        "ring": Symbol(
            "a ring's bytes against those of the measured group",
            ring,
            source="((TP - 1) / TP) / ((measured_TP - 1) / measured_TP)",
        ),
    }


def _unfolding(formulas: dict[str, Formula], work: Work, own: dict[str, Symbol]) -> Unfolding:
    """Return formulas with the symbols that occur in them: the chip's numbers and others."""
    quantities = work.inputs.scenario.chip_document().quantities
    known = {field.name for field in fields(Ascend910aNumbers)} & set(quantities)
    groups = work.numbers.recurrence_groups(work.inputs.scenario.kernel.recurrence)
    kept = dict(zip(RECURRENCE_GROUPS, groups.values(), strict=True))
    numbers = {}
    for symbol, name in NUMBER_OF.items():
        if name in known:
            left_out = name in kept and not np.any(kept[name])
            tail = " (left out in this scenario)" if left_out else ""
            numbers[symbol] = Symbol(
                f"{quantities[name].label}{tail}",
                np.asarray(0.0) if left_out else _value(work, name),
                quantities[name].unit,
                f"hardware.{name}",
            )
    used = names_in(" ".join(formula.expression for formula in formulas.values()))
    symbols = {name: item for name, item in {**own, **numbers}.items() if name in used}
    return Unfolding(formulas, symbols)


def names_in(expression: str) -> set[str]:
    """Return the words of an expression."""
    spaced = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in expression)
    return set(spaced.split())


def _value(work: Work, name: str) -> Array:
    value: Array = getattr(work.numbers, name)
    return value
