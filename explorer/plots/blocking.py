"""Time of a product against its rows: a staircase of rounds of the DSPs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.gemm import GemmCluster, GemmTile, gemm_cost
from explorer.costs.tile_search import Product, idle_dsps, staircase_rows
from explorer.fidelity.measurements import Measurement
from explorer.plots.measured import add_measured
from explorer.plots.palette import COMPARED
from explorer.plots.style import base_figure

MOST_ROUNDS = 30
MARGIN = 1.1
MS = 1e3


class Stairs(NamedTuple):
    """One tile's times: rows, seconds, and each point as a sentence."""

    name: str
    rows: tuple[float, ...]
    seconds: tuple[float, ...]
    sentences: tuple[str, ...]


class Staircase(NamedTuple):
    """Everything that the chart shows; measured as (rows, seconds)."""

    product: Product
    stairs: tuple[Stairs, ...]
    measured: tuple[tuple[float, float], ...]


def matching_products(
    rows: tuple[Measurement, ...], precision: str, product: Product
) -> tuple[tuple[float, float], ...]:
    """Return measured (M, seconds) of products of the same K, N and precision."""
    wanted = {"dtype": precision, "k": str(product.k), "n": str(product.n)}
    return tuple(
        (float(row.conditions["m"]), row.si_value)
        for row in rows
        if row.quantity == "gemm_latency"
        and wanted == {name: row.conditions.get(name) for name in wanted}
    )


def staircase_data(
    product: Product,
    tiles: dict[str, GemmTile],
    cluster: GemmCluster,
    measured: tuple[tuple[float, float], ...],
) -> Staircase:
    """Return time against M for each tile, up to the product's own M and the measured ones."""
    most = MARGIN * max([float(product.m), *(rows for rows, _ in measured)])
    _, k, n = product.sizes
    stairs = []
    for name, tile in tiles.items():
        rows = staircase_rows(most, tile, cluster, MOST_ROUNDS)
        cost = gemm_cost(rows, k, n, tile, cluster)
        parts = np.broadcast_arrays(
            cost.seconds, cost.rounds, cost.column_split, idle_dsps(rows, tile, cluster)
        )
        sentences = tuple(
            f"M = {m:,.0f}: {human(float(seconds), 's')}, "
            + (
                "columns over the DSPs"
                if split
                else f"{human(float(rounds), 'rounds')}, "
                f"{human(float(idle), 'DSPs')} idle in the last"
            )
            for m, seconds, rounds, split, idle in zip(rows, *parts, strict=True)
        )
        times = tuple(float(value) for value in parts[0])
        stairs.append(Stairs(name, tuple(float(m) for m in rows), times, sentences))
    return Staircase(product, tuple(stairs), measured)


def staircase_figure(data: Staircase) -> go.Figure:
    """Draw the stairs as lines, measured products as open circles."""
    figure = base_figure(340, f"staircase {data.product.k} {data.product.n}")
    for line, look in zip(data.stairs, COMPARED, strict=False):
        figure.add_scatter(
            x=line.rows,
            y=[MS * seconds for seconds in line.seconds],
            mode="lines",
            name=line.name,
            line=look.line,
            customdata=line.sentences,
            hovertemplate="%{customdata}<extra></extra>",
        )
    add_measured(
        figure,
        [rows for rows, _ in data.measured],
        [MS * seconds for _, seconds in data.measured],
        [f"measured at M = {rows:,.0f}: {human(s, 's')}" for rows, s in data.measured],
        "measured (Table VIII)",
    )
    figure.update_xaxes(title=f"M [rows], K = {data.product.k:,}, N = {data.product.n:,}")
    figure.update_yaxes(title="time [ms]", rangemode="tozero")
    return figure
