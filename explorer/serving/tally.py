"""Finished requests, counted block by block: times, goodput and the rate of finishing."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np

from explorer.config.sections import Limits
from explorer.costs.arrays import Array
from explorer.serving.batching import OUTPUT, Request
from explorer.serving.decode_ring import DecodeWork
from explorer.serving.distribution import Distribution
from explorer.serving.simulation_results import RequestRows, RowReader

BLOCK_ROWS = 4096
MOST_POINTS = 2048
"""Points of the curve of finishing that are kept."""
PARTS = 8
WARM_PARTS = 2
"""Parts of a run, by arrival, whose end-to-end times are compared; the first ones fill pools."""
GROWING = 0.02
"""Seconds of latency gained a second of arrivals from which waiting counts as growing."""
GROWN = 1.25
"""And how much longer the last requests take than those after warm-up."""


class FinishCurve:
    """Tokens and requests finished up to some moments, thinned when they become many."""

    def __init__(self, every: int) -> None:
        """Keep a point every so many micro-batches at first."""
        self._every = every
        self._micro_batches = 0
        self._tokens = self._requests = 0
        self._points: list[tuple[float, int, int]] = []
        self._first = self._last = (0.0, 0, 0)

    def add(self, seconds: float, tokens: int, requests: int) -> None:
        """Note a micro-batch that leaves; moments never go back."""
        self._micro_batches += 1
        self._tokens += tokens
        self._requests += requests
        self._last = (seconds, self._tokens, self._requests)
        if self._micro_batches == 1:
            self._first = self._last
        if self._micro_batches % self._every:
            return
        self._points.append((seconds, self._tokens, self._requests))
        if len(self._points) > MOST_POINTS:
            self._points = self._points[1::2]
            self._every *= 2

    def whole_rates(self) -> tuple[float, float] | None:
        """Return tokens/s and requests/s from the first to the last that left; None for one."""
        seconds = self._last[0] - self._first[0]
        if seconds <= 0:
            return None
        gained = (last - first for last, first in zip(self._last[1:], self._first[1:], strict=True))
        tokens, requests = gained
        return tokens / seconds, requests / seconds

    def rates(self, until_seconds: float) -> tuple[float, float] | None:
        """Return tokens/s and requests/s over the second half, or None for too short a run.

        Args:
            until_seconds: leave out what finished later [s].
        """
        points = [point for point in self._points if point[0] <= until_seconds]
        if not points:
            return None
        last = points[-1]
        late = [point for point in points if 2 * point[2] >= last[2]]
        seconds = last[0] - late[0][0]
        if len(late) <= 1 or seconds <= 0:
            return None
        return (last[1] - late[0][1]) / seconds, (last[2] - late[0][2]) / seconds


class Trend:
    """Mean end-to-end time of the parts of a run, in order of arrival."""

    def __init__(self, requests: int) -> None:
        """Expect so many requests."""
        self._requests = requests
        self._sums = np.zeros((3, PARTS))

    def add(self, number: Array, arrival: Array, total: Array) -> None:
        """Count requests: their numbers from 0, arrival and end-to-end times [s]."""
        parts = (number * PARTS // self._requests).astype(np.int64)
        self._sums += [np.bincount(parts, one, PARTS) for one in (None, arrival, total)]

    def growth(self) -> float:
        """Return the slope of end-to-end time over arrival time after warm-up [s/s]."""
        arrival, total = self._means()
        if not arrival.size or arrival[-1] <= arrival[0]:
            return 0.0
        deviation = arrival - arrival.mean()
        return float((deviation * total).sum() / (deviation * deviation).sum())

    def grows(self) -> bool:
        """Return whether waiting grows from part to part, steeply and by much."""
        if self.growth() <= GROWING:
            return False
        _, total = self._means()
        falling = np.count_nonzero(np.diff(total) <= 0)
        return bool(falling <= 1 and total[-1] > GROWN * total[0])

    def _means(self) -> tuple[Array, Array]:
        counts, arrivals, totals = self._sums[:, WARM_PARTS:]
        filled = counts > 0
        return arrivals[filled] / counts[filled], totals[filled] / counts[filled]


class Tally:
    """Everything counted over finished requests of all pools, in bounded memory.

    ``early_seconds`` is how long requests with their last token wait for their micro-batch [s].
    """

    def __init__(
        self, requests: int, limits: Limits, curve_every: int, reader: RowReader | None
    ) -> None:
        """Start counting so many requests; ``reader`` is given the finished ones in blocks."""
        self.ttft, self.tpot, self.end_to_end = Distribution(), Distribution(), Distribution()
        self.queue, self.blocked, self.buffer = Distribution(), Distribution(), Distribution()
        self.curve = FinishCurve(curve_every)
        self.requests = self.prompt_tokens = self.output_tokens = 0
        self.kept = self.kept_ttft = self.kept_tpot = self.kept_tokens = 0
        self.last_seconds = 0.0
        self._first_arrival, self._last_arrival = math.inf, 0.0
        self.trend = Trend(requests)
        self._limits = limits
        self._reader = reader
        self.early_seconds = 0.0
        self._requests: list[Request] = []
        self._ends: list[float] = []
        self._parts: list[tuple[float, ...]] = []

    def finish(self, pool: int, work: DecodeWork, seconds: float) -> None:
        """Count the requests of a decode micro-batch that leaves.

        Args:
            pool: number of the pool.
            work: the micro-batch.
            seconds: when it leaves [s].
        """
        tokens = 0
        for part in work.parts:
            requests, *moments = part
            outputs = list(map(OUTPUT, requests))
            tokens += sum(outputs)
            ends = {1: part.first_token_seconds, **work.ends}
            self._ends += [ends[output] for output in outputs]
            self._requests += requests
            self._parts.append((len(requests), pool, *moments, work.start_seconds, seconds))
        self.curve.add(seconds, tokens, work.count)
        if len(self._requests) >= BLOCK_ROWS:
            self.flush()

    def flush(self) -> None:
        """Count what waits to be counted."""
        if not self._requests:
            return
        flat = np.fromiter(chain.from_iterable(self._requests), np.float64)
        number, arrival, prompt, output = flat.reshape(len(self._requests), -1).T
        counts, *common = np.array(self._parts, dtype=np.float64).T
        times = np.repeat(common, counts.astype(np.int64), axis=1)
        pool, prefill, finish, taken, first, start, leaving = times
        end = np.array(self._ends)
        # One after the other, as they left: the sum is the same however they are blocked.
        self.early_seconds = float(np.append(self.early_seconds, leaving - end).cumsum()[-1])
        columns = number, pool, prompt, output, arrival, prefill, finish, taken, first, start, end
        self._count(columns)
        self._requests, self._ends, self._parts = [], [], []

    def _count(self, columns: tuple[Array, ...]) -> None:
        number, pool, prompt, output, arrival, prefill, finish, taken, first, start, end = columns
        ttft, total = first - arrival, end - arrival
        with np.errstate(invalid="ignore", divide="ignore"):
            tpot = np.where(output > 1, (end - first) / (output - 1), np.nan)
        self.requests += number.size
        self.prompt_tokens += int(prompt.sum())
        self.output_tokens += int(output.sum())
        self.last_seconds = max(self.last_seconds, float(end.max()))
        self._first_arrival = min(self._first_arrival, float(arrival.min()))
        self._last_arrival = max(self._last_arrival, float(arrival.max()))
        for distribution, values in (
            (self.ttft, ttft),
            (self.tpot, tpot),
            (self.end_to_end, total),
            (self.queue, prefill - arrival),
            (self.blocked, taken - finish),
            (self.buffer, start - taken),
        ):
            distribution.add(np.maximum(values, 0.0))
        self._count_kept(ttft, tpot, output)
        self.trend.add(number, arrival, total)
        if self._reader is not None:
            self._reader(
                RequestRows(
                    *(number.astype(np.int64), pool.astype(np.int64)),
                    *(prompt.astype(np.int64), output.astype(np.int64)),
                    *(arrival, prefill, first, start, end),
                    *(ttft, tpot),
                )
            )

    def _count_kept(self, ttft: Array, tpot: Array, output: Array) -> None:
        limits = self._limits
        kept_ttft = ttft <= (math.inf if limits.ttft_seconds is None else limits.ttft_seconds)
        bound = math.inf if limits.tpot_seconds is None else limits.tpot_seconds
        kept_tpot = np.isnan(tpot) | (tpot <= bound)
        kept = kept_ttft & kept_tpot
        self.kept_ttft += int(kept_ttft.sum())
        self.kept_tpot += int(kept_tpot.sum())
        self.kept += int(kept.sum())
        self.kept_tokens += int(output[kept].sum())

    def rates(self) -> tuple[float, float] | None:
        """Return tokens/s and requests/s without warm-up, or None for too short a run.

        What finishes after the last arrival is left out, unless all came at once.
        """
        at_once = self._last_arrival <= self._first_arrival
        return self.curve.rates(math.inf if at_once else self._last_arrival)

    @property
    def offered_rate(self) -> float:
        """Observed arrivals a second; infinite when all came at once."""
        span = self.arrivals_seconds
        return (self.requests - 1) / span if span > 0 else math.inf

    @property
    def arrivals_seconds(self) -> float:
        """Time from the first arrival to the last [s]."""
        return max(self._last_arrival - self._first_arrival, 0.0)
