"""One prefill pipeline: stages in a row, nothing between them, each holds what nothing takes."""

from __future__ import annotations

from collections import deque

from explorer.serving.batching import Request


class PrefillWork:
    """One micro-batch on its way through a pipeline.

    Attributes:
        number: number of the micro-batch, in order of launching.
        requests: its requests; the buffer takes them from the front.
        seconds: time that each stage works on it [s].
        tail_seconds: exposed transfer of its cache after the last stage [s].
        leaves: when it left each place that is known so far: entry, stage 1, stage 2, ...
        taken: how many of its requests the buffer has.
    """

    __slots__ = ("leaves", "number", "requests", "seconds", "tail_seconds", "taken")

    def __init__(
        self, number: int, requests: list[Request], seconds: float, tail_seconds: float
    ) -> None:
        """Describe a micro-batch that has not started."""
        self.number = number
        self.requests = requests
        self.seconds = seconds
        self.tail_seconds = tail_seconds
        self.leaves: list[float] = []
        self.taken = 0

    @property
    def finish_seconds(self) -> float:
        """When the last stage has computed it; only once it has reached that stage [s]."""
        return self.leaves[-1] + self.seconds


class PrefillLine:
    """Stages in a row with blocking after service.

    Micro-batch m leaves stage s at D(m, s) = max(D(m, s-1) + t(m), D(m-1, s+1)): when it is
    computed, and the one in front has left the next stage. It leaves the last stage when the
    buffer takes it. Each departure is computed as soon as those it depends on are known, which
    may be ahead of the clock; nothing that happens later can change it.
    """

    def __init__(self, stages: int) -> None:
        """Make an empty pipeline."""
        self.stages = stages
        self.busy_seconds = 0.0
        self.blocked_seconds = [0.0] * stages
        self._inside: deque[PrefillWork] = deque()
        self._ahead: PrefillWork | None = None

    def enter(self, work: PrefillWork, seconds: float) -> bool:
        """Let a micro-batch into the free first stage; return whether it reaches the last."""
        work.leaves.append(seconds)
        self.busy_seconds += work.seconds
        before = self._inside[-1] if self._inside else self._ahead
        self._inside.append(work)
        self._advance(work, before)
        return len(work.leaves) == self.stages

    @property
    def first(self) -> PrefillWork:
        """The micro-batch that is furthest."""
        return self._inside[0]

    @property
    def free_seconds(self) -> float | None:
        """When the first stage is free of the newest micro-batch; None while nobody knows."""
        newest = self._inside[-1] if self._inside else self._ahead
        if newest is None:
            return 0.0
        return newest.leaves[1] if len(newest.leaves) > 1 else None

    def take(self, seconds: float) -> PrefillWork | None:
        """Release the last stage; return the micro-batch that now surely reaches it, if any."""
        work = self._inside.popleft()
        self.blocked_seconds[-1] += seconds - work.finish_seconds
        work.leaves.append(seconds)
        self._ahead = before = work
        for following in self._inside:
            known = len(following.leaves)
            self._advance(following, before)
            if len(following.leaves) == known:
                break
            before = following
        first = self._inside[0] if self._inside else None
        return first if first is not None and len(first.leaves) == self.stages else None

    def _advance(self, work: PrefillWork, before: PrefillWork | None) -> None:
        leaves, seconds = work.leaves, work.seconds
        if before is None:
            for _ in range(len(leaves), self.stages):
                leaves.append(leaves[-1] + seconds)
            return
        ahead, blocked = before.leaves, self.blocked_seconds
        for stage in range(len(leaves), min(self.stages, len(ahead) - 1)):
            done, room = leaves[-1] + seconds, ahead[stage + 1]
            if room > done:
                blocked[stage - 1] += room - done
                done = room
            leaves.append(done)
