"""Every feasible blocking of a product, costed in one call.

The search is exhaustive over a grid: M_2 in whole micro-kernels, N_2 in whole kernel widths, K_2
and K_g in powers of two and their halves between, with the paper's own sizes among them. M_1 and
N_1 are the kernel's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from explorer.config.errors import refuse
from explorer.costs.arrays import ONE, ZERO, Array, Mask, ceil_divide, scalar
from explorer.costs.gemm import (
    GemmCluster,
    GemmCost,
    GemmTile,
    TileBytes,
    gemm_cost,
    kernel_utilisation,
    tile_bytes,
)

MOST_MULTIPLES = 64
SMALLEST_DEPTH = 16
LARGEST_SIZE = 10_000_000
SAME_TIME = 1e-9
"""Relative difference below which two tiles count as equally fast."""


@dataclass(frozen=True)
class Product:
    """Y[m, n] = X[m, k] W[k, n]; raises InputError for sizes that are no whole numbers above 0."""

    m: int
    k: int
    n: int

    def __post_init__(self) -> None:
        """Refuse what is not a product."""
        for field in fields(self):
            size = getattr(self, field.name)
            whole = isinstance(size, int) and not isinstance(size, bool)
            if not whole or not 1 <= size <= LARGEST_SIZE:
                accepted = f"expected a whole number from 1 to {LARGEST_SIZE}"
                raise refuse(f"product.{field.name}", size, accepted)

    @property
    def sizes(self) -> tuple[Array, Array, Array]:
        """M, K and N as numbers for the cost functions."""
        return scalar(self.m), scalar(self.k), scalar(self.n)


@dataclass(frozen=True)
class TileGrid:
    """Sizes to try, ascending, one array of each."""

    m2: Array
    k2: Array
    n2: Array
    kg: Array

    @property
    def mesh(self) -> GemmTile:
        """All combinations as an open mesh [m2, k2, n2, kg]."""
        return GemmTile(*np.ix_(self.m2, self.k2, self.n2, self.kg))


def tile_grid(product: Product, cluster: GemmCluster, also: GemmTile) -> TileGrid:
    """Return the sizes worth trying for a product, those of the tile ``also`` among them.

    Up to the product itself, rounded up, and up to what one memory holds alone. Where that leaves
    more than 64 multiples, they are spread geometrically.
    """
    element, weight = float(cluster.element_bytes), float(cluster.weight_bytes)
    rows, width = float(cluster.kernel_rows), float(cluster.kernel_columns)
    dsps = float(cluster.dsps)
    depth = float(ceil_divide(scalar(product.k), scalar(SMALLEST_DEPTH)) * SMALLEST_DEPTH)
    most_rows = min(
        float(cluster.sm_bytes) / (2 * element * SMALLEST_DEPTH),
        float(cluster.gsm_bytes) / (element * SMALLEST_DEPTH * dsps),
        float(ceil_divide(scalar(product.m), scalar(dsps * rows))) * rows,
    )
    most_columns = min(
        float(cluster.am_bytes) / (2 * max(element, weight) * SMALLEST_DEPTH),
        float(ceil_divide(scalar(product.n), scalar(width))) * width,
    )
    return TileGrid(
        m2=_multiples(rows, most_rows, also.m2),
        k2=_depths(min(depth, float(cluster.sm_bytes) / (2 * element * rows)), also.k2),
        n2=_multiples(width, most_columns, also.n2),
        kg=_depths(min(depth, float(cluster.gsm_bytes) / (element * dsps * rows)), also.kg),
    )


def _multiples(unit: float, most: float, also: Array) -> Array:
    count = max(int(most // unit), 1)
    steps: Array = np.arange(1.0, count + 1)
    if count > MOST_MULTIPLES:
        steps = np.round(np.geomspace(1.0, count, MOST_MULTIPLES))
    return np.unique(np.append(steps * unit, also))


def _depths(most: float, also: Array) -> Array:
    deepest = max(most // SMALLEST_DEPTH, 1.0) * SMALLEST_DEPTH
    powers = SMALLEST_DEPTH * 2 ** np.arange(np.log2(deepest / SMALLEST_DEPTH) + 1)
    sizes = np.concatenate([powers, powers + powers / 2, [deepest]])
    return np.unique(np.append(sizes[sizes <= deepest], also))


@dataclass(frozen=True)
class Choice:
    """One tile of a search: its sizes, its cost, what it takes, and its place.

    Attributes:
        tile: the blocking.
        cost: of the product with it.
        taken: of each memory.
        rank: 1 + feasible tiles that are faster; None when the tile itself does not fit.
        ties: feasible tiles as fast as this one, itself included.
    """

    tile: GemmTile
    cost: GemmCost
    taken: TileBytes
    rank: int | None
    ties: int


@dataclass(frozen=True)
class TileSearch:
    """All tiles of a grid for one product.

    Attributes:
        product: what is multiplied.
        cluster: the machine.
        grid: sizes tried.
        feasible: which tiles keep Eqs 6-8, K_2 dividing K_g.
        cost: of all of them, one broadcast call.
    """

    product: Product
    cluster: GemmCluster
    grid: TileGrid
    feasible: Mask
    cost: GemmCost

    @cached_property
    def seconds(self) -> Array:
        """Time of each tile [s], NaN where it does not fit."""
        return np.where(self.feasible, self.cost.seconds, np.nan)

    @property
    def tried(self) -> int:
        """Tiles of the grid."""
        return int(self.feasible.size)

    @property
    def fitting(self) -> int:
        """Tiles that fit."""
        return int(np.count_nonzero(self.feasible))

    @cached_property
    def best(self) -> Choice:
        """The fastest tile; of equally fast ones that of least traffic, arithmetic, AM and SM.

        Raises:
            InputError: when no tile fits.
        """
        if not self.fitting:
            raise refuse("tile", "", f"{self._why_none()}; expected larger memories or smaller N")
        taken = tile_bytes(self.grid.mesh, scalar(self.product.n), self.cluster)
        shape = self.feasible.shape
        left = self.seconds <= np.nanmin(self.seconds) * (1 + SAME_TIME)
        for less in (self.cost.bytes, self.cost.compute_seconds, taken.am_bytes, taken.sm_bytes):
            values = np.where(left, np.broadcast_to(less, shape), np.inf)
            left = left & (values <= values.min() * (1 + SAME_TIME))
        index = np.unravel_index(int(left.argmax()), shape)
        sizes = (self.grid.m2, self.grid.k2, self.grid.n2, self.grid.kg)
        return self.choice(
            GemmTile(*(scalar(axis[i]) for axis, i in zip(sizes, index, strict=True)))
        )

    def choice(self, tile: GemmTile) -> Choice:
        """Return where a tile stands among those that fit."""
        cost = gemm_cost(*self.product.sizes, tile, self.cluster)
        taken = tile_bytes(tile, scalar(self.product.n), self.cluster)
        seconds = float(cost.seconds)
        faster = int(np.count_nonzero(self.seconds < seconds * (1 - SAME_TIME)))
        level = int(np.count_nonzero(np.abs(self.seconds - seconds) <= seconds * SAME_TIME))
        fits = bool(taken.fits(self.cluster))
        return Choice(tile, cost, taken, faster + 1 if fits else None, level)

    def _why_none(self) -> str:
        least = GemmTile(*(scalar(axis[0]) for axis in vars(self.grid).values()))
        taken = tile_bytes(least, scalar(self.product.n), self.cluster)
        for name in ("sm", "am", "gsm"):
            needed = float(getattr(taken, f"{name}_bytes"))
            there = float(getattr(self.cluster, f"{name}_bytes"))
            if needed > there:
                return f"the smallest tile takes {needed:,.0f} B of {name.upper()}'s {there:,.0f} B"
        return "no tile fits"


def search_tiles(product: Product, cluster: GemmCluster, also: GemmTile) -> TileSearch:
    """Return every tile of the product's grid with its cost; ``also`` is among them."""
    grid = tile_grid(product, cluster, also)
    mesh = grid.mesh
    fits = tile_bytes(mesh, scalar(product.n), cluster).fits(cluster)
    feasible = np.asarray(fits & (np.mod(mesh.kg, mesh.k2) == 0))
    cost = gemm_cost(*product.sizes, mesh, cluster)
    return TileSearch(product, cluster, grid, feasible, cost)


@dataclass(frozen=True)
class Critical:
    """Seconds on the critical path of a row split, by what causes them; they add up."""

    x_transfer: float
    w_transfer: float
    y_transfer: float
    arithmetic: float
    padding: float
    ramp: float


def critical_seconds(product: Product, choice: Choice, cluster: GemmCluster) -> Critical:
    """Return what a product's time is made of: X, then the longer of arithmetic and W with Y."""
    cost = choice.cost
    waits = float(cost.stream_seconds) > float(cost.compute_seconds)
    stream = float(cost.stream_seconds) if waits else 0.0
    moved = float(cost.w_bytes + cost.y_bytes)
    of_w = float(cost.w_bytes) / moved
    compute = 0.0 if waits else float(cost.compute_seconds)
    depth = np.minimum(scalar(product.k), choice.tile.k2)
    steady = compute * float(kernel_utilisation(depth, cluster))
    useful = 0.0 if waits else float(cost.macs / cluster.peak_macs_per_second)
    return Critical(
        x_transfer=float(cost.exposed_seconds),
        w_transfer=stream * of_w,
        y_transfer=stream * (1 - of_w),
        arithmetic=useful,
        padding=max(steady - useful, 0.0),
        ramp=compute - steady,
    )


def idle_dsps(m: Array, tile: GemmTile, cluster: GemmCluster) -> Array:
    """Return the DSPs without rows in the last round of a row split."""
    m2 = np.maximum(tile.m2, ONE)
    rounds = ceil_divide(m, cluster.dsps * m2)
    needed = ceil_divide(m, cluster.dsps * cluster.kernel_rows) * cluster.kernel_rows
    piece = np.where(rounds > 1, m2, np.minimum(m2, needed))
    left = m - (rounds - 1) * cluster.dsps * m2
    return np.maximum(cluster.dsps - ceil_divide(left, piece), ZERO)


def staircase_rows(most: float, tile: GemmTile, cluster: GemmCluster, steps: int) -> Array:
    """Return row counts that draw time against M without losing a step.

    The first and last M of each round, of each step within the first, and a few small ones; at
    most ``steps`` rounds.
    """
    step = float(cluster.dsps * cluster.kernel_rows)
    whole = float(cluster.dsps * np.maximum(tile.m2, ONE))
    small = np.unique(np.round(np.geomspace(1.0, step, SMALLEST_DEPTH)))
    first = np.arange(step, whole + 1, max(step, step * np.ceil(whole / step / SMALLEST_DEPTH)))
    rounds = int(np.ceil(most / whole))
    ends = whole * np.unique(np.round(np.linspace(1.0, rounds, min(rounds, steps))))
    edges: Sequence[Array] = (small, first, first + 1, ends, ends + 1)
    rows = np.unique(np.concatenate(edges))
    return rows[rows <= max(most, 1.0)]
