"""Experts that a pass touches: closed form against counting, and what follows for traffic."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.experts import distinct_experts, rows_per_expert
from explorer.costs.memory import (
    layer_passed_elements,
    layer_read_bytes,
    layer_weight_bytes,
    stage_read_bytes,
    stage_weight_bytes,
)
from explorer.costs.partition import largest_stage_candidates
from tests.configs import config_model

ONE = np.float64(1)


@pytest.mark.parametrize(
    ("rows", "experts", "per_token"), [(1, 4, 2), (2, 4, 2), (3, 3, 1), (3, 4, 3), (2, 5, 5)]
)
def test_expected_experts_equal_counting_every_choice(rows, experts, per_token):
    choices = list(combinations(range(experts), per_token))
    counted = [len(set().union(*chosen)) for chosen in product(choices, repeat=rows)]
    expected = distinct_experts(np.float64(rows), experts, per_token)
    assert expected == pytest.approx(np.mean(counted), rel=1e-12)


@settings(deadline=None)
@given(st.integers(1, 512), st.integers(1, 512), st.integers(1, 100_000))
def test_a_pass_touches_at_least_its_tokens_experts_and_at_most_all(experts, per_token, rows):
    per_token = min(per_token, experts)
    touched = distinct_experts(np.float64(rows), experts, per_token)
    assert per_token * (1 - 1e-9) <= touched <= min(experts, rows * per_token) * (1 + 1e-9)
    assert touched <= distinct_experts(np.float64(rows + 1), experts, per_token) * (1 + 1e-12)
    each = rows_per_expert(np.float64(rows), experts, per_token)
    assert touched * each == pytest.approx(rows * per_token)
    assert each >= 1 - 1e-9


def test_one_row_reads_its_own_experts_and_a_long_pass_all_of_them():
    model = config_model("mixtral-8x7b")
    kind = model.kinds[0]
    stored = layer_weight_bytes(model, kind, ONE, 2)
    assert layer_read_bytes(model, kind, np.float64(1e6), ONE, 2) == pytest.approx(stored)
    one = layer_read_bytes(model, kind, ONE, ONE, 2)
    assert one == pytest.approx(stored - 6 * 2 * 3 * 4096 * 14336)
    assert one == pytest.approx(2 * layer_passed_elements(model, kind, ONE))
    # 32 layers of it, the output head and the final norm are what a token passes.
    share = largest_stage_candidates(model, ONE)[0]
    read = stage_read_bytes(model, share, ONE, ONE, 2)
    assert read == pytest.approx(2 * (model.active_parameters - 32000 * 4096))


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
def test_ranks_split_experts_and_keep_router_and_norms_whole(tp):
    model = config_model("qwen3-30b-a3b")
    kind = model.kinds[0]
    whole = 2048 * 128 + 2 * 2048 + 2 * 128
    split = model.layer_weight_elements[kind] - whole
    kv = max(4 / tp, 1) - 4 / tp
    rank = split / tp + whole + 2 * 2048 * 128 * kv
    assert layer_weight_bytes(model, kind, np.float64(tp), 1) == pytest.approx(rank)


def test_experts_of_which_all_are_passed_are_one_wide_mlp_but_for_the_router():
    base = config_model("llama-3-8b")
    dense = replace(base, ffn_width=8 * 1792)
    experts = replace(
        base,
        layer_kinds=("full_attention_moe",) * 32,
        experts=8,
        experts_per_token=8,
        expert_ffn_width=1792,
    )
    router = 32 * 4096 * 8
    assert experts.parameters == experts.active_parameters == dense.parameters + router
    assert experts.macs_per_token == dense.macs_per_token + router
    rows = np.float64(3)
    one, other = (layer_read_bytes(m, m.kinds[0], rows, ONE, 2) for m in (experts, dense))
    assert one == other + 2 * 4096 * 8


@pytest.mark.parametrize("name", ["gpt2", "phi-2", "starcoder", "gemma-3-1b", "mixtral-8x7b"])
def test_one_rank_of_one_stage_holds_every_parameter(name):
    model = config_model(name)
    share = largest_stage_candidates(model, ONE)[0]
    assert stage_weight_bytes(model, share, ONE, 2) == 2 * model.parameters
