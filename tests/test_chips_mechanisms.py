"""The MT-3000's mechanisms, composed: their parts add up to what the engine costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.chips.inputs import Inputs
from explorer.chips.mechanisms import (
    busy_share,
    fusion_case,
    loop_iterations,
    loop_times,
    paper_tile,
)
from explorer.chips.mt3000 import Mt3000
from explorer.config.errors import InputError
from explorer.costs.arrays import scalar
from explorer.costs.buffering import WAYS, loop_seconds
from explorer.costs.fusion import fuse_by_density, fuse_exhaustively
from explorer.costs.gemm import row_split_cost
from explorer.costs.graph import Work
from explorer.costs.layer import Layout
from explorer.costs.memory import STORAGE_BYTES
from tests.scenarios import ASCEND, PRESETS, scenario

MT3000_PRESETS = [preset for preset in PRESETS if preset.startswith("mt3000")]


def machine(preset: str = "mt3000-llama2-13b", **changes: object) -> Mt3000:
    return Mt3000.of(Inputs(scenario(preset, **changes)))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_papers_tile_is_what_the_engine_uses_in_fp32(precision: str) -> None:
    mt = machine()
    cluster = mt.cluster_at(precision, STORAGE_BYTES[precision])
    same = vars(mt.tile(cluster)) == vars(paper_tile(mt, 30))
    assert same == (precision == "fp32")


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_loops_over_all_blocks_add_up_to_the_product(precision: str) -> None:
    mt = machine()
    cluster = mt.cluster_at(precision, STORAGE_BYTES[precision])
    tile = mt.tile(cluster)
    rows = 3 * float(cluster.dsps * tile.m2)
    m, k, n = scalar(rows), tile.kg, 4 * tile.n2
    cost = row_split_cost(m, k, n, tile, cluster)
    times, iterations, blocks = loop_times(tile, cluster, scalar(8)), loop_iterations(tile), 3 * 4
    assert blocks * iterations * times.compute_seconds == pytest.approx(cost.compute_seconds)
    moved = iterations * times.load_w_seconds + times.store_seconds
    assert blocks * moved == pytest.approx(cost.stream_seconds)
    first_loads = 3 * iterations * times.load_x_seconds
    assert 8 * first_loads == pytest.approx(cost.exposed_seconds)


def test_the_steady_state_of_triple_buffering_is_the_longer_of_dma_and_arithmetic() -> None:
    """With free GSM the tiled loop and the engine's max(arithmetic, stream) agree."""
    mt = machine()
    for bandwidth in (10e9, 30e9, 300e9):
        cluster = replace(mt.cluster_at("fp32", 4), bandwidth_bytes_per_second=scalar(bandwidth))
        tile = mt.tile(cluster)
        times = loop_times(tile, cluster, scalar(1e12))
        period = loop_seconds(times, scalar(3), loop_iterations(tile), WAYS[-1]).period_seconds
        cost = row_split_cost(cluster.dsps * tile.m2, tile.kg, tile.n2, tile, cluster)
        longer = max(float(cost.compute_seconds), float(cost.stream_seconds))
        assert float(period) == pytest.approx(longer, rel=1e-6)


@pytest.mark.parametrize("preset", MT3000_PRESETS)
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("matrices", [2, 3])
def test_the_density_rule_is_the_best_partition_of_every_preset(
    preset: str, layout: Layout, matrices: int
) -> None:
    for precision in ("fp32", "fp16"):
        mt = machine(preset, precision__compute=precision, precision__weights=precision)
        model = replace(mt.inputs.model, mlp_matrices=matrices)
        case = fusion_case(mt, model, Work(512, 1, 512), layout)
        assert case.densest_low < case.threshold < case.sparsest_high
        rule = fuse_by_density(case.graph, case.capacity, case.threshold)
        assert rule.score == fuse_exhaustively(case.graph, case.capacity, case.threshold).score
        for threshold in (case.densest_low * 1.01, case.sparsest_high):
            assert fuse_by_density(case.graph, case.capacity, threshold).names == rule.names


def test_memories_that_hold_no_tile_are_named() -> None:
    with pytest.raises(InputError, match="larger memories"):
        fusion_case(
            machine(hardware__am_bytes=16384),
            machine().inputs.model,
            Work(512, 1, 512),
            Layout.SEQUENTIAL,
        )


def test_a_hybrid_model_has_no_graph_and_says_so() -> None:
    gated = Inputs(scenario(ASCEND)).model
    with pytest.raises(InputError, match="model"):
        fusion_case(machine(), gated, Work(512, 1, 512), Layout.SEQUENTIAL)


def test_25_heads_keep_24_dsps_half_busy() -> None:
    shares = busy_share(np.asarray([1.0, 24, 25, 32, 40, 48]), scalar(24))
    assert shares == pytest.approx([1 / 24, 1, 25 / 48, 2 / 3, 5 / 6, 1])
