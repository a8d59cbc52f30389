"""The decode stages of a pool as a ring: micro-batches go round until each has its tokens."""

from __future__ import annotations

from heapq import heappop, heappush

from explorer.serving.batching import OUTPUT, PROMPT
from explorer.serving.prefilled import Prefilled
from explorer.serving.service_times import ServiceTimes


class DecodeWork:
    """One decode micro-batch.

    Attributes:
        number: number in order of pulling.
        slot: which of the pool's slots it sits in, from 0.
        parts: its requests.
        count: how many they are.
        seconds: time of one step on one stage, padded to the longest [s].
        start_seconds: when its first step started.
        output_tokens: output tokens of its requests; until the most it keeps its slot.
        ends: when requests with so many output tokens got the last one [s].
    """

    __slots__ = (
        "count",
        "ends",
        "most_output_tokens",
        "number",
        "output_tokens",
        "parts",
        "seconds",
        "slot",
        "start_seconds",
    )

    def __init__(self, number: int, slot: int, parts: list[Prefilled], times: ServiceTimes) -> None:
        """Describe a micro-batch that has not started."""
        requests = [request for part in parts for request in part.requests]
        self.number = number
        self.slot = slot
        self.parts = parts
        self.count = len(requests)
        self.start_seconds = 0.0
        self.output_tokens = set(map(OUTPUT, requests))
        self.most_output_tokens = max(self.output_tokens)
        self.ends: dict[int, float] = {}
        self.seconds = times.decode(self.count, max(map(PROMPT, requests)), self.most_output_tokens)


class DecodeRing:
    """PP_D stages in a ring with at most as many micro-batches in flight.

    No micro-batch overtakes another, so all go round at the pace of the slowest: one step takes
    PP_D x the longest stage time among those in flight. A clock of rounds makes that exact while
    micro-batches come and go; entering between two of its ticks costs nothing.
    """

    def __init__(self, stages: int) -> None:
        """Make an empty ring."""
        self.stages = stages
        self.busy_seconds = 0.0
        self._rounds = 0.0
        self._seconds = 0.0
        self._round_seconds = 0.0
        self._in_flight: list[float] = []
        self._ends: list[tuple[float, int, int, DecodeWork]] = []

    def enter(self, work: DecodeWork, seconds: float) -> bool:
        """Start a micro-batch; return whether it has steps to do at all."""
        work.start_seconds = seconds
        steps = work.most_output_tokens - 1
        if steps == 0:
            return False
        self._advance(seconds)
        if not self._in_flight:
            self._rounds = 0.0
        self._in_flight.append(work.seconds)
        self._round_seconds = self.stages * max(self._in_flight)
        self.busy_seconds += steps * work.seconds
        for tokens in work.output_tokens:
            if tokens > 1:
                heappush(self._ends, (self._rounds + (tokens - 1), work.number, tokens, work))
        return True

    @property
    def next_end_seconds(self) -> float | None:
        """When the next requests get their last token if nothing enters before; None if empty."""
        if not self._ends:
            return None
        return self._seconds + (self._ends[0][0] - self._rounds) * self._round_seconds

    def end(self, seconds: float) -> DecodeWork | None:
        """Pass the next end, at ``next_end_seconds``; return the micro-batch if it leaves."""
        rounds, _, tokens, work = heappop(self._ends)
        self._seconds, self._rounds = seconds, rounds
        work.ends[tokens] = seconds
        if tokens < work.most_output_tokens:
            return None
        self._in_flight.remove(work.seconds)
        if self._in_flight:
            self._round_seconds = self.stages * max(self._in_flight)
        return work

    def _advance(self, seconds: float) -> None:
        if self._in_flight:
            self._rounds += (seconds - self._seconds) / self._round_seconds
        self._seconds = seconds
