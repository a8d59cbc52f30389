"""The nearest plan that fits against a loop over all plans, and the least violation."""

from __future__ import annotations

import itertools
import math

import pytest

from explorer.config.links import preset_scenario
from explorer.config.scenario import Scenario
from explorer.search import nearest as module
from explorer.search.nearest import PER_OCTAVE, nearest_plan
from explorer.search.space import Space, default_space, varied_space
from explorer.serving.evaluate import evaluate
from explorer.serving.report import why_not

BASE = preset_scenario("mt3000-llama2-13b")
SMALL = {
    "plan.tp_decode": (1, 2, 4, 8),
    "plan.pp_decode": (1, 2, 4, 8),
    "plan.micro_batch_decode": (8, 64, 256),
    "plan.micro_batch_prefill": (1, 8),
    "plan.pp_prefill": (1, 2, 4),
    "plan.dp_prefill": (1, 2, 4),
}


def distance(scenario: Scenario, space: Space, values: tuple[int, ...]) -> float:
    moves = [
        (scenario.value(axis.paths[0]), value)
        for axis, value in zip(space.axes, values, strict=True)
        if scenario.value(axis.paths[0]) != value
    ]
    return sum(1 + PER_OCTAVE * abs(math.log2(after / before)) for before, after in moves)


@pytest.mark.parametrize(
    "changes",
    [
        {"workload.clusters_total": 9},
        {"workload.clusters_total": 14, "limits.tpot_seconds": 0.5},
        {"limits.ttft_seconds": 2.0},
        {"workload.max_context_tokens": 8192},
        {"plan.micro_batch_decode": 512},
    ],
)
def test_it_moves_the_fewest_settings_and_those_least(
    changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = BASE.replacing(changes)
    assert not evaluate(scenario).feasible
    monkeypatch.setattr(module, "default_space", lambda scenario: varied_space(scenario, SMALL))
    space = varied_space(scenario, SMALL)
    found = nearest_plan(scenario)
    assert found.feasible
    assert evaluate(found.scenario).feasible
    least = min(
        distance(scenario, space, values)
        for values in itertools.product(*(axis.values for axis in space.axes))
        if evaluate(space.scenario(values)).feasible
    )
    values = tuple(found.scenario.value(axis.paths[0]) for axis in space.axes)
    assert distance(scenario, space, values) == pytest.approx(least)
    assert {moved.path for moved in found.moved} == {
        path for path in SMALL if scenario.value(path) != found.scenario.value(path)
    }
    assert found.messages == ()


def test_a_plan_that_fits_stays_as_it_is() -> None:
    found = nearest_plan(BASE)
    assert (found.scenario, found.moved) == (BASE, ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"limits.tpot_seconds": 0.0001}, "Time per output token is"),
        ({"workload.max_context_tokens": 600}, "need 640 tokens; the limit is 600 tokens."),
        ({"limits.budget": "hardware.memory_bytes <= 0.5"}, "is 1; the limit is 0.500."),
    ],
)
def test_where_nothing_fits_the_least_violation_is_told(
    changes: dict[str, object], words: str
) -> None:
    scenario = BASE.replacing(changes)
    found = nearest_plan(scenario)
    assert not found.feasible
    assert len(found.messages) == 1
    assert words in found.messages[0]
    assert found.messages[0] == why_not(evaluate(found.scenario))


def test_what_no_plan_can_change_moves_nothing() -> None:
    found = nearest_plan(BASE.replacing({"workload.max_context_tokens": 600}))
    assert found.moved == ()


def test_a_typed_buffer_counts_as_a_setting() -> None:
    scenario = BASE.replacing({"plan.buffer_clusters": 0})
    found = nearest_plan(scenario)
    assert found.feasible
    assert [(moved.path, moved.after) for moved in found.moved] == [
        ("plan.buffer_clusters", "auto")
    ]


def test_long_axes_are_thinned_around_the_scenarios_own_values() -> None:
    scenario = preset_scenario("mt3000-llama2-70b").replacing({"plan.pp_decode": 37})
    space = default_space(scenario)
    thin = module._thinned(space, scenario, 1_000_000)
    assert thin.size <= 1_000_000 < space.size
    for axis in thin.axes:
        whole = space.axis(axis.paths[0])
        assert set(axis.values) <= set(whole.values)
        assert {whole.values[0], whole.values[-1]} <= set(axis.values)
        assert scenario.value(axis.paths[0]) in axis.values
