"""Which constants rows determine: by hand-made effects, without any machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.fidelity.effects import BY_ITSELF, NAMED, SCATTER, Effects, choose


def effects(*columns: list[float]) -> Effects:
    names = tuple("abcdef"[: len(columns)])
    return Effects(names, np.asarray(columns, dtype=float).T)


def chosen(of: Effects, ranks=None, rule=BY_ITSELF, scatter=SCATTER):
    count = len(of.names)
    return choose(of, ranks or [0] * count, rule, np.full(count, scatter))


def test_what_no_row_depends_on_is_not_fitted() -> None:
    found = chosen(effects([1, 1, 1], [0.009, 0.0, -0.009]))
    assert found.names == ("a",)
    assert found.reasons == {"b": "no row depends on it"}


def test_constants_that_only_act_together_are_fitted_once_and_named() -> None:
    found = chosen(effects([0.2, 0.4, 0.6], [0.3, 0.6, 0.9]))
    assert found.names == ("b",)
    assert found.reasons["a"].startswith("the rows cannot tell it from b")
    assert "1.00" in found.reasons["a"]


def test_of_twins_the_one_that_stands_for_all_is_taken_whatever_its_rank() -> None:
    whole, part = [1.0, 1.0, 1.0, 1.0], [0.4, 0.4, 0.4, 0.4]
    assert chosen(effects(part, whole), ranks=[0, 1]).names == ("b",)
    # A row that tells them apart ends that: the lower rank comes first.
    apart = effects([0.4, 0.4, 0.4, 0.4, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    assert chosen(apart, ranks=[0, 1]).names == ("a", "b")


def test_a_combination_of_others_is_no_constant_of_its_own() -> None:
    a, b = [1.0, 0, 1, 0, 1, 0.5], [0.0, 1, 0, 1, 1, 0.5]
    both = [x + y for x, y in zip(a, b, strict=True)]
    found = chosen(effects(a, b, both), ranks=[0, 0, 1])
    assert found.names == ("a", "b")
    assert found.reasons["c"] == "the rows cannot tell it from the fitted ones together"


@pytest.mark.parametrize(("rows", "names"), [(1, ()), (2, ()), (3, ("a",)), (4, ("a",))])
def test_one_constant_takes_three_rows_by_itself(rows, names) -> None:
    found = chosen(effects([1.0] * rows))
    assert found.names == names
    assert chosen(effects([1.0] * rows), rule=NAMED).names == ("a",)


def test_two_constants_of_the_same_rows_take_four() -> None:
    a, b = [1.0, 0.1, 1], [0.5, 1, 0.1]
    assert len(chosen(effects(a, b)).names) == 1
    assert len(chosen(effects([*a, 0.3], [*b, 1.0])).names) == 2
    # Constants that share no row do not take each other's.
    apart = effects([1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1])
    assert chosen(apart).names == ("a", "b")


def test_small_effects_need_little_scatter() -> None:
    small = effects([0.015] * 4)
    assert "±" in chosen(small).reasons["a"]
    assert chosen(small, scatter=SCATTER / 10).names == ("a",)
    assert chosen(small, rule=NAMED).names == ("a",)


def test_groups_are_rows_that_share_constants() -> None:
    of = effects([1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 0])
    groups = [(rows.tolist(), members.tolist()) for rows, members in of.groups()]
    assert groups == [([0, 1, 2], [0, 1]), ([3], [2])]


def test_pairs_that_are_hard_to_tell_apart_are_named_with_their_correlation() -> None:
    (pair,) = effects([1.0, 1.0, 1.0], [1.0, 1.0, 1.1], [1.0, 0.0, -1.0]).alike()
    expected = (1 + 1 + 1.1) / np.sqrt(3 * (1 + 1 + 1.21))
    assert (pair.first, pair.second) == ("a", "b")
    assert pair.correlation == pytest.approx(expected)


columns = st.lists(
    st.lists(st.floats(-2, 2).filter(lambda x: x == 0 or abs(x) > 1e-3), min_size=8, max_size=8),
    min_size=1,
    max_size=6,
)


@given(columns)
def test_whatever_is_chosen_can_be_told_apart_and_everything_else_has_a_reason(given_columns):
    of = effects(*given_columns)
    found = chosen(of)
    assert set(found.names) | set(found.reasons) == set(of.names)
    assert not set(found.names) & set(found.reasons)
    if found.names:
        matrix = of.only(found.names).matrix
        assert np.linalg.matrix_rank(matrix) == len(found.names)
        errors = SCATTER * np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)))
        assert (errors <= BY_ITSELF.error * (1 + 1e-9)).all()
