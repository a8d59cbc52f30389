"""The tile search against plain loops, the paper's tile, and what other loop orders move."""

from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest

from explorer.config.errors import InputError
from explorer.costs.arrays import scalar
from explorer.costs.gemm import GemmCluster, GemmTile, gemm_cost, row_split_cost, tile_bytes
from explorer.costs.loop_orders import (
    column_split_until,
    resident_w,
    w_stationary,
    without_broadcast,
    x_stationary,
    y_stationary,
)
from explorer.costs.product_levers import doubled
from explorer.costs.tile_search import (
    Product,
    critical_seconds,
    idle_dsps,
    search_tiles,
    staircase_rows,
)

KIB, MIB = 1024, 1024**2


def cluster(sm=64 * KIB, am=768 * KIB, gsm=6 * MIB, element=4, **changes):
    base = GemmCluster(
        peak_macs_per_second=scalar(4.05e12 * 4 / element),
        bandwidth_bytes_per_second=scalar(30e9),
        mixed_stream_efficiency=scalar(0.7),
        broadcast_cost=scalar(0.9),
        sm_bytes=scalar(sm),
        am_bytes=scalar(am),
        gsm_bytes=scalar(gsm),
        dsps=scalar(24),
        kernel_rows=scalar(6),
        kernel_columns=scalar(128 * 4 // element),
        kernel_cycles_per_depth=scalar(8),
        kernel_ramp_cycles=scalar(41),
        output_buffers=scalar(3),
        element_bytes=scalar(element),
        weight_bytes=scalar(element),
    )
    return replace(base, **{name: scalar(value) for name, value in changes.items()})


def tile(m2=30, k2=256, n2=256, kg=2048):
    return GemmTile(scalar(m2), scalar(k2), scalar(n2), scalar(kg))


PAPER = tile()
MEASURED = [
    Product(m, 4096, n) for m in (1024, 4096, 8192) for n in (256, 512, 1024, 2048, 3072, 4096)
]


@pytest.mark.parametrize("n", [256, 4096, 5120, 42_496])
def test_the_papers_tile_fits_with_its_exact_bytes(n):
    found = search_tiles(Product(1024, 4096, n), cluster(), PAPER).choice(PAPER)
    assert found.rank is not None
    assert found.taken.sm_bytes == 61_440
    assert found.taken.am_bytes == 616_448 + 4 * n
    assert found.taken.gsm_bytes == 5_898_240


@pytest.mark.parametrize(
    ("sm", "am", "gsm", "size"),
    [
        (2 * KIB, 48 * KIB, 96 * KIB, Product(300, 128, 512)),
        (1 * KIB, 40 * KIB, 48 * KIB, Product(7, 64, 300)),
        (4 * KIB, 96 * KIB, 256 * KIB, Product(1000, 200, 384)),
        (2 * KIB, 64 * KIB, 64 * KIB, Product(1, 48, 256)),
    ],
)
def test_the_search_is_a_plain_loop_over_small_memories(sm, am, gsm, size):
    machine = cluster(sm, am, gsm)
    start = tile(6, 16, 128, 32)
    search = search_tiles(size, machine, start)
    seconds, least = [], (np.inf, None)
    for m2, k2, n2, kg in combinations(*vars(search.grid).values()):
        sm_taken = 2 * 4 * m2 * k2
        am_taken = 2 * 4 * k2 * n2 + 3 * 4 * m2 * n2 + 4 * size.n
        gsm_taken = 4 * kg * 24 * m2
        if sm_taken > sm or am_taken > am or gsm_taken > gsm or kg % k2:
            continue
        took = float(gemm_cost(*size.sizes, tile(m2, k2, n2, kg), machine).seconds)
        seconds.append(took)
        if took < least[0]:
            least = took, (m2, k2, n2, kg)
    assert search.fitting == len(seconds) > 1
    assert float(search.best.cost.seconds) == pytest.approx(min(seconds), rel=1e-12)
    assert search.best.rank == 1
    chosen = search.choice(start)
    own = float(chosen.cost.seconds)
    assert chosen.rank == 1 + sum(took < own * (1 - 1e-9) for took in seconds)
    assert chosen.ties == sum(abs(took - own) <= 1e-9 * own for took in seconds)


def test_the_grid_misses_no_multiple_that_small_memories_admit():
    grid = search_tiles(Product(300, 128, 512), cluster(2 * KIB, 48 * KIB, 96 * KIB), tile()).grid
    assert set(grid.m2) == {6, 12, 30}
    assert set(grid.n2) == {128, 256, 384}
    assert {16, 24, 32} <= set(grid.k2)


@pytest.mark.parametrize("element", [4, 2])
@pytest.mark.parametrize("size", MEASURED, ids=str)
def test_no_tile_beats_the_best_and_its_time_is_its_terms(size, element):
    machine = cluster(element=element)
    search = search_tiles(size, machine, PAPER)
    paper, best = search.choice(PAPER), search.best
    assert best.taken.fits(machine)
    assert float(best.cost.seconds) <= float(paper.cost.seconds)
    assert float(best.cost.seconds) == np.nanmin(search.seconds)
    for choice in (paper, best):
        parts = vars(critical_seconds(size, choice, machine)).values()
        assert sum(parts) == pytest.approx(float(choice.cost.seconds))
        assert min(parts) >= 0


def test_loop_orders_move_what_they_keep_in_motion():
    size, machine = Product(1440, 4096, 4096), cluster()
    x, w, y = 4 * 1440 * 4096, 4 * 4096 * 4096, 4 * 1440 * 4096
    # Sixteen steps of K_2, two of K_g: sums go out and come back between them, then Y is stored.
    chosen = y_stationary(size, PAPER, machine)
    assert (chosen.x_bytes, chosen.w_bytes, chosen.y_bytes) == (x, 2 * w, (2 + 1) * y)
    x_stays = x_stationary(size, PAPER, machine)
    assert (x_stays.x_bytes, x_stays.w_bytes, x_stays.y_bytes) == (x, 2 * w, (15 + 15 + 1) * y)
    w_stays = w_stationary(size, PAPER, machine)
    assert (w_stays.x_bytes, w_stays.w_bytes, w_stays.y_bytes) == (16 * x, w, (15 + 15 + 1) * y)
    alone = without_broadcast(chosen, machine)
    assert (alone.x_bytes, alone.w_bytes, alone.y_bytes) == (x, 48 * w, (2 + 1) * y)
    assert alone.bytes - chosen.bytes == 46 * w


def test_all_of_w_in_gsm_moves_every_matrix_once():
    small = resident_w(Product(1440, 4096, 256), PAPER, cluster())
    assert small is not None
    assert small.bytes == 4 * (1440 * 4096 + 4096 * 256 + 1440 * 256)
    assert resident_w(Product(1440, 4096, 385), PAPER, cluster()) is None
    assert resident_w(Product(1440, 4096, 384), PAPER, cluster()) is not None


def test_columns_are_split_for_few_rows():
    size, machine = Product(1, 5120, 5120), cluster()
    until = column_split_until(size, PAPER, machine)
    assert 1 <= until < 720
    for m in range(1, until + 2):
        chosen = bool(gemm_cost(scalar(m), *size.sizes[1:], PAPER, machine).column_split)
        assert chosen == (m <= until)
    assert column_split_until(size, PAPER, cluster(gsm=16 * KIB)) == 0


def test_25_row_blocks_leave_23_dsps_idle():
    machine = cluster()
    rows = np.asarray([1.0, 144, 145, 720, 721, 750, 751, 1440])
    idle = idle_dsps(rows, PAPER, machine)
    assert idle.tolist() == [23, 0, 11, 0, 23, 23, 22, 0]


@pytest.mark.parametrize("most", [100, 720, 8192, 100_000])
@pytest.mark.parametrize("m2", [6, 30, 360])
def test_the_staircase_has_every_edge_and_few_points(most, m2):
    machine, block = cluster(), tile(m2)
    rows = staircase_rows(most, block, machine, 60)
    assert rows.size <= 200
    assert (rows.min(), rows.max()) == (1, min(most, rows.max()))
    assert (np.diff(rows) > 0).all()
    if most == 8192 and m2 == 30:
        time = row_split_cost(rows, scalar(4096), scalar(4096), block, machine).seconds
        assert set(np.arange(721, 8192, 720)) <= set(rows)
        jumps = rows[1:][np.diff(time) > 1e-12]
        assert set(jumps[jumps > 720]) == set(np.arange(721, 8192, 720))


@pytest.mark.parametrize(
    ("field", "bad"), [("m", 0), ("k", -1), ("n", 10_000_001), ("m", 1.5), ("k", True)]
)
def test_a_product_of_no_size_is_refused_by_name(field, bad):
    with pytest.raises(InputError, match=rf"product\.{field}"):
        Product(**{"m": 8, "k": 8, "n": 8, field: bad})


def test_a_shape_that_fits_no_tile_says_which_memory_is_too_small():
    for changes, name in (
        ({"am": 16 * KIB}, "AM"),
        ({"sm": 256}, "SM"),
        ({"gsm": 4 * KIB}, "GSM"),
    ):
        search = search_tiles(Product(512, 4096, 4096), cluster(**changes), PAPER)
        assert search.fitting == 0
        with pytest.raises(InputError, match=f"of {name}'s"):
            _ = search.best
        assert search.choice(PAPER).rank is None


def test_memories_at_the_ends_of_their_sliders_are_searched_or_refused():
    for sm, am, gsm in combinations((1024, 2**24), (16384, 2**28), (65536, 2**30)):
        search = search_tiles(Product(131_072, 28_672, 32_000), cluster(sm, am, gsm), PAPER)
        assert search.tried < 3_000_000
        if search.fitting:
            taken = tile_bytes(search.best.tile, scalar(32_000), cluster(sm, am, gsm))
            assert taken.fits(cluster(sm, am, gsm))


def test_padding_is_told_from_arithmetic():
    size = Product(721, 512, 130)
    machine = cluster(bandwidth_bytes_per_second=1e13)
    choice = search_tiles(size, machine, PAPER).choice(tile(30, 256, 256, 512))
    found = critical_seconds(size, choice, machine)
    assert found.padding > 0
    assert found.arithmetic == pytest.approx(721 * 512 * 130 / 4.05e12)


@pytest.mark.parametrize("m", [64, 1024, 4096])
def test_twice_of_a_number_never_slows_the_fastest_cut_and_bandwidth_helps_where_ddr_waits(
    m: int,
) -> None:
    levers = {item.name: item for item in doubled(Product(m, 4096, 4096), cluster(), PAPER)}
    assert all(item.gain >= -1e-12 for item in levers.values())
    assert all(
        not item.same_tile_seconds < item.new_tile_seconds * (1 - 1e-12) for item in levers.values()
    )
    # With no arithmetic that waits, twice the bandwidth at most halves the time.
    assert 0 < levers["memory bandwidth"].gain <= 0.5 + 1e-12
    if m == 64:
        assert levers["memory bandwidth"].gain == pytest.approx(0.5, rel=1e-3)
        assert levers["GSM"].gain == pytest.approx(0, abs=1e-12)
