"""The target solver against closed forms, brute force and its own evaluations."""

import math

import numpy as np
import pytest

from explorer.config.errors import InputError
from explorer.config.scenario import knob_at
from explorer.fidelity.measurements import shipped_measurements
from explorer.serving.evaluate import evaluate
from explorer.serving.levers import (
    changes_of,
    factor,
    lever_limits,
    lever_paths,
    overlapping,
)
from explorer.serving.targets import PHASES, needed_terms, rate_of, solve
from tests.scenarios import ASCEND, PRESETS, scenario

SERIAL = {"workload__prompt_tokens": 4433, "plan__slices": 1}


def solved(preset, phase, share, pairs=False):
    s = scenario(preset)
    return s, solve(s, phase, share * float(rate_of(s, phase)), pairs)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("phase", PHASES)
def test_every_answer_reaches_the_target_and_no_more(preset, phase):
    s, solution = solved(preset, phase, 1.4)
    assert solution.levers
    for lever in solution.levers:
        knob = knob_at(s, lever.path)
        value = lever.best if lever.needed is None else lever.needed
        changes = changes_of(s, lever.path, value)
        reached = float(rate_of(s.replacing(changes), phase))
        if lever.needed is None:
            assert reached == pytest.approx(lever.best_rate)
            assert solution.rate < reached < solution.target
        elif knob is not None and knob.whole:
            assert reached >= solution.target
        else:
            assert reached == pytest.approx(solution.target, rel=1e-9)


def bounds(s, path):
    """Return the lever's range, cut to what its machine can be."""
    knob, now = knob_at(s, path), s.value(path)
    low, high = knob.minimum, knob.maximum
    for limit in evaluate(s).machine.limits():
        if path == f"hardware.{limit.name}":
            low = low if limit.most else max(low, min(float(limit.value), now))
            high = min(high, max(float(limit.value), now)) if limit.most else high
    return low, high


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("phase", PHASES)
def test_what_cannot_alone_reaches_it_nowhere_in_its_range(preset, phase):
    s, solution = solved(preset, phase, 1.4)
    for lever in solution.not_alone:
        knob = knob_at(s, lever.path)
        if knob is None or lever.path.startswith("plan."):
            continue
        low, high = bounds(s, lever.path)
        values = np.linspace(low, high, 301) if low == 0 else np.geomspace(low, high, 301)
        values = values.clip(low, high)
        if knob.whole:
            values = np.unique(values.round().astype(np.int64))
        rates = np.broadcast_to(rate_of(s.replacing({lever.path: values}), phase), values.shape)
        assert np.nanmax(rates) < solution.target
        assert np.nanmax(rates) <= lever.best_rate * (1 + 1e-9) or knob.whole


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("phase", PHASES)
def test_no_lever_is_moved_beyond_what_its_machine_can_be(preset, phase):
    s, solution = solved(preset, phase, 1.4)
    for lever in solution.levers:
        if lever.path.startswith("plan.") or knob_at(s, lever.path) is None:
            continue
        low, high = bounds(s, lever.path)
        for value in (lever.best, lever.needed):
            assert value is None or low * (1 - 1e-12) <= value <= high * (1 + 1e-12)
        at_an_end = lever.best in (low, high)
        assert not lever.limit or at_an_end


def test_weights_stream_no_faster_than_memory_is_read():
    s = scenario(ASCEND)
    solution = solve(s, "decode", 13.5, pairs=False)
    path = "hardware.weight_stream_bytes_per_second"
    lever = next(item for item in solution.levers if item.path == path)
    # 13.5 tokens/s would need 1.7 times what the memory delivers, 1148 GB/s.
    assert lever.needed is None
    assert (lever.best, lever.limit) == (1148e9, "HBM bandwidth")
    stage = evaluate(s).decode_stage
    streamed = sum(
        float(t.seconds) for t in stage.terms if t.name in ("weight_streaming", "output_head")
    )
    at_best = float(stage.seconds) - streamed * (1 - 300 / 1148)
    assert lever.best_rate == pytest.approx(1 / at_best, rel=1e-9)
    faster = s.replacing({"hardware.hbm_bandwidth_bytes_per_second": 4e12})
    lever = next(i for i in solve(faster, "decode", 13.5, False).levers if i.path == path)
    assert 1.5 * 1148e9 < lever.needed < 2e12


def test_a_number_that_is_beyond_its_limit_already_may_stay_there():
    s = scenario(ASCEND, hardware__weight_stream_bytes_per_second=2e12)
    solution = solve(s, "decode", 30.0, pairs=False)
    assert "hardware.weight_stream_bytes_per_second" not in [i.path for i in solution.levers]


def test_the_number_of_collectives_is_a_lever():
    s = scenario(ASCEND)
    path = "hardware.all_reduces_per_layer"
    prefill = next(i for i in solve(s, "prefill", 2000.0, False).levers if i.path == path)
    assert (prefill.now, prefill.needed, prefill.best) == (2, None, 0)
    stage = evaluate(s.replacing({path: 0})).prefill_stage
    assert prefill.best_rate == pytest.approx(4096 / float(stage.seconds))
    decode = next(i for i in solve(s, "decode", 10.0, False).levers if i.path == path)
    assert decode.needed == 1
    assert decode.times == 2.0


def test_a_group_keeps_the_limits_of_its_numbers():
    s = scenario(ASCEND)
    found = lever_limits(s)
    (outside,) = found["hardware.outside_*"]
    head = 62080 * 5120 * 2 / 1148e9
    assert float(outside.value) == pytest.approx(head / 0.0248758)
    (attention,) = found["hardware.full_*"]
    assert 0 < float(attention.value) < 1


def test_the_recurrence_for_2000_tokens_a_second_is_the_closed_form():
    s = scenario(ASCEND, **SERIAL)
    solution = solve(s, "prefill", 2000.0)
    assert solution.wall_seconds == 2.2165
    stage = evaluate(s).prefill_stage
    term = next(t for t in stage.terms if t.name == "gated_delta")
    needed = float(term.seconds) - (float(stage.seconds) - 2.2165)
    lever = solution.levers[0]
    assert lever.label.startswith("Recurrence")
    assert lever.times == pytest.approx(float(term.seconds) / needed, rel=1e-6)
    assert all(item.label.startswith("Recurrence") for item in solution.alone)


def test_the_measured_table_asks_for_a_recurrence_of_0469_seconds():
    rows = [row for row in shipped_measurements() if row.quantity == "phase_time"]
    table = {r.conditions["phase"]: r.value for r in rows if r.conditions["rows"] == "4433"}
    wall = table.pop("wall")
    table.pop("stack")
    needed = needed_terms(table, wall, 4433 / 2000)
    assert needed["gated_delta"] == pytest.approx(0.469, abs=5e-4)
    assert table["gated_delta"] / needed["gated_delta"] == pytest.approx(4.69, abs=0.01)
    assert [name for name, value in needed.items() if value is not None] == ["gated_delta"]


@pytest.mark.parametrize(("share", "phase"), [(2.6, "prefill"), (2.0, "decode")])
def test_the_cheapest_pairs_are_those_of_brute_force(share, phase):
    s, solution = solved(ASCEND, phase, share, pairs=True)
    assert solution.pairs
    costs = [pair.cost for pair in solution.pairs]
    assert costs == sorted(costs)
    for pair in solution.pairs:
        values = {}
        for lever, value in ((pair.first, pair.first_value), (pair.second, pair.second_value)):
            values |= changes_of(s, lever.path, value)
        assert float(rate_of(s.replacing(values), phase)) >= solution.target * (1 - 1e-9)
        assert pair.cost < min(pair.first.times or math.inf, pair.second.times or math.inf)
        whole = any((knob := knob_at(s, path)) is not None and knob.whole for path in values)
        if whole or len(values) > 2:
            continue
        grids = [
            np.geomspace(float(lever.now), _far(lever), 300) for lever in (pair.first, pair.second)
        ]
        first, second = grids[0][:, None], grids[1][None, :]
        rates = rate_of(s.replacing(dict(zip(values, (first, second), strict=True))), phase)
        cost = np.exp(np.abs(np.log(first / first[0])) + np.abs(np.log(second / second[0, 0])))
        brute = np.where(rates >= solution.target, cost, np.inf).min()
        assert brute * 0.95 < pair.cost <= brute * (1 + 1e-6)


def _far(lever):
    end = lever.best if lever.needed is None else lever.needed
    now = float(lever.now)
    return min(max(end, now * 1e-3), now * 1e3)


def test_a_rate_that_is_already_reached_needs_nothing():
    _, solution = solved(ASCEND, "prefill", 1.0)
    assert solution.reached
    assert solution.levers == solution.pairs == ()


def test_a_plan_that_does_not_fit_has_no_rate():
    s = scenario("mt3000-llama2-70b", plan__pp_prefill=1)
    solution = solve(s, "prefill", 10.0)
    assert math.isnan(solution.rate)
    assert not solution.reached
    assert solution.levers == ()


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_a_target_that_is_no_rate_is_refused(target):
    with pytest.raises(InputError, match="a rate above 0"):
        solve(scenario(ASCEND), "prefill", target)


def test_notes_of_measurement_are_no_levers_and_shared_pools_move_together():
    paths = lever_paths(scenario(ASCEND))
    assert "hardware.measured_tp" not in paths
    assert "plan.tp_decode" in paths
    assert "plan.tp_prefill" not in paths
    assert "plan.tp_prefill" in lever_paths(scenario())


def test_a_factor_is_at_least_one_either_way():
    assert factor(2.0, 8.0) == factor(8.0, 2.0) == 4.0
    assert factor(2.0, 0.0) == math.inf
    assert factor("rule", 3.0) is None


def test_times_of_one_mechanism_move_together_unless_the_chip_has_a_factor_of_its_own():
    s = scenario()
    assert "hardware.hthreads_*" in lever_paths(s)
    changes = changes_of(s, "hardware.hthreads_*", 0.5)
    assert len(changes) == 2
    assert all(value == pytest.approx(float(s.value(path)) / 2) for path, value in changes.items())
    ascend = lever_paths(scenario(ASCEND))
    assert "hardware.host_*" in ascend
    assert "hardware.recurrence_time_factor" in ascend
    assert "hardware.recurrence_*" not in ascend
    assert overlapping("hardware.recurrence_time_factor", "hardware.recurrence_rest_x")
    assert not overlapping("hardware.host_*", "hardware.recurrence_time_factor")
