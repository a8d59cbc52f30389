"""The enumeration against plain loops over single evaluations, and its own promises."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.presets import load_scenario_preset, scenario_presets
from explorer.config.scenario import Scenario, parse_scenario
from explorer.search import certificate as module
from explorer.search.certificate import Blocks, certify, estimated_seconds, trap
from explorer.search.objectives import (
    CLUSTER_SECONDS_PER_TOKEN,
    EQ22,
    OBJECTIVES,
    THROUGHPUT,
    Objective,
)
from explorer.search.space import Space, default_space, varied_space
from explorer.search.staged import fixed_batch_space, staged_plan
from explorer.serving.evaluate import evaluate

SMALL = {
    "plan.tp_decode": (1, 4, 8),
    "plan.pp_decode": (1, 3),
    "plan.micro_batch_decode": (4, 64, 256),
    "plan.micro_batch_prefill": (1, 8),
    "plan.pp_prefill": (1, 2),
    "plan.dp_prefill": (1, 2, 3, 9),
}


def preset(name: str = "mt3000-llama2-7b") -> Scenario:
    return parse_scenario(load_scenario_preset(name).scenario)


def brute(space: Space, objective: Objective) -> dict[str, object]:
    """Loop over single plans; the best by value, then clusters, then order."""
    best, excluded, feasible, ties = None, Counter(), 0, 0
    for values in itertools.product(*(axis.values for axis in space.axes)):
        changes = {}
        for axis, value in zip(space.axes, values, strict=True):
            for path in axis.paths:
                changes[path] = value
        one = evaluate(space.base.replacing(changes))
        broken = [c.name for c in one.constraints if not c.value <= c.limit]
        excluded.update(broken)
        if broken:
            continue
        feasible += 1
        value = float(one.objective(objective.name))
        sign = 1 if objective.direction == "minimise" else -1
        key = (sign * value, float(one.clusters), values)
        ties = ties + 1 if best is not None and key[0] == best[0] else ties
        if best is None or key < best:
            ties = 1 if best is None or key[0] < best[0] else ties
            best = key
    return {"best": best, "excluded": dict(excluded), "feasible": feasible, "ties": ties}


def assert_same(space: Space, objective: Objective) -> None:
    found, expected = certify(space, objective), brute(space, objective)
    assert found.enumerated == space.size
    assert found.complete
    assert found.feasible == expected["feasible"]
    assert {k: v for k, v in found.excluded.items() if v} == expected["excluded"]
    best = expected["best"]
    if best is None:
        assert found.plan is None
        assert found.scenario is None
        assert math.isnan(found.optimum)
        assert found.ties == 0
    else:
        assert abs(found.optimum) == pytest.approx(abs(best[0]), rel=1e-14)
        assert tuple(found.plan[axis.paths[0]] for axis in space.axes) == best[2]
        assert found.ties == expected["ties"]
        assert float(evaluate(found.scenario).objective(objective.name)) == found.optimum


@pytest.mark.parametrize("objective", [CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT], ids=lambda o: o.name)
@pytest.mark.parametrize("block", [7, 48, 600_000])
def test_equals_plain_loops(
    objective: Objective, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Blocks.__init__, "__defaults__", (block,))
    scenario = preset().replacing({"workload.clusters_total": 24, "limits.ttft_seconds": 40.0})
    assert_same(varied_space(scenario, SMALL), objective)


def test_equals_plain_loops_with_hardware_and_workload_axes() -> None:
    vary = {
        "hardware.ddr_bandwidth_bytes_per_second": (15e9, 30e9),
        "workload.output_tokens": (1, 128),
        "limits.tpot_seconds": (0.05, 0.5),
        "plan.pp_decode": (1, 2, 5),
        "plan.dp_prefill": (1, 4),
        "plan.buffer_clusters": (0, 1, 3),
    }
    assert_same(varied_space(preset(), vary), CLUSTER_SECONDS_PER_TOKEN)


@pytest.mark.parametrize("objective", [CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT], ids=lambda o: o.name)
def test_equals_plain_loops_with_shared_placement(objective: Objective) -> None:
    vary = {
        "plan.tp_decode": (1, 2, 4),
        "plan.pp_decode": (1, 2, 4),
        "plan.micro_batch_decode": (1, 8, 64),
        "plan.micro_batch_prefill": (1, 2),
        "plan.slices": (1, 4, 64),
    }
    assert_same(varied_space(preset("ascend910a-qwen3.8-27b"), vary), objective)


@given(
    picks=st.fixed_dictionaries(
        {
            path: st.sets(st.sampled_from(values), min_size=1, max_size=2).map(
                lambda chosen: tuple(sorted(chosen))
            )
            for path, values in SMALL.items()
        }
    ),
    clusters=st.integers(4, 60),
    objective=st.sampled_from([CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT]),
)
@settings(max_examples=8, deadline=None)
def test_equals_plain_loops_on_any_small_space(
    picks: dict[str, tuple[int, ...]], clusters: int, objective: Objective
) -> None:
    scenario = preset().replacing({"workload.clusters_total": clusters})
    assert_same(varied_space(scenario, picks), objective)


def test_eq22_is_certified_for_the_staged_batch() -> None:
    space = varied_space(preset(), SMALL)
    staged = staged_plan(space.base, space).scenario
    found = certify(space, EQ22)
    assert found.enumerated == 2 * 2 * 4
    for path in ("plan.tp_decode", "plan.pp_decode", "plan.micro_batch_decode"):
        assert found.scenario.value(path) == staged.value(path)
    assert_same(found.space, EQ22)


def test_eq22_keeps_the_scenarios_batch_when_the_staged_procedure_finds_nothing() -> None:
    scenario = preset().replacing({"workload.clusters_total": 1})
    assert staged_plan(scenario).scenario is None
    found = certify(default_space(scenario), EQ22)
    assert found.plan is None
    assert found.space.base.plan.micro_batch_decode == scenario.plan.micro_batch_decode


@pytest.mark.parametrize(
    "name", ["mt3000-llama2-7b", "mt3000-llama2-13b", "ascend910a-qwen3.8-27b"]
)
def test_eq22_over_the_whole_space_falls_into_the_trap_of_batch_one(name: str) -> None:
    pins = {"plan.pp_prefill"} if name.startswith("mt") else set()
    space = default_space(preset(name), pins)
    fallen = trap(space)
    assert fallen.plan["plan.pp_decode"] == 1
    assert fallen.plan["plan.micro_batch_decode"] == 1
    cost = float(evaluate(fallen.scenario).objective("cluster_seconds_per_token"))
    assert certify(space, CLUSTER_SECONDS_PER_TOKEN).gap(cost) > 1


def test_finds_the_only_plan_that_meets_tight_limits() -> None:
    space = varied_space(preset(), SMALL)
    latencies = {}
    for values in itertools.product(*(axis.values for axis in space.axes)):
        one = evaluate(space.scenario(values))
        if one.feasible:
            latencies[values] = (float(one.ttft_seconds), float(one.tpot_seconds))
    ttft = min(ttft for ttft, _ in latencies.values())
    tpot = min(tpot for t, tpot in latencies.values() if t == ttft)
    meeting = [v for v, (a, b) in latencies.items() if a <= ttft and b <= tpot]
    base = space.base.replacing({"limits.ttft_seconds": ttft, "limits.tpot_seconds": tpot})
    found = certify(Space(base, space.axes), CLUSTER_SECONDS_PER_TOKEN)
    assert found.feasible == len(meeting)
    assert tuple(found.plan[axis.paths[0]] for axis in space.axes) in meeting


def test_limits_that_nothing_meets_give_counts_and_no_plan() -> None:
    scenario = preset().replacing({"limits.tpot_seconds": 0.0001})
    found = certify(varied_space(scenario, SMALL), CLUSTER_SECONDS_PER_TOKEN)
    assert (found.plan, found.scenario, found.feasible) == (None, None, 0)
    assert found.excluded["tpot"] == found.enumerated == 288
    assert math.isnan(found.gap(1.0))


def test_a_fully_pinned_space_has_one_plan() -> None:
    found = certify(Space(preset(), ()), CLUSTER_SECONDS_PER_TOKEN)
    assert (found.enumerated, found.feasible, found.plan) == (1, 1, {})
    assert found.scenario == preset()


def test_of_equal_plans_the_fewest_clusters_then_the_first() -> None:
    vary = {"plan.min_rows_per_slice": (64, 128), "plan.pp_decode": (1, 2), "plan.slices": (1, 2)}
    found = certify(varied_space(preset(), vary), CLUSTER_SECONDS_PER_TOKEN)
    assert found.ties == 4
    assert (found.plan["plan.min_rows_per_slice"], found.plan["plan.slices"]) == (64, 1)
    slow = {"measured.prefill_seconds": 1e-9, "measured.decode_seconds": 1.0}
    typed = preset().replacing({**slow, "workload.clusters_total": 100})
    more = certify(varied_space(typed, {"plan.dp_prefill": (1, 2, 3)}), THROUGHPUT)
    pools = [int(evaluate(more.space.scenario((dp,))).pools) for dp in (1, 2, 3)]
    assert more.ties == pools.count(max(pools))
    assert more.plan == {"plan.dp_prefill": 1}


def test_stopping_ends_after_a_block_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blocks.__init__, "__defaults__", (16,))
    seen: list[tuple[int, int]] = []
    found = certify(
        varied_space(preset(), SMALL),
        CLUSTER_SECONDS_PER_TOKEN,
        progress=lambda done, total: seen.append((done, total)),
        stopped=lambda: len(seen) == 3,
    )
    assert not found.complete
    assert seen == [(16, 288), (32, 288), (48, 288)]
    assert found.enumerated == 48


def test_blocks_cover_a_space_once_in_order() -> None:
    space = varied_space(preset(), SMALL)
    for largest in (1, 5, 100, 10_000):
        plans = [
            values
            for block in Blocks(space, largest)
            for values in itertools.product(*block.values)
        ]
        assert plans == list(itertools.product(*(axis.values for axis in space.axes)))
        assert all(block.size <= largest for block in Blocks(space, largest))


def test_memory_stays_bounded_on_a_space_of_millions() -> None:
    pins = {"plan.tp_decode"}
    space = default_space(preset("mt3000-llama2-70b"), pins)
    assert space.size == 40_960_000
    module.certify(Space(space.base, space.axes[-2:]), CLUSTER_SECONDS_PER_TOKEN)
    blocks = iter(range(30))
    tracemalloc.start()
    try:
        certify(space, CLUSTER_SECONDS_PER_TOKEN, stopped=lambda: next(blocks) == 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mt3000-llama2-7b", "mt3000-llama2-70b"])
def test_whole_default_spaces_at_speed(name: str) -> None:
    found = certify(default_space(preset(name)), CLUSTER_SECONDS_PER_TOKEN)
    assert found.complete
    assert found.enumerated / found.seconds > 5e6


@pytest.mark.parametrize("name", [p.id for p in scenario_presets()])
def test_random_plans_of_every_preset_are_never_better(name: str) -> None:
    scenario = preset(name)
    pins = {"plan.micro_batch_prefill", "plan.pp_prefill"} - (
        {"plan.pp_prefill"} if scenario.plan.placement == "shared" else set()
    )
    space = default_space(scenario, pins)
    for objective in OBJECTIVES.values():
        found = certify(space, objective)
        generator = np.random.default_rng(7)
        for _ in range(20):
            indices = [int(generator.integers(len(axis))) for axis in found.space.axes]
            value = evaluate(found.space.scenario(found.space.values_at(indices)))
            assert not objective.better(float(value.objective(objective.name)), found.optimum)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda o: o.name)
def test_the_scenarios_own_plan_is_ranked(objective: Objective) -> None:
    space = varied_space(preset(), SMALL)
    if objective.fixes_batch:
        space = fixed_batch_space(space)
    values = [
        float(evaluate(space.scenario(values)).objective(objective.name))
        for values in itertools.product(*(axis.values for axis in space.axes))
    ]
    own = float(evaluate(space.base).objective(objective.name))
    found = certify(space, objective).own
    assert found.value == own
    same = [value == pytest.approx(own, rel=1e-13) for value in values]
    better = [objective.better(value, own) for value in values]
    assert found.equal == sum(same)
    assert found.better == sum(b and not s for b, s in zip(better, same, strict=True))
    assert found.rank == found.better + 1


def test_a_plan_that_does_not_fit_or_is_of_another_batch_has_no_rank() -> None:
    space = varied_space(preset(), SMALL)
    outside = space.base.replacing({"plan.dp_prefill": 64})
    assert certify(space, THROUGHPUT, compared=outside).own is None
    other = space.base.replacing({"plan.micro_batch_decode": 2})
    assert certify(space, EQ22, compared=other).own is None
    best = certify(space, THROUGHPUT).scenario
    assert certify(space, THROUGHPUT, compared=best).own.rank == 1


def test_the_time_of_an_enumeration_is_estimated_from_its_first_block() -> None:
    small, large = varied_space(preset(), SMALL), default_space(preset())
    assert 0 < estimated_seconds(small) < estimated_seconds(large)
