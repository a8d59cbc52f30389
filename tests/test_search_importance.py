"""Shares of variance against plain loops and a closed form; PED-ANOVA on random trials."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from explorer.config.errors import InputError
from explorer.plots.importance import Share, importance_figure
from explorer.search import importance as module
from explorer.search.certificate import certify
from explorer.search.fitting import fitting_blocks
from explorer.search.importance import importance, sampled_importance
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT, Objective
from explorer.search.space import Space, varied_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, scenario

SEVEN_B = "mt3000-llama2-7b"
VARY = {
    SEVEN_B: {
        "plan.tp_decode": (1, 4, 8),
        "plan.micro_batch_decode": (4, 64, 256),
        "plan.pp_prefill": (1, 2),
        "plan.dp_prefill": (1, 2, 3, 9),
    },
    ASCEND: {
        "plan.tp_decode": (1, 2, 4),
        "plan.micro_batch_decode": (1, 8, 64),
        "plan.slices": (1, 4),
    },
}


def brute(space: Space, objective: Objective) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return shares and the best objective of each value, from a loop over single plans."""
    plans = []
    for values in itertools.product(*(axis.values for axis in space.axes)):
        value = float(evaluate(space.scenario(values)).objective(objective.name))
        if not math.isnan(value):
            plans.append((values, value))
    logs = np.array([math.log(value) for _, value in plans])
    shares, best = {}, {}
    for i, axis in enumerate(space.axes):
        groups = [
            [j for j, (values, _) in enumerate(plans) if values[i] == value]
            for value in axis.values
        ]
        between = sum(len(g) * (logs[g].mean() - logs.mean()) ** 2 for g in groups if g)
        shares[axis.name] = between / ((logs - logs.mean()) ** 2).sum()
        best[axis.name] = [
            objective.best_of(np.array([plans[j][1] for j in g])) if g else math.nan for g in groups
        ]
    return shares, best


@pytest.mark.parametrize("objective", [THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN], ids=lambda o: o.name)
@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_shares_and_optima_equal_plain_loops(preset: str, objective: Objective) -> None:
    space = varied_space(scenario(preset), VARY[preset])
    found = importance(space, objective)
    shares, best = brute(space, objective)
    proved = certify(space, objective)
    assert found.exact
    assert found.optimum == proved.optimum
    assert found.feasible == proved.feasible
    assert [item.share for item in found.axes] == sorted(
        (i.share for i in found.axes), reverse=True
    )
    for item in found.axes:
        assert item.share == pytest.approx(shares[item.axis.name], abs=1e-12)
        assert list(item.best) == pytest.approx(best[item.axis.name], rel=1e-12, nan_ok=True)
        gaps = [objective.gap(value, proved.optimum) for value in item.best]
        close = [v for v, gap in zip(item.axis.values, gaps, strict=True) if gap <= 0.05]
        assert list(item.close) == close


def test_independent_factors_share_out_the_whole_variance() -> None:
    """Throughput pools B N / T_d of typed times is a product: its log's variances add up."""
    typed = {"measured__prefill_seconds": 1e-9, "measured__decode_seconds": 3.0}
    base = scenario(SEVEN_B, plan__buffer_clusters=40, workload__max_context_tokens=1000, **typed)
    batches, tokens = (1, 2, 4, 8), (16, 32, 256)
    vary = {"plan.micro_batch_decode": batches, "workload.output_tokens": tokens}
    found = importance(varied_space(base, vary), THROUGHPUT)
    assert found.feasible == 12
    shares = {item.axis.paths[0]: item.share for item in found.axes}
    one, other = np.log(batches).var(), np.log(tokens).var()
    assert shares["plan.micro_batch_decode"] == pytest.approx(one / (one + other), rel=1e-9)
    assert sum(shares.values()) == pytest.approx(1.0, rel=1e-9)


def test_what_changes_nothing_has_no_share() -> None:
    vary = {"plan.min_rows_per_slice": (64, 128), "plan.micro_batch_decode": (4, 64)}
    found = importance(varied_space(scenario(SEVEN_B), vary), THROUGHPUT)
    assert [item.axis.paths[0] for item in found.axes] == list(reversed(vary))
    assert found.axes[0].share == pytest.approx(1.0)
    assert found.axes[1].share == pytest.approx(0.0, abs=1e-12)
    alike = importance(varied_space(scenario(SEVEN_B), {"plan.max_slices": (1, 2)}), THROUGHPUT)
    assert alike.axes[0].share == 0.0


def test_one_plan_nothing_feasible_and_an_early_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    one = importance(Space(scenario(SEVEN_B), ()), THROUGHPUT)
    assert (one.axes, one.feasible) == ((), 1)
    assert one.optimum == float(evaluate(scenario(SEVEN_B)).objective("throughput"))
    tight = scenario(SEVEN_B, limits__tpot_seconds=1e-4)
    none = importance(varied_space(tight, VARY[SEVEN_B]), THROUGHPUT)
    assert (none.feasible, {item.share for item in none.axes}) == (0, {0.0})
    assert math.isnan(none.optimum)
    monkeypatch.setattr(module, "fitting_blocks", lambda space: fitting_blocks(space, 6))
    space = varied_space(scenario(SEVEN_B), VARY[SEVEN_B])
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    assert importance(space, THROUGHPUT, progress).feasible == certify(space, THROUGHPUT).feasible
    assert seen[-1] == (space.size, space.size)
    assert not importance(space, THROUGHPUT, stopped=lambda: True).complete


def test_ped_anova_finds_the_choice_that_decides() -> None:
    vary = {"plan.min_rows_per_slice": (64, 128), "plan.micro_batch_decode": (1, 4, 16, 64)}
    space = varied_space(scenario(SEVEN_B), vary)
    found = sampled_importance(space, THROUGHPUT, 300, seed=2)
    assert not found.exact
    assert found.axes[0].axis.paths == ("plan.micro_batch_decode",)
    assert found.axes[0].share > 0.9
    assert sum(item.share for item in found.axes) == pytest.approx(1.0)
    assert found.feasible == found.looked_at == 300
    assert found.optimum == certify(space, THROUGHPUT).optimum
    again = sampled_importance(space, THROUGHPUT, 300, seed=2)
    assert again.axes == found.axes


def test_too_few_feasible_trials_give_no_shares_and_bad_settings_are_refused() -> None:
    tight = scenario(SEVEN_B, limits__tpot_seconds=1e-4)
    none = sampled_importance(varied_space(tight, VARY[SEVEN_B]), THROUGHPUT, 50)
    assert (none.feasible, {item.share for item in none.axes}) == (0, {0.0})
    space = varied_space(scenario(SEVEN_B), VARY[SEVEN_B])
    with pytest.raises(InputError, match="trials"):
        sampled_importance(space, THROUGHPUT, 0)
    with pytest.raises(InputError, match="seed"):
        sampled_importance(space, THROUGHPUT, 10, -1)
    assert not sampled_importance(space, THROUGHPUT, 2000, stopped=lambda: True).complete


def test_the_figure_shows_per_cent() -> None:
    figure = importance_figure([Share("TP", 0.625), Share("PP", 0.0)], "share")
    assert list(figure.data[0].x) == [62.5, 0.0]
    assert list(figure.data[0].text) == ["62.5 %", "0 %"]
