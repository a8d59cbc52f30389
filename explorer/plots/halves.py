"""FP16 against FP32: the speed-up of the measured products, and what limits each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.costs.arrays import Array, scalar
from explorer.costs.gemm import GemmCluster, GemmCost, GemmTile, gemm_cost
from explorer.fidelity.measurements import Measurement
from explorer.plots.measured import add_measured
from explorer.plots.palette import COMPARED
from explorer.plots.style import base_figure

PRECISIONS = ("fp32", "fp16")


class Pair(NamedTuple):
    """One product at both precisions [s]; measured where both were."""

    m: int
    k: int
    n: int
    seconds: tuple[float, float]
    limits: tuple[str, str]
    measured_speed_up: float | None

    @property
    def speed_up(self) -> float:
        """FP32 time over FP16 time."""
        return self.seconds[0] / self.seconds[1]


def measured_pairs(rows: tuple[Measurement, ...]) -> dict[tuple[int, int, int], float]:
    """Return measured FP32 over FP16 time by shape (M, K, N), where both were measured."""
    seconds: dict[tuple[int, int, int], dict[str, float]] = {}
    for row in rows:
        if row.quantity == "gemm_latency":
            shape = (int(row.conditions["m"]), int(row.conditions["k"]), int(row.conditions["n"]))
            seconds.setdefault(shape, {})[row.conditions["dtype"]] = row.si_value
    return {
        shape: times["fp32"] / times["fp16"]
        for shape, times in seconds.items()
        if set(times) >= set(PRECISIONS)
    }


def pairs(
    shapes: dict[tuple[int, int, int], float],
    clusters: tuple[GemmCluster, GemmCluster],
    tiles: tuple[GemmTile, GemmTile],
) -> tuple[Pair, ...]:
    """Return every shape at FP32 and FP16, each at its own tile."""
    m, k, n = (np.asarray(side, dtype=np.float64) for side in zip(*shapes, strict=True))
    costs = [
        gemm_cost(m, k, n, tile, cluster) for cluster, tile in zip(clusters, tiles, strict=True)
    ]
    return tuple(
        Pair(
            *shape,
            (float(costs[0].seconds[i]), float(costs[1].seconds[i])),
            (_limit(costs[0], i), _limit(costs[1], i)),
            speed_up,
        )
        for i, (shape, speed_up) in enumerate(shapes.items())
    )


def _limit(cost: GemmCost, index: int) -> str:
    compute, stream, exposed = (
        float(np.broadcast_to(part, cost.seconds.shape)[index])
        for part in (cost.compute_seconds, cost.stream_seconds, cost.exposed_seconds)
    )
    if exposed > max(compute, stream):
        return "loading X"
    return "arithmetic" if compute >= stream else "streaming W and Y"


def halves_figure(found: tuple[Pair, ...]) -> go.Figure:
    """Draw the speed-up against N, one line for each M, with the measured ones beside it."""
    figure = base_figure(360, "halves")
    for (m, line), look in zip(_by_rows(found).items(), COMPARED, strict=False):
        figure.add_scatter(
            x=[pair.n for pair in line],
            y=[pair.speed_up for pair in line],
            mode="lines",
            name=f"M = {m:,}",
            line=look.line,
            customdata=[_sentence(pair) for pair in line],
            hovertemplate="%{customdata}<extra></extra>",
        )
    for (m, line), look in zip(_by_rows(found).items(), COMPARED, strict=False):
        known = [pair for pair in line if pair.measured_speed_up is not None]
        add_measured(
            figure,
            [pair.n for pair in known],
            [pair.measured_speed_up or 0.0 for pair in known],
            [
                f"measured at M = {pair.m:,}, N = {pair.n:,}: "
                f"{significant(pair.measured_speed_up or 0.0)} times"
                for pair in known
            ],
            f"measured, M = {m:,}",
            look.colour,
        )
    figure.update_xaxes(title="N [columns], K = 4,096")
    figure.update_yaxes(title="FP32 time / FP16 time", rangemode="tozero")
    return figure


def speed_ups(found: tuple[Pair, ...]) -> dict[str, tuple[float, ...]]:
    """Return the height of each line of the chart over N, by its name."""
    return {
        f"M = {m:,}": tuple(pair.speed_up for pair in line) for m, line in _by_rows(found).items()
    }


def _by_rows(found: tuple[Pair, ...]) -> dict[int, tuple[Pair, ...]]:
    """Return the pairs of each M, in the order in which they come."""
    rows = dict.fromkeys(pair.m for pair in found)
    return {m: tuple(pair for pair in found if pair.m == m) for m in rows}


def _sentence(pair: Pair) -> str:
    return (
        f"M = {pair.m:,}, N = {pair.n:,}: {significant(pair.speed_up)} times, "
        f"{human(pair.seconds[0], 's')} to {human(pair.seconds[1], 's')}"
    )


def accumulator_share(tile: GemmTile, cluster: GemmCluster, accumulator_bytes: int) -> Array:
    """Return the share of AM that the FP32 accumulators of the output buffers take."""
    taken = cluster.output_buffers * accumulator_bytes * tile.m2 * tile.n2
    return scalar(float(taken / cluster.am_bytes))
