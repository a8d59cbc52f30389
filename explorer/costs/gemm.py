"""Matrix products on one cluster: three-level blocking and its DDR traffic (THInfer Eqs 6-8).

Two strategies. *Row split*: rows of X go round the DSPs, a block of X waits in GSM, tiles of W
are broadcast to all, Y stays. *Column split*, for few rows: all of X is broadcast, each DSP owns
columns of W, which streams through once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from explorer.costs.arrays import ONE, Array, Mask, ceil_divide

ACCUMULATOR_BYTES = 4
"""Products accumulate in FP32 whatever they are stored in (THInfer, section on FP16)."""


@dataclass(frozen=True)
class GemmCluster:
    """What a product needs to know of a cluster.

    Attributes:
        peak_macs_per_second: at the precision of the product.
        bandwidth_bytes_per_second: DDR of the cluster.
        mixed_stream_efficiency: share of the bandwidth left while W streams in and Y goes both
            ways under the computation.
        broadcast_cost: time of a broadcast as a multiple of a DMA of the same bytes.
        sm_bytes, am_bytes: scratchpads of a DSP.
        gsm_bytes: shared memory of the cluster.
        dsps: P.
        kernel_rows, kernel_columns: M_1 and N_1.
        kernel_cycles_per_depth: cycles of the micro-kernel for one step of K.
        kernel_ramp_cycles: cycles to fill and drain its software pipeline.
        output_buffers: buffers of a tile of Y (three: in, computing, out).
        element_bytes, weight_bytes: bytes an element of X and Y, and of W.
    """

    peak_macs_per_second: Array
    bandwidth_bytes_per_second: Array
    mixed_stream_efficiency: Array
    broadcast_cost: Array
    sm_bytes: Array
    am_bytes: Array
    gsm_bytes: Array
    dsps: Array
    kernel_rows: Array
    kernel_columns: Array
    kernel_cycles_per_depth: Array
    kernel_ramp_cycles: Array
    output_buffers: Array
    element_bytes: Array
    weight_bytes: Array


@dataclass(frozen=True)
class GemmTile:
    """Blocking of a product [elements].

    X_2 is M_2 x K_2 in SM, W_2 is K_2 x N_2 in AM, X_g is P M_2 x K_g in GSM.
    """

    m2: Array
    k2: Array
    n2: Array
    kg: Array


@dataclass(frozen=True)
class TileBytes:
    """What a tile takes of each memory [B]: the left sides of Eqs 6, 7 and 8."""

    sm_bytes: Array
    am_bytes: Array
    gsm_bytes: Array

    def fits(self, cluster: GemmCluster) -> Mask:
        """Where the tile fits all three memories."""
        return np.asarray(
            (self.sm_bytes <= cluster.sm_bytes)
            & (self.am_bytes <= cluster.am_bytes)
            & (self.gsm_bytes <= cluster.gsm_bytes)
        )


@dataclass(frozen=True)
class GemmCost:
    """Time of a product and what makes it.

    Attributes:
        seconds: time on the cluster, launch not included.
        macs: useful multiply-accumulates.
        x_bytes, w_bytes, y_bytes: DDR traffic by matrix; of a broadcast, ``broadcast_ddr_bytes``.
        compute_seconds: arithmetic, padding and pipeline ramp included.
        stream_seconds: W and Y, which move under the arithmetic.
        exposed_seconds: X, which does not: its block fills GSM, with no room for the next one.
        rounds: rounds of the DSPs over the rows; 1 for a column split.
        busy_dsps: share of DSP time spent on rows and columns that exist.
        column_split: where the column split was chosen.
    """

    seconds: Array
    macs: Array
    x_bytes: Array
    w_bytes: Array
    y_bytes: Array
    compute_seconds: Array
    stream_seconds: Array
    exposed_seconds: Array
    rounds: Array
    busy_dsps: Array
    column_split: Mask

    @property
    def bytes(self) -> Array:
        """All bytes moved."""
        return self.x_bytes + self.w_bytes + self.y_bytes


def tile_bytes(tile: GemmTile, n: Array, cluster: GemmCluster) -> TileBytes:
    """Return what a tile takes of each memory (Eqs 6-8).

    SM: 2 D M_2 K_2. AM: 2 D K_2 N_2 + 3 D M_2 N_2 + D N. GSM: D K_g M_g. Eq. 7's last term is
    printed with N, not N_2; its meaning is not given. The three buffers of Y_2 hold FP32
    accumulators, which at FP32 is the equation as printed.
    """
    element, weight = cluster.element_bytes, cluster.weight_bytes
    w_bytes = np.maximum(element, weight)
    return TileBytes(
        sm_bytes=2 * element * tile.m2 * tile.k2,
        am_bytes=2 * w_bytes * tile.k2 * tile.n2
        + _output_row_bytes(tile, cluster) * tile.m2
        + element * n,
        gsm_bytes=element * tile.kg * cluster.dsps * tile.m2,
    )


def largest_tile(k2: Array, n2: Array, kg: Array, cluster: GemmCluster) -> GemmTile:
    """Return the tile with the most rows M_2 that SM, AM and GSM admit (Eqs 6-8).

    M_2 is a multiple of the micro-kernel's rows; 0 where not even one kernel fits. Eq. 7's D N
    term is left out, since one tile serves every N.
    """
    spent = tile_bytes(GemmTile(0 * ONE, k2, n2, kg), 0 * ONE, cluster)
    one_row = GemmTile(ONE, k2, n2, kg)
    by_row = tile_bytes(one_row, 0 * ONE, cluster)
    by_sm = cluster.sm_bytes / by_row.sm_bytes
    by_am = (cluster.am_bytes - spent.am_bytes) / _output_row_bytes(one_row, cluster)
    by_gsm = cluster.gsm_bytes / by_row.gsm_bytes
    most = np.maximum(np.minimum(np.minimum(by_sm, by_am), by_gsm), 0 * ONE)
    return GemmTile(np.floor(most / cluster.kernel_rows) * cluster.kernel_rows, k2, n2, kg)


def _output_row_bytes(tile: GemmTile, cluster: GemmCluster) -> Array:
    """Return what a row of Y_2 takes in all its buffers."""
    return cluster.output_buffers * ACCUMULATOR_BYTES * tile.n2


def tightest(*memories: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return bytes taken and bytes there of the memory that is fullest, of (taken, there) pairs."""
    needed, available = memories[0]
    for other, limit in memories[1:]:
        tighter = other / limit > needed / available
        needed = np.where(tighter, other, needed)
        available = np.where(tighter, limit, available)
    return needed, available


def broadcast_ddr_bytes(broadcast_bytes: Array, cluster: GemmCluster) -> Array:
    """Return the DDR traffic that a broadcast counts as: what a DMA moves in its time.

    A broadcast takes less time than a DMA of the same bytes, and the bandwidth is a DMA's: counted
    in full, its bytes would outrun the DDR. Never more than the bytes themselves.
    """
    return np.minimum(cluster.broadcast_cost, ONE) * broadcast_bytes


def kernel_utilisation(depth: Array, cluster: GemmCluster) -> Array:
    """Return the share of peak that the micro-kernel reaches over ``depth`` steps of K."""
    steady = cluster.kernel_cycles_per_depth * depth
    share: Array = steady / (steady + cluster.kernel_ramp_cycles)
    return share


def gemm_cost(m: Array, k: Array, n: Array, tile: GemmTile, cluster: GemmCluster) -> GemmCost:
    """Return the cost of Y[m, n] = X[m, k] W[k, n] by the faster strategy that fits.

    The column split needs all of X in GSM and one kernel's width of Y in AM.
    """
    rows = row_split_cost(m, k, n, tile, cluster)
    columns = column_split_cost(m, k, n, tile, cluster)
    y_rows = ceil_divide(m, cluster.kernel_rows) * cluster.kernel_rows
    resident = (m * k * cluster.element_bytes <= cluster.gsm_bytes) & (
        ACCUMULATOR_BYTES * y_rows * cluster.kernel_columns <= cluster.am_bytes
    )
    chosen = resident & (columns.seconds < rows.seconds)
    if not chosen.any():
        return rows
    if chosen.all():
        return columns
    picked = {
        field.name: np.where(chosen, getattr(columns, field.name), getattr(rows, field.name))
        for field in fields(GemmCost)
    }
    return GemmCost(**picked)


def output_element_bytes(passes: Array, cluster: GemmCluster) -> Array:
    """Return DDR bytes of an element of Y that is summed up in several passes over DDR.

    Its FP32 partial sum leaves after every pass but the last and comes back before every pass but
    the first; the finished element is stored once.
    """
    return 2 * ACCUMULATOR_BYTES * (passes - 1) + cluster.element_bytes


def row_split_cost(m: Array, k: Array, n: Array, tile: GemmTile, cluster: GemmCluster) -> GemmCost:
    """Return the cost with rows split over the DSPs, in rounds of P M_2 rows.

    Whole rounds are moved and computed; a single round takes only the rows a DSP that it needs,
    in whole micro-kernels. X moves once and is exposed; W moves once a round; Y moves once where
    all its columns stay in the output buffers or K takes one pass, else FP32 partial sums cross
    DDR between the passes over K_g.
    """
    m2 = np.maximum(tile.m2, ONE)
    rounds = ceil_divide(m, cluster.dsps * m2)
    needed = ceil_divide(m, cluster.dsps * cluster.kernel_rows) * cluster.kernel_rows
    worked = rounds * cluster.dsps * np.where(rounds > 1, m2, np.minimum(m2, needed))
    # Never fewer rows than there are; where M_2 is an interval, its two ends alone don't show it.
    rows = np.maximum(worked, m)
    columns = ceil_divide(n, cluster.kernel_columns) * cluster.kernel_columns
    passes = ceil_divide(k, tile.kg)
    spills = (n > cluster.output_buffers * tile.n2) & (passes > 1)
    y_element = output_element_bytes(np.where(spills, passes, ONE), cluster)
    x_bytes = rows * k * cluster.element_bytes
    w_bytes = rounds * k * n * cluster.weight_bytes
    y_bytes = rows * n * y_element
    compute = _compute_seconds(rows * k * columns, k, tile, cluster)
    bandwidth = cluster.bandwidth_bytes_per_second
    stream = (w_bytes + y_bytes) / (cluster.mixed_stream_efficiency * bandwidth)
    exposed = x_bytes / bandwidth
    return GemmCost(
        exposed + np.maximum(compute, stream),
        m * k * n,
        x_bytes,
        w_bytes,
        y_bytes,
        compute,
        stream,
        exposed,
        rounds,
        m * n / (rows * columns),
        np.asarray(False),
    )


def column_split_cost(
    m: Array, k: Array, n: Array, tile: GemmTile, cluster: GemmCluster
) -> GemmCost:
    """Return the cost with columns split over the DSPs: X is broadcast, W streams through once.

    W is one long contiguous read, so it has the whole bandwidth; the arithmetic hides under it.
    """
    width = ceil_divide(n, cluster.kernel_columns * cluster.dsps) * cluster.kernel_columns
    columns = np.maximum(width * cluster.dsps, n)
    rows = ceil_divide(m, cluster.kernel_rows) * cluster.kernel_rows
    x_bytes = m * k * cluster.element_bytes
    w_bytes = k * n * cluster.weight_bytes
    y_bytes = m * n * cluster.element_bytes
    compute = _compute_seconds(rows * k * columns, k, tile, cluster)
    moved = cluster.broadcast_cost * x_bytes + w_bytes + y_bytes
    stream = moved / cluster.bandwidth_bytes_per_second
    return GemmCost(
        np.maximum(compute, stream),
        m * k * n,
        broadcast_ddr_bytes(x_bytes, cluster),
        w_bytes,
        y_bytes,
        compute,
        stream,
        0 * ONE,
        ONE,
        m * n / (rows * columns),
        np.asarray(True),
    )


def _compute_seconds(macs: Array, k: Array, tile: GemmTile, cluster: GemmCluster) -> Array:
    depth = np.minimum(k, tile.k2)
    return macs / (cluster.peak_macs_per_second * kernel_utilisation(depth, cluster))
