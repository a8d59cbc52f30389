"""Fronts against quadratic loops, and what an approximate one may claim."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.plots.pareto import MOST_DRAWN, front_view, pareto_figure
from explorer.search import pareto as module
from explorer.search.fitting import fitting_blocks
from explorer.search.genetic import approximate_front
from explorer.search.measures import MEASURES, Measure, measures_named
from explorer.search.nondominated import nondominated, not_clearly_behind
from explorer.search.pareto import ParetoFront, ParetoPoint, pareto_front
from explorer.search.space import Space, default_space, varied_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, scenario

SEVEN_B = "mt3000-llama2-7b"
SMALL = {
    "plan.tp_decode": (1, 4, 8),
    "plan.pp_decode": (1, 3),
    "plan.micro_batch_decode": (4, 64, 256),
    "plan.micro_batch_prefill": (1, 8),
    "plan.pp_prefill": (1, 2),
    "plan.dp_prefill": (1, 2, 3, 9),
}
FIGURES = {
    "throughput": lambda one: -float(one.objective("throughput")),
    "ttft": lambda one: float(one.ttft_seconds),
    "tpot": lambda one: float(one.tpot_seconds),
    "clusters": lambda one: float(one.clusters),
}
COMBINATIONS = [names for count in (2, 3, 4) for names in itertools.combinations(FIGURES, count)]


def measures(*names: str) -> tuple[Measure, ...]:
    return tuple(MEASURES[name] for name in names)


def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def brute_front(points: list[tuple[float, ...]]) -> set[tuple[float, ...]]:
    return {one for one in points if not any(beats(other, one) for other in points)}


def brute_figures(space: Space) -> list[dict[str, float]]:
    """Loop over single plans; what is to be large is negated."""
    found = []
    for values in itertools.product(*(axis.values for axis in space.axes)):
        one = evaluate(space.scenario(values))
        if one.feasible:
            found.append({name: figure(one) for name, figure in FIGURES.items()})
    return found


def small_figures(front: ParetoFront) -> list[tuple[float, ...]]:
    signs = [measure.sign for measure in front.measures]
    return [
        tuple(s * figure for s, figure in zip(signs, point.figures, strict=True))
        for point in front.points
    ]


def assert_is_the_front(
    space: Space, names: tuple[str, ...], every: list[dict[str, float]]
) -> None:
    front = pareto_front(space, measures(*names))
    plans = [tuple(plan[name] for name in names) for plan in every]
    plans = [plan for plan in plans if not any(map(math.isnan, plan))]
    found = small_figures(front)
    assert len(found) == len(set(found))
    assert set(found) == brute_front(plans)
    assert front.feasible == len(plans)
    assert front.exact
    assert front.complete
    assert found == sorted(found)
    for point in front.points:
        one = evaluate(front.scenario(point))
        assert one.feasible
        assert tuple(float(m.of(one)) for m in front.measures) == point.figures


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(st.tuples(*[st.integers(0, 6)] * k), min_size=1, max_size=60)
    )
)
def test_nondominated_equals_the_quadratic_loop(points: list[tuple[int, ...]]) -> None:
    array = np.array(points, dtype=float).reshape(len(points), -1)
    kept = nondominated(array).tolist()
    found = [points[index] for index in kept]
    assert len(found) == len(set(found))
    assert set(found) == brute_front(points)
    assert found == sorted(found)
    assert all(points.index(points[index]) == index for index in kept)


def test_of_equal_points_the_preferred_one_stays() -> None:
    points = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.0, 2.0]])
    assert nondominated(points, np.array([5.0, 3.0, 9.0, 3.0])).tolist() == [1, 2]


def test_many_points_are_kept_or_dropped_as_their_curve_says() -> None:
    along = np.linspace(0, 1, 3000)
    front = np.stack([along, 1 - along, np.zeros_like(along)], axis=1)
    behind = front + np.array([0.0, 0.0, 0.5])
    mixed = np.concatenate([behind, front])
    assert sorted(nondominated(mixed).tolist()) == list(range(3000, 6000))
    left = not_clearly_behind(front, mixed)
    assert set(range(3000, 6000)) <= set(left.tolist())


def test_equals_brute_force_for_every_choice_of_measures() -> None:
    base = scenario(SEVEN_B, workload__clusters_total=24, limits__ttft_seconds=40.0)
    space = varied_space(base, SMALL)
    every = brute_figures(space)
    for names in COMBINATIONS:
        assert_is_the_front(space, names, every)


def test_equals_brute_force_with_shared_placement() -> None:
    vary = {
        "plan.tp_decode": (1, 2, 4),
        "plan.pp_decode": (1, 2),
        "plan.micro_batch_decode": (1, 8, 64),
        "plan.micro_batch_prefill": (1, 2, 16),
        "plan.slices": (1, 4),
    }
    space = varied_space(scenario(ASCEND), vary)
    assert_is_the_front(space, ("throughput", "ttft", "tpot"), brute_figures(space))


@settings(max_examples=20, deadline=None)
@given(
    picks=st.fixed_dictionaries(
        {},
        optional={
            "plan.tp_decode": st.sets(st.sampled_from([1, 2, 4, 8]), min_size=1),
            "plan.pp_decode": st.sets(st.integers(1, 32), min_size=1, max_size=3),
            "plan.micro_batch_decode": st.sets(st.integers(1, 200), min_size=1, max_size=3),
            "plan.micro_batch_prefill": st.sets(st.integers(1, 64), min_size=1, max_size=2),
            "plan.dp_prefill": st.sets(st.integers(1, 12), min_size=1, max_size=3),
        },
    ).map(lambda picks: {path: tuple(sorted(values)) for path, values in picks.items()}),
    clusters=st.integers(1, 100),
    names=st.sampled_from(COMBINATIONS),
)
def test_equals_brute_force_on_any_small_space(
    picks: dict[str, tuple[Any, ...]], clusters: int, names: tuple[str, ...]
) -> None:
    base = scenario(SEVEN_B, workload__clusters_total=clusters)
    space = varied_space(base, picks)
    assert_is_the_front(space, names, brute_figures(space))


def test_one_output_token_has_no_time_per_token_and_is_never_in_the_set() -> None:
    vary = {"workload.output_tokens": (1, 2, 64), **SMALL}
    space = varied_space(scenario(SEVEN_B), vary)
    front = pareto_front(space, measures("throughput", "tpot"))
    assert all(point.values[0] != 1 for point in front.points)
    assert not any(math.isnan(figure) for point in front.points for figure in point.figures)
    with pytest.raises(InputError, match="one output token"):
        measures_named(["tpot", "ttft"], scenario(SEVEN_B, workload__output_tokens=1))


@pytest.mark.parametrize(
    "names",
    [["throughput"], ["throughput", "throughput"], ["speed", "ttft"], [], [*FIGURES, "ttft"]],
)
def test_measures_that_are_no_trade_are_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="2 to 4 of throughput, ttft, tpot, clusters"):
        measures_named(names, scenario(SEVEN_B))


def test_nothing_feasible_and_a_single_plan() -> None:
    none = pareto_front(
        default_space(scenario(SEVEN_B, limits__tpot_seconds=1e-4)), measures("throughput", "ttft")
    )
    assert (none.points, none.feasible, none.exact) == ((), 0, True)
    one = pareto_front(Space(scenario(SEVEN_B), ()), measures("throughput", "ttft"))
    assert [point.values for point in one.points] == [()]
    assert one.scenario(one.points[0]) == scenario(SEVEN_B)


def test_the_front_does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    space = varied_space(scenario(SEVEN_B), SMALL)
    whole = pareto_front(space, measures("throughput", "ttft", "clusters"))
    monkeypatch.setattr(module, "fitting_blocks", lambda space: fitting_blocks(space, 5))
    pieces = pareto_front(space, measures("throughput", "ttft", "clusters"))
    assert {p.figures for p in pieces.points} == {p.figures for p in whole.points}


def test_of_equal_figures_the_plan_with_the_fewest_clusters_is_kept() -> None:
    slow = {"measured__prefill_seconds": 1e-9, "measured__decode_seconds": 1.0}
    base = scenario(SEVEN_B, workload__clusters_total=400, **slow)
    space = varied_space(base, {"plan.dp_prefill": (1, 2, 3), "plan.pp_prefill": (1, 2)})
    front = pareto_front(space, measures("ttft", "tpot"))
    for point in front.points:
        alike = [
            values
            for values in itertools.product(*(axis.values for axis in space.axes))
            if float(evaluate(space.scenario(values)).ttft_seconds) == point.figures[0]
        ]
        fewest = min(float(evaluate(space.scenario(values)).clusters) for values in alike)
        assert float(evaluate(front.scenario(point)).clusters) == fewest


def test_stopping_says_so_and_progress_ends_at_the_whole_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "fitting_blocks", lambda space: fitting_blocks(space, 16))
    space = varied_space(scenario(SEVEN_B), SMALL)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    pareto_front(space, measures("throughput", "ttft"), progress)
    assert seen[-1] == (space.size, space.size)
    stopped = pareto_front(space, measures("throughput", "ttft"), stopped=lambda: True)
    assert not stopped.complete


def test_a_front_too_large_to_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_FRONT", 3)
    with pytest.raises(InputError, match="fewer measures"):
        pareto_front(varied_space(scenario(SEVEN_B), SMALL), measures(*FIGURES))


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3"])
@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_an_approximate_front_is_feasible_and_never_beats_the_exact_one(
    preset: str, sampler: str
) -> None:
    names = ("throughput", "ttft", "tpot")
    pins = {"plan.pp_decode"} if preset == SEVEN_B else {"plan.slices"}
    space = default_space(scenario(preset), pins)
    exact = small_figures(pareto_front(space, measures(*names)))
    found = approximate_front(space, measures(*names), 200, 3, sampler)
    again = approximate_front(space, measures(*names), 200, 3, sampler)
    assert found.points == again.points
    assert found.points
    assert (found.exact, found.sampler, found.complete) == (False, sampler, True)
    for figures, point in zip(small_figures(found), found.points, strict=True):
        assert evaluate(found.scenario(point)).feasible
        assert not any(beats(figures, other) for other in exact)
        assert figures in exact or any(beats(other, figures) for other in exact)


def test_an_approximate_front_of_a_tiny_space_is_exact() -> None:
    space = varied_space(scenario(SEVEN_B), {"plan.tp_decode": (4, 8), "plan.pp_decode": (1, 2)})
    names = ("throughput", "tpot")
    exact = pareto_front(space, measures(*names))
    found = approximate_front(space, measures(*names), 100)
    assert {p.figures for p in found.points} == {p.figures for p in exact.points}
    assert found.looked_at == 4


def test_approximate_fronts_refuse_what_they_cannot_do_and_stop_when_asked() -> None:
    space = varied_space(scenario(SEVEN_B), SMALL)
    pair = measures("throughput", "ttft")
    with pytest.raises(InputError, match="nsga2 or nsga3"):
        approximate_front(space, pair, sampler="tpe")
    with pytest.raises(InputError, match="trials"):
        approximate_front(space, pair, 0)
    with pytest.raises(InputError, match="seed"):
        approximate_front(space, pair, seed=-1)
    assert not approximate_front(space, pair, 500, stopped=lambda: True).complete
    tight = default_space(scenario(SEVEN_B, limits__tpot_seconds=1e-4))
    assert approximate_front(tight, pair, 40).points == ()


def test_a_long_front_is_thinned_for_drawing_only() -> None:
    points = tuple(ParetoPoint((1000.0 - i, 1.0 + i), ()) for i in range(700))
    front = ParetoFront(
        measures("throughput", "ttft"), Space(scenario(SEVEN_B), ()), points, 700, 700, True, 0.0
    )
    view = front_view(front, (500.0, 900.0))
    assert (len(view.points), view.hidden) == (MOST_DRAWN, 700 - MOST_DRAWN)
    assert (view.points[0].place, view.points[-1].place) == (0, 699)
    figure = pareto_figure(view)
    marks = figure.data[1]
    assert [data[0] for data in marks.customdata] == sorted(p.place for p in view.points)
    assert "throughput 1,000 tokens/s, time to first token 1.00 s" in marks.customdata[0][1]
    assert figure.data[-1].customdata[0][0] == -1
