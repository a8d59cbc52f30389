"""Attention on one cluster: MT, Flash and unfused (THInfer Eq. 9, Table III, Figs 8 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf
from typing import Literal

import numpy as np

from explorer.costs.arrays import ONE, Array, Mask, ceil_divide
from explorer.costs.gemm import (
    ACCUMULATOR_BYTES,
    GemmCluster,
    broadcast_ddr_bytes,
    kernel_utilisation,
)

Method = Literal["mt", "flash", "unfused"]
METHODS: tuple[Method, ...] = ("mt", "flash", "unfused")
SCORE_BYTES = 4
"""Scores and softmax are FP32 (THInfer, section on FP16)."""
OPERANDS = 4
"""Q, K, V and O."""


@dataclass(frozen=True)
class AttentionTiles:
    """Blocks of attention and what a round and a score cost.

    Attributes:
        mt_rows: M_r of MT Attention, rows of Q and O that a DSP keeps.
        flash_columns: M_c of Flash Attention, rows of K and V that stay in AM.
        flash_rows: M_r of Flash Attention, where SM admits it.
        score_memory_bytes: room for a DSP's scores, its share of GSM and part of its AM.
        round_seconds: fixed time of a round of row blocks over the DSPs.
        score_seconds: softmax of one score, all DSPs working.
        unfused_score_moves: times that unfused scores cross DDR.
    """

    mt_rows: Array
    flash_columns: Array
    flash_rows: Array
    score_memory_bytes: Array
    round_seconds: Array
    score_seconds: Array
    unfused_score_moves: Array


@dataclass(frozen=True)
class AttentionCost:
    """Work, traffic and time of attention.

    Attributes:
        seconds: time on the cluster.
        macs: useful multiply-accumulates, both products.
        query_output_bytes, kv_bytes, score_bytes: DDR traffic by tensor; of a broadcast,
            ``broadcast_ddr_bytes``.
        round_seconds: fixed time of the rounds.
        compute_seconds: products and softmax, padded rows included.
        io_seconds: DMA and broadcasts.
        rounds: rounds of row blocks over the DSPs for one head.
    """

    seconds: Array
    macs: Array
    query_output_bytes: Array
    kv_bytes: Array
    score_bytes: Array
    round_seconds: Array
    compute_seconds: Array
    io_seconds: Array
    rounds: Array

    @property
    def bytes(self) -> Array:
        """All bytes moved."""
        return self.query_output_bytes + self.kv_bytes + self.score_bytes


@dataclass(frozen=True)
class AttentionIo:
    """Transfers of one head in units of S d elements (Table III); broadcasts not yet discounted."""

    query_dmas: Array
    output_dmas: Array
    broadcasts: Array


def table_iii(method: Method, seq: Array, block_rows: Array, dsps: Array) -> AttentionIo:
    """Return Table III: what each method loads and stores for one head.

    MT keeps Q and O and broadcasts K and V once for each S / (24 M_r); Flash keeps K and V and
    loads Q once, O twice (in and out), for each S / M_c. Rounded up to whole blocks.

    Args:
        method: ``mt`` or ``flash``.
        seq: S [tokens].
        block_rows: M_r for ``mt``, M_c for ``flash``.
        dsps: DSPs a cluster.
    """
    if method == "mt":
        blocks = ceil_divide(seq, dsps * block_rows)
        return AttentionIo(ONE, ONE, 2 * blocks)
    blocks = ceil_divide(seq, block_rows)
    return AttentionIo(blocks, 2 * blocks, 2 * ONE)


def scored_keys(seq: Array, window: float, tiles: AttentionTiles) -> Array:
    """Return the keys that a row block of MT Attention scores: all, or its rows' windows.

    A block of M_r consecutive rows sees the window before its first row and its own rows.
    """
    return seq if isinf(window) else np.minimum(seq, window + tiles.mt_rows)


def ddr_bytes_held(
    method: Method, instances: Array, seq: Array, head_dim: Array, element_bytes: Array
) -> Array:
    """Return what attention must keep in DDR: Q, K, V and O, and one head's scores if unfused."""
    operands = OPERANDS * instances * seq * head_dim * element_bytes
    scores = SCORE_BYTES * seq * seq if method == "unfused" else 0 * seq
    return operands + scores


def fits(
    method: Method,
    instances: Array,
    seq: Array,
    head_dim: Array,
    tiles: AttentionTiles,
    cluster: GemmCluster,
    memory_bytes: Array,
) -> Mask:
    """Return where one micro-kernel of rows fits the scratchpads, and the rest ``memory_bytes``."""
    held = ddr_bytes_held(method, instances, seq, head_dim, cluster.element_bytes)
    result = held <= memory_bytes
    for needed, there in smallest_blocks(method, seq, head_dim, tiles, cluster):
        result = result & (needed <= there)
    return np.asarray(result)


def row_block(method: Method, seq: Array, tiles: AttentionTiles, cluster: GemmCluster) -> Array:
    """Return M_r, the rows a DSP works on at once, in whole micro-kernels and at least one.

    MT keeps whole rows of scores, so a long S shortens the block once they outgrow their memory.
    Flash double-buffers an M_r x M_c block of weights in SM (Eq. 6), which shortens its block too.
    """
    kernel = cluster.kernel_rows
    if method == "flash":
        admitted = cluster.sm_bytes / (2 * cluster.element_bytes * tiles.flash_columns)
        rows = np.minimum(tiles.flash_rows, admitted)
    else:
        rows = np.minimum(tiles.mt_rows, tiles.score_memory_bytes / (SCORE_BYTES * seq))
    return np.maximum(np.floor(rows / kernel) * kernel, kernel)


def smallest_blocks(
    method: Method, seq: Array, head_dim: Array, tiles: AttentionTiles, cluster: GemmCluster
) -> tuple[tuple[Array, Array], ...]:
    """Return (bytes taken, bytes there) of each memory that one micro-kernel of rows needs.

    AM holds its rows of O, and K^T one kernel wide; for Flash a block of K and one of V. MT also
    needs whole rows of scores in their memory, Flash its M_r x M_c block in SM, twice (Eq. 6).
    """
    rows, element = cluster.kernel_rows, cluster.element_bytes
    output = ACCUMULATOR_BYTES * rows * head_dim
    keys = element * head_dim * cluster.kernel_columns
    if method == "flash":
        keys_values = 2 * element * head_dim * tiles.flash_columns
        weights = 2 * element * rows * tiles.flash_columns
        return (output + keys_values, cluster.am_bytes), (weights, cluster.sm_bytes)
    held = (output + keys, cluster.am_bytes)
    if method == "unfused":
        return (held,)
    return held, (SCORE_BYTES * rows * seq, tiles.score_memory_bytes)


def longest_scores_in_sm(tiles: AttentionTiles, cluster: GemmCluster) -> Array:
    """Return the S above which the scores of a row block leave SM for GSM and AM [tokens]."""
    return np.floor(cluster.sm_bytes / (SCORE_BYTES * tiles.mt_rows))


def attention_cost(
    method: Method,
    instances: Array,
    seq: Array,
    head_dim: Array,
    tiles: AttentionTiles,
    cluster: GemmCluster,
    window: float = inf,
) -> AttentionCost:
    """Return the cost of full (not causal) attention, or of attention within a sliding window.

    For one head, with r rounds of 24 row blocks: r fixed round times, the two products and the
    softmax of every row in those rounds (rows of the last one that do not exist included), and
    the transfers of Table III, a broadcast at its own cost.

    With a window W a query sees W keys. A row block of MT computes W + M_r keys and its round
    loads those of all its blocks, W + P M_r; a block of M_c keys in Flash loads the W + M_c rows of
    Q and O that see it; the unfused kernel computes every score and masks most. Never more than S.

    Args:
        method: which kernel.
        instances: heads x requests.
        seq: S, queries and keys [tokens].
        head_dim: d [elements].
        tiles: blocks and constants.
        cluster: the machine at the precision of the product.
        window: W [tokens]; infinite for full attention.
    """
    useful, window = np.minimum(seq, window), inf if method == "unfused" else window
    rows = row_block(method, scored_keys(seq, window, tiles), tiles, cluster)
    rounds = ceil_divide(seq, cluster.dsps * rows)
    keys, loaded = seq, ONE
    if not isinf(window):
        keys = np.minimum(seq, window + rows)
        together = tiles.flash_columns if method == "flash" else cluster.dsps * rows
        loaded = np.minimum(seq, window + together) / seq
    slots = np.maximum(rounds * cluster.dsps * rows, seq) * keys
    depths = (head_dim, np.minimum(seq, tiles.flash_columns))
    per_score = tiles.score_seconds + sum(
        head_dim / (cluster.peak_macs_per_second * kernel_utilisation(depth, cluster))
        for depth in depths
    )
    compute = slots * per_score
    matrix_bytes = seq * head_dim * cluster.element_bytes
    if method == "unfused":
        score_bytes = tiles.unfused_score_moves * seq * seq * cluster.element_bytes
        query_output, kv_bytes = 2 * matrix_bytes, 2 * matrix_bytes
        moved = query_output + kv_bytes + score_bytes
        io = moved / cluster.bandwidth_bytes_per_second
        fixed = 3 * rounds * tiles.round_seconds
        seconds = fixed + np.maximum(io, compute)
    else:
        blocks = tiles.flash_columns if method == "flash" else rows
        table = table_iii(method, seq, blocks, cluster.dsps)
        by_rows, by_keys = (loaded, ONE) if method == "flash" else (ONE, loaded)
        query_output = by_rows * (table.query_dmas + table.output_dmas) * matrix_bytes
        broadcast = by_keys * table.broadcasts * matrix_bytes
        kv_bytes = broadcast_ddr_bytes(broadcast, cluster)
        score_bytes = 0 * seq
        moved = query_output + cluster.broadcast_cost * broadcast
        io = moved / cluster.bandwidth_bytes_per_second
        fixed = rounds * tiles.round_seconds
        seconds = fixed + compute + io
    return AttentionCost(
        seconds=instances * seconds,
        macs=2 * instances * seq * useful * head_dim,
        query_output_bytes=instances * query_output,
        kv_bytes=instances * kv_bytes,
        score_bytes=instances * score_bytes,
        round_seconds=instances * fixed,
        compute_seconds=instances * compute,
        io_seconds=instances * io,
        rounds=rounds,
    )


@dataclass(frozen=True)
class DecodeAttention:
    """Work and traffic of one new token a request against its cache."""

    macs: Array
    query_output_bytes: Array
    kv_bytes: Array

    @property
    def bytes(self) -> Array:
        """All bytes moved."""
        return self.query_output_bytes + self.kv_bytes


def decode_attention(
    requests: Array,
    context_tokens: Array,
    query_heads: Array,
    kv_bytes_per_token: Array,
    head_dim: Array,
    activation_bytes: Array,
) -> DecodeAttention:
    """Return the cost of one new token a request against its cache.

    Attention runs per request, since no two share a cache; ``kv_bytes_per_token`` is that of one
    layer on the rank, the same figure that memory is budgeted with.
    """
    return DecodeAttention(
        macs=2 * requests * context_tokens * query_heads * head_dim,
        query_output_bytes=2 * requests * query_heads * head_dim * activation_bytes,
        kv_bytes=requests * context_tokens * kv_bytes_per_token,
    )


def causal_keys(seq: Array, window: float) -> Array:
    """Return twice the mean keys that a causal query attends to: S, or 2 W - W^2 / S in a window.

    The first W queries see all before them, S x W - W^2 / 2 pairs in all; without a window S^2 / 2,
    which kernels whose time was fitted to S x S carry in their constant.
    """
    if isinf(window):
        return seq
    seen = np.minimum(seq, window)
    return seen * (2 - seen / seq)


def full_attention_macs(
    requests: Array,
    prompt_tokens: Array,
    query_heads: Array,
    head_dim: Array,
    window: float = inf,
) -> Array:
    """Return the multiply-accumulates of attention over each prompt, both products.

    Full attention computes S x S scores; within a window only those of ``causal_keys``.
    """
    keys = causal_keys(prompt_tokens, window)
    return 2 * requests * prompt_tokens * keys * query_heads * head_dim
