"""Samplers side by side: same trials, an honest floor, and what one alone reaches."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from explorer.config.links import preset_scenario
from explorer.plots.comparison import comparison_figure, comparison_lines
from explorer.search.certificate import certify
from explorer.search.comparison import Comparison, compare
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.proof import ProofSettings
from explorer.search.samplers import installed_samplers
from explorer.search.space import Space, varied_space
from explorer.search.study import SearchSettings, search

SPACE = varied_space(
    preset_scenario("mt3000-llama2-7b"),
    {
        "plan.tp_decode": (1, 2, 4, 8),
        "plan.pp_decode": (1, 2, 4),
        "plan.micro_batch_decode": (16, 128, 512),
        "plan.dp_prefill": (1, 2, 4, 9, 12),
    },
)
SETTINGS = SearchSettings(CLUSTER_SECONDS_PER_TOKEN, trials=14, seed=3)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(SPACE, SETTINGS)


def test_every_sampler_that_can_runs_and_one_alone(compared: Comparison) -> None:
    names = [curve.sampler for curve in compared.curves]
    able = [name for name in installed_samplers() if name not in ("brute", "grid")]
    assert names == [*able, "tpe"]
    assert [curve.plain for curve in compared.curves] == [False] * len(able) + [True]
    assert compared.curves[-1].label == "TPE alone"
    assert compared.curves[-1].solved_exactly == ()
    assert compared.curves[0].solved_exactly == ("dp_prefill",)
    assert len(compared.left_out) == 2
    assert all("more than 14 trials" in reason for reason in compared.left_out)


def test_curves_are_those_of_the_searches(compared: Comparison) -> None:
    for curve in compared.curves:
        alone = search(SPACE, replace(SETTINGS, sampler=curve.sampler, plain=curve.plain))
        assert (curve.best_value, curve.trials) == (alone.best_value, alone.trials)
        assert curve.distinct_plans == alone.distinct_plans
        best = {number + 1: value for number, _, value in alone.history}
        assert all(point.best == best[point.trial] for point in curve.points)
        assert curve.points[-1].trial == curve.trials
        for before, after in itertools.pairwise(curve.points):
            assert before.trial < after.trial
            assert before.seconds <= after.seconds
            assert not CLUSTER_SECONDS_PER_TOKEN.better(before.best, after.best)


def test_the_floor_is_the_certified_optimum_or_the_bound(compared: Comparison) -> None:
    optimum = certify(SPACE, CLUSTER_SECONDS_PER_TOKEN).optimum
    assert compared.floor == optimum
    bounded = compare(SPACE, replace(SETTINGS, trials=3), ProofSettings(enumerate_up_to=1))
    assert bounded.floor == optimum
    assert all(compared.gap(curve) >= 0 for curve in compared.curves)
    for curve in compared.curves:
        arrival = compared.arrival(curve)
        assert (arrival is None) == (compared.gap(curve) > 0.01)
        if arrival is not None:
            earlier = [p for p in curve.points if p.trial < arrival.trial]
            assert all(CLUSTER_SECONDS_PER_TOKEN.gap(p.best, optimum) > 0.01 for p in earlier)


def test_a_known_proof_spares_another_one() -> None:
    known = certify(SPACE, THROUGHPUT)
    settings = SearchSettings(THROUGHPUT, trials=2)
    assert compare(SPACE, settings, known=known).proof is known


def test_progress_counts_all_trials_and_stopping_keeps_what_there_is() -> None:
    told: list[tuple[int, int]] = []
    found = compare(
        SPACE,
        SETTINGS,
        progress=lambda done, total: told.append((done, total)),
        stopped=lambda: len(told) >= 20,
    )
    assert told == sorted(told)
    assert {total for _, total in told} == {14 * (len(installed_samplers()) + 1)}
    assert len(found.curves) == 2
    assert found.curves[-1].stopped
    assert found.proof is None
    assert math.isnan(found.floor)


def test_with_enough_trials_those_that_try_everything_take_part() -> None:
    small = SPACE.fixing({"plan.pp_decode": 2})
    found = compare(small, replace(SETTINGS, trials=12))
    assert {"brute", "grid"} <= {curve.sampler for curve in found.curves}
    assert found.left_out == ()
    assert all(found.gap(c) == 0 for c in found.curves if c.sampler in ("brute", "grid"))


def test_nothing_feasible_leaves_no_points() -> None:
    hopeless = Space(SPACE.base.replacing({"limits.tpot_seconds": 0.0001}), SPACE.axes)
    found = compare(hopeless, replace(SETTINGS, trials=3))
    assert all(curve.points == () for curve in found.curves)
    assert all(found.arrival(curve) is None for curve in found.curves)
    assert math.isnan(found.floor)
    assert comparison_lines(found).lines == ()
    assert len(comparison_figure(comparison_lines(found), "trial", "best").data) == 0


def test_the_charts_show_every_curve_over_the_floor(compared: Comparison) -> None:
    lines = comparison_lines(compared)
    assert [line.name for line in lines.lines] == [curve.label for curve in compared.curves]
    assert (lines.floor, lines.floor_name) == (compared.floor, "proved optimum")
    by_trial = comparison_figure(lines, "trial", "best")
    by_time = comparison_figure(lines, "seconds", "best")
    assert len(by_trial.data) == len(by_time.data) == len(lines.lines) + 1
    assert by_trial.data[-1].name.startswith("proved optimum")
    assert by_trial.data[0].x[-1] == 14
    assert sum(len(trace.x) for trace in by_trial.data) < 200
