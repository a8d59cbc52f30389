"""Where the KV cache of a pool's requests is, moment by moment, in bounded memory."""

from __future__ import annotations

import math

import numpy as np

from explorer.costs.arrays import Array
from explorer.serving.simulation_results import Occupancy

Level = tuple[int, int, int]


class OccupancySeries:
    """The most that was held in each of a bounded number of equal intervals.

    When time runs past the last interval, neighbours are merged and intervals become twice as
    long.
    """

    def __init__(self, points: int, first_interval_seconds: float) -> None:
        """Start with short intervals; ``points`` is the most that are kept."""
        self._points = points
        self._interval = first_interval_seconds
        self._peaks: list[Level] = []
        self._counts: list[Level] = []
        self._level: Level = (0, 0, 0)

    def add(self, seconds: float, level: Level, admitted: int, released: int) -> None:
        """Note requests in prefill, buffer and decode, and those admitted and released so far."""
        place = int(seconds / self._interval)
        while place >= self._points:
            self._merge()
            place = int(seconds / self._interval)
        while len(self._peaks) <= place:
            self._peaks.append(self._level)
            self._counts.append(self._counts[-1] if self._counts else (0, 0, 0))
        self._level = level
        self._peaks[place] = _most([self._peaks[place], level])
        self._counts[place] = (admitted, released, sum(level))

    def occupancy(self, request_bytes: float) -> Occupancy:
        """Return the series in bytes."""
        peaks = np.array(self._peaks, dtype=np.float64).reshape(-1, 3) * request_bytes
        counts = np.array(self._counts, dtype=np.float64).reshape(-1, 3) * request_bytes
        seconds: Array = self._interval * np.arange(1, len(peaks) + 1, dtype=np.float64)
        return Occupancy(seconds, *peaks.T, *counts.T)

    def _merge(self) -> None:
        self._interval *= 2
        starts = range(0, len(self._peaks), 2)
        self._peaks = [_most(self._peaks[first : first + 2]) for first in starts]
        self._counts = [self._counts[first : first + 2][-1] for first in starts]


def _most(levels: list[Level]) -> Level:
    first, last = levels[0], levels[-1]
    return max(first[0], last[0]), max(first[1], last[1]), max(first[2], last[2])


class CacheLedger:
    """Requests of one pool whose cache is held, by place.

    Memory counts maximum context, so bytes are requests x the cache of one at maximum context.

    Attributes:
        prefill, buffer, decode: requests whose cache is there now.
        admitted, released: requests that ever came in and left.
        peaks: most at any moment, by place.
        areas: requests x seconds, by place.
        overflow_seconds: when the buffer first held more than its room [s].
    """

    def __init__(self, buffer_room: float, series: OccupancySeries | None) -> None:
        """Start empty; ``buffer_room`` is how many requests the buffer's memory holds."""
        self.prefill = self.buffer = self.decode = 0
        self.admitted = self.released = 0
        self.peaks = [0, 0, 0]
        self.areas = [0.0, 0.0, 0.0]
        self.overflow_seconds = math.inf
        self._buffer_room = buffer_room
        self._series = series
        self._seconds = 0.0

    def admit(self, seconds: float, requests: int) -> None:
        """Count requests whose prefill starts."""
        self.admitted += requests
        self._move(seconds, prefill=requests)

    def store(self, seconds: float, requests: int) -> None:
        """Move requests from prefill into the buffer."""
        self._move(seconds, prefill=-requests, buffer=requests)
        if self.buffer > self._buffer_room and seconds < self.overflow_seconds:
            self.overflow_seconds = seconds

    def pull(self, seconds: float, requests: int) -> None:
        """Move requests from the buffer to decode."""
        self._move(seconds, buffer=-requests, decode=requests)

    def hand_over(self, seconds: float, requests: int) -> None:
        """Move requests from prefill to decode, where there is no buffer between them."""
        self._move(seconds, prefill=-requests, decode=requests)

    def release(self, seconds: float, requests: int) -> None:
        """Free what requests held in decode."""
        self.released += requests
        self._move(seconds, decode=-requests)

    def occupancy(self, request_bytes: float) -> Occupancy | None:
        """Return what was held over time, in bytes, where a series was kept."""
        return self._series.occupancy(request_bytes) if self._series is not None else None

    def _move(self, seconds: float, prefill: int = 0, buffer: int = 0, decode: int = 0) -> None:
        """Change what each place holds, after counting how long it held what it had."""
        passed = seconds - self._seconds
        if passed > 0:
            areas = self.areas
            areas[0] += passed * self.prefill
            areas[1] += passed * self.buffer
            areas[2] += passed * self.decode
            self._seconds = seconds
        self.prefill += prefill
        self.buffer += buffer
        self.decode += decode
        level = (self.prefill, self.buffer, self.decode)
        self.peaks = list(map(max, self.peaks, level))
        if self._series is not None:
            self._series.add(seconds, level, self.admitted, self.released)
