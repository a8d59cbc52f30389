"""Page "How many slices should I use, and why?": rows, slice counts, the rule and its loss."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_formulas import unfolded_prefill
from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.config.units import percent, significant
from explorer.fidelity.comparable import comparable_passes, why_not_comparable
from explorer.fidelity.measurements import Measurement
from explorer.plots.slices_map import (
    MeasuredPass,
    PresentPass,
    loss_figure,
    map_study,
    rate_figure,
)
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.slice_study import (
    CONSTANT,
    COUNTS,
    SliceStudy,
    require_slicing,
    rows_of_a_pass,
    slice_study,
    slices_that_run,
)
from explorer.serving.stages import slowest_prefill_share
from explorer.ui import numbers, state, story
from explorer.ui.background import fingerprint_of
from explorer.ui.charts import chart
from explorer.ui.plan_remarks import remarks
from explorer.ui.remedies import remedies
from explorer.ui.slice_words import TYPED_IN, answer, forced, loss_sentence, spans_sentence
from explorer.ui.tables import show_table
from explorer.ui.text import plain

RULED_ROWS = 1024
TABLE_ROWS = (512, 1024, 2048, 3072, 4096, 8192)
NOT_THE_SWEEP = {"build", "device_synced", "ablated"}
"""Conditions of prefill rates that were not taken in the sweep of this build."""


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("How many slices, and why?", anchor=False)
    try:
        require_slicing(scenario)
    except InputError:
        chip = scenario.chip_document()
        st.info(
            "Slices belong to the Ascend 910A's overlapped all-reduce, and this scenario runs "
            f"on the {plain(chip.name)}. What its own time goes to, all-reduces among it, is "
            "told here:"
        )
        story.elsewhere(story.SLICES, chip.family)
        return
    if scenario.measured.prefill_seconds is not None:
        st.info(TYPED_IN)
        return
    evaluation = evaluate(scenario)
    if state.says_that_it_does_not_fit(evaluation):
        remedies(scenario)
        return
    rows = rows_of_a_pass(scenario)
    st.markdown(answer(scenario, rows))
    remarks(evaluation)
    study = map_study(scenario)
    measured = measured_passes(scenario)
    rate = rows / float(evaluation.prefill_stage.seconds)
    chart(
        rate_figure(study, measured, PresentPass(rows, slices_that_run(scenario), rate)),
        "slices_map",
        "Predicted prefill rate against rows for 1, 2, 4 and 8 slices, with measured points",
    )
    st.caption(_points_caption(scenario, measured))
    st.markdown(_spans(scenario, tuple(sorted({point.slices for point in measured}))))
    _table(scenario, measured)
    st.subheader("What does a fixed choice lose?", anchor=False)
    st.markdown(loss_sentence(study))
    chart(
        loss_figure(study, rows),
        "slices_loss",
        "Time above the best count's, for the rule, for always 4 slices and for none",
    )
    st.caption(
        "The rule's ceiling and least rows a slice are the sliders under All-reduce slices. "
        "Losses above 10 % leave the picture."
    )
    numbers.numbers_behind(lambda: _numbers(scenario, study))


def _spans(scenario: Scenario, measured: tuple[int, ...]) -> str:
    """Return the sentence on spans of rows, which no length of a prompt changes."""
    whole = {"workload.prompt_tokens": RULED_ROWS, "plan.micro_batch_prefill": 1}
    return _kept_spans(fingerprint_of(scenario.replacing(whole)), measured, scenario)


@st.cache_data(max_entries=64, show_spinner=False)
def _kept_spans(fingerprint: str, measured: tuple[int, ...], _scenario: Scenario) -> str:
    return spans_sentence(_scenario, measured)


def measured_passes(scenario: Scenario) -> tuple[MeasuredPass, ...]:
    """Return the measured sweep that is comparable: forced counts of this build, not synced."""
    found = []
    for row in _sweep(scenario):
        runs = [float(text) for text in row.conditions.get("reps", str(row.value)).split("/")]
        found.append(
            MeasuredPass(
                int(row.conditions["rows"]),
                int(row.conditions["slices"]),
                row.si_value,
                min(*runs, row.value),
                max(*runs, row.value),
                len(runs),
                row.source,
            )
        )
    return tuple(found)


def _sweep(scenario: Scenario) -> tuple[Measurement, ...]:
    return tuple(
        row
        for row in comparable_passes(scenario)
        if row.quantity == "prefill_throughput"
        and row.conditions.get("slices", "").isdigit()
        and NOT_THE_SWEEP.isdisjoint(row.conditions)
    )


def _points_caption(scenario: Scenario, measured: Sequence[MeasuredPass]) -> str:
    """Return what lines and marks are, and what the points were measured with."""
    lines = "Lines: predicted, for one prompt a pass. Star: this scenario."
    if not measured:
        return f"{lines} {plain(why_not_comparable(scenario))}".rstrip()
    quantities = scenario.chip_document().quantities
    changed = [k for k, value in scenario.hardware.items() if value != quantities[k].value]
    with_ = (
        f" They were measured on the machine as it is; {len(changed)} of its numbers differ here."
        if changed
        else ""
    )
    return (
        f"{lines} Open circles: measured on four cards, the bar from the least to the largest of "
        f"the runs; points of one length stand side by side.{with_}"
    )


def _table(scenario: Scenario, measured: Sequence[MeasuredPass]) -> None:
    study = slice_study(scenario, TABLE_ROWS)
    rule, constant = study.loss(study.rule), study.loss(CONSTANT)
    rows = []
    for i, length in enumerate(study.rows):
        ran = _measured_at(scenario, measured, int(length))
        fastest = max(ran, key=lambda count: ran[count]) if ran else None
        measured_best = (
            "–" if fastest is None else f"{fastest} (of {', '.join(map(str, sorted(ran)))})"
        )
        rows.append(
            {
                "rows": f"{length:,}",
                "best": str(study.best[i]),
                **({"best measured": measured_best} if measured else {}),
                "rule": str(study.rule[i]),
                "rule loses": percent(float(rule[i])),
                f"always {CONSTANT} loses": percent(float(constant[i])),
            }
        )
    show_table(rows)
    at_1024 = _measured_at(scenario, measured, 1024)
    if {1, 2} <= set(at_1024):
        apart = abs(at_1024[2] / at_1024[1] - 1)
        st.caption(
            "At 512 rows the measured 8 slices run serially, as 64 rows a slice are fewer than the "
            f"kernels serve; at 1,024 rows 1 and 2 measure {significant(100 * apart)} % apart."
        )


def _measured_at(
    scenario: Scenario, measured: Sequence[MeasuredPass], rows: int
) -> dict[int, float]:
    """Return the best measured rate by the slices that really ran at some rows."""
    least = float(scenario.value("hardware.serial_below_rows_per_slice"))
    rates: dict[int, float] = {}
    for point in measured:
        if point.rows == rows:
            ran = 1 if point.rows / point.slices < least else point.slices
            rates[ran] = max(point.rate, rates.get(ran, 0.0))
    return rates


def _numbers(scenario: Scenario, study: SliceStudy) -> None:
    """Show the passes behind the answer term by term, and the measured points."""
    present = evaluate(scenario)
    machine = present.machine
    if not isinstance(machine, Ascend910a):
        return
    found = {count: forced(scenario, count) for count in COUNTS}
    best = min(COUNTS, key=lambda count: float(found[count].prefill_stage.seconds))
    columns: dict[str, Evaluation] = {"serial": found[1]}
    if best not in (1, slices_that_run(scenario)):
        columns[f"in {best}, the best"] = found[best]
    columns[f"here, in {slices_that_run(scenario)}"] = present
    unfolding = unfolded_prefill(machine.prefill_pass(slowest_prefill_share(present)))
    st.markdown(
        "**The passes of the first sentence**, exposed time term by term; the work that the "
        "resources do in this scenario is the formula's."
    )
    numbers.terms_and_inputs(
        unfolding,
        {
            **{name: numbers.exposed(item.prefill_stage) for name, item in columns.items()},
            "work": numbers.worked(present.prefill_stage),
        },
    )
    st.markdown("**Numbers of the machine in these formulas**")
    numbers.machine_numbers([unfolding], scenario)
    plan = scenario.plan
    st.markdown(
        "**How the other figures follow.** A rate is rows over the time of the pass; every point "
        f"of the {study.rows.size} × {study.counts.size} passes behind the charts is such a pass. "
        "The rule doubles the slices while each keeps at least "
        f"{int(plan.min_rows_per_slice):,} rows, up to {int(plan.max_slices)} (Ascend TP "
        "Collective Overlap section 4). A loss is the pass of a choice over that of the best "
        "count, less 1; rows from which a count is best are found by bisection."
    )
    sweep = _sweep(scenario)
    if sweep:
        st.markdown("**Measured points**")
        numbers.measured_rows(sweep)
