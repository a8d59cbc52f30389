"""The bars of the first micro-batches of a pool."""

from __future__ import annotations

from explorer.serving.decode_ring import DecodeWork
from explorer.serving.prefill_line import PrefillWork
from explorer.serving.simulation_results import StagePool, StageSpan


class Gantt:
    """Collects bars of the first prefill and of the first decode micro-batches."""

    def __init__(self, micro_batches: int, prefill_pool: StagePool = "prefill") -> None:
        """Keep bars of so many micro-batches of each kind."""
        self.spans: list[StageSpan] = []
        self._most = micro_batches
        self._prefill_pool = prefill_pool

    def add_prefill(self, line: int, work: PrefillWork) -> None:
        """Add what each stage of a pipeline did with a micro-batch that has left it."""
        if work.number >= self._most:
            return
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
        if work.number < self._most and seconds > work.start_seconds:
            count = len(work.requests)
            self.spans.append(
                StageSpan(
                    "decode",
                    work.slot + 1,
                    0,
                    "decode",
                    work.number,
                    count,
                    work.start_seconds,
                    seconds,
                )
            )
