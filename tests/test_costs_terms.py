"""Terms: merging, repeating and choosing the slowest stage lose nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.terms import Bound, Stage, Term, code, fixed_term, merged, slowest


def term(name, seconds, bound=Bound.COMPUTE, **more):
    seconds = np.asarray(seconds, float)
    return Term(name, seconds, seconds, bound_by=code(bound), **more)


def test_repeating_a_term_repeats_all_that_it_counts():
    one = Term("x", 2.0, 3.0, 5.0, 7.0, code(Bound.LINK), frozenset({"assumed"}))
    four = one.times(4)
    assert (four.seconds, four.busy_seconds, four.bytes, four.macs) == (8, 12, 20, 28)
    assert (four.name, four.bound_by, four.kinds) == ("x", Bound.LINK, {"assumed"})


def test_merging_adds_up_by_name_and_keeps_the_longer_parts_bound():
    parts = [
        Term("a", 1.0, 1.0, 2.0, 3.0, code(Bound.WEIGHTS), frozenset({"published"})),
        Term("b", 5.0, 5.0, 0.0, 0.0, code(Bound.LAUNCH), frozenset()),
        Term("a", 10.0, 11.0, 20.0, 30.0, code(Bound.KV_CACHE), frozenset({"assumed"})),
    ]
    a, b = merged(parts)
    assert (a.name, b.name) == ("a", "b")
    assert (a.seconds, a.busy_seconds, a.bytes, a.macs) == (11, 12, 22, 33)
    assert a.bound_by == Bound.KV_CACHE
    assert a.kinds == {"published", "assumed"}
    assert merged(parts[::-1])[0].bound_by == Bound.KV_CACHE


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 1e6)), min_size=1))
@settings(deadline=None)
def test_merging_keeps_the_total(parts):
    terms = [term(name, seconds) for name, seconds in parts]
    assert Stage(merged(terms)).seconds == pytest.approx(sum(s for _, s in parts), rel=1e-12)


def test_the_slowest_stage_is_chosen_element_by_element_with_all_its_terms():
    first = Stage((term("x", [1, 9], macs=np.float64(10.0)), term("y", [1, 1], Bound.LINK)))
    second = Stage(
        (term("x", [2, 3], Bound.WEIGHTS, bytes=np.float64(7.0)), term("y", [2, 2], Bound.HOST))
    )
    stage = slowest([first, second])
    x, y = stage.terms
    assert stage.seconds.tolist() == [4, 10]
    assert x.seconds.tolist() == [2, 9]
    assert x.busy_seconds.tolist() == [2, 9]
    assert y.seconds.tolist() == [2, 1]
    assert x.bytes.tolist() == [7, 0]
    assert x.macs.tolist() == [0, 10]
    assert x.bound_by.tolist() == [Bound.WEIGHTS, Bound.COMPUTE]
    assert y.bound_by.tolist() == [Bound.HOST, Bound.LINK]


def test_the_slowest_of_many_stages_is_found():
    stages = [Stage((term("x", seconds),)) for seconds in range(60)]
    assert slowest(stages).seconds == 59


def test_the_dominant_bound_owns_most_of_the_time_over_all_terms():
    stage = Stage(
        (
            term("a", [3, 1], Bound.COMPUTE),
            term("b", [2, 1], Bound.WEIGHTS),
            term("c", [2, 1], Bound.WEIGHTS),
        )
    )
    assert stage.dominant_bound().tolist() == [Bound.WEIGHTS, Bound.WEIGHTS]
    by_bound = stage.seconds_by_bound()
    assert by_bound[Bound.WEIGHTS].tolist() == [4, 2]
    assert set(by_bound) == {Bound.COMPUTE, Bound.WEIGHTS}


def test_a_fixed_term_moves_and_computes_nothing():
    fixed = fixed_term("launch", np.float64(2.0), Bound.LAUNCH, frozenset({"assumed"}))
    assert (fixed.seconds, fixed.busy_seconds, fixed.bytes, fixed.macs) == (2, 2, 0, 0)
    assert fixed.bound_by == Bound.LAUNCH


def test_bound_codes_stay_what_files_and_figures_know_them_as():
    assert [bound.label for bound in Bound] == [
        "compute", "weights", "kv_cache", "activations", "launch", "collective", "host", "link",
        "measured", "pipeline_fill", "instruction_issue", "rounds",
    ]  # fmt: skip
    assert [int(bound) for bound in Bound] == list(range(12))
