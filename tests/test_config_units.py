"""Numbers for people."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.units import given as as_given
from explorer.config.units import human, percent, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (1234.5, "1,230"), (12345.6, "12,300"), (1465.1, "1,470"),
        (0.00123456, "0.00123"),
        (9.999, "10.0"), (999.5, "1,000"), (0.09996, "0.100"),
        (-2.5, "-2.50"), (3, "3.00"), (1e15, "1.00e+15"), (math.inf, "inf"),
    ],
)  # fmt: skip
def test_three_significant_figures_and_no_exponent_below_a_quadrillion(value, text):
    assert significant(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (20e9, "B", "20.0 GB"), (30e9, "B/s", "30.0 GB/s"), (4.05e12, "MAC/s", "4.05 TMAC/s"),
        (999, "B", "999 B"), (1000, "B", "1.00 kB"), (1.5e6, "FLOP", "1.50 MFLOP"),
        (2, "s", "2.00 s"), (0.0015, "s", "1.50 ms"), (2e-5, "s", "20.0 µs"),
        (3e-9, "s", "3.00 ns"), (0, "s", "0 s"), (1e-12, "s", "0.00100 ns"),
        (600, "s", "10.0 min"), (599, "s", "599 s"), (36000, "s", "10.0 h"),
        (0.125, "fraction", "12.5 %"), (1234567, "tokens", "1,234,567 tokens"),
        (12.5, "tokens/s", "12.5 tokens/s"), (12, "requests/s", "12 requests/s"),
        (1466.0, "tokens/s", "1,470 tokens/s"),
        (999_600, "B", "1.00 MB"), (0.99961, "s", "1.00 s"), (1023 * 1024, "iB", "1,023 KiB"),
        (1023, "iB", "1,023 B"), (12345, "clusters", "12,345 clusters"),
        (0.9, "x", "0.900 ×"), (1, "x", "1 ×"),
        (None, "s", "–"), (math.nan, "B", "–"), (4, "", "4"),
    ],
)  # fmt: skip
def test_units_keep_their_meaning(value, unit, text):
    assert human(value, unit) == text


@given(st.floats(allow_nan=False), st.sampled_from(["", "s", "B", "fraction", "tokens"]))
@settings(deadline=None)
def test_any_number_has_a_text(value, unit):
    assert human(value, unit)


@given(st.floats(1e-3, 1e14))
@settings(deadline=None)
def test_significant_figures_stay_within_half_of_the_last(value):
    assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0671, "6.7 %"),
        (-0.5, "-50.0 %"),
        (0.9994, "99.9 %"),
        (0.9999, "100 %"),
        (16.183, "1,620 %"),
    ],
)
def test_errors_have_one_decimal_and_three_figures_at_most(fraction, text):
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(2345, "2,345"), (2345.5, "2,345.5"), (1000.0, "1,000"), (0.05, "0.05"), (0.0, "0")],
)
def test_a_number_that_a_person_gave_keeps_its_digits(value, text):
    assert as_given(value) == text


@given(st.floats(1e-9, 1e14))
@settings(deadline=None)
def test_a_number_that_a_person_gave_reads_back_as_it_was(value):
    assert float(as_given(value).replace(",", "")) == value
