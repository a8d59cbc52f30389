"""The slice rule of Ascend TP Collective Overlap, sections 3 and 4."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.overlap import effective_slices, slices_by_rule

ROWS = [512, 1024, 2047, 2048, 4095, 4096, 8192]


def by_rule(rows, ceiling=4, least=1024):
    return slices_by_rule(np.asarray(rows, float), np.float64(ceiling), np.float64(least))


def test_the_rule_chooses_the_documented_counts():
    assert by_rule(ROWS).tolist() == [1, 1, 1, 2, 2, 4, 4]


def test_a_higher_ceiling_goes_on_doubling():
    assert by_rule(ROWS, ceiling=8).tolist() == [1, 1, 1, 2, 2, 4, 8]


def test_a_ceiling_between_powers_of_two_acts_as_the_lower_one():
    assert by_rule(ROWS, ceiling=3).tolist() == by_rule(ROWS, ceiling=2).tolist()
    assert by_rule(ROWS, ceiling=3).tolist() == [1, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("ceiling", [0, 1])
def test_a_ceiling_of_zero_or_one_switches_slicing_off(ceiling):
    assert by_rule(ROWS, ceiling=ceiling).tolist() == [1] * len(ROWS)


def doubling_loop(rows, ceiling, least):
    slices = 1
    while slices * 2 <= ceiling and rows / (slices * 2) >= least:
        slices *= 2
    return slices


@given(st.integers(1, 2_000_000), st.integers(0, 64), st.integers(1, 5000))
@settings(deadline=None)
def test_the_rule_is_the_engines_doubling_loop(rows, ceiling, least):
    assert by_rule(rows, ceiling, least) == doubling_loop(rows, ceiling, least)


def effective(slices, rows, tp=4, least=96):
    return float(effective_slices(*(np.float64(x) for x in (slices, rows, tp, least))))


def test_eight_forced_slices_at_512_rows_run_serially():
    assert effective(8, 512) == 1
    assert effective(4, 512) == 4


def test_the_least_rows_of_a_slice_are_inclusive():
    assert effective(8, 8 * 96) == 8
    assert effective(8, 8 * 96 - 1) == 1
    assert effective(2, 193) == 2
    assert effective(2, 191) == 1


def test_forced_counts_skip_the_doubling_rule():
    assert effective(3, 300) == 3
    assert effective(64, 6144) == 64


@pytest.mark.parametrize(("slices", "tp"), [(0, 4), (1, 4), (4, 1), (0, 1)])
def test_no_slices_or_a_single_rank_is_serial(slices, tp):
    assert effective(slices, 4096, tp=tp) == 1
