"""Traffic and time of products, attention, collectives, launches and transfers."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.attention import (
    METHODS,
    AttentionTiles,
    attention_cost,
    decode_attention,
    full_attention_macs,
    longest_scores_in_sm,
    row_block,
    smallest_blocks,
    table_iii,
)
from explorer.costs.collective import (
    all_reduce_group_bytes,
    all_reduce_rank_bytes,
    marginal_all_reduce_seconds,
    ring_all_reduce_seconds,
)
from explorer.costs.gemm import (
    GemmCluster,
    GemmTile,
    broadcast_ddr_bytes,
    column_split_cost,
    gemm_cost,
    kernel_utilisation,
    largest_tile,
    row_split_cost,
    tightest,
    tile_bytes,
)
from explorer.costs.launch import (
    layer_launch_seconds,
    operator_launch_seconds,
    pass_launch_seconds,
)
from explorer.costs.transfer import exposed_tail_seconds, link_stall_seconds, message_seconds

SM, AM, GSM, DSPS = 65536.0, 786432.0, 6291456.0, 24.0
BANDWIDTH, PEAK = 30e9, 4.05e12


def cluster(size=4, **changes):
    """Return the MT-3000's cluster at FP32 (size 4) or FP16 (size 2)."""
    numbers = {
        "peak_macs_per_second": PEAK * 4 / size,
        "bandwidth_bytes_per_second": BANDWIDTH,
        "mixed_stream_efficiency": 0.82,
        "broadcast_cost": 0.9,
        "sm_bytes": SM, "am_bytes": AM, "gsm_bytes": GSM, "dsps": DSPS,
        "kernel_rows": 6.0, "kernel_columns": 128.0 * 4 / size,
        "kernel_cycles_per_depth": 8.0, "kernel_ramp_cycles": 41.0,
        "output_buffers": 3.0,
        "element_bytes": float(size), "weight_bytes": float(size),
        **changes,
    }  # fmt: skip
    return GemmCluster(**{name: np.float64(value) for name, value in numbers.items()})


def paper_tile(of=None):
    return largest_tile(*map(np.float64, (256, 256, 2048)), of or cluster())


def floats(*values):
    return tuple(map(np.float64, values))


@given(st.integers(1, 40000))
@settings(deadline=None)
def test_the_papers_tile_takes_the_bytes_of_equations_6_to_8(n):
    taken = tile_bytes(GemmTile(*floats(30, 256, 256, 2048)), np.float64(n), cluster())
    assert taken.sm_bytes == 61_440
    assert taken.am_bytes == 616_448 + 4 * n
    assert taken.gsm_bytes == 5_898_240
    assert taken.fits(cluster())
    one_more = tile_bytes(GemmTile(*floats(36, 256, 256, 2048)), np.float64(n), cluster())
    assert one_more.sm_bytes > SM
    assert one_more.gsm_bytes > GSM


def test_equation_7_bounds_n_at_the_papers_tile():
    tile = GemmTile(*floats(30, 256, 256, 2048))
    most = (AM - 616_448) // 4
    fits = tile_bytes(tile, np.asarray([most, most + 1]), cluster()).fits(cluster())
    assert fits.tolist() == [True, False]


def test_the_largest_tile_is_the_papers_and_half_precision_doubles_its_rows():
    assert paper_tile() == GemmTile(*floats(30, 256, 256, 2048))
    assert paper_tile(cluster(2)).m2 == 60
    # INT8 weights under FP16 arithmetic are converted on load: the tile is FP16's.
    assert paper_tile(cluster(2, weight_bytes=1)).m2 == 60
    # FP32 weights under FP16 arithmetic stand in AM as they are, and leave room for 85 rows there.
    assert paper_tile(cluster(2, weight_bytes=4)).m2 == 60


@given(
    st.tuples(st.integers(10, 24), st.integers(14, 28), st.integers(16, 30)),
    st.integers(1, 64), st.integers(1, 16), st.sampled_from([64, 256, 1024]),
    st.sampled_from([512, 2048]), st.sampled_from([2, 4]), st.sampled_from([1, 2, 4]),
)  # fmt: skip
@settings(deadline=None)
def test_the_largest_tile_is_the_most_rows_that_all_three_memories_admit(
    bits, dsps, rows, depth, block_k, size, weight
):
    sm, am, gsm = (2**b for b in bits)
    fits = [
        m2
        for m2 in range(rows, 60000, rows)
        if 2 * size * m2 * depth <= sm
        and 2 * max(size, weight) * depth * 256 + 3 * 4 * m2 * 256 <= am
        and size * block_k * dsps * m2 <= gsm
    ]
    of = cluster(
        size, sm_bytes=sm, am_bytes=am, gsm_bytes=gsm, dsps=dsps, kernel_rows=rows,
        weight_bytes=weight,
    )  # fmt: skip
    tile = largest_tile(*floats(depth, 256, block_k), of)
    assert tile.m2 == max(fits, default=0)
    if tile.m2:
        assert tile_bytes(tile, np.float64(0), of).fits(of)


def test_the_fullest_memory_is_told():
    assert tightest(floats(1, 4), floats(3, 5), floats(50, 100)) == (3, 5)
    needed, there = tightest((np.asarray([1.0, 9.0]), np.float64(10)), floats(1, 2))
    assert (needed.tolist(), there.tolist()) == ([1, 9], [2, 10])


def test_the_kernel_reaches_its_share_of_peak():
    assert kernel_utilisation(np.float64(256), cluster()) == 2048 / (2048 + 41)
    assert kernel_utilisation(np.float64(1), cluster(kernel_ramp_cycles=0)) == 1


def plain_row_split(m, k, n, size):
    """Return X, W, Y bytes, arithmetic and seconds, round by round and pass by pass."""
    m2 = {4: 30, 2: 60}[size]
    rounds = len(range(0, m, 24 * m2))
    if rounds == 1:
        rows = 0
        while rows * 24 < m:
            rows += 6
    else:
        rows = rounds * m2
    rows *= 24
    wide = {4: 128, 2: 256}[size]
    columns = len(range(0, n, wide)) * wide
    passes = len(range(0, k, 2048))
    x, w = rows * k * size, sum(k * n * size for _ in range(rounds))
    stays = n <= 3 * 256 or passes == 1
    y = rows * n * size  # the last store; before it, partial sums go out and come back
    if not stays:
        y += sum(2 * rows * n * 4 for _ in range(passes - 1))
    depth = min(k, 256)
    computing = rows * k * columns / (PEAK * 4 / size) * (8 * depth + 41) / (8 * depth)
    return x, w, y, computing, x / 30e9 + max(computing, (w + y) / (0.82 * 30e9))


@given(*[st.integers(1, 9000)] * 3, st.sampled_from([2, 4]))
@settings(deadline=None)
def test_a_row_split_moves_every_block_of_every_round(m, k, n, size):
    of = cluster(size)
    cost = row_split_cost(*floats(m, k, n), paper_tile(of), of)
    x, w, y, computing, seconds = plain_row_split(m, k, n, size)
    assert (cost.x_bytes, cost.w_bytes, cost.y_bytes) == (x, w, y)
    assert cost.bytes == x + w + y
    assert cost.compute_seconds == pytest.approx(computing, rel=1e-12)
    assert cost.seconds == pytest.approx(seconds, rel=1e-12)
    assert 0 < cost.busy_dsps <= 1


@given(*[st.integers(1, 9000)] * 3, st.sampled_from([2, 4]))
@settings(deadline=None)
def test_a_product_takes_the_faster_split_that_fits_below_the_roof(m, k, n, size):
    of = cluster(size)
    rows, columns = (
        split(*floats(m, k, n), paper_tile(of), of) for split in (row_split_cost, column_split_cost)
    )
    fits = m * k * size <= GSM and math.ceil(m / 6) * 6 * (512 / size) * 4 <= AM
    cost = gemm_cost(*floats(m, k, n), paper_tile(of), of)
    assert cost.seconds == min(rows.seconds, columns.seconds if fits else math.inf)
    assert cost.macs == m * k * n
    assert cost.seconds >= cost.macs / (PEAK * 4 / size)
    assert cost.bytes <= cost.seconds * BANDWIDTH * (1 + 1e-12)
    assert cost.w_bytes >= k * n * size
    assert cost.y_bytes >= m * n * size


def test_arrays_are_costed_element_by_element():
    m = np.asarray([1.0, 700.0, 721.0, 5000.0])
    together = gemm_cost(m, *floats(4096, 4096), paper_tile(), cluster())
    assert together.column_split.tolist() == [True, False, False, False]
    for index, rows in enumerate(m):
        alone = gemm_cost(*floats(rows, 4096, 4096), paper_tile(), cluster())
        for name in ("seconds", "macs", "x_bytes", "w_bytes", "y_bytes", "rounds"):
            assert np.broadcast_to(getattr(together, name), 4)[index] == getattr(alone, name)


def test_one_row_streams_each_weight_once_at_the_whole_bandwidth():
    of = cluster(2)
    cost = gemm_cost(*floats(1, 5120, 13824), paper_tile(of), of)
    assert cost.column_split
    assert cost.w_bytes == 2 * 5120 * 13824
    assert (cost.x_bytes, cost.y_bytes) == (0.9 * 2 * 5120, 2 * 13824)
    assert cost.seconds == pytest.approx(cost.bytes / BANDWIDTH, rel=1e-14)


def test_25_row_blocks_take_as_long_as_48():
    tile, of = paper_tile(), cluster()
    blocks = np.asarray([24.0, 25.0, 47.0, 48.0, 49.0])
    seconds = row_split_cost(30 * blocks, *floats(4096, 4096), tile, of).seconds
    one, *two, three = seconds
    assert len(set(two)) == 1
    assert one < two[0] < three
    ratios = np.asarray([two[0], three]) / one
    assert ratios == pytest.approx([2, 3], rel=0.2)
    attention = attention_cost("mt", np.float64(1), 24 * blocks, np.float64(128), TILES, of)
    assert attention.rounds.tolist() == [1, 2, 2, 2, 3]


def test_a_wider_tile_is_slower_only_where_it_pads_more_rows():
    """Rounds are whole: 1000 rows are two rounds of 720, 1440, or of 864, 1728."""
    cost = {
        m2: row_split_cost(*floats(1000, 4096, 4096), GemmTile(*floats(m2, 256, 256, 2048)), of)
        for of in (cluster(),)
        for m2 in (30, 36)
    }
    assert cost[36].seconds > cost[30].seconds
    assert cost[36].x_bytes / cost[30].x_bytes == pytest.approx(1728 / 1440)


@given(st.integers(1, 5), *[st.integers(1, 9000)] * 2, st.sampled_from([2, 4]))
@settings(deadline=None)
def test_more_rows_a_dsp_are_never_slower_at_whole_rounds(times, k, n, size):
    rows = 24 * 360 * times
    of = cluster(size)
    seconds = [
        float(
            row_split_cost(*floats(rows, k, n), GemmTile(*floats(m2, 256, 256, 2048)), of).seconds
        )
        for m2 in (6, 12, 18, 24, 30, 36, 60, 72, 90, 120)
    ]
    assert all(more <= less * (1 + 1e-12) for less, more in pairwise(seconds))


@given(*[st.integers(1, 9000)] * 3, st.sampled_from([2, 4]), st.floats(1, 100))
@settings(deadline=None)
def test_more_bandwidth_or_peak_is_never_slower(m, k, n, size, factor):
    base = cluster(size)
    seconds = gemm_cost(*floats(m, k, n), paper_tile(base), base).seconds
    for faster in (
        cluster(size, bandwidth_bytes_per_second=BANDWIDTH * factor),
        cluster(size, peak_macs_per_second=PEAK * 4 / size * factor),
    ):
        assert gemm_cost(*floats(m, k, n), paper_tile(faster), faster).seconds <= seconds


def test_a_tile_that_fits_nowhere_still_gives_a_finite_time():
    none = cluster(sm_bytes=1024)
    assert paper_tile(none).m2 == 0
    assert np.isfinite(gemm_cost(*floats(100, 4096, 4096), paper_tile(none), none).seconds)
    no_room = cluster(am_bytes=16384)
    assert paper_tile(no_room).m2 == 0


# Attention

TILES = AttentionTiles(*floats(24, 384, 42, 393216, 4.29e-5, 2.5e-11, 3))


@pytest.mark.parametrize(
    ("seq", "rows", "columns"), [(512, 24, 384), (4096, 24, 384), (100, 6, 64), (1, 24, 16)]
)
def test_table_iii(seq, rows, columns):
    flash = table_iii("flash", *floats(seq, columns, 24))
    blocks = len(range(0, seq, columns))
    assert (flash.query_dmas, flash.output_dmas, flash.broadcasts) == (blocks, 2 * blocks, 2)
    mt = table_iii("mt", *floats(seq, rows, 24))
    rounds = len(range(0, seq, 24 * rows))
    assert (mt.query_dmas, mt.output_dmas, mt.broadcasts) == (1, 1, 2 * rounds)


def test_scores_leave_sm_above_682_tokens_and_shorten_the_block_above_4096():
    assert longest_scores_in_sm(TILES, cluster()) == 65536 // (4 * 24) == 682
    seq = np.asarray([1.0, 4096.0, 4097.0, 5461.0, 5462.0, 16384.0, 16385.0, 1e6])
    rows = row_block("mt", seq, TILES, cluster(2))
    assert rows.tolist() == [24, 24, 18, 18, 12, 6, 6, 6]
    for tokens, block in zip(seq[:6], rows[:6], strict=True):
        assert 4 * tokens * block <= 393216
    assert row_block("flash", seq, TILES, cluster(2)) == 42
    assert row_block("flash", seq, TILES, cluster(4)) == 18


def plain_attention(method, seq, dim, size):
    """Return seconds, Q and O bytes, K and V bytes, score bytes of one head."""
    rows = 24 if method != "flash" else {2: 42, 4: 18}[size]
    if method != "flash":
        while rows > 6 and 4 * rows * seq > 393216:
            rows -= 6
    rounds = len(range(0, seq, 24 * rows))
    scores = rounds * 24 * rows * seq
    one = seq * dim * size
    peak = PEAK * 4 / size

    def product(depth):
        return scores * dim / peak * (8 * depth + 41) / (8 * depth)

    computing = scores * 2.5e-11 + product(dim) + product(min(seq, 384))
    if method == "unfused":
        parts = (2 * one, 2 * one, 3 * seq * seq * size)
        return 3 * rounds * 4.29e-5 + max(computing, sum(parts) / 30e9), *parts
    if method == "flash":
        parts = (3 * len(range(0, seq, 384)) * one, 0.9 * 2 * one, 0)
    else:
        parts = (2 * one, 0.9 * 2 * rounds * one, 0)
    return rounds * 4.29e-5 + computing + sum(parts) / 30e9, *parts


@given(
    st.sampled_from(METHODS), st.integers(1, 300), st.integers(1, 20000),
    st.sampled_from([64, 128, 256]), st.sampled_from([2, 4]),
)  # fmt: skip
@settings(deadline=None)
def test_attention_is_rounds_of_two_products_softmax_and_table_iii(method, heads, seq, dim, size):
    cost = attention_cost(method, *floats(heads, seq, dim), TILES, cluster(size))
    seconds, query_output, kv, scores = plain_attention(method, seq, dim, size)
    assert cost.seconds == pytest.approx(heads * seconds, rel=1e-12)
    assert cost.query_output_bytes == pytest.approx(heads * query_output, rel=1e-14)
    assert cost.kv_bytes == pytest.approx(heads * kv, rel=1e-14)
    assert cost.score_bytes == heads * scores
    assert cost.macs == heads * (seq * seq * dim + seq * seq * dim)
    assert cost.macs == full_attention_macs(*floats(1, seq, heads, dim))
    assert cost.bytes <= cost.seconds * BANDWIDTH * (1 + 1e-12)
    assert cost.macs <= cost.seconds * PEAK * 4 / size


@given(st.sampled_from([0.1, 0.9, 1.0, 2.0]), st.integers(1, 5000))
@settings(deadline=None)
def test_a_broadcast_never_outruns_the_ddr_nor_counts_twice(price, seq):
    of = cluster(2, broadcast_cost=price)
    assert broadcast_ddr_bytes(np.float64(seq), of) == seq * min(price, 1)
    for method in METHODS:
        cost = attention_cost(method, *floats(1, seq, 128), TILES, of)
        assert cost.bytes <= cost.seconds * BANDWIDTH * (1 + 1e-12)
    product = gemm_cost(*floats(1, 4096, seq), paper_tile(of), of)
    assert product.bytes <= product.seconds * BANDWIDTH * (1 + 1e-12)


@pytest.mark.parametrize("seq", [1, 5, 23, 24, 575, 576])
def test_below_one_round_time_grows_only_with_the_columns(seq):
    cost = attention_cost("mt", *floats(1, seq, 128), TILES, cluster(2))
    assert cost.rounds == 1
    assert cost.compute_seconds / seq == pytest.approx(
        576 * (2.5e-11 + 128 / 8.1e12 * ((8 * 128 + 41) / (8 * 128)
        + (8 * min(seq, 384) + 41) / (8 * min(seq, 384))))
    )  # fmt: skip


@given(st.integers(1, 4096), st.floats(1, 100))
@settings(deadline=None)
def test_attention_is_never_slower_with_more_bandwidth_or_peak(seq, factor):
    for method in METHODS:
        base = attention_cost(method, *floats(1, seq, 128), TILES, cluster(2)).seconds
        for changes in (
            {"bandwidth_bytes_per_second": BANDWIDTH * factor},
            {"peak_macs_per_second": 2 * PEAK * factor},
        ):
            of = cluster(2, **changes)
            assert attention_cost(method, *floats(1, seq, 128), TILES, of).seconds <= base


def test_the_smallest_blocks_of_attention():
    mt = smallest_blocks("mt", *floats(512, 128), TILES, cluster(2))
    assert mt == ((4 * 6 * 128 + 2 * 128 * 256, AM), (4 * 6 * 512, 393216))
    flash = smallest_blocks("flash", *floats(512, 128), TILES, cluster(2))
    assert flash == ((4 * 6 * 128 + 2 * 2 * 128 * 384, AM), (2 * 2 * 6 * 384, SM))
    assert smallest_blocks("unfused", *floats(512, 128), TILES, cluster(2)) == mt[:1]
    # Head dimensions above AM break every method, finitely.
    for method in METHODS:
        (taken, there), *_ = smallest_blocks(method, *floats(512, AM), TILES, cluster(2))
        assert taken > there
        assert np.isfinite(attention_cost(method, *floats(1, 512, AM), TILES, cluster(2)).seconds)


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


def test_operators_launched_one_by_one_are_equation_11():
    launches = operator_launch_seconds(np.asarray([0.0, 1.0, 18.0]), 1e-4, 2e-5)
    assert launches == pytest.approx([0, 1.2e-4, 18 * 1.2e-4])


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
