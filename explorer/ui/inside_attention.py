"""Attention: MT against Flash and unfused, what each moves, and where scores stay."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import streamlit as st

from explorer.chips.mt3000 import Mt3000
from explorer.config.errors import refuse
from explorer.config.units import BINARY_BYTES, human, significant
from explorer.costs.arrays import Array, scalar
from explorer.costs.attention import (
    METHODS,
    SCORE_BYTES,
    AttentionCost,
    AttentionTiles,
    Method,
    attention_cost,
    ddr_bytes_held,
    longest_scores_in_sm,
    row_block,
    smallest_blocks,
    table_iii,
)
from explorer.costs.gemm import GemmCluster, tightest
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.attention import LINES, attention_data, attention_figure, matching_attention
from explorer.ui.charts import chart
from explorer.ui.inside_controls import NUMBER_WIDTH, control_row, linked_number
from explorer.ui.tables import show_table

LONGEST_SEQ = 1_048_576
MEASURED_SHAPE, MODEL_SHAPE = "as measured", "this model"
MEASURED_INSTANCES, MEASURED_HEAD_DIM = 4 * 32, 128
TIME = "Time"


class Case(NamedTuple):
    """Attention of one length; ``memory_bytes`` is what a cluster's DDR has to hold it in."""

    seq: int
    instances: int
    head_dim: int
    tiles: AttentionTiles
    cluster: GemmCluster
    memory_bytes: Array

    def cost(self, method: Method) -> AttentionCost:
        """Return what a method costs."""
        heads, s, d = scalar(self.instances), scalar(self.seq), scalar(self.head_dim)
        return attention_cost(method, heads, s, d, self.tiles, self.cluster)

    def refusal(self, method: Method) -> str:
        """Return what does not fit, in words; empty where all does."""
        heads, s, d = scalar(self.instances), scalar(self.seq), scalar(self.head_dim)
        needed, there = tightest(*smallest_blocks(method, s, d, self.tiles, self.cluster))
        if float(needed) > float(there):
            return (
                f"does not fit, one micro-kernel of rows takes {human(float(needed), BINARY_BYTES)}"
                f" of {human(float(there), BINARY_BYTES)}"
            )
        held = ddr_bytes_held(method, heads, s, d, self.cluster.element_bytes)
        if float(held) <= float(self.memory_bytes):
            return ""
        what = "Q, K, V, O and a head's scores" if method == "unfused" else "Q, K, V and O"
        return (
            f"does not fit, {what} take {human(float(held), 'B')} of a cluster's "
            f"{human(float(self.memory_bytes), 'B')}"
        )


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    seq, instances, head_dim = _controls(machine)
    tiles, cluster = machine.attention_tiles, machine.cluster
    capacity = machine.capacity
    memory = capacity.memory_bytes * capacity.usable_fraction
    case = Case(seq, instances, head_dim, tiles, cluster, memory)
    with answer:
        st.markdown(_sentence(case))
        fp16 = machine.inputs.scenario.precision.compute == "fp16"
        rows = shipped_measurements() if fp16 else ()
        measured = matching_attention(rows, instances, head_dim)
        data = attention_data(scalar(instances), scalar(head_dim), tiles, cluster, memory, measured)
        chart(
            attention_figure(data, float(seq)),
            "attention",
            "Time of attention against sequence length, by method",
        )
        note = "Table IX names no precision; FP16 is assumed" if fp16 else "Table IX is for FP16"
        st.caption(
            f"{instances:,} heads × requests of {head_dim} elements, full attention. {note}. "
            "Only lengths that fit have a point. "
            "M_r, M_c, the time of a round, of a score and the passes of unfused scores are fitted."
        )
    _methods(case)
    if not case.refusal("mt"):
        st.markdown(_scores(seq, tiles, cluster))


def _controls(machine: Mt3000) -> tuple[int, int, int]:
    i = machine.inputs
    row = control_row()
    seq = int(
        row.number_input(
            "S [tokens]",
            value=int(i.prompt_tokens),
            step=256,
            width=NUMBER_WIDTH,
            key="inside:seq",
        )
    )
    linked_number(row, "hardware.attention_mt_rows", "M_r [rows]")
    linked_number(row, "hardware.attention_flash_columns", "M_c [rows]")
    shape = row.segmented_control(
        "Heads and requests",
        (MEASURED_SHAPE, MODEL_SHAPE),
        default=MEASURED_SHAPE,
        key="inside:attention_shape",
        required=True,
    )
    if not 1 <= seq <= LONGEST_SEQ:
        raise refuse("S", seq, f"expected a whole number of tokens from 1 to {LONGEST_SEQ:,}")
    if shape == MEASURED_SHAPE:
        return seq, MEASURED_INSTANCES, MEASURED_HEAD_DIM
    return seq, int(i.micro_batch_prefill * i.model.query_heads), i.model.head_dim


def _sentence(case: Case) -> str:
    lead = f"At S = {case.seq:,}"
    refusals = {method: case.refusal(method) for method in METHODS}
    seconds = {
        method: float(case.cost(method).seconds) for method in METHODS if not refusals[method]
    }
    parts = []
    for method, time in seconds.items():
        name = LINES[method][0] + (" Attention" if method == "mt" else "")
        if method == "mt" or "mt" not in seconds:
            parts.append(f"{name} takes **{human(time, 's')}**")
        else:
            parts.append(f"{name} **{significant(time / seconds['mt'])} times** as long")
    missing = [f"{LINES[method][0]}: {why}" for method, why in refusals.items() if why]
    text = f"{lead} {', '.join(parts)}." if parts else ""
    if missing:
        refusal = f"**{'; '.join(missing)}.**"
        text = f"{text} {refusal}" if parts else f"{lead} no method fits. {refusal}"
    return text


def _methods(case: Case) -> None:
    st.subheader("What does each method move?", anchor=False)
    tiles, cluster, s = case.tiles, case.cluster, scalar(case.seq)
    rows: dict[str, dict[str, str]] = {}
    for method in METHODS:
        if case.refusal(method):
            rows[LINES[method][0]] = {TIME: "does not fit"}
            continue
        cost = case.cost(method)
        block = row_block(method, s, tiles, cluster)
        column = {"Rows a DSP works on": f"{float(block):,.0f}"}
        if method != "unfused":
            kept = tiles.flash_columns if method == "flash" else block
            io = table_iii(method, s, kept, cluster.dsps)
            column |= {
                "Q, DMA (Table III)": f"{float(io.query_dmas):,.0f} × S d",
                "O, DMA": f"{float(io.output_dmas):,.0f} × S d",
                "K and V, broadcast": f"{float(io.broadcasts):,.0f} × S d",
            }
        column |= {
            "Rounds of DSPs a head": f"{float(cost.rounds):,.0f}",
            "Fixed time of rounds": human(float(cost.round_seconds), "s"),
            "Arithmetic and softmax": human(float(cost.compute_seconds), "s"),
            "Transfers": human(float(cost.io_seconds), "s"),
            "DDR traffic": human(float(cost.bytes), "B"),
            TIME: human(float(cost.seconds), "s"),
        }
        rows[LINES[method][0]] = column
    order = [*dict.fromkeys(name for row in rows.values() for name in row if name != TIME), TIME]
    show_table(pd.DataFrame(rows).reindex(order).fillna("–"), index=True)
    st.caption(
        f"A broadcast takes {significant(float(cluster.broadcast_cost))} of a DMA of the same "
        "bytes. MT and Flash add their three times; unfused hides transfers under arithmetic or "
        "arithmetic under transfers."
    )


def _scores(seq: int, tiles: AttentionTiles, cluster: GemmCluster) -> str:
    s = scalar(seq)
    in_sm = float(longest_scores_in_sm(tiles, cluster))
    rows = float(row_block("mt", s, tiles, cluster))
    full = float(tiles.score_memory_bytes) / (SCORE_BYTES * float(tiles.mt_rows))
    place = "SM" if seq <= in_sm else "GSM and AM"
    return (
        f"**Where the scores are.** Up to S = {in_sm:,.0f} a block of {float(tiles.mt_rows):.0f} "
        f"rows of scores fits SM; above, they go to GSM and AM, and above S = {full:,.0f} the "
        f"block gets shorter. Here they are in **{place}**: a DSP holds {rows:,.0f} rows, "
        f"{human(SCORE_BYTES * rows * seq, BINARY_BYTES)}, instead of the "
        f"{human(float(SCORE_BYTES) * seq * seq, BINARY_BYTES)} of a head's whole score matrix: "
        "space grows with the block's rows M, O(M), not with S rows."
    )
