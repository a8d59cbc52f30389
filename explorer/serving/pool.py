"""One prefill-buffer-decode pool: what happens when a micro-batch is done or a slot is free."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from explorer.serving.batching import PROMPT, Launch, Request
from explorer.serving.cache_ledger import CacheLedger
from explorer.serving.decode_ring import DecodeRing, DecodeWork
from explorer.serving.gantt import Gantt
from explorer.serving.prefill_line import PrefillLine, PrefillWork
from explorer.serving.prefilled import Prefilled, PrefilledRequests
from explorer.serving.service_times import ServiceTimes

Handler = Callable[[float, int], None]


class Clock:
    """Events in order of time; those of one moment in the order in which they were planned."""

    def __init__(self) -> None:
        """Start at 0 without events."""
        self._events: list[tuple[float, int, Handler, int]] = []
        self._planned = 0

    def plan(self, seconds: float, handler: Handler, argument: int = 0) -> None:
        """Call ``handler(seconds, argument)`` when the time comes."""
        heappush(self._events, (seconds, self._planned, handler, argument))
        self._planned += 1

    def run(self) -> None:
        """Let everything happen."""
        events = self._events
        while events:
            seconds, _, handler, argument = heappop(events)
            handler(seconds, argument)


@dataclass(frozen=True)
class PoolShape:
    """Counts of one pool.

    Attributes:
        lines: prefill pipelines, DP_P.
        prefill_stages: stages of each, PP_P.
        micro_batch: requests of a full decode micro-batch.
        decode_stages: stages and slots of decode, PP_D.
        buffer_requests: requests that the buffer takes, at least one micro-batch; infinite when
            prefill never pauses. Not used when there is no buffer.
        buffer_room: requests that its memory holds.
        has_buffer: whether there is one; without, prefill hands over to a free decode slot.
        waiting_seconds: how long the first request of a decode micro-batch waits for others [s].
    """

    lines: int
    prefill_stages: int
    micro_batch: int
    decode_stages: int
    buffer_requests: float
    buffer_room: float
    has_buffer: bool
    waiting_seconds: float


@dataclass(frozen=True)
class Surroundings:
    """What a pool shares with the others.

    Attributes:
        clock: the events of all pools.
        times: times of micro-batches.
        finished: gets a decode micro-batch that leaves: pool, micro-batch, time [s].
        line_free: gets pool and pipeline when the first stage of a pipeline is free [s].
        no_more: whether at a moment [s] no request waits or will come.
    """

    clock: Clock
    times: ServiceTimes
    finished: Callable[[int, DecodeWork, float], None]
    line_free: Callable[[int, int, float], None]
    no_more: Callable[[float], bool]


class Pool:
    """Prefill pipelines, a buffer and a ring of decode stages.

    The buffer takes finished micro-batches in order of finishing, request by request while there
    is room; until it has the last one the micro-batch holds its last prefill stage. Decode pulls a
    micro-batch when a slot is free and enough requests are there, when the first of them has
    waited long enough, or when no more will come.
    """

    def __init__(
        self,
        number: int,
        shape: PoolShape,
        around: Surroundings,
        ledger: CacheLedger,
        gantt: Gantt | None,
    ) -> None:
        """Make an empty pool."""
        self.number = number
        self.lines = [PrefillLine(shape.prefill_stages) for _ in range(shape.lines)]
        self.ring = DecodeRing(shape.decode_stages)
        self.ledger = ledger
        self._shape = shape
        self._around = around
        self._gantt = gantt
        self._launched = self._pulled = self._in_prefill = 0
        self._line_unknown = [False] * shape.lines
        self._finished_lines: deque[int] = deque()
        self._buffer = PrefilledRequests()
        self._slots = list(range(shape.decode_stages))
        self._pulled_works: dict[int, DecodeWork] = {}
        self._deadline_of: Request | None = None
        self._ring_plan = 0

    # Prefill ----------------------------------------------------------------------------------

    def launch(self, line: int, launch: Launch) -> None:
        """Let a micro-batch into a pipeline whose first stage is free."""
        prompt = max(map(PROMPT, launch.requests))
        seconds, tail = self._around.times.prefill(len(launch.requests), prompt)
        work = PrefillWork(self._launched, launch.requests, seconds, tail)
        self._launched += 1
        self._in_prefill += 1
        self._around.clock.plan(launch.seconds, self._started, len(launch.requests))
        if self.lines[line].enter(work, launch.seconds):
            self._around.clock.plan(work.finish_seconds, self._prefilled, line)
        self._line_unknown[line] = True
        self._look_for_free(line)

    def _started(self, seconds: float, requests: int) -> None:
        self.ledger.admit(seconds, requests)

    def _look_for_free(self, line: int) -> None:
        if self._line_unknown[line]:
            free = self.lines[line].free_seconds
            if free is not None:
                self._line_unknown[line] = False
                self._around.line_free(self.number, line, free)

    def _prefilled(self, seconds: float, line: int) -> None:
        self._finished_lines.append(line)
        self.settle(seconds)

    # Buffer -----------------------------------------------------------------------------------

    def settle(self, seconds: float, _: int = 0) -> None:
        """Let the buffer take and decode pull whatever they can now."""
        self._pull(seconds)
        while self._store(seconds):
            self._pull(seconds)

    def _room(self) -> float:
        if self._shape.has_buffer:
            return self._shape.buffer_requests - len(self._buffer)
        return self._shape.micro_batch - len(self._buffer) if self._slots else 0

    def _store(self, seconds: float) -> bool:
        """Move what fits from the first finished micro-batch; return whether anything moved."""
        if not self._finished_lines:
            return False
        line = self._finished_lines[0]
        work = self.lines[line].first
        count = int(min(self._room(), len(work.requests) - work.taken))
        if count <= 0:
            return False
        moved = work.requests[work.taken : work.taken + count]
        first_token = seconds + work.tail_seconds
        self._buffer.add(
            Prefilled(moved, work.leaves[0], work.finish_seconds, seconds, first_token)
        )
        work.taken += count
        if self._shape.has_buffer:
            self.ledger.store(seconds, count)
        else:
            self.ledger.hand_over(seconds, count)
        if work.taken == len(work.requests):
            self._leave_line(line, work, seconds)
        return True

    def _leave_line(self, line: int, work: PrefillWork, seconds: float) -> None:
        self._finished_lines.popleft()
        self._in_prefill -= 1
        following = self.lines[line].take(seconds)
        if self._gantt is not None:
            self._gantt.add_prefill(line, work)
        if following is not None:
            self._around.clock.plan(following.finish_seconds, self._prefilled, line)
        self._look_for_free(line)

    # Decode -----------------------------------------------------------------------------------

    def _pull(self, seconds: float) -> None:
        shape = self._shape
        while self._slots and self._buffer:
            count = shape.micro_batch
            if len(self._buffer) < count:
                first = self._buffer.first
                deadline = first.taken_seconds + shape.waiting_seconds
                last = self._in_prefill == 0 and self._around.no_more(seconds)
                if seconds < deadline and not last:
                    if self._deadline_of is not first.requests[0] and math.isfinite(deadline):
                        self._deadline_of = first.requests[0]
                        self._around.clock.plan(deadline, self.settle)
                    return
                count = len(self._buffer)
            self._start(seconds, self._buffer.take(count))

    def _start(self, seconds: float, parts: list[Prefilled]) -> None:
        work = DecodeWork(self._pulled, heappop(self._slots), parts, self._around.times)
        self._pulled += 1
        if self._shape.has_buffer:
            self.ledger.pull(seconds, work.count)
        ready = max([part.first_token_seconds for part in parts])
        self._pulled_works[work.number] = work
        if ready > seconds:
            self._around.clock.plan(ready, self._decode, work.number)
        else:
            self._decode(seconds, work.number)

    def _decode(self, seconds: float, number: int) -> None:
        work = self._pulled_works.pop(number)
        if self.ring.enter(work, seconds):
            self._plan_ring()
        else:
            self._pulled_works[number] = work
            self._around.clock.plan(seconds, self._without_steps, number)

    def _without_steps(self, seconds: float, number: int) -> None:
        self._leave_ring(self._pulled_works.pop(number), seconds)

    def _plan_ring(self) -> None:
        self._ring_plan += 1
        end = self.ring.next_end_seconds
        if end is not None:
            self._around.clock.plan(end, self._ended, self._ring_plan)

    def _ended(self, seconds: float, plan: int) -> None:
        if plan != self._ring_plan:
            return  # A micro-batch entered since, and this end was planned anew.
        work = self.ring.end(seconds)
        self._plan_ring()
        if work is not None:
            self._leave_ring(work, seconds)

    def _leave_ring(self, work: DecodeWork, seconds: float) -> None:
        heappush(self._slots, work.slot)
        self.ledger.release(seconds, work.count)
        if self._gantt is not None:
            self._gantt.add_decode(work, seconds)
        self._around.finished(self.number, work, seconds)
        self.settle(seconds)
