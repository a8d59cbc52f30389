"""Measured passes stand beside a scenario only where they ran as it does."""

import pytest

from explorer.fidelity.comparable import comparable_passes, passes_of, why_not_comparable
from tests.scenarios import ASCEND, MT3000, scenario

PP = {"plan__pp_prefill": 2, "plan__pp_decode": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workload__prompt_tokens": 1},
        {"plan__slices": 7},
        {"plan__micro_batch_prefill": 4},
        {"hardware__collective_fixed_seconds": 1e-4},
        {"plan__tp_decode": 2},
    ],
)
def test_rows_slices_and_the_decode_pool_may_differ(changes):
    s = scenario(ASCEND, **changes)
    assert why_not_comparable(s) == ""
    assert comparable_passes(s) == passes_of(s)
    assert len(comparable_passes(s)) == 42


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plan__tp_prefill": 1}, "at TP 4, not 1."),
        ({"plan__tp_prefill": 8}, "at TP 4, not 8."),
        (PP, "in one stage, not 2."),
        ({"precision__weights": "int8"}, "in fp16 throughout, not int8."),
        ({"kernel__recurrence": "without_both"}, "with the whole recurrence."),
        ({"plan__tp_prefill": 2, **PP}, "at TP 4, not 2; in one stage, not 2."),
    ],
)
def test_what_differs_is_said(changes, words):
    s = scenario(ASCEND, **changes)
    assert comparable_passes(s) == ()
    assert words in why_not_comparable(s)


def test_another_machine_or_model_has_no_passes():
    assert comparable_passes(scenario(MT3000)) == ()
    assert why_not_comparable(scenario(MT3000)).startswith("No prefill pass of Llama-2 13B")
    other = scenario(ASCEND).replacing({"model": "llama2-7b"})
    assert (
        why_not_comparable(other)
        == "No prefill pass of Llama-2 7B on the Ascend 910A was published."
    )
