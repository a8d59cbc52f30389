"""The gated-delta recurrence by instruction group, and what leaving each out would give."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from explorer.config.scenario import WORD_FIELDS, Scenario
from explorer.config.units import human, significant
from explorer.costs.terms import Stage, slowest_index
from explorer.serving.evaluate import evaluate
from explorer.serving.slice_study import rows_of_a_pass
from explorer.ui.sidebar import WORD_NAMES
from explorer.ui.tables import show_table

PATH, WHOLE, NEITHER = "kernel.recurrence", "whole", "without_both"
TERM = "gated_delta"
AS_LONG = 5e-4


def section(scenario: Scenario) -> None:
    """Draw the section for a scenario on the Ascend; nothing for a model without recurrence.

    Each variant is one evaluation.
    """
    if not scenario.model_shape().layers_with("linear_attention"):
        return
    variants = {word: evaluate(scenario.replacing({PATH: word})) for word in WORD_FIELDS[PATH]}
    rows = float(rows_of_a_pass(scenario))
    st.subheader("What is the recurrence made of?", anchor=False)
    held = int(slowest_index(variants[WHOLE].modelled_prefill_stages))
    stages = {word: variant.modelled_prefill_stages[held] for word, variant in variants.items()}
    recurrence = {word: _recurrence(stage) for word, stage in stages.items()}
    if recurrence[WHOLE] == 0:
        st.markdown("The slowest stage holds no gated-delta layer, so that it has no recurrence.")
        return
    timed = _timed(scenario)
    walls = {word: float(variant.prefill_stage.seconds) for word, variant in variants.items()}
    st.markdown(sentence(recurrence, walls, rows, timed))
    show_table(
        [
            {
                "instruction groups": WORD_NAMES[word],
                "recurrence": human(recurrence[word], "s"),
                timed: human(walls[word], "s"),
                "prefill": human(rows / walls[word], "tokens/s"),
            }
            for word in variants
        ],
    )
    roof = variants[WHOLE].machine.roofs[0]
    state_bound = _moved(stages[WHOLE]) / float(roof.bandwidth_bytes_per_second)
    st.caption(
        "Of a token, 256 Duplicate instructions broadcast rows (two for each row of the state) and "
        "128 Axpy make the rank-1 update (one for each). Reading and writing the state once a "
        f"pass would take {human(state_bound, 's')} at the HBM bandwidth: instructions, not "
        "bytes, are the cost. The groups are fitted to the report's ablations; the switch is "
        "under *Mechanisms* beside the page."
    )


def sentence(
    recurrence: Mapping[str, float], walls: Mapping[str, float], rows: float, timed: str
) -> str:
    """Return how much of the recurrence is instruction issue, and what no issue would give.

    Args:
        recurrence: seconds of the recurrence by kernel.
        walls: seconds of the pass, or of the slowest stage, by kernel.
        rows: of the pass.
        timed: which of the two ``walls`` are of.
    """
    saved, whole, neither = recurrence[WHOLE] - recurrence[NEITHER], walls[WHOLE], walls[NEITHER]
    lead = (
        f"{significant(100 * saved / recurrence[WHOLE])} % of it is issuing two groups of vector "
        "instructions. Were both free, as matrix operations on the Cube might nearly make them, "
        f"the {timed} would take"
    )
    if neither > whole * (1 - AS_LONG):
        return f"{lead} {human(whole, 's')} as now: it waits for something else."
    return (
        f"{lead} {human(neither, 's')} instead of {human(whole, 's')}: "
        f"**{human(rows / neither, 'tokens/s')}** at most."
    )


def _timed(scenario: Scenario) -> str:
    return "pass" if int(scenario.plan.pp_prefill) == 1 else "slowest stage"


def _recurrence(stage: Stage) -> float:
    """Return the recurrence's time in a stage [s]."""
    return sum(float(term.seconds) for term in stage.terms if term.name == TERM)


def _moved(stage: Stage) -> float:
    """Return what a stage reads and writes of its state once [B]."""
    return sum(float(term.bytes) for term in stage.terms if term.name == TERM)
