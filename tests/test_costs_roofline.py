"""Roofline and single-level tile against THInfer Eqs 1-5 as printed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.arrays import ceil_divide, total
from explorer.costs.roofline import (
    attainable_macs_per_second,
    gemm_intensity,
    intensity_threshold,
    roofline_seconds,
)
from explorer.costs.tiling import best_single_level_tile

PEAK, BANDWIDTH = 4.05e12, 30e9


def test_intensity_of_the_papers_tile_is_192_thirteenths():
    assert gemm_intensity(128.0, 128.0, 768.0, 4.0) == pytest.approx(192 / 13, rel=1e-15)


def test_threshold_is_135_macs_a_byte():
    assert intensity_threshold(PEAK, BANDWIDTH) == pytest.approx(135, rel=1e-15)


def test_the_papers_tile_attains_443_gmacs_at_30_gb_a_second():
    rate = attainable_macs_per_second(192 / 13, PEAK, BANDWIDTH)
    assert rate == pytest.approx(443.08e9, rel=1e-5)
    assert rate == pytest.approx(30e9 * 192 / 13, rel=1e-15)


def test_attainable_rate_is_flat_above_the_threshold():
    intensities = np.asarray([1.0, 134.0, 135.0, 136.0, 1e6])
    rates = attainable_macs_per_second(intensities, PEAK, BANDWIDTH)
    assert rates == pytest.approx([30e9, 4.02e12, PEAK, PEAK, PEAK], rel=1e-15)


@given(*[st.integers(1, 4096)] * 3, st.sampled_from([1, 2, 4]))
@settings(deadline=None)
def test_intensity_is_equation_1(m, k, n, size):
    exact = Fraction(m * k * n, size * (m * k + k * n + m * n))
    assert gemm_intensity(float(m), float(k), float(n), size) == pytest.approx(float(exact))


@given(st.floats(1, 1e15), st.floats(1, 1e12), st.floats(1e9, 1e15), st.floats(1e9, 1e13))
@settings(deadline=None)
def test_roofline_time_is_work_over_the_attainable_rate(macs, moved, peak, bandwidth):
    seconds = roofline_seconds(macs, moved, peak, bandwidth)
    assert seconds == pytest.approx(
        macs / attainable_macs_per_second(macs / moved, peak, bandwidth), rel=1e-12
    )


def test_best_tile_on_the_mt3000_is_the_papers_and_fills_both_memories():
    tile = best_single_level_tile(65536, 786432, 4)
    assert (tile.m, tile.k, tile.n) == (128, 128, 768)
    assert (tile.sm_bytes, tile.am_bytes) == (65536, 786432)
    assert tile.intensity == pytest.approx(192 / 13, rel=1e-15)


def brute_force(sm, am, size):
    """Return the best traffic a MAC over every integer M, K and N, the orders kept apart."""
    best = None
    for m in range(1, sm // size + 1):
        for k in range(1, sm // size + 1):
            if size * m * k > sm:
                break
            for n in range(1, am // size + 1):
                if size * (k * n + m * n) > am:
                    break
                inverse = Fraction(1, m) + Fraction(1, k) + Fraction(1, n)
                best = inverse if best is None else min(best, inverse)
    return best


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("sm", [0, 3, 4, 16, 60, 96])
@pytest.mark.parametrize("am", [0, 7, 8, 40, 250, 600])
def test_best_tile_equals_brute_force(sm, am, size):
    tile = best_single_level_tile(sm, am, size)
    best = brute_force(sm, am, size)
    if best is None:
        assert tile is None
        return
    assert tile.sm_bytes == size * tile.m * tile.k <= sm
    assert tile.am_bytes == size * (tile.k * tile.n + tile.m * tile.n) <= am
    assert tile.intensity == pytest.approx(float(1 / (size * best)), rel=1e-12)


def test_ceil_divide_is_exact_for_whole_numbers():
    for numerator in range(60):
        for denominator in range(1, 13):
            expected = (numerator + denominator - 1) // denominator
            assert ceil_divide(float(numerator), float(denominator)) == expected


def test_total_of_nothing_is_zero_and_otherwise_the_broadcast_sum():
    assert total([]) == 0
    grid = total([np.ones((3, 1)), np.arange(4.0), np.float64(2)])
    assert grid.shape == (3, 4)
    assert grid[1].tolist() == [3, 4, 5, 6]
