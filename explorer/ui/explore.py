"""Page "What do I get?": headline, what limits it, and where time, bytes and capacity go."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.memory import STORAGE_BYTES
from explorer.costs.tiling import Tile, best_single_level_tile
from explorer.plots.breakdown import breakdown_data, breakdown_figure
from explorer.plots.memory import memory_bars, memory_figure
from explorer.plots.pipeline import pipeline_figure
from explorer.plots.roofline import roofline_data, roofline_figure
from explorer.plots.slices import slice_sweep, slices_figure
from explorer.plots.style import joined
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.explain import limit_sentence
from explorer.serving.report import broken_constraints, evaluation_document, violation_message
from explorer.serving.stages import slowest_stage_words
from explorer.serving.timeline import pipeline_timeline
from explorer.ui import ascend_numbers, sensitivity_constants, state
from explorer.ui.believe_words import measured_sentence
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.lever_words import lever_sentence
from explorer.ui.page_style import METRIC_WIDTH
from explorer.ui.plan_remarks import remarks
from explorer.ui.remedies import remedies
from explorer.ui.slice_words import TYPED_IN
from explorer.ui.text import plain

DeltaColour = Literal["normal", "inverse", "off"]
UNCHANGED = 5e-4
MANY_TIMES = 10
SHARED_PHASES = ("prefill", "decode")
TILE_PRECISION = "fp32"
FULLEST = "Memory free, fullest"
CHANGES_OF: dict[tuple[str, ...], str] = {("pool", "pools"): "pools"}
"""What the change under a tile of two figures is of."""


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    evaluation = evaluate(scenario)
    feasible = bool(evaluation.feasible)
    st.header(plain(scenario.name), anchor=False)
    if not feasible:
        _does_not_fit(scenario, evaluation)
    _headline(evaluation)
    if feasible:
        st.markdown(f"**What limits it.** {limit_sentence(evaluation)} {lever_sentence(scenario)}")
        _left_open(scenario)
        st.markdown(f"**What was measured.** {measured_sentence(evaluation)}")
    remarks(evaluation)
    tile = _tile(scenario)
    if scenario.chip_document().family == "ascend910a":
        _slices(scenario)
    _memory(evaluation, tile)
    _pipeline(evaluation, feasible)
    _breakdown(evaluation, feasible)
    _roofline(evaluation, tile)
    _numbers(evaluation)


def _does_not_fit(scenario: Scenario, evaluation: Evaluation) -> None:
    broken = broken_constraints(evaluation)
    late = all(item.name in ("ttft", "tpot") for item in broken)
    lead = "This plan is too slow." if late else "This plan does not fit."
    st.error(f"**{lead}** " + plain(" ".join(map(violation_message, broken))))
    remedies(scenario)


def _headline(evaluation: Evaluation) -> None:
    preset = evaluate(state.baseline())
    now, before = evaluation_document(evaluation), evaluation_document(preset)
    free = free_bytes(evaluation)
    unit = evaluation.inputs.scenario.chip_document().unit_name
    rows: tuple[tuple[str, tuple[str, ...], str, DeltaColour], ...] = (
        ("Throughput", ("pool", "throughput_tokens_per_second"), "tokens/s", "normal"),
        ("Time to first token", ("latency", "ttft_seconds"), "s", "inverse"),
        ("Time per output token", ("latency", "tpot_seconds"), "s", "inverse"),
        (f"{unit.capitalize()}s a pool", ("pool", "clusters"), "", "off"),
        (f"Pools / idle {unit}s", ("pool", "pools"), "", "off"),
        (
            f"{unit.capitalize()}-seconds a token",
            ("pool", "cluster_seconds_per_token"),
            # With the token, which the label names, it would be cut.
            f"{unit} s",
            "inverse",
        ),
        (FULLEST, (), "B", "normal"),
        ("Batch", ("stages", "batch"), "requests", "off"),
    )
    with st.container(horizontal=True, key="headline"):
        for label, path, of, colour in rows:
            if path:
                value, reference = now[path[0]][path[1]], before[path[0]][path[1]]
            else:
                value, reference = min(free.values()), min(free_bytes(preset).values())
            text = human(value, of)
            if path == ("pool", "pools"):
                text = f"{text} / {human(now['pool']['idle_clusters'])}"
            st.metric(
                label,
                text,
                delta=_change(value, reference, CHANGES_OF.get(path, "")),
                delta_color=colour,
                border=True,
                width=METRIC_WIDTH,
                help=None if path else fullest_words(free, unit),
            )


def _left_open(scenario: Scenario) -> None:
    text = sensitivity_constants.headline(scenario)
    if text:
        st.markdown(f"**What is left open.** {text}")


def free_bytes(evaluation: Evaluation) -> dict[str, float]:
    """Return what is free on the fullest cluster of each pool, and on each of the buffer [B].

    The buffer holds a batch, or as much of it as there is room for. Pools on the same clusters are
    one, of no name; below 0 is what is short.
    """
    pools = {"prefill": evaluation.prefill_memory, "decode": evaluation.decode_memory}
    free = {name: -float(budget.excess_bytes) for name, budget in pools.items()}
    if evaluation.inputs.shared:
        return {"": min(free.values())}
    clusters = float(evaluation.buffer_clusters)
    if clusters:
        held = float(evaluation.buffer_kv_bytes) / clusters
        free["buffer"] = max(float(evaluation.limit_bytes) - held, 0.0)
    return free


def fullest_words(free: dict[str, float], unit: str) -> str:
    """Return which cluster the least free memory is on, and what is free on the others."""
    texts = {name: human(value, "B") for name, value in free.items()}
    if len(free) == 1:
        return f"Free on the fullest {unit}."
    least = min(free, key=lambda name: free[name])
    others = [f"{text} on a {name} {unit}" for name, text in texts.items() if name != least]
    return f"Free on the fullest {unit}, here a {least} {unit}; it is {joined(others)}."


def _change(value: float | None, reference: float | None, of: str) -> str | None:
    """Return how a figure differs from the preset's; ``of`` names it where its tile has two."""
    # A ratio says nothing where memory that is free becomes memory that is short.
    if value is None or not reference or value / reference < 0:
        return None
    change = value / reference - 1
    if abs(change) < UNCHANGED:
        return None
    sign = "+" if change > 0 else "-"
    if abs(change) >= MANY_TIMES:
        return f"{sign}{significant(value / reference)} times the preset{of and f' in {of}'}"
    return f"{sign}{significant(100 * abs(change))} % {of and f'{of} '}vs preset"


def _tile(scenario: Scenario) -> Tile | None:
    if scenario.chip_document().family != "mt3000":
        return None
    return best_single_level_tile(
        int(scenario.value("hardware.sm_bytes")),
        int(scenario.value("hardware.am_bytes")),
        STORAGE_BYTES[TILE_PRECISION],
    )


def _slices(scenario: Scenario) -> None:
    st.subheader("How many slices?", anchor=False)
    if scenario.measured.prefill_seconds is not None:
        st.info(TYPED_IN)
        return
    sweep = slice_sweep(scenario)
    best = sweep.best
    loss = sweep.chosen_seconds * best.rows_per_second / sweep.rows - 1
    verdict = (
        "the present setting is as fast"
        if loss < UNCHANGED
        else f"the present setting takes {significant(100 * loss)} % longer"
    )
    st.markdown(
        f"For {human(float(sweep.rows), 'rows')} a pass, "
        f"**{human(float(best.slices), 'slices')}** is best "
        f"({significant(best.rows_per_second)} tokens/s of prefill); {verdict}."
    )
    chart(
        slices_figure(sweep),
        "slices",
        "Time of a prefill pass on host and device against the slices of each all-reduce",
    )
    stage = slowest_stage_words(evaluate(scenario))
    of = f" Times are those of the slowest, {stage}." if stage else ""
    st.caption(
        "A pass ends when both are done: more slices hide more of each all-reduce on the device, "
        f"and cost the host another collective to issue.{of}"
    )


def _memory(evaluation: Evaluation, tile: Tile | None) -> None:
    st.subheader("Does it fit?", anchor=False)
    chart(
        memory_figure(memory_bars(evaluation, tile)),
        "memory",
        "What fills the memory of each kind of cluster, as a share of its capacity",
    )
    if tile is not None:
        st.caption(
            f"Tile: the best single-level FP32 tile (Eqs 4-5) is {tile.m} × {tile.k} × {tile.n}, "
            f"{significant(tile.intensity)} MAC/B."
        )


def _pipeline(evaluation: Evaluation, feasible: bool) -> None:
    st.subheader("When does each stage work?", anchor=False)
    if not feasible:
        st.info("A plan that does not fit has no timeline.")
        return
    timeline = pipeline_timeline(evaluation)
    phases = SHARED_PHASES if evaluation.inputs.shared else ()
    chart(
        pipeline_figure(timeline, phases),
        "pipeline",
        "Batches in prefill stages, buffer and decode stages over time",
    )
    hidden = (
        f" {timeline.hidden_rows} more rows alike are left out." if timeline.hidden_rows else ""
    )
    numbered = (
        "" if phases else " Numbers count the batches; a bar too short for one has its colour."
    )
    st.caption(
        f"Steady state: a batch of {human(float(evaluation.batch), 'requests')} every "
        f"{human(timeline.interval_seconds, 's')}.{numbered}{hidden}"
    )


def _breakdown(evaluation: Evaluation, feasible: bool) -> None:
    st.subheader("Where does the time go?", anchor=False)
    if not feasible:
        st.info("A plan that does not fit has no times.")
        return
    chart(
        breakdown_figure(breakdown_data(evaluation)),
        "breakdown",
        "Share of each operator in a prefill pass and a decode step, by what binds it",
    )


def _roofline(evaluation: Evaluation, tile: Tile | None) -> None:
    st.subheader("Is it the memory or the arithmetic?", anchor=False)
    st.caption(
        "Left of a roof's bend an operator waits for memory, right of it for arithmetic. "
        "Filled: prefill; open: decode. Colour and shape: what binds an operator."
    )
    chart(
        roofline_figure(roofline_data(evaluation, tile)),
        "roofline",
        "Roofline with a mark for each operator of prefill and decode",
    )


def _numbers(evaluation: Evaluation) -> None:
    with folded("Numbers behind the page", "numbers") as is_open:
        if is_open:
            if evaluation.feasible:
                ascend_numbers.pass_and_step(evaluation)
            st.json(evaluation_document(evaluation), expanded=1)
