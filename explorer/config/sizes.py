"""Sizes of a model, and the kinds of layer that it is built of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

AttentionKind = Literal["full_attention", "sliding_attention", "linear_attention"]
LayerKind = Literal[
    "full_attention",
    "sliding_attention",
    "linear_attention",
    "full_attention_moe",
    "sliding_attention_moe",
    "linear_attention_moe",
]
"""How a layer mixes tokens; ``_moe`` where experts stand in for its dense MLP."""

ATTENTION_OF: dict[LayerKind, AttentionKind] = {
    "full_attention": "full_attention",
    "sliding_attention": "sliding_attention",
    "linear_attention": "linear_attention",
    "full_attention_moe": "full_attention",
    "sliding_attention_moe": "sliding_attention",
    "linear_attention_moe": "linear_attention",
}
WITH_EXPERTS: dict[AttentionKind, LayerKind] = {
    "full_attention": "full_attention_moe",
    "sliding_attention": "sliding_attention_moe",
    "linear_attention": "linear_attention_moe",
}
EXPERT_KINDS = frozenset(WITH_EXPERTS.values())


def has_experts(kind: LayerKind) -> bool:
    """Return whether a layer has experts and no dense MLP."""
    return kind in EXPERT_KINDS


def caches_tokens(kind: LayerKind) -> bool:
    """Return whether a layer keeps K and V of tokens, and not a recurrent state."""
    return ATTENTION_OF[kind] != "linear_attention"


def shortest_pattern(kinds: tuple[LayerKind, ...]) -> tuple[LayerKind, ...]:
    """Return the shortest run of layer kinds that repeats through all of them."""
    for period in range(1, len(kinds)):
        if kinds[period:] == kinds[:-period]:
            return kinds[:period]
    return kinds


@dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder-only transformer; counts are heads, elements, layers, tokens or bytes.

    Attributes:
        layer_kinds: of every layer, first to last.
        mlp_matrices: 3 for a gated MLP (gate, up, down), 2 without a gate; of experts too.
        embedding_tables: 1 where the output head shares the input embedding.
        norm_vectors_per_layer: vectors of ``hidden_size``; a LayerNorm with bias has two.
        query_projection_factor: 2 where the query projection also makes an output gate.
        sliding_window: tokens that a query of a sliding layer attends to, itself included.
        experts_per_token: routed experts that a token passes.
        shared_expert_ffn_width: width of the experts that every token passes, together.
        shared_expert_gates: 1 where a gate weighs their result.
        qk_norm_elements, attention_bias_elements, mlp_bias_elements: vectors of one layer; those
            of attention in layers that cache tokens, those of the MLP in layers with a dense one.
        final_norm_vectors: after the last layer; None for one where layers have norms.
        learned_positions: rows of a table of positions.
        linear_head_dim: of keys, and of values unless ``linear_value_head_dim`` is above 0.
        linear_convolution_width: tokens that the convolution before a recurrence sees; 0 for none.
        linear_vector_elements: decay, time step and norm vectors of one linear-attention layer.
        linear_state_element_bytes, linear_convolution_element_bytes: of what a request keeps.
    """

    id: str
    name: str
    layer_kinds: tuple[LayerKind, ...]
    layers: int
    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    vocabulary_size: int
    mlp_matrices: int
    embedding_tables: int
    norm_vectors_per_layer: int
    query_projection_factor: int = 1
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_head_dim: int = 0
    linear_state_element_bytes: int = 4
    sliding_window: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn_width: int = 0
    shared_expert_ffn_width: int = 0
    shared_expert_gates: int = 0
    qk_norm_elements: int = 0
    attention_bias_elements: int = 0
    mlp_bias_elements: int = 0
    final_norm_vectors: int | None = None
    learned_positions: int = 0
    output_head_bias_elements: int = 0
    linear_value_head_dim: int = 0
    linear_convolution_width: int = 0
    linear_vector_elements: int = 0
    linear_convolution_element_bytes: int = 2

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Distinct layer kinds, in order of first appearance."""
        return tuple(dict.fromkeys(self.layer_kinds))

    @cached_property
    def pattern(self) -> tuple[LayerKind, ...]:
        """The shortest run of layer kinds that repeats through the model."""
        return shortest_pattern(self.layer_kinds)

    @cached_property
    def dense_mlp(self) -> bool:
        """Whether a layer has a dense MLP."""
        return any(not has_experts(kind) for kind in self.kinds)

    def layers_of(self, kind: LayerKind) -> int:
        """Return how many layers are of ``kind``."""
        return self.layer_kinds.count(kind)

    def layers_with(self, attention: AttentionKind) -> int:
        """Return how many layers mix tokens by ``attention``, whatever their MLP."""
        return sum(ATTENTION_OF[kind] == attention for kind in self.layer_kinds)

    def attended_window(self, kind: LayerKind) -> float:
        """Return the tokens that a query of such a layer can attend to; infinite for all."""
        return self.sliding_window if ATTENTION_OF[kind] == "sliding_attention" else inf

    @property
    def widest_window(self) -> float:
        """The most tokens that a query of any caching layer can attend to; infinite for all."""
        return max((self.attended_window(k) for k in self.kinds if caches_tokens(k)), default=inf)

    def passed_ffn_width(self, kind: LayerKind) -> int:
        """Return the width of MLP and experts that one token passes in such a layer."""
        if has_experts(kind):
            return self.experts_per_token * self.expert_ffn_width + self.shared_expert_ffn_width
        return self.ffn_width

    @property
    def linear_value_dim(self) -> int:
        """Value dimension of a linear-attention head."""
        return self.linear_value_head_dim or self.linear_head_dim

    @property
    def linear_key_width(self) -> int:
        """Elements of all keys of a token in a linear-attention layer."""
        return self.linear_key_heads * self.linear_head_dim

    @property
    def linear_value_width(self) -> int:
        """Elements of all values of a token in a linear-attention layer."""
        return self.linear_value_heads * self.linear_value_dim

    @property
    def linear_state_elements(self) -> int:
        """Elements of the recurrent state of a linear-attention layer: a matrix a value head."""
        return self.linear_value_heads * self.linear_head_dim * self.linear_value_dim

    @property
    def linear_convolution_channels(self) -> int:
        """Channels that the convolution before a recurrence runs over: queries, keys, values."""
        return 2 * self.linear_key_width + self.linear_value_width
