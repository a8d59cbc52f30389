"""The staged procedure against its definition, and the closed form of DP_P."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.presets import load_scenario_preset, scenario_presets
from explorer.config.scenario import Scenario, parse_scenario
from explorer.search.space import default_space, varied_space
from explorer.search.staged import (
    TpCandidate,
    best_dp,
    fixed_batch_space,
    smallest_close,
    staged_plan,
)
from explorer.serving.evaluate import evaluate


def preset(name: str = "mt3000-llama2-13b") -> Scenario:
    return parse_scenario(load_scenario_preset(name).scenario)


def fits(scenario: Scenario, **plan: int) -> bool:
    changes = {f"plan.{name}": value for name, value in plan.items()}
    return bool(evaluate(scenario.replacing(changes)).feasible)


@pytest.mark.parametrize("name", [p.id for p in scenario_presets()])
def test_every_preset_gets_a_plan_that_fits(name: str) -> None:
    found = staged_plan(preset(name))
    assert found.reason == ""
    assert evaluate(found.scenario).feasible


def test_follows_its_definition_step_by_step() -> None:
    scenario = preset()
    found = staged_plan(scenario)
    plan = found.scenario.plan
    assert plan.micro_batch_prefill == scenario.plan.micro_batch_prefill
    least_pp = next(
        pp
        for pp in range(1, 41)
        if evaluate(scenario.replacing({"plan.pp_prefill": pp})).prefill_memory.excess_bytes <= 0
    )
    assert plan.pp_prefill == least_pp
    rest = {
        "pp_prefill": least_pp,
        "dp_prefill": 1,
        "micro_batch_prefill": plan.micro_batch_prefill,
    }
    costs = {}
    for tp in scenario.model_shape().legal_tp:
        options = [
            (pp, mb)
            for pp in range(1, 6)
            for mb in (2**k for k in range(10))
            if fits(scenario, tp_decode=tp, pp_decode=pp, micro_batch_decode=mb, **rest)
        ]
        pp = min(pp for pp, _ in options)
        mb = max(mb for p, mb in options if p == pp)
        one = evaluate(
            scenario.replacing(
                {"plan.tp_decode": tp, "plan.pp_decode": pp, "plan.micro_batch_decode": mb}
            )
        )
        costs[tp] = (tp * pp * float(one.decode_seconds) / (pp * mb * 128), pp, mb)
    least = min(cost for cost, _, _ in costs.values())
    tp = min(tp for tp, (cost, _, _) in costs.items() if cost <= 1.05 * least)
    assert (plan.tp_decode, plan.pp_decode, plan.micro_batch_decode) == (tp, *costs[tp][1:])
    assert [(c.tp, c.pp, c.micro_batch) for c in found.candidates] == [
        (tp, pp, mb) for tp, (_, pp, mb) in costs.items()
    ]
    assert [c.cluster_seconds_per_token for c in found.candidates] == pytest.approx(
        [cost for cost, _, _ in costs.values()]
    )


@pytest.mark.parametrize(
    ("costs", "chosen"),
    [
        ({1: 2.0, 2: 1.04, 4: 1.0, 8: 1.01}, 2),
        ({1: 2.0, 2: 1.06, 4: 1.0, 8: 0.99}, 4),
        ({1: 1.0, 2: 1.0}, 1),
        ({4: 3.0, 8: 1.0}, 8),
    ],
)
def test_the_smallest_tp_within_five_percent_wins(costs: dict[int, float], chosen: int) -> None:
    candidates = tuple(TpCandidate(tp, 1, 1, 1, cost) for tp, cost in costs.items())
    assert smallest_close(candidates).tp == chosen


def test_steps_tell_what_and_why_in_order() -> None:
    apart = [step.what for step in staged_plan(preset()).steps]
    assert apart == [
        "plan.tp_decode",
        "plan.pp_decode",
        "plan.micro_batch_decode",
        "batch",
        "plan.buffer_clusters",
        "plan.micro_batch_prefill",
        "plan.pp_prefill",
        "plan.dp_prefill",
    ]
    shared = staged_plan(preset("ascend910a-qwen3.8-27b"))
    assert [step.what for step in shared.steps] == [*apart[:4], "plan.micro_batch_prefill"]
    assert all(step.why for step in shared.steps)


def test_shared_placement_keeps_prefill_and_decode_alike() -> None:
    plan = staged_plan(preset("ascend910a-qwen3.8-27b")).scenario.plan
    assert (plan.tp_prefill, plan.pp_prefill) == (plan.tp_decode, plan.pp_decode) == (4, 1)


def test_nothing_fits_is_said() -> None:
    found = staged_plan(preset().replacing({"workload.clusters_total": 1}))
    assert (found.scenario, found.steps, found.candidates) == (None, (), ())
    assert "clusters" in found.reason


def test_a_smaller_prefill_micro_batch_is_taken_when_the_scenarios_never_fits() -> None:
    scenario = preset()
    times = [
        float(
            evaluate(
                scenario.replacing({"plan.micro_batch_prefill": mb, "plan.pp_prefill": 2})
            ).ttft_seconds
        )
        for mb in (1, 2, 8)
    ]
    limited = scenario.replacing({"limits.ttft_seconds": (times[1] + times[2]) / 2})
    found = staged_plan(limited).scenario
    assert found.plan.micro_batch_prefill < 8
    assert evaluate(found).feasible


def test_keeps_to_the_values_of_a_space() -> None:
    scenario = preset()
    space = varied_space(scenario, {"plan.tp_decode": (2, 4), "plan.dp_prefill": (2, 5)})
    plan = staged_plan(scenario, space).scenario.plan
    assert plan.tp_decode in (2, 4)
    assert plan.dp_prefill in (2, 5)
    assert plan.pp_decode == scenario.plan.pp_decode


def test_fixed_batch_space_has_no_decode_axes() -> None:
    space = default_space(preset())
    fixed = fixed_batch_space(space)
    assert fixed.size == 10 * 40 * 64
    staged = staged_plan(preset()).scenario
    assert fixed.base.plan.micro_batch_decode == staged.plan.micro_batch_decode


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    pp_decode=st.integers(1, 8),
    pp_prefill=st.integers(2, 6),
    micro_batch_decode=st.sampled_from([1, 4, 16, 64]),
    micro_batch_prefill=st.sampled_from([1, 2, 8]),
    output_tokens=st.sampled_from([1, 2, 16, 128]),
    clusters_total=st.sampled_from([16, 72, 5000]),
)
@settings(max_examples=60, deadline=None)
def test_the_best_dp_is_beside_the_ratio(**draw: int) -> None:
    workload = ("output_tokens", "clusters_total")
    changes = {"plan.tp_decode": draw.pop("tp")}
    changes |= {
        f"{'workload' if name in workload else 'plan'}.{name}": value
        for name, value in draw.items()
    }
    scenario = preset().replacing(changes)
    every = evaluate(scenario.replacing({"plan.dp_prefill": np.arange(1, 65)}))
    objective = every.objective("eq22")
    if np.isnan(objective).all():
        return
    pipeline = draw["pp_prefill"] * scenario.plan.tp_prefill
    others = float(every.clusters[0]) - pipeline
    most = (scenario.workload.clusters_total - others) // pipeline
    close = best_dp(
        float(every.prefill_seconds), float(every.decode_seconds), tuple(range(1, 65)), most
    )
    assert len(close) <= 2
    best = min(objective[dp - 1] for dp in close)
    assert best == pytest.approx(np.nanmin(objective), rel=1e-12)


@pytest.mark.parametrize(
    ("prefill", "decode", "candidates", "most", "expected"),
    [
        (7.0, 2.0, (1, 2, 3, 4, 5), 9, (3, 4)),
        (6.0, 2.0, (1, 2, 3, 4, 5), 9, (3,)),
        (7.0, 2.0, (1, 2, 3, 4, 5), 3, (3,)),
        (1.0, 2.0, (1, 2, 3), 9, (1,)),
        (99.0, 1.0, (1, 2, 3), 9, (3,)),
        (1.0, 0.0, (1, 2, 3), 2, (2,)),
        (7.0, 2.0, (2, 6), 9, (2, 6)),
    ],
)
def test_neighbours_of_the_ratio(
    prefill: float,
    decode: float,
    candidates: tuple[int, ...],
    most: float,
    expected: tuple[int, ...],
) -> None:
    assert best_dp(prefill, decode, candidates, most) == expected
