"""The calibrate and profile commands: their documents, the chip they leave, what they refuse."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

from explorer.config.chip import Chip
from explorer.config.csvio import begins_a_formula, csv_text
from explorer.config.files import scenario_from_json
from explorer.config.presets import load_chip
from explorer.fidelity.calibrated import headline, warnings
from explorer.fidelity.calibration import calibrate
from explorer.fidelity.measurements import (
    COLUMNS,
    measurements_csv,
    parse_measurements,
    shipped_measurements,
)
from explorer.fidelity.predict import predict
from explorer.fidelity.scenarios import OnChip
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, scenario
from tests.test_cli import refused, run
from tests.test_fidelity_calibration import (
    FACTOR,
    KERNELS,
    MT3000,
    OF_KERNELS,
    made,
    recurrences,
)
from tests.test_fidelity_profile_text import PLAIN, REPORT, RESULT

ROWS = {
    "id", "file", "quantity", "conditions", "measured", "unit", "before", "after", "left_out",
    "error_before", "error_after", "left_out_error", "identifies", "reason", "note",
}  # fmt: skip
HEADER = ",".join(COLUMNS)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "my kernels.csv"
    rows = made(MT3000, KERNELS, OF_KERNELS, noise=0.01, seed=4)
    path.write_text(measurements_csv(rows), encoding="utf-8")
    return path


def document(capsys, *arguments):
    code, out, err = run(capsys, "calibrate", "--json", *map(str, arguments))
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_document_says_what_was_fitted_to_what(capsys, kernels, tmp_path) -> None:
    found = document(capsys, "--data", kernels)
    assert found["schema"] == "explorer.calibration/1"
    assert found["chip"] == "mt3000@1"
    summary = found["summary"]
    assert (summary["rows"], summary["used"], summary["constants"]) == (48, 48, 3)
    assert summary["mape_after"] < summary["left_out_mape"] < 0.02 < summary["mape_before"]
    for constant in found["constants"]:
        truth = OF_KERNELS[constant["name"]]
        assert constant["minimum"] <= constant["low"] <= constant["value"] <= constant["high"]
        assert abs(constant["value"] - truth) < constant["high"] - constant["low"]
        assert constant["before"] == MT3000.quantities[constant["name"]].value
    assert all(set(row) == ROWS for row in found["rows"])
    products = [row for row in found["rows"] if row["quantity"] == "gemm_latency"]
    assert {name for row in products for name in row["identifies"]} == {
        "gemm_mixed_stream_efficiency"
    }
    row = found["rows"][0]
    assert row["error_after"] == pytest.approx(row["after"] / row["measured"] - 1)
    assert found["not_fitted"]["overhead_bytes"] == "no row depends on it"
    assert "assume" in found["assumes"]


def test_the_chip_is_a_document_of_its_own_that_predicts_what_was_fitted(
    capsys, kernels, tmp_path
) -> None:
    out = tmp_path / "own.json"
    found = document(capsys, "--data", kernels, "--out", out)
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written == found["calibrated"]
    chip = Chip.model_validate(written)
    assert (chip.id, chip.version) == ("mt3000-calibrated-my-kernels", 1)
    for name, quantity in chip.quantities.items():
        old = MT3000.quantities[name]
        if name in OF_KERNELS:
            assert quantity.kind == "fitted"
            assert "rows of my kernels.csv" in quantity.source
            assert "95 % interval" in quantity.source
            assert old.source in quantity.note
        else:
            assert quantity == old
    for row in parse_measurements(kernels.read_bytes(), "k")[:6]:
        prediction = predict(row, OnChip(chip)).prediction
        assert prediction is not None
        listed = next(item for item in found["rows"] if item["id"] == row.id)
        assert prediction.value / row.unit_size == pytest.approx(listed["after"], rel=1e-12)
    # Started from itself it stays where it is.
    again = document(capsys, "--data", kernels, "--chip", out)
    assert again["calibrated"]["id"] == chip.id
    assert again["calibrated"]["source"] == chip.source
    for constant in again["constants"]:
        assert constant["value"] == pytest.approx(constant["before"], rel=1e-6)


def test_a_scenario_carries_the_chip_and_its_export_evaluates_to_the_same(capsys, tmp_path) -> None:
    data = tmp_path / "slow.csv"
    data.write_text(measurements_csv(recurrences([1.5, 1.5, 1.5])), encoding="utf-8")
    chip = document(capsys, "--data", data)["calibrated"]
    plan = scenario(ASCEND).to_json() | {"chip": chip}
    loaded = scenario_from_json(json.dumps(plan))
    slower, preset = evaluate(loaded), evaluate(scenario(ASCEND))
    as_override = evaluate(scenario(ASCEND, **{f"hardware__{FACTOR}": 1.5}))
    assert slower.prefill_seconds > preset.prefill_seconds
    assert float(slower.prefill_seconds) == pytest.approx(
        float(as_override.prefill_seconds), rel=1e-9
    )
    file = tmp_path / "export.json"
    file.write_text(json.dumps(export_document(loaded)), encoding="utf-8")
    code, out, err = run(capsys, "evaluate", str(file), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["evaluation"] == export_document(loaded)["evaluation"]


def test_the_text_begins_with_the_outcome(capsys, kernels) -> None:
    code, out, err = run(capsys, "calibrate", "--data", str(kernels))
    assert (code, err) == (0, "")
    first = out.splitlines()[0]
    assert first.startswith("48 rows change 3 constants of MT-3000; mean error from ")
    assert "(left out" in first
    assert "no row depends on it: usable_memory_fraction" in out


def test_headlines_tell_whether_anything_moved() -> None:
    ascend = load_chip("ascend910a")
    same = calibrate(recurrences([1.01, 0.99, 1.0, 1.0]), ascend)
    assert headline(same).startswith("4 rows agree with Ascend 910A: the constant fitted does not")
    assert not list(warnings(same))
    one = calibrate(recurrences([1.3]), ascend)
    assert headline(one).startswith("1 row determines no constant")
    moved = calibrate(recurrences([1.3, 1.31, 1.3]), ascend)
    assert headline(moved).startswith("3 rows change 1 constant of Ascend 910A; mean error from")


def test_warnings_name_bounds_odd_rows_and_sums_beside_their_parts() -> None:
    beyond = made(MT3000, KERNELS, {"gemm_mixed_stream_efficiency": 1.6})
    assert any("ended at its maximum" in text for text in warnings(calibrate(beyond, MT3000)))
    rows = made(MT3000, KERNELS, OF_KERNELS, noise=0.01, seed=2)
    rows[5] = replace(rows[5], value=4 * rows[5].value)
    found = calibrate(rows, MT3000, list(OF_KERNELS))
    assert any(rows[5].id in text for text in warnings(found))
    profile = [r for r in shipped_measurements() if r.quantity == "phase_time"]
    slower = [replace(row, value=1.2 * row.value) for row in profile]
    texts = list(warnings(calibrate(slower, load_chip("ascend910a"))))
    assert any("sums of its phases" in text for text in texts)


def test_nothing_fitted_is_no_error_but_leaves_no_chip(capsys, tmp_path) -> None:
    data = tmp_path / "one.csv"
    data.write_text(measurements_csv(recurrences([1.3])), encoding="utf-8")
    found = document(capsys, "--data", data)
    assert found["constants"] == []
    assert found["calibrated"] is None
    assert "too few rows" in found["not_fitted"][FACTOR]
    out = tmp_path / "none.json"
    assert "determine no constant" in refused(
        capsys, "calibrate", "--data", str(data), "--out", str(out)
    )
    assert not out.exists()
    named = document(capsys, "--data", data, "--constants", FACTOR)
    assert named["constants"][0]["low"] is None


def test_a_hostile_file_name_stays_text(capsys, tmp_path) -> None:
    data = tmp_path / "=<b>*x*\u202e.csv"
    data.write_text(measurements_csv(recurrences([1.3, 1.3, 1.3])), encoding="utf-8")
    chip = document(capsys, "--data", data)["calibrated"]
    assert chip["id"] == "ascend910a-calibrated-b-x"
    assert "<" not in json.dumps(chip["quantities"][FACTOR]["source"])


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--data",),
        ("--data", "nothing.csv"),
        ("--data", "GOOD", "--chip", "nothing"),
        ("--data", "GOOD", "--chip", "nothing.json"),
        ("--data", "GOOD", "--chip", "GOOD"),
        ("--data", "GOOD", "--constants", "x"),
        ("--data", "GOOD", "--constants", ""),
        ("--data", "GOOD", "--constants", f"{FACTOR},{FACTOR}"),
        ("--data", "GOOD", "--chip", "mt3000"),
        ("--data", "GOOD", "--out", "/nowhere/at/all.json"),
        ("--data", "GOOD", "--out", "\0"),
        ("--data", "BOTH"),
        ("--data", "NONE"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_exit_2(capsys, tmp_path, arguments) -> None:
    good = recurrences([1.3, 1.3, 1.3])
    files = {
        "GOOD": good,
        "BOTH": [*good, *KERNELS[:2]],
        "NONE": [replace(good[0], chip="abacus")],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text(measurements_csv(rows), encoding="utf-8")
    paths = [str(tmp_path / part) if part in files else part for part in arguments]
    refused(capsys, "calibrate", *paths)


def test_rows_of_two_chips_are_told_apart_when_one_is_named(capsys, tmp_path) -> None:
    data = tmp_path / "both.csv"
    rows = [*recurrences([1.3, 1.3, 1.3]), *KERNELS[:2]]
    data.write_text(measurements_csv(rows), encoding="utf-8")
    found = document(capsys, "--data", data, "--chip", "ascend910a@1")
    assert found["summary"]["used"] == 3
    assert {row["reason"] for row in found["rows"][3:]} == {"is of mt3000, not of ascend910a"}


def test_a_row_that_comes_twice_counts_once(capsys, tmp_path) -> None:
    data, again = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = recurrences([1.3, 1.32, 1.31])
    data.write_text(measurements_csv(rows), encoding="utf-8")
    again.write_text(measurements_csv(rows), encoding="utf-8")
    once = document(capsys, "--data", data)
    twice = document(capsys, "--data", data, "--data", again)
    assert twice["constants"] == once["constants"]
    assert twice["rows"][3]["reason"] == "is the same as g0 in a.csv"


def test_a_profile_becomes_rows_that_calibrate_takes(capsys, tmp_path) -> None:
    text, out = tmp_path / "run.txt", tmp_path / "rows.csv"
    text.write_text(f"{PLAIN}\n{RESULT}\n", encoding="utf-8")
    code, printed, err = run(capsys, "profile", str(text), "--out", str(out))
    assert (code, err) == (0, "")
    assert printed.startswith("1,105 rows on 4 cards: the timed block is that of line 2, of 1")
    rows = parse_measurements(out.read_bytes(), "rows.csv")
    assert len(rows) == 7
    _, printed, _ = run(capsys, "profile", str(text), "--json")
    found = json.loads(printed)
    assert found["schema"] == "explorer.profile/1"
    assert [row["value"] for row in found["rows"]] == [row.value for row in rows]
    assert document(capsys, "--data", out)["summary"]["used"] == 7
    text.write_text(REPORT, encoding="utf-8")
    _, printed, _ = run(capsys, "profile", str(text), "--json")
    assert [item["rows"] for item in json.loads(printed)["runs"]] == [1105, 2223, 4433]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"", ()),
        (b"\xff\xfe\x00", ()),
        (PLAIN.encode(), ()),
        (PLAIN.encode(), ("--wall", "1.2501")),
        (PLAIN.encode(), ("--wall", "1.2501", "--rows", "0")),
        (PLAIN.encode(), ("--wall", "1.2501", "--rows", "1e3")),
        (PLAIN.encode(), ("--wall", "1.2501", "--rows", "9" * 400)),
        (PLAIN.encode(), ("--wall", "nan", "--rows", "1105")),
        (PLAIN.encode(), ("--wall", "-1", "--rows", "1105")),
        (b"a 1\n" * 2_000_000, ("--wall", "1", "--rows", "1105")),
    ],
    ids=range(10),
)
def test_bad_profiles_are_one_line_and_exit_2(capsys, tmp_path, content, options) -> None:
    file = tmp_path / "p.txt"
    file.write_bytes(content)
    refused(capsys, "profile", str(file), *options)
    refused(capsys, "profile", str(tmp_path / "none.txt"))
    refused(capsys, "profile", str(tmp_path))


def test_exports_carry_no_formula_and_keep_their_numbers() -> None:
    cells = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1", "a=b", "x"]
    text = csv_text(["name", "=head"], [[cell, -1.5] for cell in cells])
    rows = list(csv.reader(StringIO(text, newline="")))
    assert rows[0] == ["name", "'=head"]
    for cell, row in zip(cells, rows[1:], strict=True):
        assert row[0].removeprefix("'") == cell
        assert not begins_a_formula(row[0])
        assert float(row[1]) == -1.5
    assert csv_text(["n"], [[np.float64(0.1)], [3]]) == "n\r\n0.1\r\n3\r\n"
