"""The device-synced profile, lengths left out, and where the report disagrees with itself."""

from __future__ import annotations

import pytest

from explorer.config.presets import load_chip
from explorer.fidelity.conflicts import report_conflicts
from explorer.fidelity.fit import run_fit
from explorer.fidelity.fits import fit_specs
from explorer.fidelity.measurements import shipped_measurements
from explorer.fidelity.predict import predict
from explorer.fidelity.profile import left_out_phases, profile_table

ROWS = shipped_measurements()
TABLE = profile_table(ROWS)
MIDDLE = "2223"


def test_the_preset_holds_what_the_profile_gives() -> None:
    assert TABLE is not None
    quantities = load_chip("ascend910a").quantities
    for name, value in TABLE.numbers(TABLE.lengths).items():
        if name == "gated_delta":
            groups = ("broadcast_rows", "rank1_update", "rest")
            held = sum(
                quantities[f"recurrence_{group}_seconds_per_row_layer"].value for group in groups
            )
            assert held == pytest.approx(value, rel=0.001)
            continue
        assert quantities[name].value == pytest.approx(value, rel=6e-4), name
        assert quantities[name].kind in ("derived", "measured")


def test_two_point_fit_of_the_collective() -> None:
    quantities = load_chip("ascend910a").quantities
    fixed = quantities["synced_collective_fixed_seconds"].value
    rate = quantities["link_bandwidth_bytes_per_second"].value
    assert fixed == pytest.approx(1.848e-3, abs=1e-6)
    assert rate == pytest.approx(22.73e9, abs=0.01e9)
    assert fixed + 22.7635e6 / rate == pytest.approx(2850e-6, abs=1e-6)


def test_a_length_left_out_keeps_its_goals() -> None:
    left = left_out_phases(ROWS)
    assert len(left) == 21 + 3
    for row in ROWS:
        if row.id == "asc-ar-engine-2223":
            # The two-point fit of the ends: 2850 against 2697 us.
            assert left[row.file, row.id] == pytest.approx(2850e-6, rel=1e-3)
        if row.quantity != "phase_time":
            continue
        error = left[row.file, row.id] / row.si_value - 1
        phase, rows = row.conditions["phase"], row.conditions["rows"]
        if phase in ("wall", "stack", "gated_delta"):
            assert abs(error) <= 0.02, row.id
        elif rows == MIDDLE:
            # Three noisy points allow no more.
            assert abs(error) <= 0.15, row.id


def test_in_sample_phases_and_ablations_keep_their_goals() -> None:
    for row in ROWS:
        if row.quantity not in ("phase_time", "ablation_gated_delta") and (
            "ablated" not in row.conditions
        ):
            continue
        outcome = predict(row)
        assert outcome.prediction is not None
        error = abs(outcome.prediction.value / row.si_value - 1)
        whole = row.conditions.get("phase") in ("wall", "stack", "gated_delta")
        limit = 0.01 if whole or "ablated" in row.conditions else 0.15
        assert error <= limit, row.id


def test_the_sweep_leaves_rows_and_lengths_out_within_its_goals() -> None:
    (spec,) = (spec for spec in fit_specs() if spec.name == "prefill sweep")
    result = run_fit(spec, load_chip(spec.chip), ROWS)
    assert result is not None
    assert len(result.rows) == 17
    assert max(abs(float(fold.errors[0])) for fold in result.by_row) <= 0.02
    by_length = {fold.value: max(abs(fold.errors)) for fold in result.by_group}
    assert all(worst <= 0.03 for rows, worst in by_length.items() if int(rows) >= 1024)
    # 512 rows alone tell the issue of a layer from that of a collective.
    assert by_length["512"] == pytest.approx(0.23, abs=0.005)
    (alone,) = (fold for fold in result.by_group if fold.value == "512")
    assert alone.worst == by_length["512"]
    assert alone.mape == pytest.approx(0.138, abs=0.001)


def test_conflicts_are_computed_from_the_rows() -> None:
    conflicts = {conflict.id: conflict for conflict in report_conflicts()}
    assert len(conflicts) >= 20
    expected = {
        "collective-at-512": (3.836e-3, 2.079e-3),
        "middle-point": (2697e-6, 2850e-6),
        "stack-and-wall": (0.02, 0.02176),
        "sum-of-shares": (0.96, 0.971),
        "per-token": (496.9e-6, 497.1e-6),
        "broadcast-share": (0.36, 0.2015),
        "additivity": (1.360, 1.369),
        "target-recurrence": (0.469, 0.490),
        "cube-rate": (1700, 1674.4),
        "decode-drift": (9.21, 8.73),
        "ceiling-or-pin": (1, 4),
    }
    for name, (first, second) in expected.items():
        conflict = conflicts[name]
        assert conflict.first.value == pytest.approx(first, rel=1e-3)
        assert conflict.second.value == pytest.approx(second, rel=1e-3)
    for conflict in conflicts.values():
        assert conflict.title
        assert conflict.consequence
        assert conflict.first.where.startswith("section ")
        assert conflict.first.unit == conflict.second.unit
        assert conflict.difference != 0


def test_no_conflicts_without_the_reports_rows() -> None:
    assert report_conflicts(()) == ()


def test_no_profile_without_two_lengths() -> None:
    assert profile_table(()) is None
    assert left_out_phases([row for row in ROWS if row.conditions.get("rows") != "1105"]) == {}
