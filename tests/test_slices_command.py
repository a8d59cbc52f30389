"""The slices command: its contract, the rule's choices, and input it refuses."""

import json
from itertools import pairwise

import numpy as np
import pytest

from explorer.serving.evaluate import evaluate
from explorer.serving.slice_study import COUNTS, best_spans, rule_counts, slice_study
from tests.scenarios import ASCEND, MT3000, scenario
from tests.test_cli import refused, run

KEYS = {
    "rows", "slices", "prefill_seconds", "tokens_per_second", "rule", "best", "runs_as",
}  # fmt: skip


def document(capsys, *arguments):
    code, out, err = run(capsys, "slices", ASCEND, "--json", *arguments)
    assert (code, err) == (0, "")
    return json.loads(out)


def test_one_entry_for_each_rows_and_slices(capsys):
    found = document(capsys, "--rows", "512,1024,2048,4096")
    assert found["schema"] == "explorer.slices/1"
    pairs = [(entry["rows"], entry["slices"]) for entry in found["rows"]]
    assert pairs == [(rows, count) for rows in (512, 1024, 2048, 4096) for count in COUNTS]
    assert all(set(entry) == KEYS for entry in found["rows"])
    for entry in found["rows"]:
        rate = entry["rows"] / entry["prefill_seconds"]
        assert entry["tokens_per_second"] == pytest.approx(rate, rel=1e-12)


def test_the_rule_is_the_reports_and_the_best_is_the_shortest(capsys):
    found = document(capsys, "--rows", "512,1024,2048,4096,8192")["rows"]
    by_rows = {rows: [e for e in found if e["rows"] == rows] for rows in {e["rows"] for e in found}}
    chosen = {rows: {e["rule"] for e in entries} for rows, entries in by_rows.items()}
    assert chosen == {512: {1}, 1024: {1}, 2048: {2}, 4096: {4}, 8192: {4}}
    for entries in by_rows.values():
        shortest = min(entries, key=lambda e: e["prefill_seconds"])
        assert {e["best"] for e in entries} == {shortest["slices"]}


def test_eight_slices_at_512_rows_are_the_serial_path(capsys):
    found = {e["slices"]: e for e in document(capsys, "--rows", "512")["rows"]}
    assert found[8]["runs_as"] == 1
    assert found[8]["prefill_seconds"] == found[1]["prefill_seconds"]
    assert found[4]["runs_as"] == 4
    assert found[4]["prefill_seconds"] > 1.9 * found[1]["prefill_seconds"]


def test_every_entry_is_what_evaluate_says(capsys):
    for entry in document(capsys, "--rows", "700,3000")["rows"]:
        s = scenario(ASCEND, workload__prompt_tokens=entry["rows"], plan__slices=entry["slices"])
        assert entry["prefill_seconds"] == pytest.approx(float(evaluate(s).prefill_stage.seconds))


def test_thresholds_and_ceiling_are_the_scenarios(capsys):
    changes = ("--set", "plan.max_slices=16", "--set", "plan.min_rows_per_slice=256")
    found = document(capsys, "--rows", "4096", *changes)["rows"]
    assert {entry["rule"] for entry in found} == {16}
    assert [entry["slices"] for entry in found] == [*COUNTS, 16]


def test_text_is_a_table_with_the_answer_in_each_line(capsys):
    code, out, err = run(capsys, "slices", ASCEND, "--rows", "512,4096")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["rows", "s=1"]
    assert [line.split()[0] for line in lines[2:4]] == ["512", "4096"]
    assert "8 slices run serially" in out


def test_a_group_without_data_is_said_to_be_extrapolated(capsys):
    arguments = [f"--set=plan.tp_{pool}=2" for pool in ("prefill", "decode")]
    found = document(capsys, "--rows", "1024", *arguments)
    assert any("extrapolated" in note for note in found["notes"])


@pytest.mark.parametrize(
    "rows", ["0", "", "512,", "-1", "many", "1e3", "999999999", "512;1024", "9" * 400]
)
def test_rows_that_are_none_are_refused_in_one_line(capsys, rows):
    err = refused(capsys, "slices", ASCEND, f"--rows={rows}")
    assert "expected whole numbers from 1 to" in err


def test_too_many_rows_and_another_chip_are_refused(capsys):
    rows = ",".join(str(n) for n in range(1, 70))
    assert "at most 64" in refused(capsys, "slices", ASCEND, "--rows", rows)
    assert "does not slice" in refused(capsys, "slices", MT3000, "--rows", "512")
    assert "--rows" in refused(capsys, "slices", ASCEND)


@pytest.mark.parametrize("rows", [1, 95, 96, 131072])
def test_extreme_rows_have_an_answer(capsys, rows):
    found = document(capsys, "--rows", str(rows))["rows"]
    assert len(found) == len(COUNTS)
    assert all(entry["prefill_seconds"] > 0 for entry in found)


def test_spans_of_the_best_count_change_where_they_say():
    s = scenario(ASCEND)
    spans = best_spans(s)
    assert spans[0][1] == 1
    assert [row for row, _ in spans] == sorted({row for row, _ in spans})
    for (_, before), (row, after) in pairwise(spans):
        assert slice_study(s, [row - 1, row]).best.tolist() == [before, after]


def test_losses_are_against_the_best_and_never_negative():
    study = slice_study(scenario(ASCEND), [512, 1024, 2048, 4096])
    assert np.all(study.loss(study.rule) >= 0)
    assert np.all(study.loss(study.best) == 0)
    assert study.loss(4)[0] > 0.9


def test_one_card_runs_serially():
    s = scenario(ASCEND, plan__tp_prefill=1, plan__tp_decode=1)
    assert rule_counts(s, np.asarray([8192])).tolist() == [1]
    assert best_spans(s) == ((96, 1),)


def test_a_plan_that_does_not_fit_has_no_speed(capsys):
    found = document(
        capsys, "--rows", "4096", "--set", "plan.pp_prefill=64", "--set", "plan.pp_decode=64"
    )
    assert all(row["tokens_per_second"] is None for row in found["rows"])
    assert "256 cards" in found["notes"][0]
