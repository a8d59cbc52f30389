"""Proofs by enumeration or by bounds, and the clause that says what they prove."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.search.bound import Bound, prove
from explorer.search.certificate import Certificate, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, EQ22, THROUGHPUT
from explorer.search.proof import (
    LARGEST_ENUMERATED,
    ProofSettings,
    best_known,
    better_plan,
    enumerates,
    plans_to_prove,
    prove_best,
)
from explorer.search.space import default_space, varied_space
from explorer.search.verdict import at_most, plans, verdict

BASE = preset_scenario("mt3000-llama2-7b")
SPACE = varied_space(
    BASE,
    {
        "plan.tp_decode": (1, 2, 4, 8),
        "plan.micro_batch_decode": (16, 64, 128),
        "plan.dp_prefill": (1, 4, 11),
    },
)
FEW = ProofSettings(enumerate_up_to=10)


def test_the_number_of_plans_decides_how_it_is_proved() -> None:
    assert LARGEST_ENUMERATED == 1_000_000_000
    assert enumerates(SPACE, THROUGHPUT, ProofSettings(enumerate_up_to=36))
    assert not enumerates(SPACE, THROUGHPUT, ProofSettings(enumerate_up_to=35))
    whole = prove_best(SPACE, THROUGHPUT, ProofSettings())
    bounded = prove_best(SPACE, THROUGHPUT, FEW)
    assert isinstance(whole, Certificate)
    assert isinstance(bounded, Bound)
    assert bounded.closed
    assert bounded.bound == whole.optimum
    assert best_known(bounded)[1] == best_known(whole)[1]


def test_eq22_counts_the_plans_of_its_batch() -> None:
    space = default_space(BASE)
    assert plans_to_prove(space, THROUGHPUT) == space.size
    assert plans_to_prove(space, EQ22) == 10 * 32 * 64


def test_the_better_plan_of_a_proof_is_given_only_where_it_is_better() -> None:
    for how in (ProofSettings(), FEW):
        proof = prove_best(SPACE, CLUSTER_SECONDS_PER_TOKEN, how)
        scenario, value = best_known(proof)
        assert better_plan(proof, value) is None
        assert better_plan(proof, 1.01 * value) == scenario
        assert better_plan(proof, math.nan) == scenario
    assert better_plan(None, 1.0) is None
    hopeless = BASE.replacing({"limits.tpot_seconds": 0.0001})
    proof = prove_best(varied_space(hopeless, {"plan.dp_prefill": (1, 2)}), THROUGHPUT, FEW)
    assert better_plan(proof, math.nan) is None


@pytest.mark.parametrize(
    "settings", [{"enumerate_up_to": -1}, {"bound_seconds": -1.0}, {"bound_seconds": math.nan}]
)
def test_settings_are_checked(settings: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        ProofSettings(**settings)


def test_the_verdict_says_what_is_proved() -> None:
    whole = certify(SPACE, CLUSTER_SECONDS_PER_TOKEN)
    optimum = whole.optimum
    assert verdict(whole, optimum) == (
        f"optimal, proved over 36 plans, {whole.feasible} feasible"
        + (f", {whole.ties} of them equally good" if whole.ties > 1 else "")
    )
    assert verdict(whole, optimum * 1.03522).startswith("within 3.53 % of the optimum, proved over")
    assert verdict(replace(whole, complete=False), optimum) == ""
    assert verdict(None, optimum) == verdict(whole, math.nan) == ""


def test_the_verdict_of_a_bound_says_whether_it_is_closed() -> None:
    closed = prove(SPACE, CLUSTER_SECONDS_PER_TOKEN)
    assert (
        verdict(closed, closed.bound)
        == "optimal, proved over 36 plans by bounds, 36 evaluated one by one"
    )
    left = replace(closed, open_plans=5)
    assert verdict(left, left.bound * 1.25) == (
        "within 25.0 % of the optimum: none of the 36 plans can be better than "
        f"{left.bound:.4f} cluster s/token".replace(f"{left.bound:.4f}", f"{left.bound:.3g}")
    )
    assert verdict(replace(left, bound=0.0), 1.0) == ""


@given(st.floats(1e-6, 1e6))
def test_a_stated_gap_is_never_too_small(value: float) -> None:
    stated = float(at_most(value).replace(",", ""))
    assert value * (1 - 1e-8) <= stated <= value * 1.01


def test_plans_are_counted_in_words() -> None:
    assert plans(1) == "1 plan"
    assert plans(40_960_000) == "40,960,000 plans"
    assert plans(62 * 10**15) == "6.20e+16 plans"
