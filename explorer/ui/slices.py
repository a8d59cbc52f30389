"""Page "How many slices should I use, and why?": rows, slice counts, the rule and its loss."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.terms import Stage
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.slices_map import MeasuredPass, loss_figure, map_study, rate_figure
from explorer.serving.evaluate import evaluate
from explorer.serving.slice_study import CONSTANT, COUNTS, best_spans, require_slicing, slice_study
from explorer.ui import state
from explorer.ui.text import plain

TABLE_ROWS = (512, 1024, 2048, 3072, 4096, 8192)
HOST_TERM = "host_issue_wait"
AS_FAST = 5e-4


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("How many slices, and why?", anchor=False)
    try:
        require_slicing(scenario)
    except InputError:
        chip = plain(scenario.chip_document().name)
        st.info(
            f"Slices belong to the Ascend 910A's overlapped all-reduce, and this scenario runs "
            f"on the {chip}."
        )
        return
    if scenario.measured.prefill_seconds is not None:
        st.info("A measured prefill time is typed in, so that no slice count changes anything.")
        return
    evaluation = evaluate(scenario)
    if state.says_that_it_does_not_fit(evaluation):
        return
    rows = int(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)
    st.markdown(answer(scenario, rows))
    for note in evaluation.machine.notes():
        st.caption(f"Note: {plain(note)}")
    study = map_study(scenario)
    measured = measured_passes(scenario)
    st.plotly_chart(
        rate_figure(study, measured),
        key="slices_map",
        width="stretch",
        alt="Predicted prefill rate against rows for 1, 2, 4 and 8 slices, with measured points",
    )
    if measured:
        st.caption(
            "Lines: predicted. Open circles: measured on four cards, the bar from the least to "
            "the largest of the runs; points of one length stand side by side."
        )
    st.markdown(_spans_sentence(scenario))
    _table(scenario, measured)
    st.subheader("What does a fixed choice lose?", anchor=False)
    st.markdown(_loss_sentence(scenario))
    st.plotly_chart(
        loss_figure(study),
        key="slices_loss",
        width="stretch",
        alt="Time above the best count's, for the rule, for always 4 slices and for none",
    )
    st.caption(
        "The rule's ceiling and least rows a slice are the sliders under All-reduce slices. "
        "Losses above 10 % leave the picture."
    )


def answer(scenario: Scenario, rows: int) -> str:
    """Return the count to use at these rows and what it trades, in two sentences."""
    passes = {count: _pass(scenario, count) for count in COUNTS}
    seconds = {count: float(stage.seconds) for count, stage in passes.items()}
    best = min(seconds, key=lambda count: seconds[count])
    rate = rows / seconds[best]
    lead = (
        f"For {human(float(rows), 'rows')} a pass use **{_named(best)}**: "
        f"{significant(rate)} tokens/s of prefill"
    )
    other = best if best > 1 else 2
    serial, sliced = passes[1], passes[other]
    issue = _busy(sliced) - _busy(serial)
    wait = _wait(sliced) - _wait(serial)
    gain = _device(serial) - _device(sliced)
    gained = (
        f"hides {human(gain, 's')} of device time, all fixed costs of the further collectives paid"
        if gain > 0
        else f"makes the device {human(-gain, 's')} slower, since fixed costs of the further "
        "collectives outweigh what they hide"
    )
    host = (
        f"the host needs {human(issue, 's')} more to issue them"
        + (f", of which {human(wait, 's')} are waited for" if wait > AS_FAST * seconds[1] else
           ", which stays behind the device's work")
    )  # fmt: skip
    change = seconds[1] / seconds[other] - 1
    against = (
        f"{significant(100 * change)} % more than serial"
        if best > 1
        else f"{_named(2)} would take {significant(-100 * change)} % longer"
        if change < -AS_FAST
        else f"{_named(2)} are as fast"
    )
    setting = _setting(scenario, seconds, best)
    return f"{lead}, {against}. Why: cutting in {other} {gained}; {host}. {setting}"


def _setting(scenario: Scenario, seconds: dict[int, float], best: int) -> str:
    now = float(evaluate(scenario).prefill_stage.seconds)
    loss = now / seconds[best] - 1
    name = "The rule" if isinstance(scenario.plan.slices, str) else "The present setting"
    if loss < AS_FAST:
        return f"{name} is as fast."
    return f"{name} takes {significant(100 * loss)} % longer."


def _pass(scenario: Scenario, count: int) -> Stage:
    return evaluate(scenario.replacing({"plan.slices": count})).prefill_stage


def _wait(stage: Stage) -> float:
    return sum(float(term.seconds) for term in stage.terms if term.name == HOST_TERM)


def _busy(stage: Stage) -> float:
    return sum(float(term.busy_seconds) for term in stage.terms if term.name == HOST_TERM)


def _device(stage: Stage) -> float:
    return float(stage.seconds) - _wait(stage)


def _named(count: int) -> str:
    return "1 slice (serial)" if count == 1 else f"{count} slices"


def _spans_sentence(scenario: Scenario) -> str:
    spans = best_spans(scenario)
    parts = [
        f"**{count}** {'up to' if i == 0 else 'from'} "
        + human(float(spans[1][0] - 1 if i == 0 else row), "rows")
        for i, (row, count) in enumerate(spans)
        if len(spans) > 1
    ]
    if not parts:
        return f"**{spans[0][1]}** is best at every length from {spans[0][0]} to 8,192 rows."
    return (
        f"The best count is {', '.join(parts)}. Of these only 1, 2, 4 and 8 were measured, and 8 "
        "only where it runs serially."
    )


def _loss_sentence(scenario: Scenario) -> str:
    study = map_study(scenario)
    rule, constant = study.loss(study.rule), study.loss(CONSTANT)
    worst, other = int(rule.argmax()), int(constant.argmax())
    return (
        f"From {human(float(study.rows[0]), 'rows')} to {human(float(study.rows[-1]), 'rows')} the "
        f"rule loses at most **{significant(100 * float(rule[worst]))} %** (at "
        f"{human(float(study.rows[worst]), 'rows')}), a constant {CONSTANT} up to "
        f"**{significant(100 * float(constant[other]))} %** (at "
        f"{human(float(study.rows[other]), 'rows')})."
    )


def measured_passes(scenario: Scenario) -> tuple[MeasuredPass, ...]:
    """Return the measured sweep of chip and model: forced counts of this build, not synced."""
    chip, model = scenario.chip_document().id, scenario.model_document().id
    found = []
    for row in shipped_measurements():
        conditions = row.conditions
        forced = conditions.get("slices", "").isdigit()
        if (row.chip, row.model, row.quantity) != (chip, model, "prefill_throughput") or not forced:
            continue
        if not {"build", "device_synced", "ablated"}.isdisjoint(conditions):
            continue
        runs = [float(text) for text in conditions.get("reps", str(row.value)).split("/")]
        found.append(
            MeasuredPass(
                int(conditions["rows"]),
                int(conditions["slices"]),
                row.si_value,
                min(*runs, row.value),
                max(*runs, row.value),
                len(runs),
                row.source,
            )
        )
    return tuple(found)


def _table(scenario: Scenario, measured: Sequence[MeasuredPass]) -> None:
    study = slice_study(scenario, TABLE_ROWS)
    rule, constant = study.loss(study.rule), study.loss(CONSTANT)
    least = float(scenario.value("hardware.serial_below_rows_per_slice"))
    rows = []
    for i, length in enumerate(study.rows):
        points = [point for point in measured if point.rows == length]
        ran = {p.slices: 1 if p.rows / p.slices < least else p.slices for p in points}
        found = max(points, key=lambda point: point.rate) if points else None
        rows.append(
            {
                "rows": f"{length:,}",
                "best": str(study.best[i]),
                "best measured": "–"
                if found is None
                else f"{ran[found.slices]} of {', '.join(map(str, sorted(set(ran.values()))))}",
                "rule": str(study.rule[i]),
                "rule loses": f"{100 * rule[i]:.1f} %",
                f"always {CONSTANT} loses": f"{100 * constant[i]:.1f} %",
            }
        )
    st.table(pd.DataFrame(rows), hide_index=True)
    st.caption(
        "At 512 rows the measured 8 slices run serially, as 64 rows a slice are fewer than the "
        "kernels serve; at 1,024 rows 1 and 2 measure alike within 0.1 %."
    )
