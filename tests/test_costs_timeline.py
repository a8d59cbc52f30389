"""Max-plus timelines: closed form against replay, and what must hold for any machine."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.timeline import LANES, Operator, Site, Stretch, replay, stretch_of

SECONDS = st.floats(0, 1).map(np.float64)
OPERATORS = st.builds(Operator, st.just("operator"), SECONDS, SECONDS)
SITES = st.builds(
    Site, st.just("site"), SECONDS, SECONDS, SECONDS, SECONDS, st.integers(1, 9).map(np.float64)
)
PROGRAMS = st.lists(st.one_of(OPERATORS, SITES), min_size=1, max_size=8)


@given(PROGRAMS, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_the_closed_form_of_any_program_is_its_replay(steps, count):
    closed = stretch_of(steps).times(np.float64(count))
    events = replay([(i, steps) for i in range(count)], 0, count)
    assert float(closed.seconds) == pytest.approx(events.seconds, rel=1e-9, abs=1e-12)
    assert float(closed.waiting_seconds + closed.device_seconds) == pytest.approx(
        float(closed.seconds)
    )


@given(PROGRAMS)
@settings(max_examples=60, deadline=None)
def test_a_lane_does_one_thing_at_a_time_and_the_host_never_waits(steps):
    events = replay([(0, steps)], 0, 1).events
    for lane in LANES:
        own = [event for event in events if event.lane == lane]
        assert all(a.end <= b.start for a, b in pairwise(own))
        if lane == "host":
            assert all(a.end == b.start for a, b in pairwise(own))


@given(PROGRAMS, PROGRAMS, PROGRAMS)
@settings(max_examples=60, deadline=None)
def test_composition_is_associative_and_the_empty_stretch_is_neutral(first, second, third):
    a, b, c = (stretch_of(steps) for steps in (first, second, third))
    left, right = a.then(b).then(c), a.then(b.then(c))
    for name in ("device_seconds", "issued_seconds", "host_seconds"):
        assert float(getattr(left, name)) == pytest.approx(float(getattr(right, name)))
    assert a.then(Stretch()) == a
    assert Stretch().then(a).seconds == a.seconds
    assert a.times(np.float64(0)).seconds == 0
    assert a.times(np.float64(1)) == a


@given(SITES)
@settings(max_examples=100, deadline=None)
def test_exposed_parts_of_a_site_add_up_and_none_exceeds_what_it_worked(site):
    exposed = site.exposed_seconds()
    assert float(sum(exposed)) == pytest.approx(float(site.device_seconds))
    for part, one in zip(
        exposed, (site.gemm_seconds, site.setup_seconds, site.wire_seconds), strict=True
    ):
        assert one <= part <= site.slices * one + 1e-12


def test_one_slice_is_serial_and_more_hide_all_but_the_pace():
    serial = Site("x", np.float64(0), np.float64(4), np.float64(1), np.float64(2))
    assert serial.device_seconds == 7
    sliced = Site("x", *map(np.float64, (0, 1, 1, 0.5, 4)))
    assert sliced.device_seconds == 2.5 + 3 * 1


def test_stretches_broadcast_as_single_programs_do():
    slices = np.arange(1.0, 65.0)
    site = Site("x", np.float64(0.2), 5 / slices, np.float64(0.3), 2 / slices, slices)
    swept = stretch_of([site]).times(np.float64(10)).seconds
    assert swept.shape == slices.shape
    for count, seconds in zip(slices, swept, strict=True):
        alone = Site("x", *map(np.float64, (0.2, 5 / count, 0.3, 2 / count, count)))
        assert seconds == stretch_of([alone]).times(np.float64(10)).seconds


@given(PROGRAMS, st.sampled_from(["host", "device"]))
@settings(max_examples=60, deadline=None)
def test_the_wall_is_at_least_each_timeline(steps, which):
    whole = stretch_of(steps).times(np.float64(3))
    assert whole.seconds >= (whole.host_seconds if which == "host" else whole.device_seconds) - 1e-9
