"""Numbers that a generic chip document must hold, whatever the accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.costs.arrays import Array


@dataclass(frozen=True)
class GenericNumbers:
    """Numbers of one accelerator; its peaks, one a precision, are read beside these."""

    achievable_peak_fraction: Array
    memory_bandwidth_bytes_per_second: Array
    achievable_bandwidth_fraction: Array
    memory_bytes: Array
    usable_memory_fraction: Array
    overhead_bytes: Array
    link_latency_seconds: Array
    link_bandwidth_bytes_per_second: Array
    operator_launch_seconds: Array


ACHIEVABLE = ("achievable_peak_fraction", "achievable_bandwidth_fraction")
FRACTIONS = (*ACHIEVABLE, "usable_memory_fraction")
"""Numbers that more than 1 would turn into a better machine than the document says."""
