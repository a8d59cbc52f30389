"""Memory of a cluster or card (THInfer Eqs 12-16), as the equations print it and as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explorer.config.model import LayerKind, Model
from explorer.config.sizes import ATTENTION_OF, caches_tokens, has_experts
from explorer.costs.arrays import ONE, ZERO, Array
from explorer.costs.experts import distinct_experts
from explorer.costs.partition import StageShare

STORAGE_BYTES = {"fp32": 4, "fp16": 2, "int8": 1}


@dataclass(frozen=True)
class MemoryBudget:
    """Bytes on the fullest cluster of a pool.

    Attributes:
        params_bytes: weights by Eq. 12 or 14, an even split.
        kv_bytes: KV cache by Eq. 13 or 15, an even split.
        state_bytes: recurrent state of linear-attention layers.
        overhead_bytes: runtime.
        total_bytes: everything on the fullest cluster; the plan fits when at most the limit.
        limit_bytes: usable memory, less the headroom asked for.
    """

    params_bytes: Array
    kv_bytes: Array
    state_bytes: Array
    overhead_bytes: Array
    total_bytes: Array
    limit_bytes: Array

    @property
    def imbalance_bytes(self) -> Array:
        """What the largest stage holds beyond the even split of the equations."""
        even = self.params_bytes + self.kv_bytes + self.state_bytes + self.overhead_bytes
        return np.maximum(self.total_bytes - even, 0.0)

    @property
    def excess_bytes(self) -> Array:
        """Bytes above the limit; at most 0 when the plan fits (Eq. 16)."""
        return self.total_bytes - self.limit_bytes


def kv_heads_per_rank(model: Model, tp: Array) -> Array:
    """Return KV heads on one rank: an even share, and at least one, then replicated."""
    return np.maximum(model.kv_heads / tp, ONE)


def kv_bytes_per_token_layer(model: Model, tp: Array, kv_element_bytes: float) -> Array:
    """Return KV bytes a token in one layer that caches tokens, on one rank (Eqs 13, 15).

    D_emb of the paper becomes KV heads x head dimension; with as many KV heads as query heads
    it is the paper's. Bytes read in a decode step and bytes budgeted both come from here.
    """
    return 2 * kv_heads_per_rank(model, tp) * model.head_dim * kv_element_bytes


def attended_tokens(model: Model, kind: LayerKind, context_tokens: Array) -> Array:
    """Return the tokens that a layer attends to, and keeps, of a context: all, or its window."""
    if ATTENTION_OF[kind] != "sliding_attention":
        return context_tokens
    return np.minimum(context_tokens, model.attended_window(kind))


def request_cache_bytes(model: Model, context_tokens: Array, kv_element_bytes: float) -> Array:
    """Return KV cache and recurrent state of one request over all layers, one copy [B]."""
    kv = request_kv_bytes(model, context_tokens, kv_element_bytes)
    return kv + model.state_bytes_per_request


def request_kv_bytes(model: Model, context_tokens: Array, kv_element_bytes: float) -> Array:
    """Return the KV cache of one request over all layers, one copy [B]."""
    elements = ZERO
    for kind in model.kinds:
        if caches_tokens(kind):
            layers = model.layers_of(kind) * model.kv_elements_per_token_layer
            elements = elements + attended_tokens(model, kind, context_tokens) * layers
    return elements * kv_element_bytes


def layer_weight_bytes(model: Model, kind: LayerKind, tp: Array, element_bytes: float) -> Array:
    """Return the weights of one layer on one rank [B]; replicated KV projections included."""
    elements = model.layer_weight_elements[kind] / tp
    if caches_tokens(kind):
        kv_columns = 2 * model.head_dim * (kv_heads_per_rank(model, tp) - model.kv_heads / tp)
        elements = elements + model.hidden_size * kv_columns
    whole = model.layer_whole_elements[kind]
    return (elements + whole * (1 - 1 / tp)) * element_bytes


def layer_read_bytes(
    model: Model, kind: LayerKind, rows: Array, tp: Array, element_bytes: float
) -> Array:
    """Return the weights of one layer that a pass of some rows reads on one rank [B].

    All of them, but of routed experts only those that a row passes (``distinct_experts``).
    """
    weights = layer_weight_bytes(model, kind, tp, element_bytes)
    if not has_experts(kind):
        return weights
    idle = model.experts - distinct_experts(rows, model.experts, model.experts_per_token)
    return weights - idle * model.expert_elements / tp * element_bytes


def layer_passed_elements(model: Model, kind: LayerKind, tp: Array) -> Array:
    """Return the weights of one layer that a token passes on one rank: of experts, its own k."""
    stored = layer_weight_bytes(model, kind, tp, 1)
    if not has_experts(kind):
        return stored
    return stored - (model.experts - model.experts_per_token) * model.expert_elements / tp


def stage_weight_bytes(model: Model, share: StageShare, tp: Array, element_bytes: float) -> Array:
    """Return the weights that one rank of a stage really holds [B]."""
    layers = sum(
        (
            count * layer_weight_bytes(model, kind, tp, element_bytes)
            for kind, count in share.layers.items()
        ),
        ZERO,
    )
    tables = share.embedding + share.head
    if model.embedding_tables == 1:
        tables = np.maximum(share.embedding, share.head)
    whole = share.head * model.final_norm_elements
    whole = whole + share.embedding * model.learned_positions * model.hidden_size
    bias = share.head * model.output_head_bias_elements / tp
    return layers + (tables * model.embedding_elements / tp + whole + bias) * element_bytes


def stage_read_bytes(
    model: Model, share: StageShare, rows: Array, tp: Array, element_bytes: float
) -> Array:
    """Return the weights that a pass of some rows reads on one rank of a stage [B].

    Of the embeddings only the output head: of the input embedding a row reads one row.
    """
    layers = sum(
        (
            count * layer_read_bytes(model, kind, rows, tp, element_bytes)
            for kind, count in share.layers.items()
        ),
        ZERO,
    )
    head = model.embedding_elements + model.output_head_bias_elements
    return layers + share.head * (head / tp + model.final_norm_elements) * element_bytes


@dataclass(frozen=True)
class Storage:
    """Bytes an element of weights and KV cache, and what the runtime takes of the memory."""

    weight_element_bytes: float
    kv_element_bytes: float
    overhead_bytes: Array
    limit_bytes: Array


@dataclass(frozen=True)
class Cache:
    """What a pool's caches must hold.

    Attributes:
        requests_per_layer: requests whose cache one layer of the stage holds at once.
        max_context_tokens: tokens reserved for each request.
        whole_stage: True when all layers of the stage hold it (decode, shared placement), False
            when one layer's worth leaves before the next is computed (disaggregated prefill).
    """

    requests_per_layer: Array
    max_context_tokens: Array
    whole_stage: bool


def memory_budget(
    model: Model,
    shares: tuple[StageShare, ...],
    tp: Array,
    pp: Array,
    cache: Cache,
    storage: Storage,
) -> MemoryBudget:
    """Return the budget of the fullest rank of a pool (Eqs 12-16)."""
    kv_token = cache.requests_per_layer * kv_bytes_per_token_layer(
        model, tp, storage.kv_element_bytes
    )
    kv_layer = {
        kind: kv_token * attended_tokens(model, kind, cache.max_context_tokens)
        if caches_tokens(kind)
        else ZERO
        for kind in model.kinds
    }
    state_layer = cache.requests_per_layer * model.state_bytes_per_layer / tp
    even = {kind: model.layers_of(kind) / pp for kind in model.kinds}
    kv, state = _held(kv_layer, state_layer, even, cache.whole_stage)
    params = model.parameters * storage.weight_element_bytes / (tp * pp)
    fullest = ZERO
    for share in shares:
        weights = stage_weight_bytes(model, share, tp, storage.weight_element_bytes)
        held_kv, held_state = _held(kv_layer, state_layer, share.layers, cache.whole_stage)
        fullest = np.maximum(fullest, weights + held_kv + held_state)
    total = fullest + storage.overhead_bytes
    return MemoryBudget(params, kv, state, storage.overhead_bytes, total, storage.limit_bytes)


def _held(
    kv_layer: dict[LayerKind, Array],
    state_layer: Array,
    layers: Mapping[LayerKind, Array],
    whole_stage: bool,
) -> tuple[Array, Array]:
    """Return KV cache and recurrent state [B] that some layers hold, or the largest one of each."""
    kv, state = ZERO, ZERO
    for kind, of_layer in kv_layer.items():
        if not caches_tokens(kind):
            state = state + layers[kind] * state_layer if whole_stage else state_layer
        elif whole_stage:
            kv = kv + layers[kind] * of_layer
        else:
            kv = np.maximum(kv, of_layer)
    return kv, state
