"""One group of cards that prefills a batch and then decodes it: no buffer, nothing overlaps."""

from __future__ import annotations

from explorer.serving.batching import PROMPT, Launch, cut
from explorer.serving.cache_ledger import CacheLedger
from explorer.serving.decode_ring import DecodeRing, DecodeWork
from explorer.serving.gantt import Gantt
from explorer.serving.pool import Surroundings
from explorer.serving.prefill_line import PrefillLine, PrefillWork
from explorer.serving.prefilled import Prefilled, PrefilledRequests


class SharedPool:
    """Cards that take a batch, prefill its micro-batches, then decode them together."""

    def __init__(
        self,
        number: int,
        micro_batches: tuple[int, int],
        stages: int,
        around: Surroundings,
        ledger: CacheLedger,
        gantt: Gantt | None,
    ) -> None:
        """Make an idle group; ``micro_batches`` are the sizes in prefill and in decode."""
        self.number = number
        self.line = PrefillLine(stages)
        self.ring = DecodeRing(stages)
        self.ledger = ledger
        self._prefill_size, self._decode_size = micro_batches
        self._around = around
        self._gantt = gantt
        self._prefilled = self._decoded = 0
        self._leaving: dict[int, DecodeWork] = {}

    def launch(self, launch: Launch) -> None:
        """Serve a batch; the cards are free again when its last request is done."""
        clock = self._around.clock
        clock.plan(launch.seconds, self._admit, len(launch.requests))
        cached, prefilled = self._prefill(launch)
        clock.plan(prefilled, self._hand_over, len(launch.requests))
        end = prefilled
        while cached:
            work = self._decode_work(cached.take(min(self._decode_size, len(cached))))
            if not self.ring.enter(work, prefilled):
                self._plan_leaving(work, prefilled)
        while (seconds := self.ring.next_end_seconds) is not None:
            left = self.ring.end(seconds)
            if left is not None:
                self._plan_leaving(left, seconds)
                end = seconds
        self._around.line_free(self.number, 0, end)

    def _prefill(self, launch: Launch) -> tuple[PrefilledRequests, float]:
        """Return the requests with their caches, and when the last prefill is done [s]."""
        entry, finish = launch.seconds, launch.seconds
        cached = PrefilledRequests()
        for requests in cut(launch.requests, self._prefill_size):
            prompt = max(map(PROMPT, requests))
            seconds, _ = self._around.times.prefill(len(requests), prompt)
            work = PrefillWork(self._prefilled, requests, seconds, 0.0)
            self._prefilled += 1
            self.line.enter(work, entry)
            finish = work.finish_seconds
            self.line.take(finish)
            entry = self.line.free_seconds or finish
            cached.add(Prefilled(requests, work.leaves[0], finish, finish, finish))
            if self._gantt is not None:
                self._gantt.add_prefill(0, work)
        return cached, finish

    def _decode_work(self, parts: list[Prefilled]) -> DecodeWork:
        slot = self._decoded % self.ring.stages
        work = DecodeWork(self._decoded, slot, parts, self._around.times)
        self._decoded += 1
        return work

    def _plan_leaving(self, work: DecodeWork, seconds: float) -> None:
        self._leaving[work.number] = work
        self._around.clock.plan(seconds, self._leave, work.number)

    def _admit(self, seconds: float, requests: int) -> None:
        self.ledger.admit(seconds, requests)

    def _hand_over(self, seconds: float, requests: int) -> None:
        self.ledger.hand_over(seconds, requests)

    def _leave(self, seconds: float, number: int) -> None:
        work = self._leaving.pop(number)
        self.ledger.release(seconds, work.count)
        if self._gantt is not None:
            self._gantt.add_decode(work, seconds)
        self._around.finished(self.number, work, seconds)
