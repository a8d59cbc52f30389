"""What every sampler must do, the choice among them, and refusals."""

from __future__ import annotations

import itertools
import math

import optuna
import pytest

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.search import samplers as module
from explorer.search import trials
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, OBJECTIVES, THROUGHPUT
from explorer.search.samplers import (
    AUTO,
    SAMPLERS,
    Sampler,
    check_sampler,
    chosen_sampler,
    installed_samplers,
    parameter,
    told_value,
)
from explorer.search.space import Axis, Space, default_space, varied_space
from explorer.search.study import SearchResult, SearchSettings, search
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import evaluate

BASE = preset_scenario("mt3000-llama2-7b")
SPACE = varied_space(
    BASE,
    {
        "plan.tp_decode": (1, 2, 4, 8),
        "plan.pp_decode": (1, 2, 4),
        "plan.micro_batch_decode": (16, 128, 512),
        "plan.dp_prefill": (1, 2, 4, 9, 12),
    },
)
SEARCHED = 4 * 3 * 3
"""Combinations left to the sampler: the prefill pipelines are solved in each trial."""


def run(name: str, space: Space = SPACE, trials: int = 40, **settings: object) -> SearchResult:
    return search(space, SearchSettings(trials=trials, sampler=name, **settings))


@pytest.mark.parametrize("name", installed_samplers())
class TestEverySampler:
    def test_same_seed_same_answer(self, name: str) -> None:
        first, second = run(name, seed=3), run(name, seed=3)
        assert str(first.history) == str(second.history)
        assert first.best == second.best

    def test_counts_are_those_of_the_trials(self, name: str) -> None:
        found = run(name)
        assert found.sampler.sampler.name == name
        assert found.trials == len(found.history) == (SEARCHED if _exhaustive(name) else 40)
        values = [value for _, value, _ in found.history]
        assert found.feasible_trials == sum(not math.isnan(value) for value in values)
        assert 1 <= found.distinct_plans <= min(found.trials, SEARCHED)
        assert not found.stopped

    def test_a_repeated_plan_is_not_evaluated_again(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = itertools.count()
        once = trials.evaluate
        monkeypatch.setattr(trials, "evaluate", lambda scenario: (next(calls), once(scenario))[1])
        found = run(name, trials=60)
        assert next(calls) == found.distinct_plans <= SEARCHED

    def test_ends_at_the_optimum_of_a_small_space(self, name: str) -> None:
        for objective in (CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT):
            found = run(name, trials=60, objective=objective, seed=1)
            assert certify(SPACE, objective).gap(found.best_value) == 0

    def test_alone_it_never_ends_above_what_it_says(self, name: str) -> None:
        small = SPACE.fixing({"plan.micro_batch_decode": 128})
        found = run(name, small, trials=60, plain=True, seed=2)
        assert found.solved_exactly == ()
        assert evaluate(found.best).feasible
        assert float(evaluate(found.best).objective(CLUSTER_SECONDS_PER_TOKEN.name)) == (
            found.best_value
        )

    def test_an_infeasible_plan_is_never_best_and_every_constraint_is_told(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        studies, create = [], optuna.create_study

        def recording(**settings: object) -> optuna.Study:
            studies.append(create(**settings))
            return studies[-1]

        monkeypatch.setattr(optuna, "create_study", recording)
        tight = Space(BASE.replacing({"workload.clusters_total": 9}), SPACE.axes)
        found = run(name, tight)
        assert evaluate(found.best).feasible
        for trial in studies[0].get_trials():
            assert set(trial.constraints) == set(CONSTRAINTS)
            broken = any(excess > 0 for excess in trial.constraints.values())
            assert broken == (abs(trial.value) >= 1e30)
        assert studies[0].best_trial.value == found.best_value

    def test_nothing_feasible_gives_no_best(self, name: str) -> None:
        hopeless = Space(BASE.replacing({"limits.tpot_seconds": 0.0001}), SPACE.axes)
        found = run(name, hopeless)
        assert found.best is None
        assert math.isnan(found.best_value)
        assert found.excluded["tpot"] == found.trials

    def test_stops_after_the_trial(self, name: str) -> None:
        count = itertools.count(1)
        settings = SearchSettings(trials=60, sampler=name)
        found = search(SPACE, settings, stopped=lambda: next(count) == 5)
        assert (found.stopped, found.trials) == (True, 5)

    def test_a_space_of_one_plan_and_one_of_one_axis(self, name: str) -> None:
        assert run(name, Space(BASE, ()), trials=1).best == BASE
        line = varied_space(BASE, {"plan.micro_batch_decode": (16, 64, 128)})
        found = run(name, line, trials=12)
        assert found.best_value == certify(line, CLUSTER_SECONDS_PER_TOKEN).optimum


def _exhaustive(name: str) -> bool:
    return SAMPLERS[name].exhaustive


@pytest.mark.parametrize("name", ["brute", "grid"])
def test_exhaustive_samplers_try_every_combination_once(name: str) -> None:
    found = run(name, trials=SEARCHED)
    assert found.trials == found.distinct_plans == SEARCHED
    with pytest.raises(InputError, match=f"there are {SEARCHED}, more than 35 trials") as caught:
        run(name, trials=SEARCHED - 1)
    assert caught.value.problems[0].field == "sampler"


def test_a_long_axis_is_tried_by_value() -> None:
    long = varied_space(BASE, {"plan.pp_decode": tuple(range(1, 21))})
    for name in ("brute", "grid"):
        assert run(name, long, trials=20).distinct_plans == 20


@pytest.mark.parametrize(
    ("trials", "expected"), [(SEARCHED, "brute"), (SEARCHED - 1, "tpe"), (36, "brute")]
)
def test_the_default_suits_the_space(trials: int, expected: str) -> None:
    found = run(AUTO, trials=trials)
    assert found.sampler.sampler.name == expected
    assert str(SEARCHED) in found.sampler.why


def test_many_trials_of_a_large_space_are_left_to_a_population() -> None:
    axes = default_space(BASE).axes
    assert chosen_sampler(AUTO, axes, 300).sampler.name == "tpe"
    chosen = chosen_sampler(AUTO, axes, 5000)
    assert chosen.sampler.name == "nsga2"
    assert "square" in chosen.why


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS, "gp", Sampler("gp", "Gaussian process", needs="no_such_package"))
    assert "gp" not in installed_samplers()
    with pytest.raises(InputError, match="needs the package no_such_package"):
        check_sampler("gp")
    with pytest.raises(InputError, match="expected auto, tpe, nsga2"):
        check_sampler("annealing")
    check_sampler(AUTO)


def test_what_breaks_a_constraint_is_told_the_worst_there_is() -> None:
    for objective in OBJECTIVES.values():
        sign = 1 if objective.minimised else -1
        assert told_value(SAMPLERS["tpe"], objective, math.nan, 0.5) == sign * math.inf
        assert told_value(SAMPLERS["tpe"], objective, 4.0, 0.0) == 4.0
        near, far = (told_value(SAMPLERS["cmaes"], objective, math.nan, v) for v in (0.1, 0.9))
        assert objective.better(near, far)
        assert math.isfinite(far)


def test_parameters_are_named_by_value_or_by_place() -> None:
    assert parameter(Axis("pp", ("plan.pp_decode",), tuple(range(1, 33)))) == "pp"
    assert parameter(Axis("tp", ("plan.tp_decode",), (1, 2, 4))) == "tp[]"
    assert module.installed_samplers()[0] == "tpe"
