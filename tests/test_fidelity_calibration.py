"""Calibration: constants come back, intervals hold what they say, and nothing is fitted to much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from explorer.config.chip import Chip
from explorer.config.errors import InputError
from explorer.config.presets import load_chip
from explorer.fidelity.calibration import MOST_ROWS, Calibration, calibrate
from explorer.fidelity.intervals import CONFIDENCE, MOST_FOLDS, intervals
from explorer.fidelity.measurements import Measurement, shipped_measurements
from explorer.fidelity.predict import predict
from explorer.fidelity.scenarios import OnChip
from explorer.fidelity.selection import fittable
from explorer.fidelity.solution import Problem, chip_model

ROWS = shipped_measurements()
MT3000, ASCEND = load_chip("mt3000"), load_chip("ascend910a")
KERNELS = [r for r in ROWS if r.quantity in ("gemm_latency", "attention_latency")]
PASSES = [
    r
    for r in ROWS
    if r.quantity in ("prefill_throughput", "ablation_gated_delta", "decode_throughput")
]
OF_KERNELS = {
    "gemm_mixed_stream_efficiency": 0.7,
    "attention_round_seconds": 6e-5,
    "attention_score_seconds": 3.5e-11,
}
OF_PASSES = {
    "recurrence_broadcast_rows_seconds_per_row_layer": 4.4e-6,
    "recurrence_rank1_update_seconds_per_row_layer": 2.2e-6,
    "recurrence_rest_seconds_per_row_layer": 4.5e-6,
    "host_issue_seconds_per_layer": 7.5e-3,
    "host_issue_seconds_per_collective": 1.2e-3,
    "device_fixed_seconds_per_layer": 6e-4,
    "decode_fixed_seconds_per_layer": 3e-4,
}
OF_REDUCES = {"synced_collective_fixed_seconds": 2.3e-3, "link_bandwidth_bytes_per_second": 1.7e10}
FACTOR = "recurrence_time_factor"


def made(
    chip: Chip, rows: Sequence[Measurement], truth: Mapping[str, float], noise=0.0, seed=0
) -> list[Measurement]:
    """Return the rows as a chip with other constants would give them, and some scatter."""
    values = chip_model(chip)(rows, {name: np.asarray([value]) for name, value in truth.items()})
    scatter = np.exp(noise * np.random.default_rng(seed).standard_normal(len(rows)))
    return [
        replace(row, value=float(value) / row.unit_size)
        for row, value in zip(rows, np.ravel(values) * scatter, strict=True)
    ]


def reduces(count: int = 12) -> list[Measurement]:
    sizes = np.geomspace(2e6, 8e7, count).astype(int)
    base = next(r for r in ROWS if r.id == "asc-ar-engine-1105")
    return [
        replace(base, id=f"r{size}", conditions={**base.conditions, "bytes": str(size)})
        for size in sizes
    ]


def recurrences(values: Sequence[float]) -> list[Measurement]:
    """Return recurrence times of one pass: each is FACTOR times the preset's prediction."""
    base = next(r for r in ROWS if r.id == "asc-phase-gated_delta-1105")
    one = predict(base).prediction
    assert one is not None
    return [replace(base, id=f"g{i}", value=v * one.value) for i, v in enumerate(values)]


def by_name(calibration: Calibration) -> dict[str, float]:
    return {constant.name: constant.value for constant in calibration.constants}


@pytest.mark.parametrize(
    ("chip", "rows", "truth"),
    [(MT3000, KERNELS, OF_KERNELS), (ASCEND, PASSES, OF_PASSES)],
    ids=["mt3000", "ascend910a"],
)
def test_without_noise_every_planted_constant_comes_back(chip, rows, truth) -> None:
    found = calibrate(made(chip, rows, truth), chip)
    assert by_name(found) == pytest.approx(truth, rel=1e-6)
    assert found.mean_error("after") < 1e-6 < found.mean_error("before")
    assert found.mean_error("left_out") < 1e-6
    assert not found.odd
    assert all(constant.moved for constant in found.constants)


@pytest.mark.parametrize(
    ("chip", "rows", "truth", "seeds"),
    [
        (MT3000, [r for r in KERNELS if r.quantity == "attention_latency"], OF_KERNELS, 80),
        (ASCEND, reduces(), OF_REDUCES, 80),
    ],
    ids=["mt3000", "ascend910a"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(chip, rows, truth, seeds) -> None:
    names = [name for name in truth if "gemm" not in name]
    held = total = 0
    for seed in range(seeds):
        problem = Problem(chip, tuple(made(chip, rows, truth, noise=0.02, seed=seed)))
        for name, interval in intervals(problem.solved(names), None).by_name.items():
            assert interval.low is not None
            assert interval.high is not None
            total += 1
            held += interval.low <= truth[name] <= interval.high
    # Four standard errors of a binomial share: the seeds are fixed, the test is not a lottery.
    assert held / total == pytest.approx(CONFIDENCE, abs=4 * np.sqrt(0.95 * 0.05 / total))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize(
    ("chip", "rows", "truth"),
    [(MT3000, KERNELS, OF_KERNELS), (ASCEND, PASSES, OF_PASSES)],
    ids=["mt3000", "ascend910a"],
)
def test_with_noise_the_chosen_constants_stay_near_the_truth(chip, rows, truth, seed) -> None:
    found = calibrate(made(chip, rows, truth, noise=0.004, seed=seed), chip)
    assert set(by_name(found)) == set(truth)
    for constant in found.constants:
        i = constant.interval
        assert i.low is not None
        assert i.high is not None
        # Twice the interval: all constants of four data sets at once.
        assert abs(constant.value - truth[constant.name]) <= i.high - i.low
    assert found.mean_error("after") < found.mean_error("left_out") < found.mean_error("before")
    assert found.mean_error("left_out") < 0.008


def test_one_factor_has_a_closed_form() -> None:
    """Fitted value, interval, left-out rows and jackknife of a constant that scales its rows."""
    logs = np.log([1.21, 1.25, 1.19, 1.23, 1.28])
    found = calibrate(recurrences(np.exp(logs).tolist()), ASCEND)
    assert list(by_name(found)) == [FACTOR]
    mean, count = logs.mean(), len(logs)
    (constant,) = found.constants
    assert constant.value == pytest.approx(np.exp(mean), rel=1e-9)
    reach = student.ppf(0.975, count - 1) * logs.std(ddof=1) / np.sqrt(count) * np.exp(mean)
    interval = constant.interval
    assert (interval.low, interval.high) == pytest.approx(
        (np.exp(mean) - reach, np.exp(mean) + reach), rel=1e-6
    )
    without = np.asarray([np.delete(logs, i).mean() for i in range(count)])
    errors = [row.error(row.left_out) for row in found.rows]
    assert errors == pytest.approx(list(np.exp(without - logs) - 1), abs=1e-6)
    spread = np.sqrt((count - 1) / count * ((np.exp(without) - np.exp(without).mean()) ** 2).sum())
    jackknife = student.ppf(0.975, count - 1) * spread
    assert interval.jackknife_high == pytest.approx(np.exp(mean) + jackknife, rel=1e-6)
    assert constant.rows == tuple(f"g{i}" for i in range(count))
    assert found.folds == count


def test_a_row_left_out_has_no_say_and_the_refits_are_those_of_brute_force() -> None:
    rows = made(MT3000, KERNELS, OF_KERNELS, noise=0.02, seed=5)
    found = calibrate(rows, MT3000, list(OF_KERNELS))
    for index in (3, 20, 40):
        others = tuple(row for i, row in enumerate(rows) if i != index)
        refit = Problem(MT3000, others).solved(list(OF_KERNELS))
        values = {name: np.asarray(v) for name, v in refit.errors.values(refit.factors).items()}
        expected = predict(rows[index], OnChip(MT3000, values)).prediction
        assert expected is not None
        assert found.rows[index].left_out == pytest.approx(expected.value, rel=1e-5)
    victim = replace(rows[3], value=40 * rows[3].value)
    after = calibrate([*rows[:3], victim, *rows[4:]], MT3000, list(OF_KERNELS))
    assert after.rows[3].left_out == pytest.approx(found.rows[3].left_out, rel=1e-5)
    assert victim.id in after.odd


def test_a_constant_stops_at_its_bound_and_says_so() -> None:
    found = calibrate(made(MT3000, KERNELS, {"gemm_mixed_stream_efficiency": 1.6}), MT3000)
    constant = next(c for c in found.constants if c.name == "gemm_mixed_stream_efficiency")
    assert constant.value == MT3000.quantities[constant.name].maximum
    assert constant.interval.at == "maximum"
    assert constant.interval.low is None


def test_a_constant_that_is_zero_can_be_fitted() -> None:
    zero = MT3000.quantities["attention_round_seconds"].model_copy(update={"value": 0.0})
    chip = MT3000.model_copy(
        update={"quantities": {**MT3000.quantities, "attention_round_seconds": zero}}
    )
    rows = made(MT3000, KERNELS, OF_KERNELS)
    assert by_name(calibrate(rows, chip)) == pytest.approx(OF_KERNELS, rel=1e-6)
    gone = calibrate(made(MT3000, KERNELS, {"attention_round_seconds": 0.0}), MT3000)
    assert by_name(gone)["attention_round_seconds"] == pytest.approx(0, abs=1e-12)


def test_ablations_tell_the_groups_of_the_recurrence_apart_and_plain_profiles_do_not() -> None:
    plain = calibrate([r for r in ROWS if r.quantity == "phase_time"], ASCEND)
    assert list(by_name(plain)) == [FACTOR]
    group = "recurrence_rest_seconds_per_row_layer"
    assert FACTOR in plain.not_fitted[group]
    assert any({p.first, p.second} == {FACTOR, group} for p in plain.alike)
    ablated = calibrate(PASSES, ASCEND)
    assert group in by_name(ablated)
    assert FACTOR not in by_name(ablated)


def test_published_rows_leave_the_presets_as_they_are() -> None:
    for chip in (MT3000, ASCEND):
        found = calibrate([row for row in ROWS if row.chip == chip.id], chip)
        assert found.constants
        assert not any(constant.moved for constant in found.constants)


def test_measured_numbers_are_offered_and_fitted_when_named() -> None:
    rows = made(ASCEND, reduces(), OF_REDUCES)
    by_itself = calibrate(rows, ASCEND)
    assert by_itself.constants == ()
    assert set(by_itself.offered) == set(OF_REDUCES)
    assert by_itself.mean_error("after") == by_itself.mean_error("before")
    named = calibrate(rows, ASCEND, list(OF_REDUCES))
    assert by_name(named) == pytest.approx(OF_REDUCES, rel=1e-6)
    assert named.offered == ()


def test_units_and_order_of_rows_do_not_matter() -> None:
    rows = made(MT3000, KERNELS, OF_KERNELS, noise=0.02, seed=9)
    other = [replace(row, value=row.si_value * 1e6, unit="us") for row in reversed(rows)]
    first, second = calibrate(rows, MT3000), calibrate(other, MT3000)
    assert by_name(second) == pytest.approx(by_name(first), rel=1e-9)
    errors = [row.error(row.left_out) for row in reversed(second.rows)]
    assert errors == pytest.approx([row.error(row.left_out) for row in first.rows], rel=1e-6)


def test_rows_that_cannot_be_used_say_why_and_stay_in_their_place() -> None:
    other = next(row for row in ROWS if row.chip == "mt3000")
    strange = replace(other, id="odd", chip="ascend910a", quantity="weight")
    searched = next(r for r in ROWS if r.quantity == "serving_throughput" and "A4" in r.id)
    found = calibrate([other, *recurrences([1.1, 1.1, 1.2]), strange], ASCEND)
    assert [bool(row.reason) for row in found.rows] == [True, False, False, False, True]
    assert found.rows[0].reason == "is of mt3000, not of ascend910a"
    assert "unknown quantity" in found.rows[-1].reason
    with pytest.raises(InputError, match="the plan is not given"):
        calibrate([searched], MT3000)


def test_rows_of_a_preset_are_taken_for_a_chip_of_its_family() -> None:
    own = ASCEND.model_copy(update={"id": "my-910a"})
    rows = [*recurrences([1.3, 1.3]), replace(recurrences([1.3])[0], id="own", chip="my-910a")]
    assert by_name(calibrate(rows, own)) == pytest.approx({FACTOR: 1.3}, rel=1e-9)


def test_many_rows_are_left_out_in_parts() -> None:
    values = 1.2 * np.exp(0.01 * np.random.default_rng(3).standard_normal(MOST_FOLDS + 20))
    found = calibrate(recurrences(values.tolist()), ASCEND)
    assert found.folds == MOST_FOLDS
    logs = np.log(values)
    fold = np.arange(len(logs)) % MOST_FOLDS
    expected = [np.exp(logs[fold != fold[i]].mean() - logs[i]) - 1 for i in range(len(logs))]
    assert [row.error(row.left_out) for row in found.rows] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("seed", range(9))
def test_whatever_rows_come_the_outcome_keeps_its_promises(seed: int) -> None:
    random = np.random.default_rng(seed)
    chip = (MT3000, ASCEND)[seed % 2]
    every = [row for row in ROWS if row.chip == chip.id and row.quantity != "serving_throughput"]
    count = int(random.integers(1, 20))
    some = [every[i] for i in random.choice(len(every), count, replace=False)]
    noise = float(random.choice([0.0, 0.01, 0.05, 0.3]))
    rows = [
        replace(r, value=r.value * float(np.exp(noise * random.standard_normal()))) for r in some
    ]
    found = calibrate(rows, chip)
    names = set(by_name(found))
    assert names | set(found.not_fitted) == set(fittable(chip))
    assert not names & set(found.not_fitted)
    assert 2 * len(names) <= len(found.used)
    assert len(found.rows) == count
    for constant in found.constants:
        quantity, i = chip.quantities[constant.name], constant.interval
        assert quantity.minimum <= constant.value <= quantity.maximum
        assert len(constant.rows) >= 2
        if i.at:
            assert i.low is None
        else:
            assert i.low is not None
            assert i.high is not None
            assert quantity.minimum <= i.low <= constant.value <= i.high <= quantity.maximum
            assert (i.high - i.low) / 2 <= 0.5 * constant.value
    before = sum(np.log(row.before / row.measurement.si_value) ** 2 for row in found.used)
    after = sum(np.log(row.after / row.measurement.si_value) ** 2 for row in found.used)
    assert after <= before * (1 + 1e-9) + 1e-12
    assert np.isfinite(found.mean_error("left_out"))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["nothing"], "has no such number"),
        (["recurrence_time_facto"], "expected some of recurrence_time_factor"),
        (["memory_bytes"], "is published"),
        (["shortest_measured_rows"], "whole number"),
        ([FACTOR, FACTOR], "each constant once"),
        ([""], "has no such number"),
        (list(OF_PASSES)[:4], "more constants than the 3 usable rows"),
    ],
)
def test_names_that_cannot_be_fitted_are_refused(names, words) -> None:
    with pytest.raises(InputError, match=words):
        calibrate(recurrences([1.1, 1.2, 1.3]), ASCEND, names)


def test_as_many_constants_as_rows_have_no_interval() -> None:
    found = calibrate(recurrences([1.3]), ASCEND, [FACTOR])
    (constant,) = found.constants
    assert constant.value == pytest.approx(1.3, rel=1e-9)
    assert constant.interval.low is None
    assert constant.interval.degrees == 0
    # Without its only row the constant keeps its value from before.
    assert found.rows[0].left_out == pytest.approx(found.rows[0].before)


def test_too_many_rows_and_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match="more than the 500"):
        calibrate(recurrences([1.0] * (MOST_ROWS + 1)), ASCEND)
    with pytest.raises(InputError, match="none can be used"):
        calibrate([], ASCEND)


def test_whole_and_published_numbers_are_never_fitted() -> None:
    for chip in (MT3000, ASCEND):
        for name in fittable(chip, named=True):
            quantity = chip.quantities[name]
            assert quantity.kind != "published"
            assert quantity.scale in ("linear", "log")
        assert set(fittable(chip)) <= set(fittable(chip, named=True))
