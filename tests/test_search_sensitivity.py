"""Sensitivity against single evaluations, a scaling law, and enumerations."""

from __future__ import annotations

import math

import pytest

from explorer.config.scenario import Scenario, knob_at
from explorer.config.stacked import stacked
from explorer.plots.tornado import NOT_FIT, tornado_figure, tornado_rows
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT, Objective
from explorer.search.sensitivity import (
    Effect,
    Outcome,
    followed_sensitivity,
    sensitivity,
)
from explorer.search.sliders import Slider, sliders
from explorer.search.space import Space, varied_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario

SEVEN_B = "mt3000-llama2-7b"
BANDWIDTH = "hardware.ddr_bandwidth_bytes_per_second"
PLANS = {
    "plan.tp_decode": (4, 8),
    "plan.pp_decode": (1, 2),
    "plan.micro_batch_decode": (64, 128),
    "plan.dp_prefill": (1, 2, 3, 4),
}


def single(base: Scenario, path: str, setting: object, objective: Objective) -> float:
    return float(evaluate(base.replacing({path: setting})).objective(objective.name))


@pytest.mark.parametrize("objective", [THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN], ids=lambda o: o.name)
@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_each_outcome_is_that_of_a_single_evaluation(preset: str, objective: Objective) -> None:
    base = scenario(preset)
    found = sensitivity(base, objective)
    assert found.now == float(evaluate(base).objective(objective.name))
    moved = 0
    for effect in found.effects:
        for outcome in (effect.low, effect.high, effect.below, effect.above):
            if outcome is None:
                continue
            moved += 1
            expected = single(base, effect.slider.path, outcome.setting, objective)
            assert outcome.value == pytest.approx(expected, rel=1e-12, nan_ok=True)
            assert math.isnan(outcome.value) == bool(outcome.broken)
    assert moved > 100
    assert {e.slider.path for e in found.effects} == {s.path for s in sliders(base)}


@pytest.mark.parametrize("preset", PRESETS)
def test_where_nothing_steps_rates_less_times_is_one(preset: str) -> None:
    """Doubling every rate and halving every time of a machine doubles its throughput.

    So elasticities of rates less those of times add up to one (Euler), where no step is near.
    """
    base = scenario(preset)
    chip = base.chip_document().quantities
    total = 0.0
    for effect in sensitivity(base, THROUGHPUT).effects:
        name = effect.slider.path.partition(".")[2]
        if not effect.slider.path.startswith("hardware.") or math.isnan(effect.elasticity):
            continue
        unit = chip[name].unit
        total += effect.elasticity * {"B/s": 1, "MAC/s": 1, "s": -1}.get(unit, 0)
    assert total == pytest.approx(1.0, abs=2e-3)


def test_typed_times_alone_decide() -> None:
    typed = {"measured__prefill_seconds": 1.0, "measured__decode_seconds": 9.0}
    found = sensitivity(scenario(SEVEN_B, **typed), THROUGHPUT)
    moving = {effect.slider.path for effect in found.moving}
    assert moving <= {
        "workload.clusters_total",
        "workload.output_tokens",
        "workload.max_context_tokens",
        "workload.prompt_tokens",
        "hardware.memory_bytes",
        "hardware.usable_memory_fraction",
        "hardware.overhead_bytes",
        "precision.kv",
        "precision.weights",
    }
    assert "workload.clusters_total" in moving


def test_values_a_slider_is_moved_to() -> None:
    moved = {s.path: s for s in sliders(scenario(MT3000))}
    bandwidth = moved[BANDWIDTH]
    assert (bandwidth.low, bandwidth.high) == (15e9, 60e9)
    assert (bandwidth.below, bandwidth.above) == (30e9 / 1.01, 30e9 * 1.01)
    assert not bandwidth.stated
    dsps = moved["hardware.dsps_per_cluster"]
    assert (dsps.low, dsps.high, dsps.below, dsps.above) == (12, 48, 23, 25)
    usable = moved["hardware.usable_memory_fraction"]
    assert (usable.low, usable.high, usable.above) == (0.5, None, None)
    create = moved["hardware.hthreads_create_seconds"]
    assert (create.low, create.high, create.stated, create.kind) == (1e-5, 1e-3, True, "assumed")
    formats = {path: (s.low, s.high) for path, s in moved.items() if path.startswith("precision.")}
    assert formats == {
        "precision.compute": (None, "fp32"),
        "precision.weights": ("int8", "fp32"),
        "precision.kv": ("int8", "fp32"),
    }
    assert not any(path.startswith("plan.") for path in moved)
    assert "limits.ttft_seconds" not in moved


def test_a_constant_that_a_person_set_is_halved_and_doubled() -> None:
    base = scenario(MT3000, hardware__hthreads_create_seconds=2e-4, limits__ttft_seconds=50.0)
    moved = {s.path: s for s in sliders(base)}
    create = moved["hardware.hthreads_create_seconds"]
    assert (create.low, create.high, create.stated, create.kind) == (1e-4, 4e-4, False, "override")
    assert moved["limits.ttft_seconds"].high == 100.0


@pytest.mark.parametrize("preset", PRESETS)
def test_every_value_lies_in_its_knobs_range(preset: str) -> None:
    for s in sliders(scenario(preset)):
        knob = knob_at(scenario(preset), s.path)
        for value in s.values.values():
            assert value != s.now
            assert isinstance(value, str) or knob.problem(value) is None


def effect_of(**values: float) -> Effect:
    slider = Slider("p", "P", "s", "", 10.0, 5.0, 20.0, 10 / 1.01, 10.1)
    outcomes = {name: Outcome(getattr(slider, name), value) for name, value in values.items()}
    return Effect(slider, 100.0, **outcomes)


def test_slopes_of_known_curves() -> None:
    square = effect_of(low=25.0, high=400.0, below=100 / 1.01**2, above=100 * 1.01**2)
    for slope in (square.elasticity, square.elasticity_down, square.elasticity_up):
        assert slope == pytest.approx(2.0)
    assert square.span == pytest.approx(math.log(4))
    assert square.change(square.high) == pytest.approx(3.0)
    assert not square.stairs
    kink = effect_of(low=50.0, high=100.0, below=100 / 1.01, above=100.0)
    assert (kink.elasticity_down, kink.elasticity_up) == (pytest.approx(1.0), 0.0)
    assert kink.elasticity == pytest.approx(0.5)
    assert kink.stairs
    stair = effect_of(low=50.0, high=100.0, below=100.0, above=100.0)
    assert stair.elasticity == 0
    assert stair.stairs
    edge = effect_of(low=math.nan, high=100.0, below=math.nan, above=100.0)
    assert edge.unfit
    assert math.isnan(edge.elasticity)
    assert not edge.stairs
    assert effect_of().span == 0


def test_stacked_scenarios_are_the_single_ones() -> None:
    base = scenario(SEVEN_B)
    changes = [{BANDWIDTH: 60e9}, {"workload.clusters_total": 144}, {BANDWIDTH: 15e9}, {}]
    found = evaluate(stacked(base, changes)).objective("throughput")
    assert found.tolist() == pytest.approx(
        [float(evaluate(base.replacing(change)).objective("throughput")) for change in changes],
        rel=1e-13,
    )


@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_the_plan_that_follows_is_the_certified_one_at_each_value(preset: str) -> None:
    vary = PLANS if preset == SEVEN_B else {"plan.tp_decode": (2, 4), "plan.slices": (1, 2, 4)}
    space = varied_space(scenario(preset), vary)
    chosen = [s for s in sliders(space.base) if "memory" in s.path or "bandwidth" in s.path]
    found = followed_sensitivity(space, THROUGHPUT, chosen)
    assert found.follows
    assert found.now == certify(space, THROUGHPUT).optimum
    assert found.complete
    for effect in found.effects:
        for outcome in (effect.low, effect.high, effect.below, effect.above):
            if outcome is None:
                continue
            there = space.base.replacing({effect.slider.path: outcome.setting})
            proved = certify(Space(there, space.axes), THROUGHPUT)
            assert outcome.plan == proved.plan
            assert outcome.value == proved.optimum or math.isnan(outcome.value)


def test_following_never_does_worse_than_staying() -> None:
    base = scenario(SEVEN_B, plan__tp_decode=8, plan__pp_decode=1, plan__dp_prefill=3)
    space = varied_space(base, {**PLANS, "plan.micro_batch_decode": (64, 128)})
    stays, follows = sensitivity(base, THROUGHPUT), followed_sensitivity(space, THROUGHPUT)
    for effect in stays.effects:
        there = follows.effect(effect.slider.path)
        for name in ("low", "high"):
            stay, follow = getattr(effect, name), getattr(there, name)
            if stay is not None and not math.isnan(stay.value):
                assert follow.value >= stay.value * (1 - 1e-12)


def test_a_space_of_one_plan_follows_as_it_stays() -> None:
    base = scenario(SEVEN_B)
    stays, follows = (
        sensitivity(base, THROUGHPUT),
        followed_sensitivity(Space(base, ()), THROUGHPUT),
    )
    assert follows.now == stays.now
    for effect in stays.effects:
        there = follows.effect(effect.slider.path)
        assert (there.elasticity, there.span) == pytest.approx(
            (effect.elasticity, effect.span), rel=1e-9, abs=1e-12, nan_ok=True
        )


def test_a_plan_that_does_not_fit_has_no_answer_but_says_what_would_fit() -> None:
    base = scenario(MT3000, plan__pp_prefill=1)
    found = sensitivity(base, THROUGHPUT)
    assert math.isnan(found.now)
    memory = found.effect("hardware.memory_bytes")
    assert memory.low.broken
    assert memory.high.broken == ()
    assert memory.high.value > 0
    assert memory.span == 0
    assert math.isnan(memory.change(memory.high))


def test_stopping_leaves_out_what_was_not_reached() -> None:
    space = varied_space(scenario(SEVEN_B), PLANS)
    seen: list[int] = []

    def progress(done: int, _total: int) -> None:
        seen.append(done)

    found = followed_sensitivity(
        space, THROUGHPUT, progress=progress, stopped=lambda: len(seen) == 5
    )
    assert not found.complete
    assert seen == [1, 2, 3, 4, 5]
    assert 0 < len([e for e in found.effects if e.slider.values]) <= 5


def test_the_tornado_shows_the_largest_first_and_says_what_does_not_fit() -> None:
    base = scenario(MT3000)
    rows = tornado_rows(sensitivity(base, THROUGHPUT), None)
    assert len(rows) == 12
    context = next(row for row in rows if row.label.startswith("Maximum context"))
    assert (context.low[0].change, context.low[0].text) == (0.0, NOT_FIT)
    assert "context" in context.low[0].sentence
    assert context.low[1] is None
    bandwidth = next(row for row in rows if row.label.startswith("Memory bandwidth"))
    expected = single(base, BANDWIDTH, 60e9, THROUGHPUT) / single(base, BANDWIDTH, 30e9, THROUGHPUT)
    assert bandwidth.high[0].change == pytest.approx(expected - 1)
    assert bandwidth.label.endswith("<br>15.0 GB/s or 60.0 GB/s")
    assert len(tornado_figure(rows).data) == 2
    follows = followed_sensitivity(
        varied_space(base, {"plan.dp_prefill": (1, 2, 3, 4)}), THROUGHPUT
    )
    assert len(tornado_figure(tornado_rows(sensitivity(base, THROUGHPUT), follows)).data) == 4
    assert len(tornado_figure(tornado_rows(None, follows)).data) == 2
