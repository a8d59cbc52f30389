"""Batching: what sharing weights across requests gains, and the paper's ladder of steps."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from explorer.chips.mt3000 import Mt3000
from explorer.config.presets import load_model
from explorer.config.units import human, significant
from explorer.fidelity.measurements import Measurement, shipped_measurements
from explorer.fidelity.predict import predict
from explorer.plots.batching import (
    Batching,
    batching_data,
    latency_figure,
    throughput_figure,
)
from explorer.serving.evaluate import evaluate
from explorer.serving.report import why_not
from explorer.ui.charts import chart
from explorer.ui.tables import show_table
from explorer.ui.text import plain

STEPS = {
    "A0": "plain operators, as the compiler makes them",
    "A1": "FP16 operators by hand; one request at a time",
    "A2": "fusion, MT Attention and one kernel a pass; one request at a time",
    "A3-1": "selective batching over pipeline stages",
    "A3-2": "the same with tensor parallelism",
    "A4": "prefill, buffer and decode in pools apart",
}
LADDER_CLUSTERS = "12"
RATE = "tokens/s"


def view(machine: Mt3000) -> None:
    """Draw the view."""
    data = batching_data(machine.inputs.scenario)
    reason = plain(why_not(evaluate(machine.inputs.scenario)))
    st.markdown(_sentence(data, int(machine.inputs.micro_batch_decode), reason))
    chart(
        throughput_figure(data), "batching", "Throughput of one pool against the decode micro-batch"
    )
    chart(latency_figure(data), "latency", "Time of one batch against the decode micro-batch")
    st.caption(
        "One pool of the present plan: T_latency is prefill and decode of one batch after each "
        "other. Linear operators share their weights across a batch, attention reads each "
        "request's own cache. Only micro-batches at which the plan fits have a point. Dashed: from "
        "here on a decode step reads more KV cache than weights."
    )
    _ladder()


def _sentence(data: Batching, now: int, reason: str) -> str:
    lead = _speed(data, now, reason)
    if data.crossing is None:
        return f"{lead} KV traffic stays below that of the weights up to {data.micro_batch[-1]:,}."
    place = f"at {human(float(data.crossing), 'requests')} a micro-batch"
    return (
        f"{lead} KV traffic overtakes that of the weights **{place}**, at a request's mean context."
    )


def _speed(data: Batching, now: int, reason: str) -> str:
    at = data.micro_batch.index(now)
    if not data.fits[at]:
        return (
            f"**This plan does not fit** with {human(float(now), 'requests')} a micro-batch, so it "
            f"has no speed. {reason}"
        )
    lead = (
        f"With {human(float(now), 'requests')} a micro-batch a pool makes "
        f"**{human(data.throughput[at], RATE)}**"
    )
    takes = f"and a batch takes {human(data.latency_seconds[at], 's')}"
    if not data.fits[0]:
        return f"{lead}, {takes}."
    gain = data.throughput[at] / data.throughput[0]
    longer = data.latency_seconds[at] / data.latency_seconds[0]
    return (
        f"{lead}, **{significant(gain)} times** those of one request, {takes}, "
        f"{significant(longer)} times as long."
    )


def _ladder() -> None:
    st.subheader("What does each step of the paper's ladder gain?", anchor=False)
    rows = _ladder_rows()
    models = {row.model: load_model(row.model).name for row in rows}
    figures = {
        (model, stage): (row.si_value, *_predicted(row.id))
        for model in models
        for stage in STEPS
        if (row := _row_of(rows, model, stage)) is not None
    }
    last, before_last = list(STEPS)[-1], list(STEPS)[-2]
    pairs = [(figures[model, before_last], figures[model, last]) for model in models]
    st.markdown(_pools_apart(list(models.values()), pairs))
    table = []
    for stage, before in zip(STEPS, (None, *STEPS), strict=False):
        line = {"Step": stage, "What changes": STEPS[stage]}
        for model, name in models.items():
            measured, predicted, reason = figures[model, stage]
            known = figures.get((model, before), (None, None, "")) if before else (None, None, "")
            line[f"{name}, measured"] = _gain(measured, known[0])
            line[f"{name}, model"] = (
                f"not modelled: {reason}" if predicted is None else _gain(predicted, known[1])
            )
        table.append(line)
    show_table(table)
    st.caption(
        "Tokens/s, in brackets the gain over the step before. Table VII: 12 clusters, prompt 512, "
        "output 128, at the published machine; sliders do not move it. A1 and A2 run one request "
        "a replica of the fewest clusters that hold the model. The paper gives no plan for A3 and "
        "A4: the model's figure is its best plan, an upper bound by the model on what any plan "
        "reaches."
    )


Figure = tuple[float, float | None, str]


def _pools_apart(names: list[str], pairs: list[tuple[Figure, Figure]]) -> str:
    """Return what the last step gains, measured and by the model."""
    parts = [
        f"{significant(after[0] / before[0])} times measured and "
        f"{significant(after[1] / before[1])} times by the model for {name}"
        for name, (before, after) in zip(names, pairs, strict=True)
        if before[1] and after[1]
    ]
    return f"Pools apart (A3-2 to A4) give {', '.join(parts)}." if parts else ""


def _ladder_rows() -> tuple[Measurement, ...]:
    return tuple(
        row
        for row in shipped_measurements()
        if row.conditions.get("stage") in STEPS
        and row.conditions.get("clusters") == LADDER_CLUSTERS
        and row.chip == "mt3000"
    )


def _row_of(rows: tuple[Measurement, ...], model: str, stage: str) -> Measurement | None:
    mine: Mapping[str, Measurement] = {
        row.conditions["stage"]: row for row in rows if row.model == model
    }
    return mine.get(stage)


@st.cache_data(max_entries=64, show_spinner="Searching the best plans of the ladder's steps")
def _predicted(row_id: str) -> tuple[float | None, str]:
    """Return the model's figure of a shipped measurement, or why there is none."""
    row = next(row for row in _ladder_rows() if row.id == row_id)
    outcome = predict(row)
    if outcome.prediction is None:
        return None, plain(outcome.reason)
    return outcome.prediction.value, ""


def _gain(value: float, before: float | None) -> str:
    return significant(value) + (f" (×\u00a0{significant(value / before)})" if before else "")
