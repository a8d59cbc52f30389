"""Slices of an overlapped all-reduce (Ascend TP Collective Overlap, section 4)."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import ONE, Array

MOST_SLICES = 64


def slices_by_rule(rows: Array, max_slices: Array, min_rows_per_slice: Array) -> Array:
    """Return the slice count of the doubling rule.

    Doubles while rows / slices stays at or above ``min_rows_per_slice``, up to ``max_slices``;
    a ceiling of 0 or 1 gives one slice, which is the serial path.
    """
    slices: Array = np.ones(np.broadcast(rows, max_slices, min_rows_per_slice).shape)
    doubled = 2
    while doubled <= MOST_SLICES:
        admitted = (doubled <= max_slices) & (rows / doubled >= min_rows_per_slice)
        slices = np.where(admitted, doubled * ONE, slices)
        doubled *= 2
    return slices


def effective_slices(
    slices: Array, rows: Array, tp: Array, serial_below_rows_per_slice: Array
) -> Array:
    """Return the slices that really run; 1 means serial.

    The path falls back to serial for 0 or 1 slices, for a group of one, and when a slice would
    have fewer rows than the kernel serves.
    """
    serial = (
        (slices <= 1)
        | (tp <= 1)
        | (np.floor(rows / np.maximum(slices, ONE)) < (serial_below_rows_per_slice))
    )
    return np.where(serial, ONE, slices)
