"""FP16: what half the bytes and twice the lanes are worth, and where the bound moves."""

from __future__ import annotations

import streamlit as st

from explorer.chips.mechanisms import usable_tile
from explorer.chips.mt3000 import Mt3000
from explorer.config.units import human, significant
from explorer.costs.arrays import ZERO
from explorer.costs.gemm import ACCUMULATOR_BYTES, tile_bytes
from explorer.costs.memory import STORAGE_BYTES
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.coinciding import coinciding_sentence
from explorer.plots.halves import (
    PRECISIONS,
    Pair,
    accumulator_share,
    halves_figure,
    measured_pairs,
    pairs,
    speed_ups,
)
from explorer.ui.charts import chart
from explorer.ui.tables import show_table


def view(machine: Mt3000) -> None:
    """Draw the view."""
    clusters = tuple(machine.cluster_at(name, STORAGE_BYTES[name]) for name in PRECISIONS)
    both = (clusters[0], clusters[1])
    tiles = (usable_tile(machine, both[0]), usable_tile(machine, both[1]))
    found = pairs(measured_pairs(shipped_measurements()), both, tiles)
    st.markdown(_sentence(found))
    chart(
        halves_figure(found),
        "halves",
        "Speed-up of FP16 over FP32 against columns, predicted and measured",
    )
    st.caption(
        "The 36 products of Table VIII, each precision at its own tile. Open circles were measured "
        "on the published machine, each in the colour of its M; the lines follow the sliders. The "
        f"bandwidth share of mixed streams is fitted.{coinciding_sentence(speed_ups(found))}"
    )
    st.markdown("**What changes in the tile**")
    rows = []
    for name, cluster, tile in zip(PRECISIONS, both, tiles, strict=True):
        taken = tile_bytes(tile, ZERO, cluster)
        share = float(accumulator_share(tile, cluster, ACCUMULATOR_BYTES))
        rows.append(
            {
                "precision": name.upper(),
                "rows a DSP, M_2": human(float(tile.m2)),
                "rows a round": human(float(tile.m2 * cluster.dsps)),
                "kernel columns, N_1": human(float(cluster.kernel_columns)),
                "peak": human(float(cluster.peak_macs_per_second), "MAC/s"),
                "SM taken": human(float(taken.sm_bytes), "iB"),
                "AM of FP32 sums": human(share, "fraction"),
            }
        )
    show_table(rows)
    st.caption(
        "Operands are stored in FP16 and accumulated in FP32, so the output buffers do not "
        "shrink; softmax scores stay FP32 too. Half the bytes an operand lets twice the rows into "
        "SM and GSM, so weights stream half as often for the same rows."
    )
    st.markdown("**Where the bound moves**")
    show_table(_bounds(found))


def _sentence(found: tuple[Pair, ...]) -> str:
    predicted = [pair.speed_up for pair in found]
    measured = [pair.measured_speed_up for pair in found if pair.measured_speed_up is not None]
    moved = sum(pair.limits[0] != pair.limits[1] for pair in found)
    mean = significant(sum(predicted) / len(predicted))
    real = significant(sum(measured) / len(measured))
    return (
        f"FP16 makes the measured products **{mean} times** as fast in the mean (measured: {real} "
        f"times). What limits a product changes in {moved} of {len(found)} shapes."
    )


def _bounds(found: tuple[Pair, ...]) -> list[dict[str, str]]:
    counts: dict[tuple[str, str], int] = {}
    for pair in found:
        counts[pair.limits] = counts.get(pair.limits, 0) + 1
    rows = [
        {"limited at FP32 by": before, "at FP16 by": after, "products": str(count)}
        for (before, after), count in sorted(counts.items(), key=lambda item: -item[1])
    ]
    return rows
