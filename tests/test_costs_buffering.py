"""Triple buffering and dynamic tiling (THInfer Figs 6, 7): closed form against simulation."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.costs.buffering import (
    WAYS,
    Buffering,
    LoopTimes,
    loop_seconds,
    simulate,
    steady_gains,
    total_gains,
)

SERIAL, DOUBLE, TRIPLE, TILED = WAYS
SECONDS = st.one_of(st.just(0.0), st.floats(1e-9, 1e-3), st.integers(0, 20).map(float))
TIMES = st.builds(LoopTimes, SECONDS, SECONDS, SECONDS, SECONDS)
COUNTS = st.integers(1, 7)
FIELDS = ("head_seconds", "compute_seconds", "bubble_seconds", "tail_seconds", "total_seconds")


@given(TIMES, COUNTS, COUNTS, st.sampled_from(WAYS))
@settings(max_examples=600)
def test_closed_form_equals_simulation(times, blocks, iterations, way):
    run = simulate(times, blocks, iterations, way)
    closed = loop_seconds(times, np.float64(blocks), np.float64(iterations), way)
    scale = max(run.total_seconds, 1e-12)
    for name in FIELDS:
        assert getattr(closed, name) == pytest.approx(
            getattr(run, name), rel=1e-9, abs=1e-9 * scale
        )
    assert (run.period_seconds is None) == (blocks < 3)
    if run.period_seconds is not None:
        assert closed.period_seconds == pytest.approx(
            run.period_seconds, rel=1e-9, abs=1e-9 * scale
        )


@given(TIMES, COUNTS, COUNTS, st.sampled_from(WAYS))
@settings(max_examples=300)
def test_timeline_breaks_no_rule_of_engines_data_or_buffers(times, blocks, iterations, way):
    run = simulate(times, blocks, iterations, way)
    slack = 1e-9 * run.total_seconds
    spans = {}
    for engine in (("load_x", "load_w", "store"), ("compute",)):
        mine = [i for i in run.intervals if i.what in engine]
        for one, following in pairwise(mine):
            assert following.start_seconds >= one.end_seconds
    for interval in run.intervals:
        assert interval.end_seconds >= interval.start_seconds >= 0
        spans[interval.what, interval.block, interval.iteration] = interval
    steps = [(block, i) for block in range(blocks) for i in range(iterations)]
    tiles = iterations if way.dynamic_tiling else 1
    assert len(run.intervals) == len(spans) == 3 * len(steps) + blocks * tiles
    inputs = 1 if way == SERIAL else 2
    for number, place in enumerate(steps):
        compute = spans["compute", *place]
        for what in ("load_x", "load_w"):
            assert compute.start_seconds >= spans[what, *place].end_seconds
            if number >= inputs:
                reader = spans["compute", *steps[number - inputs]]
                assert spans[what, *place].start_seconds >= reader.end_seconds
    for block in range(blocks):
        stores = [spans["store", block, tile] for tile in range(tiles)]
        sent = sum(s.end_seconds - s.start_seconds for s in stores)
        assert sent == pytest.approx(float(times.store_seconds), rel=1e-6, abs=slack)
        done = spans["compute", block, iterations - 1].end_seconds
        assert all(store.start_seconds >= done for store in stores)
        later = block + (1 if way in (SERIAL, DOUBLE) else 2)
        if later < blocks:
            begins = spans["compute", later, 0].start_seconds
            assert all(store.end_seconds <= begins + slack for store in stores)


@given(TIMES, COUNTS, COUNTS)
def test_serial_overlaps_nothing(times, blocks, iterations):
    run = simulate(times, blocks, iterations, SERIAL)
    for one, following in pairwise(run.intervals):
        assert following.start_seconds == pytest.approx(one.end_seconds)
    step = times.load_x_seconds + times.load_w_seconds + times.compute_seconds
    expected = blocks * (iterations * step + times.store_seconds)
    assert run.total_seconds == pytest.approx(float(expected))


@given(TIMES, COUNTS)
def test_every_step_helps_or_changes_nothing_in_steady_state(times, iterations):
    periods = [
        loop_seconds(times, np.float64(9), np.float64(iterations), way).period_seconds
        for way in WAYS
    ]
    for before, after in pairwise(periods):
        assert after <= before * (1 + 1e-12)
    # No schedule beats the busier engine.
    compute = iterations * times.compute_seconds
    dma = iterations * times.load_seconds + times.store_seconds
    assert periods[-1] >= max(compute, dma) * (1 - 1e-12)


@given(TIMES, COUNTS)
def test_dynamic_tiling_reaches_the_busier_engine(times, iterations):
    tiled = loop_seconds(times, np.float64(9), np.float64(iterations), TILED).period_seconds
    compute = iterations * times.compute_seconds
    dma = iterations * times.load_seconds + times.store_seconds
    assert tiled == pytest.approx(float(max(compute, dma)))


@given(TIMES, st.integers(1, 5))
def test_total_grows_by_a_period_a_block(times, iterations):
    for way in WAYS:
        totals = loop_seconds(times, np.arange(2.0, 9), np.float64(iterations), way)
        growth = np.diff(totals.total_seconds)
        assert growth == pytest.approx(np.full(6, float(totals.period_seconds)), rel=1e-6, abs=1e-9)


def test_figures_6_and_7_by_hand():
    times = LoopTimes(*map(np.float64, (1.0, 2.0, 5.0, 8.0)))
    periods = [
        float(loop_seconds(times, np.float64(4), np.float64(4), way).period_seconds) for way in WAYS
    ]
    # Serial 4 (3 + 5) + 8; double 4 x 5 + 8; whole store 3 x 5 + (3 + 8); tiles of 2: 4 x 5.
    assert periods == [40, 28, 26, 20]
    whole = simulate(times, 4, 4, TRIPLE)
    assert (whole.bubble_seconds, whole.tail_seconds) == (18, 8)
    tiled = simulate(times, 4, 4, TILED)
    assert (tiled.bubble_seconds, tiled.tail_seconds) == (0, 8)
    assert tiled.total_seconds == 3 + 4 * 20 + 8


def test_the_papers_tiles_balance_load_and_compute_only_with_dynamic_tiling():
    # M2 = 30, K2 = N2 = 256, K_g = 2048, FP32: W2 and Y2 cross DDR, X2 comes from GSM.
    macs_per_second, bytes_per_second, dsps = 4.05e12, 30e9, 24
    times = LoopTimes(
        np.float64(0),
        np.float64(256 * 256 * 4 / bytes_per_second),
        np.float64(dsps * 30 * 256 * 256 / macs_per_second),
        np.float64(dsps * 30 * 256 * 4 / bytes_per_second),
    )
    gains = steady_gains(times, np.float64(8))
    assert gains.second_buffer == pytest.approx(1.594, abs=1e-3)
    assert gains.third_buffer == pytest.approx(1.025, abs=1e-3)
    assert gains.dynamic_tiling == pytest.approx(1.216, abs=1e-3)
    assert gains.all == pytest.approx(1.986, abs=1e-3)
    whole = total_gains(times, np.float64(1e6), np.float64(8))
    assert whole.dynamic_tiling == pytest.approx(float(gains.dynamic_tiling), rel=1e-5)


def test_a_store_of_no_length_leaves_nothing_to_the_third_buffer_or_the_tiles():
    times = LoopTimes(*map(np.float64, (1.0, 2.0, 5.0, 0.0)))
    gains = steady_gains(times, np.float64(4))
    assert gains.third_buffer == gains.dynamic_tiling == 1
    assert gains.second_buffer == pytest.approx(8 / 5)
    assert all(simulate(times, 3, 4, way).tail_seconds == 0 for way in WAYS)


def test_one_iteration_leaves_nothing_to_the_tiles():
    times = LoopTimes(*map(np.float64, (1.0, 2.0, 5.0, 8.0)))
    assert steady_gains(times, np.float64(1)).dynamic_tiling == 1
    assert simulate(times, 5, 1, TRIPLE).intervals == simulate(times, 5, 1, TILED).intervals


def test_one_block_is_the_same_with_a_third_buffer():
    times = LoopTimes(*map(np.float64, (1.0, 2.0, 5.0, 8.0)))
    totals = [simulate(times, 1, 4, way).total_seconds for way in WAYS]
    assert totals == [40, 31, 31, 31]


def test_a_loop_that_takes_no_time_has_no_gain_and_no_warning():
    nothing = LoopTimes(*map(np.float64, (0.0, 0.0, 0.0, 0.0)))
    assert np.isnan(steady_gains(nothing, np.float64(4)).all)
    assert np.isnan(loop_seconds(nothing, np.float64(1), np.float64(1), TILED).compute_share)


@pytest.mark.parametrize("way", WAYS)
def test_closed_form_broadcasts(way):
    numbers = np.random.default_rng(1)
    times = LoopTimes(
        numbers.random((4, 1, 1, 1)), np.float64(0.1), numbers.random((3, 1, 1)), np.float64(0.7)
    )
    blocks, iterations = np.asarray([[1.0], [2.0], [5.0]]), np.asarray([1.0, 3.0, 4.0, 6.0])
    result = loop_seconds(times, blocks, iterations, way)
    assert result.total_seconds.shape == (4, 3, 3, 4)
    for a, b, c, d in np.ndindex(4, 3, 3, 4):
        load, compute = times.load_x_seconds[a, 0, 0, 0], times.compute_seconds[b, 0, 0]
        one = LoopTimes(load, np.float64(0.1), compute, np.float64(0.7))
        run = simulate(one, int(blocks[c, 0]), int(iterations[d]), way)
        assert result.total_seconds[a, b, c, d] == pytest.approx(run.total_seconds)


def test_shares_add_up():
    times = LoopTimes(*map(np.float64, (1.0, 2.0, 5.0, 8.0)))
    result = loop_seconds(times, np.float64(4), np.float64(4), TRIPLE)
    assert result.total_seconds == 3 + 80 + 18 + 8
    assert result.compute_share == pytest.approx(80 / 109)


ONE_SECOND = LoopTimes(*map(np.float64, (1.0, 1.0, 1.0, 1.0)))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda: LoopTimes(*map(np.float64, (-1.0, 1.0, 1.0, 1.0))), "load_x_seconds"),
        (lambda: LoopTimes(*map(np.float64, (1.0, np.nan, 1.0, 1.0))), "load_w_seconds"),
        (lambda: LoopTimes(*map(np.float64, (1.0, 1.0, np.inf, 1.0))), "compute_seconds"),
        (lambda: Buffering(0), "buffers"),
        (lambda: Buffering(4), "buffers"),
        (lambda: Buffering(True), "buffers"),
        (lambda: Buffering(2, dynamic_tiling=True), "buffers"),
        (lambda: loop_seconds(ONE_SECOND, np.float64(0), np.float64(1), TILED), "blocks"),
        (
            lambda: loop_seconds(ONE_SECOND, np.float64(1), np.asarray([1, 1.5]), TILED),
            "iterations",
        ),
        (lambda: simulate(ONE_SECOND, 0, 1, TILED), "blocks"),
        (lambda: simulate(ONE_SECOND, 1, -1, TILED), "iterations"),
        (lambda: simulate(ONE_SECOND, 1000, 1000, TILED), "blocks x iterations"),
        (
            lambda: simulate(LoopTimes(np.ones(2), *map(np.float64, (1.0, 1.0, 1.0))), 1, 1, TILED),
            "load_x_seconds",
        ),
    ],
)
def test_bad_numbers_are_refused_by_name(change, field):
    with pytest.raises(InputError) as caught:
        change()
    assert caught.value.problems[0].field == field
    assert caught.value.problems[0].accepted
