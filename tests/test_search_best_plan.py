"""The exact best plan against the enumeration, and the blocks of plans that may fit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.search import best_plan as module
from explorer.search.best_plan import best_plan
from explorer.search.certificate import certify
from explorer.search.fitting import fitting_blocks, never_kept
from explorer.search.objectives import OBJECTIVES, THROUGHPUT, Objective
from explorer.search.space import Space, default_space, varied_space
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, PRESETS, scenario

SEVEN_B = "mt3000-llama2-7b"
SMALL = {
    "plan.tp_decode": (1, 4, 8),
    "plan.pp_decode": (1, 3),
    "plan.micro_batch_decode": (4, 64, 256),
    "plan.micro_batch_prefill": (1, 8),
    "plan.pp_prefill": (1, 2),
    "plan.dp_prefill": (1, 2, 3, 9),
}


def assert_as_certified(space: Space, objective: Objective) -> None:
    found, proved = best_plan(space, objective), certify(space, objective)
    assert found.plan == proved.plan
    assert found.scenario == proved.scenario
    assert found.value == proved.optimum or (math.isnan(found.value) and proved.plan is None)


def feasible_plans(space: Space) -> set[tuple[Any, ...]]:
    """Loop over single plans."""
    return {
        values
        for values in itertools.product(*(axis.values for axis in space.axes))
        if evaluate(space.scenario(values)).feasible
    }


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("preset", PRESETS)
def test_equals_the_enumeration_of_large_parts_of_each_preset(
    preset: str, objective: Objective
) -> None:
    pins = {"plan.micro_batch_prefill"} if preset != ASCEND else set()
    assert_as_certified(default_space(scenario(preset), pins), objective)


@settings(max_examples=60, deadline=None)
@given(
    picks=st.fixed_dictionaries(
        {},
        optional={
            "plan.tp_decode": st.sets(st.sampled_from([1, 2, 4, 8]), min_size=1),
            "plan.pp_decode": st.sets(st.integers(1, 32), min_size=1, max_size=4),
            "plan.micro_batch_decode": st.sets(st.integers(1, 200), min_size=1, max_size=4),
            "plan.micro_batch_prefill": st.sets(st.integers(1, 64), min_size=1, max_size=3),
            "plan.pp_prefill": st.sets(st.integers(1, 32), min_size=1, max_size=3),
            "plan.dp_prefill": st.sets(st.integers(1, 64), min_size=1, max_size=9),
            "hardware.memory_bytes": st.sets(st.sampled_from([1e10, 2e10, 8e10]), min_size=1),
            "workload.clusters_total": st.sets(st.integers(1, 200), min_size=1, max_size=3),
        },
    ).map(lambda picks: {path: tuple(sorted(values)) for path, values in picks.items()}),
    clusters=st.integers(1, 150),
    tokens=st.sampled_from([1, 2, 128]),
    objective=st.sampled_from(list(OBJECTIVES.values())),
)
def test_equals_the_enumeration_of_any_small_space(
    picks: dict[str, tuple[Any, ...]], clusters: int, tokens: int, objective: Objective
) -> None:
    base = scenario(SEVEN_B, workload__clusters_total=clusters, workload__output_tokens=tokens)
    assert_as_certified(varied_space(base, picks), objective)


@pytest.mark.parametrize(
    ("clusters", "tokens", "stages"),
    [
        (32, 64, (1, 3, 7)),
        (52, 128, (1, 2, 6)),
        (63, 64, (2, 6, 7)),
        (78, 128, (1, 2)),
        (119, 16, (2, 4, 5)),
    ],
)
def test_whole_pools_may_want_fewer_pipelines_than_balance_does(
    clusters: int, tokens: int, stages: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One combination at a time, so that the bounds alone decide which are never tried.
    monkeypatch.setattr(module, "FIRST_TRIED", 1)
    monkeypatch.setattr(module, "GROWTH", 1)
    vary = {
        "plan.tp_decode": (1, 2, 4, 8),
        "plan.pp_decode": stages,
        "plan.micro_batch_decode": (16, 32, 64, 128),
        "plan.pp_prefill": (1, 2, 3),
        "plan.micro_batch_prefill": (1, 8),
        "plan.dp_prefill": tuple(range(1, 65)),
    }
    base = scenario(SEVEN_B, workload__clusters_total=clusters, workload__output_tokens=tokens)
    assert_as_certified(varied_space(base, vary), THROUGHPUT)


def test_typed_times_limits_and_a_buffer_of_a_given_size() -> None:
    changes = {
        "measured__prefill_seconds": 3.0,
        "measured__decode_seconds": 0.7,
        "plan__buffer_clusters": 2,
        "limits__tpot_seconds": 0.4,
    }
    assert_as_certified(varied_space(scenario(SEVEN_B, **changes), SMALL), THROUGHPUT)


def test_axes_in_another_order_choose_the_same_plan_of_equal_ones() -> None:
    vary = {"plan.min_rows_per_slice": (64, 128), **SMALL}
    space = varied_space(scenario(SEVEN_B), vary)
    turned = Space(space.base, space.axes[::-1])
    for one in (space, turned):
        assert_as_certified(one, THROUGHPUT)


def test_a_plan_known_before_changes_nothing() -> None:
    space = varied_space(scenario(SEVEN_B), SMALL)
    found = best_plan(space, THROUGHPUT)
    worst = tuple(axis.values[0] for axis in space.axes)
    assert best_plan(space, THROUGHPUT, worst) == best_plan(space, THROUGHPUT, found.values)
    assert best_plan(space, THROUGHPUT, worst) == found


def test_a_space_of_one_plan_and_one_where_nothing_fits() -> None:
    one = Space(scenario(SEVEN_B), ())
    found = best_plan(one, THROUGHPUT)
    assert (found.values, found.scenario) == ((), one.base)
    assert found.value == evaluate(one.base).objective("throughput")
    none = best_plan(default_space(scenario(SEVEN_B, limits__tpot_seconds=1e-4)), THROUGHPUT)
    assert (none.values, none.plan, none.scenario) == (None, None, None)
    assert math.isnan(none.value)


@pytest.mark.parametrize("largest", [3, 50, 100_000])
@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_fitting_blocks_hold_each_feasible_plan_once(preset: str, largest: int) -> None:
    vary = dict(SMALL)
    if preset == ASCEND:
        vary = {"plan.tp_decode": (1, 2, 4), "plan.micro_batch_decode": (1, 64, 512)}
        vary |= {"plan.pp_decode": (1, 4), "plan.slices": (1, 4)}
    space = varied_space(scenario(preset, workload__clusters_total=24), vary)
    plans, covered = [], [0]
    for block in fitting_blocks(space, largest):
        feasible = np.broadcast_to(evaluate(block.scenario).feasible, block.shape)
        at = np.flatnonzero(feasible)
        plans += list(zip(*(column.tolist() for column in block.taken(at)), strict=True))
        covered.append(block.covered)
    assert len(plans) == len(set(plans))
    assert set(plans) == feasible_plans(space)
    assert covered == sorted(covered)
    assert covered[-1] == space.size


def test_what_no_plan_keeps_is_named() -> None:
    tight = default_space(scenario(SEVEN_B, limits__tpot_seconds=1e-4))
    assert never_kept(tight) == ("tpot",)
    assert never_kept(varied_space(scenario(SEVEN_B), SMALL)) == ()
    short = scenario(SEVEN_B, workload__prompt_tokens=4000, hardware__memory_bytes=1e8)
    broken = never_kept(default_space(short))
    assert {"context", "prefill_memory", "decode_memory"} <= set(broken) <= set(CONSTRAINTS)
