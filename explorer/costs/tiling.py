"""The best single-level tile under the scratchpad capacities (THInfer Eqs 4-5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from explorer.costs.arrays import Array, scalar
from explorer.costs.roofline import gemm_intensity


@dataclass(frozen=True)
class Tile:
    """A tile M x K of X, K x N of W and M x N of Y [elements] and the capacity it takes [B]."""

    m: int
    k: int
    n: int
    sm_bytes: int
    am_bytes: int
    intensity: float


@lru_cache(maxsize=256)
def best_single_level_tile(sm_bytes: int, am_bytes: int, element_bytes: int) -> Tile | None:
    """Return the tile of highest intensity over all integers, or None when none fits.

    Minimises traffic a MAC subject to D M K <= SM (Eq. 4) and D K N + D M N <= AM (Eq. 5). For
    any M and K the largest N is best, so all pairs with M K <= SM / D are tried, exactly.
    """
    sm_elements, am_elements = sm_bytes // element_bytes, am_bytes // element_bytes
    best: tuple[float, int, int, int] | None = None
    for k in range(1, sm_elements + 1):
        # Intensity is symmetric in M and K, as are both constraints: K <= M covers every pair.
        m = np.arange(k, sm_elements // k + 1, dtype=np.float64)
        if m.size == 0:
            break
        n: Array = np.floor(am_elements / (k + m))
        with np.errstate(divide="ignore"):
            inverse = 1 / m + 1 / k + 1 / n
        index = int(inverse.argmin())
        if n[index] >= 1 and (best is None or inverse[index] < best[0]):
            best = (float(inverse[index]), int(m[index]), k, int(n[index]))
    if best is None:
        return None
    _, m_best, k_best, n_best = best
    intensity = gemm_intensity(*(scalar(size) for size in (m_best, k_best, n_best, element_bytes)))
    return Tile(
        m_best,
        k_best,
        n_best,
        element_bytes * m_best * k_best,
        element_bytes * n_best * (k_best + m_best),
        float(intensity),
    )
