"""Refits: constants come back, and what is left out is really left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.config.presets import load_chip
from explorer.fidelity.fit import run_fit
from explorer.fidelity.fits import fit_specs, run_fits
from explorer.fidelity.measurements import shipped_measurements

SPECS = {spec.name: spec for spec in fit_specs()}
ROWS = shipped_measurements()


def fitted(name, rows=ROWS):
    spec = SPECS[name]
    result = run_fit(spec, load_chip(spec.chip), rows)
    assert result is not None
    return result


@pytest.mark.parametrize("name", SPECS)
def test_the_preset_holds_what_the_rows_say(name) -> None:
    result = fitted(name)
    quantities = load_chip(result.spec.chip).quantities
    for constant, value in result.constants.items():
        assert value == pytest.approx(quantities[constant].value, rel=0.03)
        assert quantities[constant].kind == "fitted"


@pytest.mark.parametrize("name", SPECS)
def test_constants_planted_in_the_rows_are_found_again(name) -> None:
    spec = SPECS[name]
    used = [row for row in ROWS if row.chip == spec.chip and spec.uses(row)]
    quantities = load_chip(spec.chip).quantities
    planted = {
        c.name: float(c.grid[2]) if c.whole else 1.07 * quantities[c.name].value
        for c in spec.constants
    }
    values = spec.model(used, {key: np.asarray(value) for key, value in planted.items()})
    rows = [
        replace(row, value=float(v) / row.unit_size) for row, v in zip(used, values, strict=True)
    ]
    assert dict(fitted(name, rows).constants) == pytest.approx(planted, rel=0.01)


def test_a_row_left_out_has_no_say_in_its_own_prediction() -> None:
    before = fitted("matrix products")
    victim = before.rows[7]
    rows = [replace(row, value=50 * row.value) if row == victim else row for row in ROWS]
    after = fitted("matrix products", rows)
    key = (victim.file, victim.id)
    assert after.left_out[key] == pytest.approx(before.left_out[key], rel=1e-9)
    others = [k for k in after.left_out if k != key]
    assert any(after.left_out[k] != pytest.approx(before.left_out[k], rel=1e-6) for k in others)


def test_a_group_left_out_has_no_say_either() -> None:
    before = fitted("MT and Flash attention")
    rows = [
        replace(row, value=9 * row.value) if row.conditions.get("seq") == "2048" else row
        for row in ROWS
    ]
    after = fitted("MT and Flash attention", rows)

    def fold(result):
        return next(f for f in result.by_group if (f.key, f.value) == ("seq", "2048"))

    assert dict(fold(after).constants) == pytest.approx(dict(fold(before).constants))
    assert fold(after).predicted == pytest.approx(fold(before).predicted)
    assert {row.conditions["seq"] for row in fold(after).rows} == {"2048"}


def test_groups_are_whole_rows_columns_and_precisions() -> None:
    groups = {(fold.key, fold.value): len(fold.rows) for fold in fitted("matrix products").by_group}
    sizes = {("m", m): 12 for m in ("1024", "4096", "8192")}
    sizes |= {("n", n): 6 for n in ("256", "512", "1024", "2048", "3072", "4096")}
    assert groups == sizes | {("dtype", "fp32"): 18, ("dtype", "fp16"): 18}


def test_blocks_of_a_method_keep_their_value_when_the_method_is_left_out() -> None:
    result = fitted("MT and Flash attention")
    quantities = load_chip("mt3000").quantities
    for fold in result.by_group:
        if fold.key == "method":
            for name in ("attention_mt_rows", "attention_flash_columns"):
                assert fold.constants[name] == quantities[name].value


def test_too_few_rows_are_not_fitted_to() -> None:
    assert run_fit(SPECS["prefill sweep"], load_chip("ascend910a"), ROWS[:5]) is None
    assert run_fits(()) == ()


def test_each_kernel_has_at_most_four_fitted_constants() -> None:
    kernels = [spec for spec in SPECS.values() if spec.chip == "mt3000"]
    assert all(len(spec.constants) <= 4 for spec in kernels)
