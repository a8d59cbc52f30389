"""The gated-delta recurrence by instruction group, and what leaving each out would give."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.config.scenario import WORD_FIELDS, Scenario
from explorer.config.units import human, significant
from explorer.plots.style import words
from explorer.serving.evaluate import Evaluation, evaluate

PATH, WHOLE, NEITHER = "kernel.recurrence", "whole", "without_both"
TERM = "gated_delta"


def section(scenario: Scenario) -> None:
    """Draw the section for a scenario on the Ascend; nothing for a model without recurrence.

    Each variant is one evaluation.
    """
    if not scenario.model_shape().layers_with("linear_attention"):
        return
    variants = {word: evaluate(scenario.replacing({PATH: word})) for word in WORD_FIELDS[PATH]}
    rows = float(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)
    st.subheader("What is the recurrence made of?", anchor=False)
    st.markdown(_sentence(variants, rows))
    st.table(
        pd.DataFrame(
            [
                {
                    "kernel": words(word),
                    "recurrence": human(_recurrence(evaluation), "s"),
                    "pass": human(_wall(evaluation), "s"),
                    "prefill": human(rows / _wall(evaluation), "tokens/s"),
                }
                for word, evaluation in variants.items()
            ]
        ),
        hide_index=True,
    )
    state_bound = _state_seconds(variants[WHOLE])
    st.caption(
        "broadcast_rows issues 256 Duplicates a token, the rank-1 update 128 Axpys, one per row of "
        "the state. Reading and writing the state once a pass would take "
        f"{human(state_bound, 's')} at the HBM bandwidth: instructions, not bytes, are the cost. "
        "The groups are fitted to the report's ablations; the switch is under Mechanisms."
    )


def _sentence(variants: dict[str, Evaluation], rows: float) -> str:
    whole, neither = variants[WHOLE], variants[NEITHER]
    saved = _recurrence(whole) - _recurrence(neither)
    return (
        f"{significant(100 * saved / _recurrence(whole))} % of it is issuing two groups of vector "
        f"instructions. Were both free, as matrix operations on the Cube might nearly make them, "
        f"the pass would take {human(_wall(neither), 's')} instead of {human(_wall(whole), 's')}: "
        f"**{human(rows / _wall(neither), 'tokens/s')}** at most."
    )


def _recurrence(evaluation: Evaluation) -> float:
    return sum(float(term.seconds) for term in evaluation.prefill_stage.terms if term.name == TERM)


def _state_seconds(evaluation: Evaluation) -> float:
    moved = sum(float(term.bytes) for term in evaluation.prefill_stage.terms if term.name == TERM)
    return moved / float(evaluation.machine.roofs[0].bandwidth_bytes_per_second)


def _wall(evaluation: Evaluation) -> float:
    return float(evaluation.prefill_stage.seconds)
