"""The bars of the first micro-batches of a pool."""

from __future__ import annotations

from explorer.serving.decode_ring import DecodeWork
from explorer.serving.prefill_line import PrefillWork
from explorer.serving.simulation_results import StagePool, StageSpan


class Gantt:
    """Collects bars of some prefill and some decode micro-batches, the first from a moment on."""

    def __init__(
        self, micro_batches: int, start_seconds: float, prefill_pool: StagePool = "prefill"
    ) -> None:
        """Keep bars of so many micro-batches of each kind that start at that time or later [s]."""
        self.spans: list[StageSpan] = []
        self._start = start_seconds
        self._prefill_left = self._decode_left = micro_batches
        self._prefill_pool = prefill_pool

    def add_prefill(self, line: int, work: PrefillWork) -> None:
        """Add what each stage of a pipeline did with a micro-batch that has left it."""
        if self._prefill_left == 0 or work.leaves[0] < self._start:
            return
        self._prefill_left -= 1
        for stage in range(1, len(work.leaves)):
            start, left = work.leaves[stage - 1], work.leaves[stage]
            done = start + work.seconds
            place = (self._prefill_pool, line + 1, stage)
            count = len(work.requests)
            self.spans.append(StageSpan(*place, "prefill", work.number, count, start, done))
            if left > done:
                self.spans.append(StageSpan(*place, "blocked", work.number, count, done, left))

    def add_decode(self, work: DecodeWork, seconds: float) -> None:
        """Add the bar of a decode micro-batch that leaves at ``seconds``."""
        start = work.start_seconds
        if self._decode_left == 0 or start < self._start or seconds <= start:
            return
        self._decode_left -= 1
        place: tuple[StagePool, int, int] = ("decode", work.slot + 1, 0)
        self.spans.append(StageSpan(*place, "decode", work.number, work.count, start, seconds))
