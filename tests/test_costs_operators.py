"""Traffic and time of products, attention, collectives, launches and transfers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.attention import decode_attention, prefill_attention
from explorer.costs.collective import (
    all_reduce_group_bytes,
    all_reduce_rank_bytes,
    marginal_all_reduce_seconds,
    ring_all_reduce_seconds,
)
from explorer.costs.gemm import Blocking, gemm_traffic, gsm_blocking
from explorer.costs.launch import layer_launch_seconds, pass_launch_seconds
from explorer.costs.transfer import exposed_tail_seconds, link_stall_seconds, message_seconds

SM, GSM, DSPS = 65536.0, 6291456.0, 24.0


def blocking(sm=SM, gsm=GSM, dsps=DSPS, rows=6.0, tile_k=256.0, block_k=2048.0, size=4.0):
    return gsm_blocking(sm, gsm, dsps, rows, tile_k, block_k, size)


def test_gsm_block_of_the_paper_follows_from_its_capacities():
    block = blocking()
    assert (block.rows, block.depth) == (720, 2048)
    assert block.rows / DSPS == 30


def test_half_precision_doubles_the_rows_that_fit():
    assert blocking(size=2.0).rows == 2 * blocking(size=4.0).rows


@given(
    st.integers(10, 24), st.integers(16, 30), st.integers(1, 64), st.integers(1, 16),
    st.sampled_from([64, 256, 1024]), st.sampled_from([512, 2048]), st.sampled_from([1, 2, 4]),
)  # fmt: skip
@settings(deadline=None)
def test_gsm_block_is_the_largest_that_equations_6_and_8_admit(
    sm_bits, gsm_bits, dsps, rows, tile_k, block_k, size
):
    sm, gsm = 2**sm_bits, 2**gsm_bits
    fits = [
        m2
        for m2 in range(rows, 60000, rows)
        if 2 * size * m2 * tile_k <= sm and size * block_k * dsps * m2 <= gsm
    ]
    floats = map(float, (sm, gsm, dsps, rows, tile_k, block_k, size))
    assert gsm_blocking(*floats).rows == dsps * max(fits, default=1)


@given(*[st.integers(1, 5000)] * 3, st.sampled_from([1, 24, 720]), st.sampled_from([256, 2048]))
@settings(deadline=None)
def test_product_traffic_counts_every_block_that_is_moved(m, k, n, rows, depth):
    moved = gemm_traffic(
        float(m), float(k), float(n), Blocking(float(rows), float(depth)), 2.0, 1.0
    )
    row_blocks = len(range(0, m, rows))
    passes = len(range(0, k, depth))
    writes, reads = (passes, passes - 1) if row_blocks > 1 else (1, 0)
    assert moved.x_bytes == 2 * m * k
    assert moved.w_bytes == row_blocks * k * n
    assert moved.y_bytes == 2 * (writes + reads) * m * n
    assert moved.bytes == moved.x_bytes + moved.w_bytes + moved.y_bytes


def test_one_row_streams_each_weight_once():
    moved = gemm_traffic(1.0, 5120.0, 13824.0, blocking(size=2.0), 2.0, 2.0)
    assert moved.w_bytes == 2 * 5120 * 13824
    assert (moved.x_bytes, moved.y_bytes) == (2 * 5120, 2 * 13824)


@given(st.integers(1, 40), st.integers(1, 5000), st.sampled_from([(8, 8), (64, 8), (8, 1)]))
@settings(deadline=None)
def test_prefill_attention_is_two_products_a_head_and_rebroadcasts_keys(requests, prompt, heads):
    query, kv = heads
    on_chip = 24 * 64
    cost = prefill_attention(
        float(requests), float(prompt), float(query), float(kv), 128.0, 2.0, float(on_chip)
    )
    one_product = prompt * prompt * 128
    assert cost.macs == requests * query * 2 * one_product
    one_matrix = prompt * 128 * 2
    assert cost.query_output_bytes == requests * query * 2 * one_matrix
    # Table III: K and V travel once for each S / (24 M_r) row blocks of every query head.
    assert cost.kv_bytes == requests * query * 2 * one_matrix * math.ceil(prompt / on_chip)
    assert cost.bytes == cost.query_output_bytes + cost.kv_bytes


def test_decode_attention_reads_the_whole_cache_once():
    cost = decode_attention(3.0, 1000.0, 8.0, 4096.0, 128.0, 2.0)
    assert cost.kv_bytes == 3 * 1000 * 4096
    assert cost.macs == 3 * 8 * (1000 * 128 + 1000 * 128)
    assert cost.query_output_bytes == 3 * 8 * 128 * 2 * 2


@given(st.integers(1, 512), st.sampled_from([1, 2, 4, 8, 64]), st.sampled_from([2, 4]))
@settings(deadline=None)
def test_group_bytes_are_equation_17(batch, tp, size):
    hidden = 5120
    payload = float(batch * hidden * size)
    assert all_reduce_group_bytes(payload, float(tp)) == batch * 2 * hidden * size * (tp - 1)
    assert tp * all_reduce_rank_bytes(payload, float(tp)) == pytest.approx(
        all_reduce_group_bytes(payload, float(tp))
    )


@given(st.floats(0, 1e9), st.integers(1, 64))
@settings(deadline=None)
def test_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather(payload, tp):
    latency, bandwidth = 1e-5, 5e9
    one_step = latency + payload / tp / bandwidth
    seconds = ring_all_reduce_seconds(payload, float(tp), latency, bandwidth)
    assert seconds == pytest.approx(((tp - 1) + (tp - 1)) * one_step, rel=1e-12, abs=1e-300)


def test_measured_all_reduce_is_kept_where_it_was_measured_and_scaled_by_the_ring_elsewhere():
    def of(tp):
        return marginal_all_reduce_seconds(45.4e6, np.float64(tp), 0.404e-3, 22.7e9, 4.0)

    fixed, wire = of(4)
    assert (fixed, wire) == (0.404e-3, pytest.approx(2e-3))
    fixed, wire = of(2)
    assert (fixed, wire) == (0.404e-3, pytest.approx(2e-3 * (1 / 2) / (3 / 4)))
    fixed, wire = of(8)
    assert wire == pytest.approx(2e-3 * (7 / 8) / (3 / 4))
    assert of(1) == (0, 0)


def test_the_engines_collective_byte_term_explains_the_reports_slope():
    # Section 5.3: 3845 us at 45.39 MB and 2346 us at 11.32 MB, so 22.7 GB/s between them.
    wires = [marginal_all_reduce_seconds(b, 4.0, 0.0, 22.7e9, 4.0)[1] for b in (11.32e6, 45.39e6)]
    assert wires[1] - wires[0] == pytest.approx((3845 - 2346) * 1e-6, rel=0.002)


def test_a_pass_launches_once_and_a_layer_twice_only_with_tensor_parallelism():
    assert pass_launch_seconds(1e-4, 2e-5) == pytest.approx(1.2e-4)
    launches = layer_launch_seconds(np.asarray([1.0, 2.0, 8.0]), 2e-5)
    assert launches == pytest.approx([0, 4e-5, 4e-5])


def test_a_message_takes_its_latency_and_its_bytes():
    assert message_seconds(5e6, 1e-5, 5e9) == pytest.approx(1.01e-3)


@given(st.floats(0, 1), st.integers(1, 80), st.floats(1e-3, 10))
@settings(deadline=None)
def test_a_link_stalls_a_stage_only_for_what_it_sends_longer_than_it_computes(one, layers, compute):
    stall = link_stall_seconds(one, float(layers), compute)
    assert compute + stall == pytest.approx(max(compute, layers * one))
    assert stall >= 0


def test_the_exposed_tail_is_two_short_messages_or_one_long_and_a_layer():
    assert exposed_tail_seconds(0.1, 1.0) == pytest.approx(0.2)
    assert exposed_tail_seconds(1.0, 0.1) == pytest.approx(1.1)
    assert exposed_tail_seconds(0.0, 1.0) == 0
