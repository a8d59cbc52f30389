"""What a product would move from DDR in other loop orders, and where few rows split columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from explorer.costs.arrays import Array, ceil_divide
from explorer.costs.gemm import (
    GemmCluster,
    GemmTile,
    gemm_cost,
    output_element_bytes,
    row_split_cost,
)
from explorer.costs.tile_search import Product

MOST_ROWS = 20_000


@dataclass(frozen=True)
class Traffic:
    """DDR bytes of one way to order the loops or to bring W in."""

    x_bytes: Array
    w_bytes: Array
    y_bytes: Array

    @property
    def bytes(self) -> Array:
        """All of them."""
        return self.x_bytes + self.w_bytes + self.y_bytes


def y_stationary(product: Product, tile: GemmTile, cluster: GemmCluster) -> Traffic:
    """Return the traffic as chosen: Y_2 stays while X_2 and W_2 pass, over the depth K_g."""
    cost = row_split_cost(*product.sizes, tile, cluster)
    return Traffic(cost.x_bytes, cost.w_bytes, cost.y_bytes)


def x_stationary(product: Product, tile: GemmTile, cluster: GemmCluster) -> Traffic:
    """Return the traffic when X_2 stays in SM while all columns of W pass.

    Y is then complete to the depth K_2 only, so its partial sums cross DDR for each K_2.
    """
    return y_stationary(product, replace(tile, kg=tile.k2), cluster)


def w_stationary(product: Product, tile: GemmTile, cluster: GemmCluster) -> Traffic:
    """Return the traffic when W_2 stays in AM while all rows pass: W once.

    X comes in again for every column of tiles, and Y's partial sums cross DDR for each K_2.
    """
    cost = row_split_cost(*product.sizes, tile, cluster)
    _, k, n = product.sizes
    element = output_element_bytes(ceil_divide(k, tile.k2), cluster)
    rows = cost.x_bytes / (k * cluster.element_bytes)
    return Traffic(
        cost.x_bytes * ceil_divide(n, tile.n2), cost.w_bytes / cost.rounds, rows * n * element
    )


def without_broadcast(traffic: Traffic, cluster: GemmCluster) -> Traffic:
    """Return the traffic when every DSP reads W by a DMA of its own."""
    return replace(traffic, w_bytes=traffic.w_bytes * cluster.dsps)


def resident_w(product: Product, tile: GemmTile, cluster: GemmCluster) -> Traffic | None:
    """Return the traffic when all of W waits in GSM and X passes by; None where W is too large.

    Every matrix moves once. The engine does not choose it: GSM holds X there, as in the paper.
    """
    _, k, n = product.sizes
    if float(k * n * cluster.weight_bytes) > float(cluster.gsm_bytes):
        return None
    cost = row_split_cost(*product.sizes, replace(tile, kg=k), cluster)
    return Traffic(cost.x_bytes, cost.w_bytes / cost.rounds, cost.y_bytes)


def column_split_until(product: Product, tile: GemmTile, cluster: GemmCluster) -> int:
    """Return the M up to which splitting columns is the faster strategy throughout; 0 for never.

    All of X must wait in GSM for it, which bounds the answer; beyond 20 000 rows M goes in steps.
    """
    _, k, n = product.sizes
    most = max(int(cluster.gsm_bytes // (k * cluster.element_bytes)), 1)
    m: Array = np.unique(np.round(np.linspace(1.0, most, min(most, MOST_ROWS))))
    wins = np.broadcast_to(gemm_cost(m, k, n, tile, cluster).column_split, m.shape)
    first_loss = m.size if wins.all() else int(wins.argmin())
    return int(m[first_loss - 1]) if first_loss else 0
