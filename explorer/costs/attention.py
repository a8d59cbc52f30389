"""Work and off-chip traffic of softmax(Q K^T / sqrt(d)) V (THInfer Eq. 9, Table III)."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.costs.arrays import Array, ceil_divide


@dataclass(frozen=True)
class AttentionCost:
    """MACs and bytes of one layer's attention on one rank."""

    macs: Array
    query_output_bytes: Array
    kv_bytes: Array

    @property
    def bytes(self) -> Array:
        """All bytes moved."""
        return self.query_output_bytes + self.kv_bytes


def prefill_attention(
    requests: Array,
    prompt_tokens: Array,
    query_heads: Array,
    kv_heads: Array,
    head_dim: Array,
    activation_bytes: Array,
    rows_on_chip: Array,
) -> AttentionCost:
    """Return the cost of full (not causal) attention over each prompt.

    Q and O move once; K and V are broadcast once for every ``rows_on_chip`` query rows of every
    query head, S / (24 M_r) times (Table III, MT Attention). Head counts are those of the rank.
    """
    rows = requests * prompt_tokens
    passes = ceil_divide(prompt_tokens, rows_on_chip) * (query_heads / kv_heads)
    return AttentionCost(
        macs=2 * rows * prompt_tokens * query_heads * head_dim,
        query_output_bytes=2 * rows * query_heads * head_dim * activation_bytes,
        kv_bytes=passes * 2 * rows * kv_heads * head_dim * activation_bytes,
    )


def decode_attention(
    requests: Array,
    context_tokens: Array,
    query_heads: Array,
    kv_bytes_per_token: Array,
    head_dim: Array,
    activation_bytes: Array,
) -> AttentionCost:
    """Return the cost of one new token a request against its cache.

    Attention runs per request, since no two share a cache; ``kv_bytes_per_token`` is that of one
    layer on the rank, the same figure that memory is budgeted with.
    """
    return AttentionCost(
        macs=2 * requests * context_tokens * query_heads * head_dim,
        query_output_bytes=2 * requests * query_heads * head_dim * activation_bytes,
        kv_bytes=requests * context_tokens * kv_bytes_per_token,
    )
