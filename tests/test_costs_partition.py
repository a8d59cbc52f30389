"""Layers over pipeline stages: the candidates always hold the costliest stage."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.partition import largest_stage_candidates, stage_sizes
from tests.scenarios import model

KINDS = ("full_attention", "linear_attention")


@given(st.integers(1, 200), st.data())
@settings(deadline=None)
def test_stages_share_all_layers_as_evenly_as_can_be(layers, data):
    pp = data.draw(st.integers(1, layers))
    sizes = stage_sizes(layers, pp)
    assert (len(sizes), sum(sizes)) == (pp, layers)
    assert max(sizes) - min(sizes) <= 1
    assert list(sizes) == sorted(sizes, reverse=True)


def test_five_stages_of_32_layers_are_as_large_as_seven():
    assert stage_sizes(32, 5) == (7, 7, 6, 6, 6)


def every_stage(layer_kinds, pp):
    """Return what each stage holds, counted layer by layer."""
    layers = len(layer_kinds)
    stages, start = [], 0
    for stage in range(pp):
        size = layers // pp + (1 if stage < layers % pp else 0)
        held = layer_kinds[start : start + size]
        start += size
        counts = {kind: sum(kind == other for other in held) for kind in KINDS}
        stages.append((counts, stage == 0, stage == pp - 1))
    return stages


def candidate_costs(shape, pp, costs, embedding, head):
    return [
        sum(costs[kind] * share.layers[kind] for kind in share.layers)
        + embedding * share.embedding
        + head * share.head
        for share in largest_stage_candidates(shape, np.asarray(pp, float))
    ]


COST = st.floats(0, 100)


@pytest.mark.parametrize("name", ["llama2-7b", "llama2-13b", "qwen3.8-27b"])
@given(full=COST, linear=COST, embedding=COST, head=COST)
@settings(max_examples=25, deadline=None)
def test_the_costliest_candidate_is_the_costliest_stage(name, full, linear, embedding, head):
    shape = model(name)
    costs = dict(zip(KINDS, (full, linear), strict=True))
    every_pp = np.arange(1, shape.layers + 1)
    arrays = candidate_costs(shape, every_pp, costs, embedding, head)
    found = np.max(np.broadcast_arrays(*arrays), axis=0)
    for pp in every_pp:
        truth = max(
            sum(costs[kind] * counts[kind] for kind in KINDS) + embedding * first + head * last
            for counts, first, last in every_stage(shape.layer_kinds, pp)
        )
        assert found[pp - 1] == pytest.approx(truth, rel=1e-12)
        assert max(candidate_costs(shape, pp, costs, embedding, head)) == pytest.approx(truth)


@given(st.lists(st.sampled_from(KINDS), min_size=2, max_size=40), COST, COST, COST, COST)
@settings(max_examples=60, deadline=None)
def test_any_order_of_layer_kinds_keeps_its_costliest_stage(kinds, full, linear, embedding, head):
    shape = replace(model("qwen3.8-27b"), layers=len(kinds), layer_kinds=tuple(kinds))
    costs = dict(zip(KINDS, (full, linear), strict=True))
    for pp in range(1, len(kinds) + 1):
        truth = max(
            sum(costs[kind] * counts[kind] for kind in KINDS) + embedding * first + head * last
            for counts, first, last in every_stage(shape.layer_kinds, pp)
        )
        assert max(candidate_costs(shape, pp, costs, embedding, head)) == pytest.approx(truth)


def test_candidates_are_real_stages():
    shape = model("qwen3.8-27b")
    for pp in (1, 3, 7, 64):
        real = [
            (*(counts[kind] for kind in shape.kinds), first, last)
            for counts, first, last in every_stage(shape.layer_kinds, pp)
        ]
        for share in largest_stage_candidates(shape, np.asarray(pp, float)):
            held = (*(int(share.layers[kind]) for kind in shape.kinds), share.embedding, share.head)
            assert held in real
            assert share.layer_count == sum(held[:2])


@pytest.mark.parametrize("name", ["llama2-13b", "qwen3.8-27b"])
def test_one_pp_has_no_candidate_twice_and_several_have_those_of_the_most(name):
    shape, every_pp = model(name), np.arange(1, model(name).layers + 1)

    def held(pp, index=...):
        return [
            (*(float(count[index]) for count in map(np.asarray, share.layers.values())),
             float(np.asarray(share.embedding)[index]), float(np.asarray(share.head)[index]))
            for share in largest_stage_candidates(shape, np.asarray(pp, float))
        ]  # fmt: skip

    alone = {pp: held(pp) for pp in every_pp}
    assert len(alone[1]) == 1
    assert all(len(set(found)) == len(found) for found in alone.values())
    assert len(held(every_pp, 0)) == max(map(len, alone.values()))
    assert all(set(held(every_pp, pp - 1)) == set(alone[pp]) for pp in every_pp)
