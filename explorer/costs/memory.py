"""Memory of a cluster or card (THInfer Eqs 12-16), as the equations print it and as it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.config.model import LayerKind, Model
from explorer.costs.arrays import ONE, ZERO, Array
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
    """Return KV bytes a token in one full-attention layer on one rank (Eqs 13, 15).

    D_emb of the paper becomes KV heads x head dimension; with as many KV heads as query heads
    it is the paper's. Bytes read in a decode step and bytes budgeted both come from here.
    """
    return 2 * kv_heads_per_rank(model, tp) * model.head_dim * kv_element_bytes


def layer_weight_bytes(model: Model, kind: LayerKind, tp: Array, element_bytes: float) -> Array:
    """Return the weights of one layer on one rank [B]; replicated KV projections included."""
    elements = model.layer_weight_elements[kind] / tp
    if kind == "full_attention":
        kv_columns = 2 * model.head_dim * (kv_heads_per_rank(model, tp) - model.kv_heads / tp)
        elements = elements + model.hidden_size * kv_columns
    norms = model.norm_vectors_per_layer * model.hidden_size
    return (elements + norms * (1 - 1 / tp)) * element_bytes


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
    final_norm = share.head * (model.hidden_size if model.norm_vectors_per_layer else 0)
    return layers + (tables * model.embedding_elements / tp + final_norm) * element_bytes


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
    kv_layer = (
        cache.requests_per_layer
        * cache.max_context_tokens
        * kv_bytes_per_token_layer(model, tp, storage.kv_element_bytes)
    )
    state_layer = cache.requests_per_layer * model.state_bytes_per_layer / tp
    full = model.layers_of("full_attention") / pp if cache.whole_stage else ONE
    linear = model.layers_of("linear_attention") / pp if cache.whole_stage else ONE
    if "full_attention" not in model.kinds:
        full = ZERO
    params = model.parameters * storage.weight_element_bytes / (tp * pp)
    kv, state = full * kv_layer, linear * state_layer
    fullest = ZERO
    for share in shares:
        held_full = share.layers.get("full_attention", ZERO) if cache.whole_stage else full
        held_linear = share.layers.get("linear_attention", ZERO) if cache.whole_stage else linear
        weights = stage_weight_bytes(model, share, tp, storage.weight_element_bytes)
        fullest = np.maximum(fullest, weights + held_full * kv_layer + held_linear * state_layer)
    total = fullest + storage.overhead_bytes
    return MemoryBudget(params, kv, state, storage.overhead_bytes, total, storage.limit_bytes)
