"""The Optuna search: honest counts, same seed same answer, and close to the certified optimum."""

from __future__ import annotations

import itertools
import math

import optuna
import pytest

from explorer.config.errors import InputError
from explorer.config.presets import load_scenario_preset
from explorer.config.scenario import Scenario, parse_scenario
from explorer.search import study
from explorer.search.bound import prove
from explorer.search.certificate import certify
from explorer.search.objectives import (
    CLUSTER_SECONDS_PER_TOKEN,
    EQ22,
    OBJECTIVES,
    THROUGHPUT,
    objective_named,
)
from explorer.search.space import Space, default_space, varied_space
from explorer.search.study import (
    SearchResult,
    SearchSettings,
    TrialReport,
    search,
)
from explorer.search.trials import Judge
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import evaluate


def preset(name: str = "mt3000-llama2-7b") -> Scenario:
    return parse_scenario(load_scenario_preset(name).scenario)


def answer(result: SearchResult) -> tuple[object, ...]:
    return (
        result.best,
        result.best_value,
        [tuple(map(str, point)) for point in result.history],
        result.excluded,
        result.distinct_plans,
    )


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
@pytest.mark.parametrize("plain", [False, True])
def test_same_seed_same_answer(sampler: str, plain: bool) -> None:
    space = default_space(preset())
    settings = SearchSettings(trials=30, seed=5, sampler=sampler, plain=plain)
    assert answer(search(space, settings)) == answer(search(space, settings))


def test_another_seed_searches_elsewhere() -> None:
    space = default_space(preset())
    histories = {search(space, SearchSettings(trials=15, seed=seed)).history for seed in (1, 2)}
    assert len(histories) == 2


@pytest.mark.parametrize("plain", [False, True])
def test_counts_and_history_are_those_of_the_trials(plain: bool) -> None:
    space = default_space(preset())
    reports: list[TrialReport] = []
    found = search(space, SearchSettings(trials=40, seed=3, plain=plain), reports.append)
    assert found.trials == len(found.history) == len(reports) == 40
    assert [number for number, _, _ in found.history] == list(range(40))
    values = [value for _, value, _ in found.history]
    assert found.feasible_trials == sum(not math.isnan(value) for value in values)
    assert found.feasible_trials < 40
    assert sum(found.excluded.values()) >= 40 - found.feasible_trials
    assert set(found.excluded) == set(CONSTRAINTS)
    best = math.nan
    for (_, value, so_far), report in zip(found.history, reports, strict=True):
        best = value if CLUSTER_SECONDS_PER_TOKEN.better(value, best) else best
        assert so_far == best or (math.isnan(so_far) and math.isnan(best))
        assert str(report.best_value) == str(so_far)
        assert (report.best is None) == math.isnan(so_far)
    assert found.best_value == best
    assert float(evaluate(found.best).objective("cluster_seconds_per_token")) == best
    assert found.distinct_plans <= 40
    assert found.solved_exactly == (
        () if plain else ("micro_batch_prefill", "pp_prefill", "dp_prefill")
    )
    assert not found.stopped


def test_plain_leaves_every_axis_to_the_sampler() -> None:
    space = default_space(preset())
    first = [
        search(space, SearchSettings(trials=1, seed=seed, plain=True)).history[0][1]
        for seed in range(6)
    ]
    assert len(set(map(str, first))) > 1


def test_the_first_trial_is_the_scenarios_plan_with_the_best_prefill_pool() -> None:
    scenario = preset()
    pins = {"plan.pp_prefill", "plan.dp_prefill", "plan.micro_batch_prefill"}
    space = default_space(scenario, pins)
    found = search(space, SearchSettings(trials=2))
    own = float(evaluate(space.base).objective("cluster_seconds_per_token"))
    assert found.history[0][1] == own
    assert found.solved_exactly == ()
    assert found.best.plan.dp_prefill == scenario.plan.dp_prefill


def test_an_infeasible_trial_is_never_best() -> None:
    """Without the clusters' limit the cheapest plans would be large ones."""
    scenario = preset("mt3000-llama-30b").replacing({"workload.clusters_total": 9})
    for objective in OBJECTIVES.values():
        found = search(default_space(scenario), SearchSettings(objective, trials=60, seed=1))
        assert found.best is not None
        assert evaluate(found.best).feasible


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_nothing_feasible_gives_no_best_and_says_what_excluded_plans(sampler: str) -> None:
    scenario = preset().replacing({"limits.tpot_seconds": 0.0001})
    found = search(default_space(scenario), SearchSettings(trials=25, sampler=sampler))
    assert found.best is None
    assert math.isnan(found.best_value)
    assert found.feasible_trials == 0
    assert found.excluded["tpot"] == 25
    assert all(math.isnan(value) and math.isnan(best) for _, value, best in found.history)


def test_finds_a_rare_feasible_plan() -> None:
    space = varied_space(
        preset(), {"plan.pp_decode": tuple(range(1, 33)), "plan.tp_decode": (1, 2, 4, 8, 16, 32)}
    )
    fastest = min(
        float(evaluate(space.scenario(values)).tpot_seconds)
        for values in itertools.product(*(axis.values for axis in space.axes))
    )
    base = space.base.replacing({"limits.tpot_seconds": fastest * 1.001})
    found = search(Space(base, space.axes), SearchSettings(trials=120))
    assert found.best is not None


def test_stopping_ends_after_the_trial() -> None:
    count = itertools.count(1)
    found = search(
        default_space(preset()), SearchSettings(trials=500), stopped=lambda: next(count) == 7
    )
    assert found.stopped
    assert found.trials == 7
    assert found.best is not None


def test_eq22_searches_the_fixed_batch() -> None:
    space = default_space(preset())
    found = search(space, SearchSettings(EQ22, trials=30))
    certificate = certify(space, EQ22)
    assert found.space == certificate.space
    assert certificate.gap(found.best_value) == 0.0


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("mt3000-llama2-7b", CLUSTER_SECONDS_PER_TOKEN),
        ("mt3000-llama2-13b", THROUGHPUT),
        ("mt3000-llama-30b", CLUSTER_SECONDS_PER_TOKEN),
        ("mt3000-llama2-70b", THROUGHPUT),
        ("ascend910a-qwen3.8-27b", CLUSTER_SECONDS_PER_TOKEN),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_three_hundred_trials_come_within_one_percent(name: str, objective: object) -> None:
    """One seed each; ten seeds of each preset: ``python -m tests.benchmarks.seeds``."""
    space = default_space(preset(name))
    found = search(space, SearchSettings(objective, trials=300, seed=11, sampler="tpe"))
    proof = prove(space, objective, seconds=300)
    assert proof.closed
    assert proof.gap(found.best_value) <= 0.01


@pytest.mark.slow
def test_nine_of_ten_seeds_come_within_one_percent() -> None:
    space = default_space(preset("mt3000-llama2-7b"))
    certificate = certify(space, THROUGHPUT)
    close = [
        certificate.gap(search(space, SearchSettings(THROUGHPUT, seed=seed)).best_value) <= 0.01
        for seed in range(10)
    ]
    assert sum(close) >= 9


def test_the_climb_counts_as_one_trial_and_may_be_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hardware axes that the sampler hardly meets: lines through the best plan find them."""
    scenario = preset("mt3000-llama2-7b")
    vary = {
        "hardware.ddr_bandwidth_bytes_per_second": tuple(30e9 + 1e8 * k for k in range(300)),
        "hardware.mpi_bandwidth_bytes_per_second": tuple(5e9 + 1e7 * k for k in range(300)),
    }
    space = varied_space(scenario, {**vary, "plan.dp_prefill": (4, 11)})
    settings = SearchSettings(THROUGHPUT, trials=20, sampler="random")
    found = search(space, settings)
    assert found.trials == 20
    assert found.best.value("hardware.ddr_bandwidth_bytes_per_second") == 30e9 + 1e8 * 299
    monkeypatch.setattr(study, "climb", lambda space, objective, values: (values, math.nan))
    without = search(space, settings)
    assert without.history[:8] == found.history[:8]
    assert THROUGHPUT.better(found.best_value, without.best_value)


def test_a_solved_pool_is_the_best_of_all_its_sizes() -> None:
    space = default_space(preset())
    solved = space.axes[-2:]
    for objective in OBJECTIVES.values():
        judge = Judge(space, objective, solved)
        for indices in ((3, 0, 7, 1), (2, 3, 6, 3), (0, 0, 2, 0)):
            outcome = judge.outcome(indices)
            values = []
            for pp, dp in itertools.product((1, 2, 7), (1, 2, 3, 5, 8, 13, 64)):
                one = evaluate(space.scenario((*outcome.values[:4], pp, dp)))
                values.append(float(one.objective(objective.name)))
            assert not any(objective.better(value, outcome.value) for value in values)
            alone = evaluate(space.scenario(outcome.values))
            assert float(alone.objective(objective.name)) == outcome.value


def test_of_equally_good_prefill_pools_the_smallest_is_taken() -> None:
    typed = preset().replacing(
        {"measured.prefill_seconds": 1e-6, "measured.decode_seconds": 1.0, "plan.dp_prefill": 4}
    )
    enough_for_one = int(evaluate(typed).clusters)
    base = typed.replacing({"workload.clusters_total": enough_for_one})
    pools = varied_space(base, {"plan.dp_prefill": (1, 2, 3, 4)})
    values = [float(evaluate(pools.scenario((dp,))).objective("throughput")) for dp in (1, 2, 3, 4)]
    assert len(set(values)) == 1
    assert Judge(pools, THROUGHPUT, pools.axes).outcome(()).values == (1,)


def test_excess_is_bounded_and_its_sign_tells_violation() -> None:
    scenario = preset("ascend910a-qwen3.8-27b").replacing({"plan.dp_prefill": 3})
    space = varied_space(scenario, {"plan.tp_decode": (1, 2, 4, 8), "plan.pp_decode": (1, 9, 64)})
    judge = Judge(space, CLUSTER_SECONDS_PER_TOKEN)
    for indices in itertools.product(range(4), range(3)):
        outcome = judge.outcome(indices)
        expected = {c.name for c in evaluate(judge.scenario(outcome)).constraints if not c.kept}
        assert set(outcome.violated) == expected
        assert "placement" in expected
        assert all(-1 <= excess <= 1 for excess in outcome.excess.values())
        assert outcome.excess["ttft"] == -1
        assert math.isnan(outcome.value)


def test_every_constraint_reaches_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    studies = []
    create = optuna.create_study

    def recording(**settings: object) -> optuna.Study:
        studies.append(create(**settings))
        return studies[-1]

    monkeypatch.setattr(optuna, "create_study", recording)
    found = search(default_space(preset()), SearchSettings(trials=30, seed=2))
    trials = studies[0].get_trials()
    assert all(set(trial.constraints) == set(CONSTRAINTS) for trial in trials)
    assert all(
        any(excess > 0 for excess in trial.constraints.values()) == math.isinf(trial.value)
        for trial in trials
    )
    assert studies[0].best_trial.value == found.best_value


def test_optuna_is_quiet_and_its_verbosity_untouched(capfd: pytest.CaptureFixture[str]) -> None:
    before = optuna.logging.get_verbosity()
    try:
        optuna.logging.set_verbosity(optuna.logging.INFO)
        search(default_space(preset()), SearchSettings(trials=3))
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
    finally:
        optuna.logging.set_verbosity(before)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"sampler": "cma"}, "sampler"),
        ({"trials": 0}, "trials"),
        ({"trials": 10**9}, "trials"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], field: str) -> None:
    with pytest.raises(InputError) as caught:
        SearchSettings(**settings)
    assert caught.value.problems[0].field == field


def test_objectives_compare_and_measure_gaps() -> None:
    least, most = CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
    assert least.better(1.0, 2.0)
    assert most.better(2.0, 1.0)
    assert least.better(1.0, math.nan)
    assert not least.better(math.nan, 1.0)
    assert not most.better(math.nan, math.nan)
    assert least.gap(11.0, 10.0) == pytest.approx(0.1)
    assert most.gap(9.0, 10.0) == pytest.approx(0.1)
    assert least.gap(9.0, 10.0) == most.gap(11.0, 10.0) == 0.0
    assert math.isnan(least.gap(math.nan, 1.0))
    assert least.gap(1.0, 0.0) == math.inf
    assert objective_named("eq22") is EQ22
    with pytest.raises(InputError, match="expected cluster_seconds_per_token, throughput, eq22"):
        objective_named("speed")
