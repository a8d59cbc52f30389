"""Operators of a decoder layer in order: their density, coloured by the region they are in."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.costs.fusion import Partition
from explorer.costs.graph import Graph
from explorer.plots.palette import NEUTRAL, look, text_on
from explorer.plots.style import base_figure, words

ROW_HEIGHT = 24
NAMES = {
    "rope": "RoPE",
    "qk_matmul": "Q Kᵀ matmul",
    "pv_matmul": "P V matmul",
    "silu": "SiLU",
    "gelu": "GELU",
    "fc1_linear": "FC1 linear",
    "fc2_linear": "FC2 linear",
    "ffn_add": "FFN add",
}


def operator_name(name: str) -> str:
    """Return an operator's name as people write it."""
    return NAMES.get(name) or words(name)


class Bar(NamedTuple):
    """One operator: region counted from 1, density of its block, traffic on its own."""

    name: str
    region: int
    alone: bool
    density: float
    high: bool
    ddr_bytes: float


def fusion_data(graph: Graph, partition: Partition, threshold: float) -> tuple[Bar, ...]:
    """Return the operators in the graph's order with their regions."""
    region_of = {
        name: (number, len(region.names) == 1)
        for number, region in enumerate(partition.regions, 1)
        for name in region.names
    }
    return tuple(
        Bar(
            operator.name,
            *region_of[operator.name],
            operator.block_density,
            operator.is_high(threshold),
            operator.ddr_bytes,
        )
        for operator in graph.operators
    )


def fusion_figure(bars: tuple[Bar, ...], threshold: float) -> go.Figure:
    """Draw one bar an operator; a colour and a number a region, grey for what stays alone."""
    figure = base_figure(110 + ROW_HEIGHT * len(bars), "fusion")
    names = [operator_name(bar.name) for bar in bars]
    fused = list(dict.fromkeys(bar.region for bar in bars if not bar.alone))
    for region in dict.fromkeys(bar.region for bar in bars):
        mine = [bar for bar in bars if bar.region == region]
        colour = look(fused.index(region)).colour if region in fused else NEUTRAL
        figure.add_bar(
            y=[operator_name(bar.name) for bar in mine],
            x=[bar.density for bar in mine],
            orientation="h",
            name=f"region {region}",
            marker={"color": colour},
            text=f"region {region}" if region in fused else "alone",
            textposition="auto",
            insidetextfont={"color": text_on(colour)},
            cliponaxis=False,
            customdata=[
                f"{'high' if bar.high else 'low'} density, {significant(bar.density)} MAC/B; "
                f"{human(bar.ddr_bytes, 'B')} of DDR traffic on its own"
                for bar in mine
            ],
            hovertemplate="%{y}: %{customdata}<extra></extra>",
        )
    figure.add_vline(x=threshold, line={"dash": "dash", "color": NEUTRAL})
    figure.update_layout(barmode="overlay", bargap=0.2)
    figure.update_xaxes(
        title="density of a block [MAC/B], dashed: high from here",
        type="log",
        dtick=1,
    )
    figure.update_yaxes(
        categoryorder="array", categoryarray=names, autorange="reversed", title=None
    )
    return figure
