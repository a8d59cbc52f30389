"""Off-chip traffic of a matrix product whose X blocks stay in GSM (THInfer Eqs 6, 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.costs.arrays import ONE, Array, ceil_divide


@dataclass(frozen=True)
class Blocking:
    """GSM blocking of X: rows M_g and depth K_g [elements]."""

    rows: Array
    depth: Array


def gsm_blocking(
    sm_bytes: Array,
    gsm_bytes: Array,
    dsps: Array,
    kernel_rows: Array,
    tile_k: Array,
    block_k: Array,
    element_bytes: Array,
) -> Blocking:
    """Return the largest X block that SM and GSM admit.

    M_2 is the largest multiple of the micro-kernel's rows with 2 D M_2 K_2 <= SM (Eq. 6) and
    D K_g P M_2 <= GSM (Eq. 8); M_g = P M_2. Capacities too small for one micro-kernel fall back
    to a block of a single row a DSP, which moves more bytes but remains possible.
    """
    by_sm = sm_bytes / (2 * element_bytes * tile_k)
    by_gsm = gsm_bytes / (element_bytes * block_k * dsps)
    rows_per_dsp = np.floor(np.minimum(by_sm, by_gsm) / kernel_rows) * kernel_rows
    return Blocking(np.maximum(rows_per_dsp, ONE) * dsps, block_k)


@dataclass(frozen=True)
class GemmTraffic:
    """Bytes that one product moves between DDR and chip, by matrix."""

    x_bytes: Array
    w_bytes: Array
    y_bytes: Array

    @property
    def bytes(self) -> Array:
        """All bytes moved."""
        return self.x_bytes + self.w_bytes + self.y_bytes


def gemm_traffic(
    m: Array,
    k: Array,
    n: Array,
    blocking: Blocking,
    activation_bytes: Array,
    weight_bytes: Array,
) -> GemmTraffic:
    """Return the DDR traffic of Y = X W with W broadcast to all DSPs.

    X is read once; W once for each row block of M_g rows; Y is written once and, for each pass
    over K beyond the first, read back and written again. ``activation_bytes`` and
    ``weight_bytes`` are bytes an element.
    """
    row_blocks = ceil_divide(m, blocking.rows)
    k_passes = ceil_divide(k, blocking.depth)
    # With one row block, Y can wait on chip while all of K streams by; with more, W would have
    # to be streamed again for each pass, so partial sums of Y travel instead.
    y_moves = np.where(row_blocks > 1, 2 * k_passes - 1, ONE)
    return GemmTraffic(
        x_bytes=m * k * activation_bytes,
        w_bytes=row_blocks * k * n * weight_bytes,
        y_bytes=y_moves * m * n * activation_bytes,
    )
