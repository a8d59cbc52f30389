"""What assumed constants leave open, against loops over single evaluations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from explorer.config.links import preset_scenario
from explorer.config.scenario import Scenario, parse_scenario
from explorer.plots.robustness import TOGETHER, interval_figure, spans
from explorer.search.best_plan import best_plan
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.regret import regret
from explorer.search.robustness import (
    AssumedConstant,
    assumed_constants,
    corner_points,
    interval,
    sample_points,
)
from explorer.search.sensitivity import sensitivity
from explorer.search.space import Space, varied_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario

SEVEN_B = "mt3000-llama2-7b"
PLANS = {
    "plan.tp_decode": (1, 4, 8),
    "plan.pp_decode": (1, 5),
    "plan.micro_batch_decode": (64, 128),
    "plan.dp_prefill": (1, 2, 3, 4),
}


def with_chip(base: Scenario, **quantities: dict[str, object]) -> Scenario:
    """Return the scenario with a chip document of its own, some quantities changed."""
    document = base.to_json()
    document["chip"] = base.chip_document().model_dump(mode="json", by_alias=True)
    for name, changes in quantities.items():
        document["chip"]["quantities"][name] |= changes
    return parse_scenario(document)


def at_corners(base: Scenario) -> list[float]:
    """Loop over the corners with single evaluations; NaN where the plan does not fit."""
    varied = [c for c in assumed_constants(base) if not c.held]
    found = []
    for ends in itertools.product(*((c.low, c.high) for c in varied)):
        changes = {
            c.path: int(end) if isinstance(base.value(c.path), int) else end
            for c, end in zip(varied, ends, strict=True)
        }
        found.append(float(evaluate(base.replacing(changes)).objective("throughput")))
    return found


@pytest.mark.parametrize("preset", PRESETS)
def test_ranges_are_the_stated_ones_and_hold_the_value(preset: str) -> None:
    base = scenario(preset)
    chip = base.chip_document()
    found = assumed_constants(base)
    assert {c.path for c in found} == {
        f"hardware.{name}" for name, q in chip.quantities.items() if q.kind == "assumed"
    }
    for constant in found:
        stated = chip.quantities[constant.path.partition(".")[2]].stated_range
        if constant.held:
            assert stated is None
            assert constant.low == constant.high == constant.now
        else:
            assert (constant.low, constant.high) == stated
            assert constant.low < constant.now < constant.high


def test_ranges_are_those_that_the_sources_write() -> None:
    ranges = {c.path: (c.low, c.high) for c in assumed_constants(scenario(MT3000)) if not c.held}
    assert ranges == {
        "hardware.overhead_bytes": (0.2e9, 4e9),
        "hardware.hthreads_create_seconds": (10e-6, 1000e-6),
        "hardware.hthreads_launch_seconds": (2e-6, 200e-6),
        "hardware.mpi_latency_seconds": (1e-6, 100e-6),
        "hardware.mpi_bandwidth_bytes_per_second": (1e9, 25e9),
        "hardware.attention_score_memory_bytes": (6 * 2**20 / 24, 6 * 2**20 / 24 + 768 * 2**10),
    }


@pytest.mark.parametrize("preset", [MT3000, ASCEND, "mt3000-llama-30b"])
def test_the_interval_is_that_of_the_corners_where_it_is_monotone(preset: str) -> None:
    base = scenario(preset)
    found = interval(base)
    corners = at_corners(base)
    assert found.corners == len(corners) == 2 ** len(found.varied)
    assert found.monotone
    assert found.low == pytest.approx(np.nanmin(corners), rel=1e-12)
    assert found.high == pytest.approx(np.nanmax(corners), rel=1e-12)
    assert found.now == float(evaluate(base).objective("throughput"))
    assert found.low <= found.now <= found.high
    assert bool(found.unfit) == any(map(math.isnan, corners))
    assert bool(found.unfit_because) == bool(found.unfit)


def test_no_random_point_lies_outside_a_monotone_interval() -> None:
    base = scenario(MT3000)
    found = interval(base)
    generator = np.random.default_rng(5)
    for _ in range(40):
        changes = {c.path: generator.uniform(c.low, c.high) for c in found.varied}
        path = "hardware.attention_score_memory_bytes"
        changes[path] = int(changes[path])
        value = float(evaluate(base.replacing(changes)).objective("throughput"))
        assert found.low * (1 - 1e-12) <= value <= found.high * (1 + 1e-12)


def test_wider_ranges_never_narrow_the_interval_and_none_leaves_a_point() -> None:
    base = scenario(SEVEN_B)
    wide = with_chip(base, mpi_bandwidth_bytes_per_second={"stated_range": [5e8, 5e10]})
    narrow, wider = interval(base), interval(wide)
    assert wider.low < narrow.low
    assert wider.high > narrow.high
    names = [c.path.partition(".")[2] for c in narrow.varied]
    none = interval(with_chip(base, **{name: {"stated_range": None} for name in names}))
    assert none.varied == ()
    assert none.low == none.high == none.now == narrow.now
    assert {c.held for c in none.constants} == {"no range is stated"}


def test_what_a_person_set_is_held() -> None:
    base = scenario(MT3000, hardware__mpi_latency_seconds=3e-5)
    held = {c.path: c.held for c in assumed_constants(base)}
    assert held["hardware.mpi_latency_seconds"] == "set by you"
    outside = with_chip(
        scenario(MT3000), mpi_latency_seconds={"value": 5e-3, "stated_range": [1e-6, 1e-4]}
    )
    held = {c.path: c.held for c in assumed_constants(outside)}
    assert held["hardware.mpi_latency_seconds"] == "outside its stated range"


def test_a_plan_that_fits_nowhere_has_no_interval() -> None:
    found = interval(scenario(MT3000, plan__pp_prefill=1))
    assert math.isnan(found.low)
    assert math.isnan(found.now)
    assert found.unfit == found.points
    assert found.unfit_because == ("prefill_memory",)
    assert not found.monotone


def constants(count: int) -> list[AssumedConstant]:
    return [AssumedConstant(f"p{i}", "P", "s", 2.0, 1.0, 4.0, bool(i % 2)) for i in range(count)]


def test_points_of_the_box() -> None:
    corners = corner_points(constants(3))
    assert {tuple(corner) for corner in corners} == set(itertools.product((1.0, 4.0), repeat=3))
    assert corner_points([]).shape == (1, 0)
    assert corner_points(constants(9)).shape == (0, 9)
    points = sample_points(constants(4), 64)
    assert points.shape == (64, 4)
    assert (points >= 1).all()
    assert (points <= 4).all()
    assert np.array_equal(points, sample_points(constants(4), 64))
    # A balanced sequence puts half of its points on either side of the middle of each scale.
    assert [(column < 2.5).sum() for column in points.T[::2]] == [32, 32]
    assert [(column < 2.0).sum() for column in points.T[1::2]] == [32, 32]


def test_the_figure_begins_with_all_together_and_holds_each_alone() -> None:
    base = scenario(MT3000)
    found = interval(base)
    rows = spans(found, sensitivity(base, THROUGHPUT))
    assert rows[0] == (TOGETHER, found.low, found.high, found.now)
    assert len(rows) == 1 + len(found.varied)
    for row in rows[1:]:
        assert found.low * (1 - 1e-9) <= row.low <= row.now <= row.high <= found.high * (1 + 1e-9)
    bars = interval_figure(rows, "throughput", "tokens/s").data[0]
    assert list(bars.base) == [row.low for row in rows]


# Regret ---------------------------------------------------------------------------------------


def small_space(preset: str = MT3000) -> Space:
    """A space of few plans, on a chip of which two constants are assumed with a range."""
    base = preset_scenario(preset)
    names = [c.path.partition(".")[2] for c in assumed_constants(base) if not c.held]
    kept = ("mpi_bandwidth_bytes_per_second", "overhead_bytes")
    without = {name: {"stated_range": None} for name in names if name not in kept}
    return varied_space(with_chip(base, **without), PLANS)


def test_regret_is_the_loss_to_the_certified_plan_at_each_point() -> None:
    space = small_space()
    chosen = space.base.replacing({"plan.tp_decode": 8, "plan.dp_prefill": 3})
    found = regret(chosen, space, THROUGHPUT)
    varied = [c for c in assumed_constants(chosen) if not c.held]
    losses = []
    for point in np.concatenate([corner_points(varied), sample_points(varied, 32)]):
        changes = {c.path: float(value) for c, value in zip(varied, point, strict=True)}
        there = chosen.replacing(changes)
        proved = certify(Space(there, space.axes), THROUGHPUT)
        own = float(evaluate(there).objective("throughput"))
        losses.append(1 - own / proved.optimum)
    assert found.points == len(losses) == 36
    assert found.chosen.worst == pytest.approx(max(losses), abs=1e-12)
    assert found.chosen.mean == pytest.approx(sum(losses) / len(losses), abs=1e-12)
    assert found.chosen.best_at == sum(loss < 1e-9 for loss in losses)
    assert sum(rival.best_at for rival in found.rivals) == 36
    assert found.complete
    worst = chosen.replacing(found.worst_at)
    optimum = certify(Space(worst, space.axes), THROUGHPUT).optimum
    assert 1 - float(evaluate(worst).objective("throughput")) / optimum == pytest.approx(
        found.chosen.worst, abs=1e-12
    )


@pytest.mark.parametrize("objective", [THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN], ids=lambda o: o.name)
def test_the_safest_plan_is_never_worse_than_the_chosen_one(objective) -> None:
    space = small_space()
    best = best_plan(space, objective).scenario
    found = regret(best, space, objective)
    assert 0 <= found.safest.mean <= found.safest.worst <= found.chosen.worst
    assert found.safest.unfit <= found.chosen.unfit
    assert found.chosen.best_at > 0


def test_the_only_plan_is_never_regretted() -> None:
    space = small_space()
    found = regret(space.base, Space(space.base, ()), THROUGHPUT)
    assert (found.chosen.worst, found.chosen.mean, found.chosen.unfit) == (0, 0, 0)
    assert found.chosen.best_at == found.points
    assert found.chosen.values == ()


def test_a_plan_that_never_fits_has_no_regret_but_is_counted() -> None:
    space = small_space()
    heavy = space.base.replacing({"plan.pp_prefill": 1})
    found = regret(heavy, space, THROUGHPUT)
    assert math.isnan(found.chosen.worst)
    assert found.chosen.unfit == found.points
    assert found.worst_at is None
    assert found.safest.worst >= 0
    nothing = varied_space(heavy.replacing({"limits.tpot_seconds": 1e-4}), PLANS)
    none = regret(nothing.base, nothing, THROUGHPUT)
    assert (none.points, none.rivals) == (0, ())
    assert math.isnan(none.chosen.worst)


def test_stopping_judges_what_was_reached() -> None:
    space = small_space()
    seen: list[int] = []

    def progress(done: int, _total: int) -> None:
        seen.append(done)

    found = regret(space.base, space, THROUGHPUT, progress, lambda: len(seen) == 4)
    assert (found.points, found.complete, seen) == (4, False, [1, 2, 3, 4])
