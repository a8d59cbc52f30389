"""Distributions of times in bounded memory: exact while few, then in bins of equal ratio."""

from __future__ import annotations

import math

import numpy as np

from explorer.costs.arrays import Array, Codes
from explorer.serving.simulation_results import Histogram, Quantiles

EXACT_COUNT = 65_536
"""Values that are all kept; more of them go into bins."""
BIN_RATIO = 1.005
SHORTEST_SECONDS = 1e-9
LONGEST_SECONDS = 1e12
BINS = math.ceil(math.log(LONGEST_SECONDS / SHORTEST_SECONDS) / math.log(BIN_RATIO)) + 1
RELATIVE_ERROR = (BIN_RATIO - 1) / (BIN_RATIO + 1)
"""How far the middle of a bin is from any value in it."""


class Distribution:
    """Times of requests [s], none negative; quantiles are exact up to ``EXACT_COUNT`` values."""

    def __init__(self) -> None:
        """Start without values."""
        self.count = 0
        self.total_seconds = 0.0
        self.largest = 0.0
        self._values: list[Array] | None = []
        self._bins: Codes = np.zeros(0, dtype=np.int64)

    def add(self, seconds: Array) -> None:
        """Add some values; NaN stands for none."""
        seconds = seconds[~np.isnan(seconds)]
        if not seconds.size:
            return
        self.count += seconds.size
        self.total_seconds += float(seconds.sum())
        self.largest = max(self.largest, float(seconds.max()))
        if self._values is not None:
            self._values.append(seconds)
            if self.count > EXACT_COUNT:
                self._bins = np.zeros(BINS, dtype=np.int64)
                kept, self._values = np.concatenate(self._values), None
                self._bin(kept)
        else:
            self._bin(seconds)

    def quantiles(self) -> Quantiles:
        """Return what is shown of the distribution."""
        if not self.count:
            nothing = math.nan
            return Quantiles(0, nothing, nothing, nothing, nothing, nothing, 0.0)
        middles, counts = self._weighted()
        cumulative = np.cumsum(counts)
        p50, p90, p99 = (
            float(middles[np.searchsorted(cumulative, math.ceil(share * self.count))])
            for share in (0.5, 0.9, 0.99)
        )
        error = 0.0 if self._values is not None else RELATIVE_ERROR
        mean = self.total_seconds / self.count
        return Quantiles(self.count, p50, p90, p99, mean, self.largest, error)

    def histogram(self, bins: int) -> Histogram:
        """Return counts in equally wide bins from 0 to the longest."""
        edges = np.linspace(0.0, self.largest or 1.0, bins + 1)
        middles, counts = self._weighted() if self.count else (np.zeros(0), np.zeros(0))
        found, _ = np.histogram(np.minimum(middles, edges[-1]), edges, weights=counts)
        return Histogram(edges, found.astype(np.int64), self.total_seconds)

    def _weighted(self) -> tuple[Array, Codes]:
        """Return values in ascending order with how often each stands for one."""
        if self._values is not None:
            values = np.sort(np.concatenate(self._values))
            return values, np.ones(values.size, dtype=np.int64)
        filled = np.flatnonzero(self._bins)
        low = SHORTEST_SECONDS * BIN_RATIO ** (filled - 1.0)
        middles = np.where(filled > 0, low * 2 * BIN_RATIO / (1 + BIN_RATIO), 0.0)
        return np.minimum(middles, self.largest), self._bins[filled]

    def _bin(self, seconds: Array) -> None:
        clipped = np.clip(seconds, SHORTEST_SECONDS, LONGEST_SECONDS)
        places = np.ceil(np.log(clipped / SHORTEST_SECONDS) / math.log(BIN_RATIO)).astype(np.int64)
        self._bins += np.bincount(places, minlength=BINS)
