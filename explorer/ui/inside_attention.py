"""Attention: MT against Flash and unfused, what each moves, and where scores stay."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.chips.mt3000 import Mt3000
from explorer.config.errors import refuse
from explorer.config.units import BINARY_BYTES, human, significant
from explorer.costs.arrays import scalar
from explorer.costs.attention import (
    METHODS,
    SCORE_BYTES,
    AttentionTiles,
    Method,
    attention_cost,
    longest_scores_in_sm,
    row_block,
    smallest_blocks,
    table_iii,
)
from explorer.costs.gemm import GemmCluster, tightest
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.attention import LINES, attention_data, attention_figure, matching_attention
from explorer.ui.inside_controls import NUMBER_WIDTH, control_row, linked_number

LONGEST_SEQ = 1_048_576
MEASURED_SHAPE, MODEL_SHAPE = "as measured", "this model"
MEASURED_INSTANCES, MEASURED_HEAD_DIM = 4 * 32, 128


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    seq, instances, head_dim = _controls(machine)
    tiles, cluster = machine.attention_tiles, machine.cluster
    with answer:
        st.markdown(_sentence(seq, instances, head_dim, tiles, cluster))
        fp16 = machine.inputs.scenario.precision.compute == "fp16"
        rows = shipped_measurements() if fp16 else ()
        measured = matching_attention(rows, instances, head_dim)
        data = attention_data(scalar(instances), scalar(head_dim), tiles, cluster, measured)
        st.plotly_chart(attention_figure(data, float(seq)), key="attention", width="stretch")
        note = "Table IX names no precision; FP16 is assumed" if fp16 else "Table IX is for FP16"
        st.caption(
            f"{instances:,} heads × requests of {head_dim} elements, full attention. {note}. "
            "M_r, M_c, the time of a round, of a score and the passes of unfused scores are fitted."
        )
    _methods(seq, instances, head_dim, tiles, cluster)
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


def _sentence(
    seq: int, instances: int, head_dim: int, tiles: AttentionTiles, cluster: GemmCluster
) -> str:
    s, d = scalar(seq), scalar(head_dim)
    seconds = {
        method: float(attention_cost(method, scalar(instances), s, d, tiles, cluster).seconds)
        for method in METHODS
    }
    mt = seconds["mt"]
    refusal = _does_not_fit("mt", seq, head_dim, tiles, cluster)
    lead = f"At S = {seq:,} MT Attention takes **{human(mt, 's')}**"
    text = (
        f"{lead}, Flash **{significant(seconds['flash'] / mt)} times** and unfused "
        f"{significant(seconds['unfused'] / mt)} times as long."
    )
    return f"{text} {refusal}" if refusal else text


def _does_not_fit(
    method: Method, seq: int, head_dim: int, tiles: AttentionTiles, cluster: GemmCluster
) -> str:
    blocks = smallest_blocks(method, scalar(seq), scalar(head_dim), tiles, cluster)
    needed, there = tightest(*blocks)
    if float(needed) <= float(there):
        return ""
    return (
        f"**It does not fit:** one micro-kernel of rows takes {human(float(needed), BINARY_BYTES)} "
        f"of {human(float(there), BINARY_BYTES)}."
    )


def _methods(
    seq: int, instances: int, head_dim: int, tiles: AttentionTiles, cluster: GemmCluster
) -> None:
    st.subheader("What does each method move?", anchor=False)
    s, d, heads = scalar(seq), scalar(head_dim), scalar(instances)
    rows: dict[str, dict[str, str]] = {}
    for method in METHODS:
        cost = attention_cost(method, heads, s, d, tiles, cluster)
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
            "Time": human(float(cost.seconds), "s"),
        }
        if _does_not_fit(method, seq, head_dim, tiles, cluster):
            column["Time"] += ", does not fit"
        rows[LINES[method][0]] = column
    order = list(rows["MT"])
    st.table(pd.DataFrame(rows).reindex(order).fillna("–"), border="horizontal")
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
