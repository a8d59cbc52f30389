"""Roofline of one operator (THInfer Eqs 1-3); work is counted in multiply-accumulates (MACs)."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import Array


def gemm_intensity(m: Array, k: Array, n: Array, element_bytes: Array) -> Array:
    """Return the intensity of an M x K by K x N product [MAC/B], each matrix moved once (Eq. 1)."""
    return m * k * n / (element_bytes * (m * k + k * n + m * n))


def intensity_threshold(peak_macs_per_second: Array, bandwidth_bytes_per_second: Array) -> Array:
    """Return the intensity where memory stops being the limit [MAC/B] (Eq. 2)."""
    return peak_macs_per_second / bandwidth_bytes_per_second


def attainable_macs_per_second(
    intensity: Array, peak_macs_per_second: Array, bandwidth_bytes_per_second: Array
) -> Array:
    """Return the attainable rate at an intensity [MAC/B] in MAC/s (Eq. 3)."""
    return np.minimum(peak_macs_per_second, bandwidth_bytes_per_second * intensity)


def roofline_seconds(
    macs: Array,
    bytes_moved: Array,
    peak_macs_per_second: Array,
    bandwidth_bytes_per_second: Array,
) -> Array:
    """Return the least time for some work and traffic [s]: Eq. 3 solved for time."""
    return np.maximum(macs / peak_macs_per_second, bytes_moved / bandwidth_bytes_per_second)
