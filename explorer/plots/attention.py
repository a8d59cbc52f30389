"""Time of attention against sequence length, for each method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.arrays import Array
from explorer.costs.attention import METHODS, AttentionTiles, Method, attention_cost, fits
from explorer.costs.gemm import GemmCluster
from explorer.fidelity.measurements import Measurement
from explorer.plots.measured import add_measured
from explorer.plots.palette import COMPARED, NEUTRAL, Look
from explorer.plots.style import base_figure

SHORTEST, LONGEST, POINTS = 64, 16384, 61
MS = 1e3
LINES: dict[Method, tuple[str, Look]] = {
    "mt": ("MT", COMPARED[0]),
    "flash": ("Flash", COMPARED[1]),
    "unfused": ("Unfused", COMPARED[2]),
}


class Line(NamedTuple):
    """Times of one method [s] against S, at each S that fits."""

    method: Method
    seq: tuple[float, ...]
    seconds: tuple[float, ...]


class AttentionTimes(NamedTuple):
    """Lines, and measured (method, S, seconds)."""

    lines: tuple[Line, ...]
    measured: tuple[tuple[str, float, float], ...]


def matching_attention(
    rows: tuple[Measurement, ...], instances: int, head_dim: int
) -> tuple[tuple[str, float, float], ...]:
    """Return measured (method, S, seconds) of as many heads x requests of one size."""
    return tuple(
        (row.conditions["method"], float(row.conditions["seq"]), row.si_value)
        for row in rows
        if row.quantity == "attention_latency"
        and int(row.conditions["batch"]) * int(row.conditions["heads"]) == instances
        and int(row.conditions["head_dim"]) == head_dim
    )


def attention_data(
    instances: Array,
    head_dim: Array,
    tiles: AttentionTiles,
    cluster: GemmCluster,
    memory_bytes: Array,
    measured: tuple[tuple[str, float, float], ...],
) -> AttentionTimes:
    """Return each method's time over a fixed range of S, where it fits ``memory_bytes`` of DDR."""
    seq = np.unique(np.round(np.geomspace(SHORTEST, LONGEST, POINTS)))
    lines = []
    for method in METHODS:
        seconds = attention_cost(method, instances, seq, head_dim, tiles, cluster).seconds
        there = fits(method, instances, seq, head_dim, tiles, cluster, memory_bytes)
        there, seconds = np.broadcast_to(there, seq.shape), np.broadcast_to(seconds, seq.shape)
        lines.append(Line(method, tuple(seq[there].tolist()), tuple(seconds[there].tolist())))
    return AttentionTimes(tuple(lines), measured)


def attention_figure(data: AttentionTimes, chosen_seq: float) -> go.Figure:
    """Draw log-log lines, measured cells as open circles, the chosen S as a dotted line."""
    figure = base_figure(360, "attention")
    for line in data.lines:
        name, look = LINES[line.method]
        figure.add_scatter(
            x=line.seq,
            y=[MS * seconds for seconds in line.seconds],
            mode="lines",
            name=name,
            line=look.line,
            customdata=[human(seconds, "s") for seconds in line.seconds],
            hovertemplate=f"{name} takes %{{customdata}} at S = %{{x:,.0f}} tokens<extra></extra>",
        )
    add_measured(
        figure,
        [seq for _, seq, _ in data.measured],
        [MS * seconds for _, _, seconds in data.measured],
        [f"{m} measured at S = {seq:,.0f} tokens: {human(s, 's')}" for m, seq, s in data.measured],
        "measured (Table IX)",
    )
    figure.add_vline(x=chosen_seq, line={"dash": "dot", "color": NEUTRAL})
    figure.update_xaxes(
        title="S [tokens] (dotted: chosen)",
        type="log",
        tickvals=[2**power for power in range(6, 15, 2)],
        ticktext=[f"{2**power:,}" for power in range(6, 15, 2)],
    )
    figure.update_yaxes(title="time [ms]", type="log", dtick=1)
    return figure
