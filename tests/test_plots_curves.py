"""Lines that hold few points and follow their curves, and axes that reach the present pass."""

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.plots.curves import (
    FINE,
    LONGEST,
    SAME_CURVE,
    SHORTEST,
    fine_rows,
    log_row_axis,
    mark_present,
    thinned,
)

ROWS = fine_rows(1000)


def drawn(rows, values, chosen):
    return np.interp(np.log(rows), np.log(rows[chosen]), values[chosen])


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=60),
    st.integers(2, 40),
)
@settings(deadline=None)
def test_chosen_points_are_ascending_few_and_hold_both_ends(values, most):
    rows, y = np.arange(1, len(values) + 1), np.asarray(values)
    chosen = thinned(rows, y, most)
    assert chosen.size <= most
    assert list(chosen) == sorted(set(chosen.tolist()))
    assert (chosen[0], chosen[-1]) == (0, len(values) - 1)
    if chosen.size < min(most, len(values)):
        away = np.abs(drawn(rows, y, chosen) - y).max()
        assert away <= SAME_CURVE * max(np.ptp(y), 1e-300)


def test_a_straight_line_needs_two_points_and_a_jump_four():
    assert thinned(ROWS, np.log(ROWS), 50).size == 2
    step = np.where(ROWS < 2048, 1.0, 5.0)
    chosen = thinned(ROWS, step, 50)
    assert chosen.size == 4
    assert np.array_equal(drawn(ROWS, step, chosen), step)


@pytest.mark.parametrize("most", [12, 26])
def test_a_race_of_two_timelines_is_drawn_to_a_percent_of_its_height(most):
    rate = ROWS / np.maximum(0.6, 0.05 + 0.8e-3 * ROWS)
    away = np.abs(drawn(ROWS, rate, thinned(ROWS, rate, most)) - rate).max()
    assert away <= 0.01 * rate.max()


@pytest.mark.parametrize("present", [1, 256, 3000, 131_072])
def test_rows_reach_the_present_pass_and_hold_the_jumps(present):
    rows = fine_rows(present, edges=[2047, 2048, 10**9])
    assert {present, 2047, 2048} <= set(rows.tolist())
    assert rows.min() == min(SHORTEST, present)
    assert rows.max() == max(LONGEST, present)
    assert rows.size <= FINE + 3


@pytest.mark.parametrize(("low", "high"), [(256, 8192), (1, 8192), (1, 131_072), (300, 300)])
def test_ticks_are_powers_of_two_and_few(low, high):
    figure = go.Figure()
    log_row_axis(figure, np.asarray([low, high]))
    ticks = figure.layout.xaxis.tickvals
    assert len(ticks) <= 7
    assert all(low <= tick <= high and tick & (tick - 1) == 0 for tick in ticks)


def test_the_mark_stands_at_its_rows_on_both_scales():
    figure = go.Figure()
    mark_present(figure, 4096, 0.5)
    assert figure.layout.shapes[0].x0 == 4096
    (words,) = figure.layout.annotations
    assert 10**words.x == pytest.approx(4096)
    assert words.text == "now: 4,096 rows"
