"""Fusion: which operators of a decoder layer become one kernel, and what that saves."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import groupby

import streamlit as st

from explorer.chips.mechanisms import FusionCase, fusion_case
from explorer.chips.mt3000 import Mt3000
from explorer.config.model import Model
from explorer.config.units import BINARY_BYTES, human, significant
from explorer.costs.fusion import (
    Partition,
    fuse_by_density,
    fuse_exhaustively,
    partition_of,
    rope_saving,
)
from explorer.costs.graph import Work
from explorer.costs.layer import Layout
from explorer.plots.fusion import fusion_data, fusion_figure, operator_name
from explorer.ui.charts import chart
from explorer.ui.inside_controls import control_row, precision_control
from explorer.ui.tables import show_table

LAYOUTS = {
    "One after the other": Layout.SEQUENTIAL,
    "Side by side": Layout.PARALLEL,
    "Side by side, one addition": Layout.PARALLEL_THREE_WAY,
}
SELECT_WIDTH = 230
GATED, NOT_GATED = "Gated", "Without gate"
PHASES = ("prefill", "decode")
AM_SHARES = (0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.25, 1.5, 2.0, 4.0)
FIGURE_4 = frozenset(
    {
        ("attention_norm", "q_linear", "k_linear", "v_linear", "rope"),
        ("qk_matmul", "scale", "softmax", "pv_matmul"),
        ("o_linear", "attention_add"),
        ("ffn_norm", "gate_linear", "up_linear"),
        ("silu", "mul", "down_linear", "ffn_add"),
    }
)


# Most sliders change neither the graph of a layer nor its memories.
_by_density = lru_cache(maxsize=64)(fuse_by_density)
_exhaustively = lru_cache(maxsize=16)(fuse_exhaustively)


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    chosen, model, work, layout = _controls(machine)
    case = fusion_case(chosen, model, work, layout)
    rule = _by_density(case.graph, case.capacity, case.threshold)
    best = _exhaustively(case.graph, case.capacity, case.threshold)
    with answer:
        st.markdown(f"{_sentence(case, rule, best)} {_why_not_figure_4(chosen, case, rule)}")
        bars = fusion_data(case.graph, rule, case.threshold)
        chart(
            fusion_figure(bars, case.threshold),
            "fusion",
            "Density of each operator of a layer, by the region it is fused into",
        )
        st.caption(
            f"High density starts at {significant(case.threshold)} MAC/B, midway between the "
            f"densest elementwise operator ({significant(case.densest_low)}) and the sparsest "
            f"product ({significant(case.sparsest_high)}); the paper gives no figure, and any "
            "between these two gives the same regions."
        )
    _regions(case, rule)
    _less_am(case, rule)


def _with_precision(machine: Mt3000, precision: str) -> Mt3000:
    changes = dict.fromkeys(("precision.compute", "precision.weights", "precision.kv"), precision)
    scenario = machine.inputs.scenario.replacing(changes)
    return Mt3000.of(replace(machine.inputs, scenario=scenario))


def _controls(machine: Mt3000) -> tuple[Mt3000, Model, Work, Layout]:
    row = control_row()
    precision = precision_control(row)
    layout = row.selectbox(
        "Attention and MLP", list(LAYOUTS), width=SELECT_WIDTH, key="inside:layout"
    )
    gate = row.selectbox("MLP", (GATED, NOT_GATED), width=SELECT_WIDTH, key="inside:gate")
    phase = row.segmented_control(
        "Pass", PHASES, default=PHASES[0], key="inside:phase", required=True
    )
    chosen = _with_precision(machine, precision)
    model = replace(machine.inputs.model, mlp_matrices=3 if gate == GATED else 2)
    return chosen, model, _work(machine, str(phase)), LAYOUTS[str(layout)]


def _work(machine: Mt3000, phase: str) -> Work:
    i = machine.inputs
    if phase == "decode":
        requests = int(i.micro_batch_decode)
        return Work(requests, requests, int(i.mean_context_tokens))
    requests, prompt = int(i.micro_batch_prefill), int(i.prompt_tokens)
    return Work(requests * prompt, requests, prompt)


def _sentence(case: FusionCase, rule: Partition, best: Partition) -> str:
    operators = len(case.graph.operators)
    apart = rule.ddr_bytes + rule.saved_bytes
    figure_4 = (
        " They are exactly the five regions of Fig. 4." if set(rule.names) == FIGURE_4 else ""
    )
    if rule.score == best.score:
        verdict = "No legal partition is better: all were tried."
    else:
        more = rule.ddr_bytes - best.ddr_bytes
        verdict = (
            f"The best of all legal partitions moves {human(float(more), 'B')} less, in "
            f"{human(float(best.launches), 'regions')}."
        )
    return (
        f"The density rule makes **{human(float(rule.launches), 'regions')}** of {operators} "
        f"operators.{figure_4} It saves **{human(float(rule.saved_bytes), 'B')}** of DDR traffic "
        f"({significant(100 * rule.saved_bytes / apart)} %) and {rule.saved_launches} launches a "
        f"layer. {verdict}"
    )


def _why_not_figure_4(machine: Mt3000, case: FusionCase, rule: Partition) -> str:
    """Return why regions differ from Fig. 4 where FP16 with its smaller operands has fewer."""
    fp16 = machine.inputs.scenario.precision.compute == "fp16"
    if not fp16 or rule.launches >= len(FIGURE_4):
        return ""
    return (
        "Fig. 4's five hold in FP32, the precision of Eqs 4 to 8: operands of FP16 are half as "
        f"large and leave room in AM, so that, with {case.blocks.rows_per_dsp} rows a DSP, "
        "operators of two regions fit one kernel."
    )


def _regions(case: FusionCase, rule: Partition) -> None:
    st.subheader("What is in each region?", anchor=False)
    rows = []
    for number, region in enumerate(rule.regions, 1):
        alone = partition_of(case.graph, [[o.name] for o in case.graph.operators], case.capacity)
        separate = sum(r.ddr_bytes for r in alone.regions if r.names[0] in region.names)
        needed = region.working_set.am_needed(case.capacity, case.graph.dsps)
        rows.append(
            {
                "Region": str(number),
                "Operators": ", ".join(operator_name(name) for name in region.names),
                "DDR traffic": human(float(region.ddr_bytes), "B"),
                "Saved": human(float(separate - region.ddr_bytes), "B"),
                "AM": f"{human(float(needed), BINARY_BYTES)} of "
                f"{human(float(case.capacity.am_bytes), BINARY_BYTES)}",
            }
        )
    show_table(rows)
    if not any("rope" in names and len(names) > 1 for names in rule.names):
        st.markdown("**RoPE inside the Linear kernel** (Algorithm 1): no room for it here.")
        return
    rope = rope_saving(case.graph)
    st.markdown(
        f"**RoPE inside the Linear kernel** (Algorithm 1) saves {human(float(rope.ddr_bytes), 'B')}"
        f" and {human(float(rope.launches))} launch a layer: Q and K are not written and read "
        "again for it."
    )


def _less_am(case: FusionCase, rule: Partition) -> None:
    st.subheader("What if AM were smaller or larger?", anchor=False)
    sizes = [int(share * case.capacity.am_bytes) for share in AM_SHARES]
    found = [_by_density(case.graph, case.with_am(size), case.threshold) for size in sizes]
    rows = []
    for _, group in groupby(zip(sizes, found, strict=True), key=lambda pair: pair[1].names):
        alike = list(group)
        ends = dict.fromkeys((alike[0][0], alike[-1][0]))
        rows.append(
            {
                "AM": " to ".join(human(float(end), BINARY_BYTES) for end in ends),
                "Regions": str(alike[0][1].launches),
                "DDR traffic saved": human(float(alike[0][1].saved_bytes), "B"),
                "Regions that differ from now": _difference(rule, alike[0][1]),
            }
        )
    show_table(rows)
    st.caption(
        "Some sizes tried, at a blocking kept, that of the published SM, AM and GSM: "
        f"{case.blocks.rows_per_dsp} rows a DSP, {case.blocks.attention_rows_per_dsp} in attention."
    )


def _difference(now: Partition, other: Partition) -> str:
    new = [names for names in other.names if names not in now.names]
    if not new:
        return "as now"
    return "; ".join(", ".join(operator_name(name) for name in names) for names in new)
