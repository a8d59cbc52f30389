"""Triple buffering: what overlaps in the loop over blocks of Y2, and what each step gains."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.chips.mechanisms import loop_iterations, loop_times, usable_tile
from explorer.chips.mt3000 import Mt3000
from explorer.config.units import human, significant
from explorer.costs.arrays import scalar
from explorer.costs.buffering import (
    MOST_BUFFERS,
    STEADY_BLOCKS,
    WAYS,
    Buffering,
    Gains,
    LoopTimes,
    loop_seconds,
    simulate,
    steady_gains,
)
from explorer.costs.memory import STORAGE_BYTES
from explorer.plots.buffering import gantt_data, gantt_figure
from explorer.ui.charts import chart
from explorer.ui.inside_controls import control_row, precision_control
from explorer.ui.tables import show_table

SLIDER_WIDTH = 260
GSM_SPEEDS = (1, 2, 4, 8, 16, 32, 64)
ASSUMED_SPEED = 8
WAY_NAMES = ("1 buffer", "2 buffers", "3 buffers", "3 buffers, Y2 in tiles")
NO_GAIN = 1.005


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    precision, buffering, speed = _controls()
    cluster = machine.cluster_at(precision, STORAGE_BYTES[precision])
    tile = usable_tile(machine, cluster)
    times, iterations = loop_times(tile, cluster, scalar(speed)), loop_iterations(tile)
    timeline = simulate(times, STEADY_BLOCKS, int(iterations), buffering)
    with answer:
        st.markdown(_sentence(times, int(iterations), buffering, machine))
        gantt = gantt_data(timeline)
        chart(
            gantt_figure(gantt),
            "gantt",
            "Loads, arithmetic and stores of the first blocks over time",
        )
        more = f" {gantt.hidden:,} later bars are left out." if gantt.hidden else ""
        st.caption(
            f"{STEADY_BLOCKS} blocks of Y2, {float(cluster.dsps * tile.m2):,.0f} × "
            f"{float(tile.n2):,.0f} on all DSPs in {precision.upper()}, each of {iterations:.0f} "
            f"iterations over K2; every second block is hatched.{more}"
        )
    _ways(times, int(iterations))


def _controls() -> tuple[str, Buffering, int]:
    row = control_row()
    precision = precision_control(row)
    buffers = row.segmented_control(
        "Buffers",
        tuple(range(1, MOST_BUFFERS + 1)),
        default=MOST_BUFFERS,
        key="inside:buffers",
        required=True,
    )
    count = int(buffers or MOST_BUFFERS)
    tiled = row.toggle(
        "Dynamic tiling",
        value=True,
        disabled=count < MOST_BUFFERS,
        key="inside:tiled",
        help="Y2 leaves in tiles under the next block's iterations (Fig. 7) instead of whole "
        "under its first one (Fig. 6).",
    )
    speed = row.select_slider(
        "GSM over DDR bandwidth (assumed)",
        GSM_SPEEDS,
        value=ASSUMED_SPEED,
        width=SLIDER_WIDTH,
        key="inside:gsm_speed",
        format_func=lambda ratio: f"{ratio} ×",
        help="X2 comes out of GSM, whose bandwidth is not published; 1 is X2 straight from DDR.",
    )
    return precision, Buffering(count, tiled and count == MOST_BUFFERS), int(speed)


def _sentence(times: LoopTimes, iterations: int, buffering: Buffering, machine: Mt3000) -> str:
    count = scalar(iterations)
    now = loop_seconds(times, scalar(STEADY_BLOCKS), count, buffering)
    serial = loop_seconds(times, scalar(1), count, WAYS[0])
    faster = float(serial.period_seconds / now.period_seconds)
    compute = float(count * times.compute_seconds)
    dma = float(count * times.load_seconds + times.store_seconds)
    gains = steady_gains(times, count)
    bandwidth = float(machine.numbers.ddr_bandwidth_bytes_per_second)
    lead = (
        f"A block of Y2 every **{human(float(now.period_seconds), 's')}** in the steady state, "
        f"**{significant(faster)} times** as fast as with one buffer. {_gains(gains)}"
    )
    if dma > compute:
        return (
            f"{lead} A block needs {human(dma, 's')} of DMA and {human(compute, 's')} of "
            "arithmetic, so no buffer can hide it all: from "
            f"{human(bandwidth * dma / compute, 'B/s')} on arithmetic would be the longer."
        )
    return (
        f"{lead} A block needs {human(dma, 's')} of DMA, which {human(compute, 's')} of arithmetic "
        "can cover."
    )


def _gains(gains: Gains) -> str:
    parts = {
        "The second buffer gains": gains.second_buffer,
        "the third": gains.third_buffer,
        "dynamic tiling": gains.dynamic_tiling,
    }
    worth = [
        f"{name} {significant(float(gain))} times" if float(gain) > NO_GAIN else f"{name} nothing"
        for name, gain in parts.items()
    ]
    return f"{worth[0]}, {worth[1]}, {worth[2]}."


def _ways(times: LoopTimes, iterations: int) -> None:
    rows = []
    for name, way in zip(WAY_NAMES, WAYS, strict=True):
        loop = loop_seconds(times, scalar(STEADY_BLOCKS), scalar(iterations), way)
        rows.append(
            {
                "": name,
                "Steady-state period": human(float(loop.period_seconds), "s"),
                "Head": human(float(loop.head_seconds), "s"),
                "Arithmetic": human(float(loop.compute_seconds), "s"),
                "Bubbles": human(float(loop.bubble_seconds), "s"),
                "Exposed tail": human(float(loop.tail_seconds), "s"),
                "In all": human(float(loop.total_seconds), "s"),
                "Arithmetic works": f"{significant(100 * float(loop.compute_share))} %",
            }
        )
    show_table(pd.DataFrame(rows).set_index("").T, index=True)
    st.caption(
        f"{STEADY_BLOCKS} blocks. Head, arithmetic, bubbles (arithmetic waits for DMA) and exposed "
        "tail add up. The bandwidth share of mixed streams is fitted; GSM's speed is assumed."
    )
