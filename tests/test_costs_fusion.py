"""Fusion: the five regions of Fig. 4, when they change, and every legal partition."""

from dataclasses import replace
from itertools import combinations

import pytest

from explorer.config.errors import InputError
from explorer.config.presets import load_chip
from explorer.costs.arrays import scalar
from explorer.costs.fusion import (
    fitting_attention_rows,
    fuse_by_density,
    fuse_exhaustively,
    partition_of,
    rope_saving,
    saved_by_tensor,
    unfused,
)
from explorer.costs.graph import Blocks, ElementBytes, Work
from explorer.costs.layer import Layout, decoder_layer
from explorer.costs.roofline import intensity_threshold
from explorer.costs.unit import Capacity, Unit
from tests.scenarios import model

LLAMAS = ("llama2-7b", "llama2-13b", "llama-30b", "llama2-70b")
WORKS = {
    "prefill-512": Work(512, 1, 512),
    "prefill-2x2048": Work(4096, 2, 2048),
    "prefill-4096": Work(4096, 1, 4096),
    "decode-1": Work(1, 1, 1024),
    "decode-64": Work(64, 64, 1024),
}
PUBLISHED = Capacity(sm_bytes=64 * 1024, am_bytes=768 * 1024, gsm_bytes=6 * 1024**2)
BLOCKS = Blocks(
    dsps=24, rows_per_dsp=30, attention_rows_per_dsp=64, tile_k=256, tile_n=256, block_k=2048
)
FP32 = ElementBytes(activations=4, weights=4, kv=4, accumulators=4)
# Between the densest elementwise operator (softmax, 0.6) and a head's products (20 MAC/B).
THRESHOLD = float(intensity_threshold(scalar(4.05e12), scalar(30e9))) / 32
KERNEL_ROWS = 6

ATTENTION_INPUT = ("attention_norm", "q_linear", "k_linear", "v_linear", "rope")
ATTENTION = ("qk_matmul", "scale", "softmax", "pv_matmul")
OUTPUT = ("o_linear", "attention_add")
FIGURE_4 = {
    ATTENTION_INPUT,
    ATTENTION,
    OUTPUT,
    ("ffn_norm", "gate_linear", "up_linear"),
    ("silu", "mul", "down_linear", "ffn_add"),
}


def layer(
    name="llama2-7b", work="prefill-512", layout=Layout.SEQUENTIAL, matrices=3, capacity=PUBLISHED
):
    shape = replace(model(name), mlp_matrices=matrices)
    work = WORKS.get(work, work)
    rows = fitting_attention_rows(shape, work, BLOCKS, FP32, capacity, KERNEL_ROWS)
    blocks = replace(BLOCKS, attention_rows_per_dsp=rows)
    return decoder_layer(shape, work, blocks, FP32, layout)


def with_am(am_bytes):
    return replace(PUBLISHED, am_bytes=am_bytes)


def regions(partition):
    return set(partition.names)


def changes_at(graph, low, high, fuse=fuse_by_density):
    """Return the least AM in (low, high] whose regions are those of ``high``."""
    target = regions(fuse(graph, with_am(high), THRESHOLD))
    assert regions(fuse(graph, with_am(low), THRESHOLD)) != target
    while high - low > 1:
        middle = (low + high) // 2
        same = regions(fuse(graph, with_am(middle), THRESHOLD)) == target
        low, high = (low, middle) if same else (middle, high)
    return high


def test_capacities_are_those_of_the_chip_preset():
    quantities = load_chip("mt3000@1").quantities
    assert quantities["sm_bytes"].value == PUBLISHED.sm_bytes
    assert quantities["am_bytes"].value == PUBLISHED.am_bytes
    assert quantities["gsm_bytes"].value == PUBLISHED.gsm_bytes
    assert quantities["dsps_per_cluster"].value == BLOCKS.dsps


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("name", LLAMAS)
def test_rule_finds_exactly_the_five_regions(name, work):
    assert regions(fuse_by_density(layer(name, work), PUBLISHED, THRESHOLD)) == FIGURE_4


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("name", LLAMAS)
def test_rule_is_the_best_of_all_legal_partitions(name, work):
    for layout in Layout:
        for matrices in (2, 3):
            graph = layer(name, work, layout, matrices)
            rule = fuse_by_density(graph, PUBLISHED, THRESHOLD)
            best = fuse_exhaustively(graph, PUBLISHED, THRESHOLD)
            assert rule.score == best.score
            assert regions(rule) == regions(best)


def test_regions_of_the_other_layers():
    gated = fuse_by_density(layer(layout=Layout.PARALLEL_THREE_WAY), PUBLISHED, THRESHOLD)
    # One norm feeds all; both row-parallel products accumulate on the same tile of the sum.
    assert regions(gated) == {
        ("norm", "q_linear", "k_linear", "v_linear", "rope", "gate_linear", "up_linear"),
        ATTENTION,
        ("o_linear", "silu", "mul", "down_linear", "add"),
    }
    plain = fuse_by_density(layer(matrices=2), PUBLISHED, THRESHOLD)
    # GELU is free in the epilogue of fc1; before fc2 it would have to be staged.
    assert regions(plain) == {
        ATTENTION_INPUT,
        ATTENTION,
        OUTPUT,
        ("ffn_norm", "fc1_linear", "gelu"),
        ("fc2_linear", "ffn_add"),
    }


def literal_best(graph, capacity):
    """Try every subset as a unit and every partition, without the recurrence of the search."""
    order = [operator.name for operator in graph.operators]
    high = {o.name for o in graph.operators if o.is_high(THRESHOLD)}
    units = {}
    for size in range(1, len(order) + 1):
        for names in map(frozenset, combinations(order, size)):
            unit = Unit(graph, names)
            alone = size == 1
            if not alone and not (names & high and unit.connected and not unit.needs_barrier):
                continue
            if alone or unit.working_set().fits(capacity, graph.dsps):
                region = unit.region()
                am = region.working_set.am_needed(capacity, graph.dsps)
                units[names] = (region.ddr_bytes, 1, region.distance, am)

    def runnable(parts):
        done, waiting = set(), list(parts)
        while waiting:
            ready = [u for u in waiting if all(graph.predecessors[n] <= done | u for n in u)]
            if not ready:
                return False
            done |= ready[0]
            waiting.remove(ready[0])
        return True

    best, tried = None, 0

    def extend(parts, score):
        nonlocal best, tried
        left = [name for name in order if not any(name in part for part in parts)]
        if not left:
            if runnable(parts):
                tried += 1
                best = score if best is None else min(best, score)
            return
        for names, own in units.items():
            if left[0] in names and names <= set(left):
                extend([*parts, names], tuple(map(sum, zip(score, own, strict=True))))

    extend([], (0, 0, 0, 0))
    return best, tried


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("am_kib", [640, 688, 768, 3072])
def test_search_agrees_with_a_literal_enumeration(am_kib, layout):
    whole = layer(work="decode-64", layout=layout)
    # All but attention and what leads to it: few enough operators to try every subset.
    kept = [o for o in whole.operators if o.name not in {*ATTENTION_INPUT, *ATTENTION}]
    made = {output for o in kept for output in o.outputs}
    tensors = tuple(t if t.name in made else replace(t, producer="") for t in whole.tensors)
    graph = replace(whole, operators=tuple(kept), tensors=tensors)
    capacity = with_am(am_kib * 1024)
    best, tried = literal_best(graph, capacity)
    assert tried > 1
    assert fuse_exhaustively(graph, capacity, THRESHOLD).score == best


def test_classes_do_not_depend_on_the_pass():
    for name in LLAMAS:
        for work in WORKS:
            for layout in Layout:
                for operator in layer(name, work, layout).operators:
                    expected = operator.name.endswith(("_linear", "_matmul"))
                    assert operator.is_high(THRESHOLD) == expected == operator.product
    # By the pass's own traffic, a decode step would have no high-density operator.
    decode = layer(work="decode-1").operator["q_linear"]
    assert decode.density == pytest.approx(0.25, rel=1e-2)
    assert decode.block_density == pytest.approx(720 * 4096 / (4 * (2 * 720 + 4096)))


def test_working_sets_are_equations_6_to_8():
    unit = Unit(layer(), frozenset(OUTPUT)).working_set()
    assert unit.sm_bytes == 2 * 4 * 30 * 256
    assert unit.am_bytes == 2 * 4 * 256 * 256 + 3 * 4 * 30 * 256 + 4 * 4096
    assert unit.gsm_bytes == 4 * 2048 * 720
    assert unit.held_bytes == 0
    attention = Unit(layer(), frozenset(ATTENTION)).working_set()
    assert attention.sm_bytes == PUBLISHED.sm_bytes  # 64 rows x 128, twice
    assert attention.held_bytes == 64 * 512 * 4  # scores of a row block, in place


def test_gate_and_up_with_silu_need_two_output_tiles():
    graph = layer()
    alone = Unit(graph, frozenset(("gate_linear", "up_linear"))).working_set()
    joined = Unit(graph, frozenset(("gate_linear", "up_linear", "silu", "mul"))).working_set()
    assert joined.am_bytes - alone.am_bytes == 3 * 4 * 30 * 256 + 4 * 11008
    assert alone.am_bytes <= PUBLISHED.am_bytes < joined.am_bytes == 778 * 1024
    # A sum starts from what is there: no second tile.
    graph = layer(layout=Layout.PARALLEL_THREE_WAY)
    one = Unit(graph, frozenset(("o_linear", "add"))).working_set()
    both = Unit(graph, frozenset(("o_linear", "down_linear", "add"))).working_set()
    assert both == one


def test_less_am_takes_prologues_away_then_epilogues():
    graph = layer()
    base = 2 * 4 * 256 * 256 + 3 * 4 * 30 * 256  # W_2 and Y_2
    tile = 4 * 30 * 256
    # Two staged operands of SiLU and Mul before down, and D N of its 4096 columns.
    first = base + 4 * 4096 + 2 * tile
    assert changes_at(graph, first - 1, PUBLISHED.am_bytes) == first == 694272
    assert ("ffn_norm", "gate_linear", "up_linear", "silu") in regions(
        fuse_by_density(graph, with_am(first - 1), THRESHOLD)
    )
    # One staged tile of the norm before gate and up, a tile's gains, one factor a row.
    second = base + 4 * 11008 + tile + 4 * 256 + 4 * 30
    assert changes_at(graph, second - 1, first - 1) == second == 692344
    # Not even the Linear kernel: nothing is built around it.
    assert fuse_by_density(graph, with_am(base), THRESHOLD).launches > 10
    assert fuse_by_density(graph, with_am(0), THRESHOLD).saved_bytes == 0


def test_more_am_moves_silu_to_gate_and_up_and_joins_regions():
    graph = layer()
    base = 2 * 4 * 256 * 256 + 3 * 4 * 30 * 256
    norm = 4 * 30 * 256 + 4 * 256 + 4 * 30
    moved = base + 3 * 4 * 30 * 256 + 2 * 4 * 11008 + norm
    assert changes_at(graph, PUBLISHED.am_bytes, moved) == moved == 828536
    fused = fuse_by_density(graph, with_am(moved), THRESHOLD)
    assert ("ffn_norm", "gate_linear", "up_linear", "silu", "mul") in regions(fused)
    five = fuse_by_density(graph, PUBLISHED, THRESHOLD)
    # gate and up, written and read, become their one product.
    assert five.ddr_bytes - fused.ddr_bytes == 2 * 512 * 11008 * 4
    assert fuse_by_density(graph, with_am(2 * moved), THRESHOLD).launches < 5


def test_rule_is_a_heuristic_where_dropping_the_norm_pays():
    # Between the AM of {gate, up, SiLU, Mul} and that with the norm, the best partition evicts
    # the norm, which a rule that grows units never does.
    graph = layer()
    low, high = 778 * 1024, 828536 - 1
    for am in (low, high):
        rule = fuse_by_density(graph, with_am(am), THRESHOLD)
        best = fuse_exhaustively(graph, with_am(am), THRESHOLD)
        assert regions(rule) == FIGURE_4
        assert best.ddr_bytes < rule.ddr_bytes
        assert ("ffn_norm",) in regions(best)


@pytest.mark.parametrize("fuse", [fuse_by_density, fuse_exhaustively])
@pytest.mark.parametrize("work", ["prefill-512", "decode-64"])
def test_more_memory_never_moves_more_bytes(fuse, work):
    graph = layer(work=work)
    for field, steps in (("am_bytes", 65536), ("gsm_bytes", 1048576), ("sm_bytes", 8192)):
        moved = [
            fuse(graph, replace(PUBLISHED, **{field: count * steps}), THRESHOLD).ddr_bytes
            for count in range(0, 41, 2)
        ]
        assert moved == sorted(moved, reverse=True)


def test_long_contexts_shorten_the_row_block():
    shape = model("llama2-7b")
    rows = [
        fitting_attention_rows(shape, Work(n, 1, n), BLOCKS, FP32, PUBLISHED, KERNEL_ROWS)
        for n in (512, 2048, 4096, 8192, 16384)
    ]
    assert rows == sorted(rows, reverse=True)
    assert rows[:2] == [64, 64]
    assert all(count % KERNEL_ROWS == 0 for count in rows[2:])
    # Even one micro-kernel's scores can be too much: then the chain is cut, not overflowed.
    work = Work(40000, 1, 40000)
    assert fitting_attention_rows(shape, work, BLOCKS, FP32, PUBLISHED, KERNEL_ROWS) == KERNEL_ROWS
    fused = fuse_by_density(layer(work=work), PUBLISHED, THRESHOLD)
    assert ATTENTION not in regions(fused)


@pytest.mark.parametrize("work", WORKS)
def test_bytes_are_conserved(work):
    for layout in Layout:
        for matrices in (2, 3):
            graph = layer("llama2-70b", work, layout, matrices)
            before = unfused(graph, PUBLISHED)
            assert before.ddr_bytes == sum(operator.ddr_bytes for operator in graph.operators)
            assert before.saved_bytes == before.saved_launches == 0
            for am_kib in (0, 660, 768, 1024, 4096):
                after = fuse_by_density(graph, with_am(am_kib * 1024), THRESHOLD)
                assert before.ddr_bytes - after.saved_bytes == after.ddr_bytes
                assert before.launches - after.saved_launches == after.launches
                assert sum(region.macs for region in after.regions) == sum(
                    operator.macs for operator in graph.operators
                )
                assert sorted(sum(after.names, ())) == sorted(graph.operator)


def test_saving_of_the_five_regions_by_hand():
    # Llama-2 7B, 512 rows: H, F and S x heads are widths of what is not written or not read.
    graph = layer()
    five = fuse_by_density(graph, PUBLISHED, THRESHOLD)
    hidden, ffn, scores = 4096, 11008, 32 * 512
    elements = (
        4 * hidden  # attention norm: one write, three reads
        + 4 * hidden  # q and k before RoPE
        + 6 * scores  # scores, scaled scores, probabilities
        + 2 * hidden  # attention projected
        + 3 * hidden  # FFN norm: one write, two reads
        + 2 * ffn + 2 * ffn  # activated gate, gated product
        + 2 * hidden  # FFN projected
    )  # fmt: skip
    assert five.saved_bytes == elements * 512 * 4 == 417333248
    assert (five.saved_launches, five.launches) == (13, 5)
    saved = saved_by_tensor(graph, map(frozenset, five.names))
    assert saved["residual"] == saved["x"] == saved["gate"] == saved["v"] == 0


@pytest.mark.parametrize(("name", "kv_width"), [("llama2-7b", 4096), ("llama2-70b", 1024)])
@pytest.mark.parametrize("work", WORKS)
def test_rope_in_the_linear_saves_one_round_trip_of_q_and_k(name, kv_width, work):
    hidden = model(name).hidden_size
    saving = rope_saving(layer(name, work))
    assert saving.ddr_bytes == 2 * WORKS[work].rows * (hidden + kv_width) * 4
    assert saving.launches == 1


def test_rope_needs_whole_heads_in_a_tile():
    shape, work = model("llama2-7b"), WORKS["prefill-512"]
    aligned = decoder_layer(shape, work, BLOCKS, FP32).operator["rope"].needs.state_bytes
    cut = decoder_layer(shape, work, replace(BLOCKS, tile_n=192), FP32).operator["rope"]
    assert cut.needs.state_bytes - aligned == 30 * 128 * 4


def test_keys_and_values_of_other_dsps_need_a_barrier():
    graph = layer()
    huge = Capacity(2**40, 2**40, 2**50)
    assert Unit(graph, frozenset(("rope", "qk_matmul"))).needs_barrier
    best = fuse_exhaustively(graph, huge, THRESHOLD)
    assert ATTENTION_INPUT in regions(best)
    assert best.launches == 2


def test_a_norm_read_elsewhere_needs_its_whole_row():
    graph = layer()
    every = Unit(graph, frozenset(ATTENTION_INPUT)).working_set()
    some = Unit(graph, frozenset(("attention_norm", "q_linear"))).working_set()
    assert every.held_bytes == 0
    assert some.held_bytes == 30 * 4096 * 4


def test_given_partitions_are_priced_and_checked():
    graph = layer()
    assert partition_of(graph, FIGURE_4, PUBLISHED).score == (
        fuse_by_density(graph, PUBLISHED, THRESHOLD).score
    )
    with pytest.raises(InputError, match="exactly once"):
        partition_of(graph, [*FIGURE_4, ("silu",)], PUBLISHED)
    outer = ("attention_add", "ffn_add")
    rest = [[name] for name in graph.operator if name not in outer]
    with pytest.raises(InputError, match="wait for each other"):
        partition_of(graph, [outer, *rest], PUBLISHED)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Work(100, 2, 512), "work.rows = 100"),
        (lambda: Work(0, 1, 1), "work.rows = 0"),
        (lambda: replace(BLOCKS, tile_k=0), "blocks.tile_k = 0"),
        (lambda: replace(FP32, kv=2.5), "element_bytes.kv = 2.5"),
        (lambda: replace(PUBLISHED, am_bytes=-1), "capacity.am_bytes = -1"),
        (lambda: replace(PUBLISHED, am_bytes=True), "capacity.am_bytes = True"),
        (lambda: fuse_by_density(layer(), PUBLISHED, 0.0), "density_threshold = 0.0"),
        (lambda: fuse_exhaustively(layer(), PUBLISHED, float("nan")), "density_threshold = nan"),
        (lambda: layer("qwen3.8-27b"), "model.query_projection_factor = 2"),
        (
            lambda: fitting_attention_rows(
                model("llama2-7b"), WORKS["decode-1"], BLOCKS, FP32, PUBLISHED, 0
            ),
            "kernel_rows = 0",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
