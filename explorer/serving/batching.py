"""Requests in arrival order, cut into prefill micro-batches as the policy says."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from explorer.serving.arrivals import RequestBlock


class Request(NamedTuple):
    """One request: its number, when it arrives [s], and its lengths [tokens]."""

    number: int
    arrival_seconds: float
    prompt_tokens: int
    output_tokens: int


ARRIVAL, PROMPT, OUTPUT = map(attrgetter, ("arrival_seconds", "prompt_tokens", "output_tokens"))


@dataclass(frozen=True)
class Cutting:
    """How requests become micro-batches.

    Attributes:
        micro_batch: most requests in a prefill micro-batch.
        batch: requests of a batch, B; a micro-batch never reaches into the next batch, which is
            what makes them n = ceil(B / micro_batch).
        waiting_seconds: how long the first request of a micro-batch (of a batch, when sorted)
            waits for others once a pipeline is free [s].
        by_length: sort the requests of a batch by prompt length before cutting.
    """

    micro_batch: int
    batch: int
    waiting_seconds: float
    by_length: bool


class Launch(NamedTuple):
    """Requests that start prefill together, and when [s]."""

    seconds: float
    requests: list[Request]


class Queue:
    """The one queue in front of all pools.

    A pipeline that becomes free asks for the next micro-batch. While none is free a micro-batch
    keeps filling; it is launched when it is full, when its first request has waited
    ``waiting_seconds``, or when no further request will come.
    """

    def __init__(self, blocks: Iterable[RequestBlock], cutting: Cutting) -> None:
        """Start at the first request of the blocks, which are read as they are needed."""
        self._blocks = iter(blocks)
        self._read = 0
        self._coming: deque[Request] = deque()
        self._look_ahead(1)
        self._cutting = cutting
        self._in_batch = 0
        self._cut: deque[list[Request]] = deque()
        self._cut_seconds = 0.0

    @property
    def exhausted(self) -> bool:
        """Whether no request is left."""
        return not self._coming and not self._cut

    def launch(self, free_seconds: float) -> Launch | None:
        """Return the next micro-batch for a pipeline that is free from then on, or None."""
        cutting = self._cutting
        if cutting.by_length:
            return self._launch_sorted(free_seconds)
        taken = self._gather(min(cutting.micro_batch, cutting.batch - self._in_batch), free_seconds)
        if taken is not None:
            self._in_batch = (self._in_batch + len(taken.requests)) % cutting.batch
        return taken

    def gather_batch(self, free_seconds: float) -> Launch | None:
        """Return the next whole batch, sorted where the policy says so, or None."""
        taken = self._gather(self._cutting.batch, free_seconds)
        if taken is not None and self._cutting.by_length:
            taken.requests.sort(key=PROMPT)
        return taken

    def _launch_sorted(self, free_seconds: float) -> Launch | None:
        if not self._cut:
            batch = self.gather_batch(free_seconds)
            if batch is None:
                return None
            self._cut.extend(cut(batch.requests, self._cutting.micro_batch))
            self._cut_seconds = batch.seconds
        return Launch(max(free_seconds, self._cut_seconds), self._cut.popleft())

    def _gather(self, most: int, free_seconds: float) -> Launch | None:
        """Take up to ``most`` requests: those there are when a free pipeline stops waiting."""
        self._look_ahead(most + 1)
        coming = self._coming
        if not coming:
            return None
        deadline = max(free_seconds, coming[0].arrival_seconds + self._cutting.waiting_seconds)
        there = bisect_right(coming, deadline, 0, min(most, len(coming)), key=ARRIVAL)
        taken = [coming.popleft() for _ in range(there)]
        if there == most or not coming:
            return Launch(max(free_seconds, taken[-1].arrival_seconds), taken)
        return Launch(deadline, taken)

    def _look_ahead(self, requests: int) -> None:
        """Read blocks until so many requests are at hand, or all that there are."""
        while len(self._coming) < requests:
            block = next(self._blocks, None)
            if block is None:
                return
            first, self._read = self._read, self._read + block.arrival_seconds.size
            columns = (block.arrival_seconds, block.prompt_tokens, block.output_tokens)
            numbers = range(first, self._read)
            rows = zip(numbers, *(part.tolist() for part in columns), strict=True)
            self._coming.extend(map(Request._make, rows))


def cut(requests: list[Request], micro_batch: int) -> Iterator[list[Request]]:
    """Yield consecutive groups of ``micro_batch`` requests, the last perhaps smaller."""
    for first in range(0, len(requests), micro_batch):
        yield requests[first : first + micro_batch]
