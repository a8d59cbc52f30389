"""Proved bounds: never on the wrong side of the optimum, close to it, and equal when closed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.links import preset_scenario
from explorer.search import bound as module
from explorer.search import relaxation
from explorer.search.bound import BoundReport, prove
from explorer.search.certificate import certify
from explorer.search.climb import climb
from explorer.search.objectives import (
    CLUSTER_SECONDS_PER_TOKEN,
    EQ22,
    OBJECTIVES,
    THROUGHPUT,
    Objective,
)
from explorer.search.relaxation import relax, relax_jointly
from explorer.search.space import Space, default_space, varied_space
from explorer.search.staged import fixed_batch_space
from explorer.search.vary import parse_varied
from explorer.serving.evaluate import evaluate
from tests.scenarios import PRESETS
from tests.spaces import every_plan, optimum, random_space

BATCHES, PER_BATCH = 10, 20
SMALL_VIEWS = 300


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make views so small that most axes are taken in groups, and enumerate nothing."""
    monkeypatch.setattr(relaxation, "MOST_POINTS", SMALL_VIEWS)
    monkeypatch.setattr(relaxation, "MOST_JOINT_POINTS", SMALL_VIEWS)
    monkeypatch.setattr(module, "LARGEST_LEAF", 1)


def searched(space: Space, objective: Objective) -> Space:
    return fixed_batch_space(space) if objective.fixes_batch else space


def score_of(objective: Objective, value: float) -> float:
    return math.inf if math.isnan(value) else objective.score(value)


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.usefixtures("few_points")
def test_on_two_hundred_spaces_never_wrong_and_at_least_half(batch: int) -> None:
    """Four cells a space, no plan enumerated: the bound itself has to be good."""
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        space, objective = random_space(seed)
        chosen = searched(space, objective)
        best = optimum(chosen, objective)
        for relaxed in (relax, relax_jointly):
            assert relaxed(chosen, objective).least <= score_of(objective, best)
        found = prove(space, objective, start=space.base, most_cells=4)
        assert found.enumerated <= 4
        if math.isnan(best):
            assert found.best is None
            continue
        assert not objective.better(best, found.bound)
        low, high = sorted([found.bound, best])
        assert low >= 0.5 * high


@pytest.mark.parametrize("seed", range(300, 330))
@pytest.mark.usefixtures("few_points")
def test_closing_the_search_gives_the_optimum(seed: int) -> None:
    space, objective = random_space(seed)
    best = optimum(searched(space, objective), objective)
    found = prove(space, objective, most_cells=400)
    assert found.closed
    assert found.open_plans == 0
    assert found.bound == pytest.approx(best, rel=1e-11, nan_ok=True)
    assert found.best_value == pytest.approx(best, rel=1e-11, nan_ok=True)
    if found.best is not None:
        assert float(evaluate(found.best).objective(objective.name)) == found.best_value


@given(st.integers(0, 2**32 - 1), st.integers(2, 400), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_no_plan_beats_the_bound_of_a_value_it_has(seed: int, points: int, pick: int) -> None:
    """The adversary picks the space, how coarse the view is, and the plans."""
    space, objective = random_space(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relaxation, "MOST_POINTS", points)
        patch.setattr(relaxation, "MOST_JOINT_POINTS", points)
        found = [relax(space, objective), relax_jointly(space, objective)]
    values = np.atleast_1d(evaluate(every_plan(space)).objective(objective.name))
    shape = tuple(map(len, space.axes)) or (1,)
    random = np.random.default_rng(pick)
    known = not np.isnan(values).all()
    at = [int(np.nanargmin(values)), int(np.nanargmax(values))] if known else []
    for flat in [*at, *random.integers(values.size, size=30)]:
        score = score_of(objective, float(values[flat]))
        place = np.unravel_index(int(flat), shape)
        for relaxed in found:
            for axis, index, groups, bounds in zip(
                space.axes, place, relaxed.groups, relaxed.by_group, strict=False
            ):
                value = axis.values[int(index)]
                group = next(k for k, part in enumerate(groups.parts) if value in part)
                assert bounds[group] <= score


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=lambda objective: objective.name)
def test_default_spaces_close_at_the_enumerated_optimum(name: str, objective: Objective) -> None:
    pins = {"plan.micro_batch_decode"} if name == "mt3000-llama2-70b" else set()
    space = default_space(preset_scenario(name), pins)
    found, known = prove(space, objective), certify(space, objective)
    assert found.closed
    assert found.bound == known.optimum == found.best_value
    assert found.enumerated < 2_000_000


def test_plans_and_machine_together_are_closed_without_enumeration() -> None:
    scenario = preset_scenario("mt3000-llama2-7b")
    vary = parse_varied(
        scenario,
        [
            "hardware.ddr_bandwidth_bytes_per_second=15e9:60e9",
            "hardware.gsm_bytes=3145728:12582912:1048576",
            "hardware.memory_bytes=10e9:40e9",
        ],
    )
    space = default_space(scenario, vary=vary)
    assert space.size > 25e9
    found = prove(space, THROUGHPUT, seconds=300)
    assert found.closed
    assert found.enumerated < 1e7
    assert found.bound == found.best_value
    assert found.best.value("hardware.ddr_bandwidth_bytes_per_second") == 60e9
    fixed = {path: values[-1:] for path, values in vary.items()}
    known = certify(default_space(scenario, vary=fixed), THROUGHPUT)
    assert found.bound >= known.optimum


@pytest.mark.usefixtures("few_points")
def test_bounds_only_tighten_and_hold_at_every_moment() -> None:
    space, objective = random_space(104)
    best = optimum(space, objective)
    reports: list[BoundReport] = []
    prove(space, objective, most_cells=60, progress=reports.append)
    scores = [objective.score(report.bound) for report in reports]
    assert all(a <= b * (1 + 1e-11) for a, b in itertools.pairwise(scores))
    assert all(score <= objective.score(best) * (1 + 1e-11) for score in scores)
    assert [report.cells for report in reports] == list(range(1, len(reports) + 1))


def test_stopping_and_time_end_the_search_with_a_valid_bound() -> None:
    scenario = preset_scenario("mt3000-llama2-13b")
    space = default_space(
        scenario,
        vary=parse_varied(scenario, ["hardware.gsm_bytes=3145728:12582912:65536"]),
    )
    known = certify(default_space(scenario), CLUSTER_SECONDS_PER_TOKEN).optimum
    for found in (
        prove(space, CLUSTER_SECONDS_PER_TOKEN, stopped=lambda: True),
        prove(space, CLUSTER_SECONDS_PER_TOKEN, seconds=0.0),
    ):
        assert found.cells == 1
        assert not found.closed
        assert 0 < found.bound <= known
        assert found.gap(known) >= 0


def test_nothing_feasible_is_proved() -> None:
    scenario = preset_scenario("mt3000-llama2-13b").replacing({"limits.tpot_seconds": 0.0001})
    found = prove(default_space(scenario), CLUSTER_SECONDS_PER_TOKEN)
    assert found.closed
    assert found.best is None
    assert math.isnan(found.bound)
    assert math.isnan(found.best_value)


def test_eq22_is_bounded_for_the_fixed_batch() -> None:
    space = default_space(preset_scenario("mt3000-llama2-13b"))
    found = prove(space, EQ22)
    assert found.space == fixed_batch_space(space)
    assert found.bound == certify(space, EQ22).optimum


def test_a_space_without_axes_is_its_own_plan() -> None:
    scenario = preset_scenario("mt3000-llama2-13b")
    found = prove(Space(scenario, ()), THROUGHPUT)
    assert found.bound == float(evaluate(scenario).objective("throughput"))
    assert relax(Space(scenario, ()), THROUGHPUT).least == 0.0


@pytest.mark.parametrize("seed", [3, 8, 21, 104])
def test_a_climb_ends_where_no_plane_is_better(seed: int) -> None:
    space, objective = random_space(seed)
    start = space.values_at([0] * len(space.axes))
    reached, value = climb(space, objective, start)
    assert all(v in axis.values for v, axis in zip(reached, space.axes, strict=True))
    own = float(evaluate(space.scenario(reached)).objective(objective.name))
    assert own == pytest.approx(value, rel=1e-14, nan_ok=True)
    for a, b in itertools.combinations(range(len(space.axes)), 2):
        kept = {
            axis.paths[0]: (reached[k],) if k not in (a, b) else axis.values
            for k, axis in enumerate(space.axes)
        }
        assert not objective.better(optimum(varied_space(space.base, kept), objective), value)


def test_a_climb_crosses_from_an_infeasible_start_and_stops_when_told() -> None:
    scenario = preset_scenario("mt3000-llama2-13b")
    space = default_space(scenario)
    start = space.values_at([0] * len(space.axes))
    assert math.isnan(float(evaluate(space.scenario(start)).objective("throughput")))
    reached, value = climb(space, THROUGHPUT, start)
    assert value > 0
    assert reached != start
    same, _ = climb(space, THROUGHPUT, start, stopped=lambda: True)
    assert sum(a != b for a, b in zip(same, start, strict=True)) <= 1
