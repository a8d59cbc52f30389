"""Quantiles in bounded memory: exact while few, within the stated error when many."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.serving import distribution
from explorer.serving.distribution import RELATIVE_ERROR, Distribution


def nearest_rank(values, share):
    return np.sort(values)[math.ceil(share * values.size) - 1]


def filled(values, blocks=7):
    found = Distribution()
    for block in np.array_split(values, blocks):
        found.add(block)
    return found


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
@settings(max_examples=100, deadline=None)
def test_few_values_give_exact_quantiles(values):
    values = np.array(values)
    found = filled(values).quantiles()
    assert found.relative_error == 0
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        assert getattr(found, name) == nearest_rank(values, share)
    assert found.mean == pytest.approx(values.mean())
    assert (found.largest, found.count) == (values.max(), values.size)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_many_values_stay_within_the_stated_error(monkeypatch, scale):
    monkeypatch.setattr(distribution, "EXACT_COUNT", 100)
    random = np.random.default_rng(0)
    values = scale * random.lognormal(0, 2, 20_000)
    values[:50] = 0.0
    found = filled(values, 40).quantiles()
    assert found.relative_error == RELATIVE_ERROR < 0.005
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        exact = nearest_rank(values, share)
        assert abs(getattr(found, name) / exact - 1) <= RELATIVE_ERROR * 1.001
    assert found.mean == pytest.approx(values.mean())
    assert found.largest == values.max()


def test_nothing_has_no_quantiles():
    found = Distribution()
    found.add(np.array([np.nan, np.nan]))
    assert found.quantiles().count == 0
    assert math.isnan(found.quantiles().p50)
    assert found.histogram(5).counts.sum() == 0


@pytest.mark.parametrize("exact", [10**6, 100])
def test_a_histogram_counts_everything_once(monkeypatch, exact):
    monkeypatch.setattr(distribution, "EXACT_COUNT", exact)
    values = np.random.default_rng(0).exponential(3.0, 5000)
    found = filled(values).histogram(20)
    counts, edges = np.histogram(values, 20, (0, values.max()))
    np.testing.assert_allclose(found.edges_seconds, edges)
    assert found.counts.sum() == 5000
    assert np.abs(np.cumsum(found.counts) - np.cumsum(counts)).max() <= 60
    assert found.total_seconds == pytest.approx(values.sum())
