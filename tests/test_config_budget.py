"""A budget across a machine's numbers: strict text, exact cost, a constraint like any other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.config.budget import Budget, Term, parse_budget
from explorer.config.errors import InputError
from explorer.config.links import apply_texts, link_query, open_link
from explorer.config.scenario import parse_scenario
from explorer.search.certificate import certify
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import varied_space
from explorer.serving.evaluate import evaluate
from explorer.serving.report import why_not
from tests.scenarios import ASCEND, MT3000, scenario

BANDWIDTH = "hardware.ddr_bandwidth_bytes_per_second"
MEMORY = "hardware.memory_bytes"
TEXT = f"2 * {BANDWIDTH} + 0.5*{MEMORY}+ hardware.gsm_bytes <= 4.5"


def test_terms_weights_and_limit_are_read() -> None:
    assert parse_budget(TEXT) == Budget(
        (
            Term(2.0, "ddr_bandwidth_bytes_per_second"),
            Term(0.5, "memory_bytes"),
            Term(1.0, "gsm_bytes"),
        ),
        4.5,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "4",
        f"{BANDWIDTH}",
        f"{BANDWIDTH} < 2",
        f"{BANDWIDTH} >= 2",
        f"{BANDWIDTH} <= ",
        f"{BANDWIDTH} <= 0",
        f"{BANDWIDTH} <= -1",
        f"{BANDWIDTH} <= nan",
        f"{BANDWIDTH} <= 1e99",
        f"{BANDWIDTH} <= 2 <= 3",
        f"{BANDWIDTH} - {MEMORY} <= 2",
        f"-1 * {BANDWIDTH} <= 2",
        f"0 * {BANDWIDTH} <= 2",
        f"{BANDWIDTH} * 2 <= 2",
        f"2 {BANDWIDTH} <= 2",
        f"{BANDWIDTH} + <= 2",
        f"{BANDWIDTH} + {BANDWIDTH} <= 2",
        f"{BANDWIDTH}; {MEMORY} <= 2",
        "plan.tp_decode <= 2",
        "bandwidth <= 2",
        "hardware.nothing <= 2",
        f"² * {BANDWIDTH} <= 2",
        " + ".join(f"hardware.a{k}" for k in range(40)) + " <= 2",
        "x" * 5000,
    ],
)
def test_anything_else_is_refused_and_named(text: str) -> None:
    if "1e99" in text:
        assert parse_budget(text).limit == 1e99
        return
    with pytest.raises(InputError) as caught:
        scenario(MT3000, limits__budget=text)
    assert [problem.field for problem in caught.value.problems] == ["limits.budget"]


@given(st.text(alphabet="hardwe.gsm_byt *+<=0123456789", max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        budget = parse_budget(text)
    except InputError:
        return
    assert budget.limit > 0
    assert all(term.weight > 0 for term in budget.terms)


def test_a_number_of_zero_has_no_multiples() -> None:
    zero = "hardware.serial_below_rows_per_slice <= 2"
    assert scenario(ASCEND, limits__budget=zero).limits.budget == zero
    chip = scenario(MT3000).chip_document()
    quantity = chip.quantities["attention_round_seconds"].model_copy(update={"value": 0.0})
    quantities = {**chip.quantities, "attention_round_seconds": quantity}
    own = scenario(MT3000).model_copy(
        update={"chip": chip.model_copy(update={"quantities": quantities})}
    )
    with pytest.raises(InputError, match="own value is 0"):
        own.replacing({"limits.budget": "hardware.attention_round_seconds <= 2"})


def test_the_chips_own_machine_costs_the_sum_of_the_weights() -> None:
    fits = evaluate(scenario(MT3000, limits__budget=TEXT.replace("4.5", "3.5")))
    over = evaluate(scenario(MT3000, limits__budget=TEXT.replace("4.5", "3.49")))
    assert float(fits.constraints[-1].value) == 3.5
    assert fits.feasible
    assert not over.feasible
    assert why_not(over) == "The weighted cost of the machine is 3.50; the limit is 3.49."


def test_cost_follows_the_values_and_broadcasts() -> None:
    doubled = scenario(
        MT3000,
        limits__budget=TEXT,
        hardware__ddr_bandwidth_bytes_per_second=np.asarray([30e9, 60e9]),
        hardware__memory_bytes=np.asarray([[20e9], [40e9]]),
    )
    value = evaluate(doubled).constraints[-1].value
    assert value.tolist() == [[3.5, 5.5], [4.0, 6.0]]


def test_a_budget_is_obeyed_and_counted_by_the_certificate() -> None:
    base = scenario(MT3000, limits__budget=f"{BANDWIDTH} + {MEMORY} <= 2.5")
    space = varied_space(
        base, {BANDWIDTH: (15e9, 30e9, 45e9, 60e9), MEMORY: (10e9, 20e9, 30e9, 40e9)}
    )
    found = certify(space, THROUGHPUT)
    assert found.excluded["budget"] == 6
    over = {BANDWIDTH: 60e9, MEMORY: 10e9}
    assert evaluate(base.replacing(over)).constraints[-1].kept
    cost = found.plan[BANDWIDTH] / 30e9 + found.plan[MEMORY] / 20e9
    assert cost <= 2.5


def test_a_budget_lives_in_links_files_and_assignments() -> None:
    bounded = scenario(MT3000, limits__budget=TEXT)
    assert open_link(link_query(bounded, MT3000), MT3000).scenario == bounded
    assert parse_scenario(bounded.to_json()) == bounded
    freed, problems = apply_texts(bounded, {"limits.budget": "none"})
    assert (freed.limits.budget, problems) == (None, ())
    kept, problems = apply_texts(bounded, {"limits.budget": "cheap"})
    assert kept.limits.budget == TEXT
    assert problems[0].field == "limits.budget"


def test_another_chip_refuses_a_budget_of_numbers_it_lacks() -> None:
    with pytest.raises(InputError, match="this chip has no such number"):
        scenario(MT3000, limits__budget=TEXT).replacing(
            {"chip": "ascend910a", "precision.compute": "fp16"}
        )
