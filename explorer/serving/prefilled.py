"""Requests whose prefill is done, kept by what happened to them together."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from explorer.serving.batching import Request


class Prefilled(NamedTuple):
    """Requests of one prefill micro-batch whose caches were taken at one moment.

    Attributes:
        requests: in the order in which decode takes them; at least one.
        prefill_seconds: when their prefill started [s].
        finish_seconds: when the last prefill stage had computed them [s].
        taken_seconds: when the buffer took their caches [s].
        first_token_seconds: when their first tokens and the end of their caches were there [s].
    """

    requests: list[Request]
    prefill_seconds: float
    finish_seconds: float
    taken_seconds: float
    first_token_seconds: float


class PrefilledRequests:
    """Those that wait for decode, first come, first served; its length counts requests."""

    def __init__(self) -> None:
        """Start without any."""
        self._parts: deque[Prefilled] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return self._count

    @property
    def first(self) -> Prefilled:
        """Those at the front."""
        return self._parts[0]

    def add(self, part: Prefilled) -> None:
        """Let some wait behind all others."""
        self._parts.append(part)
        self._count += len(part.requests)

    def take(self, count: int) -> list[Prefilled]:
        """Return so many requests from the front, as many as there are at most."""
        self._count -= count
        taken = []
        while count > 0:
            part = self._parts.popleft()
            if len(part.requests) > count:
                self._parts.appendleft(part._replace(requests=part.requests[count:]))
                part = part._replace(requests=part.requests[:count])
            count -= len(part.requests)
            taken.append(part)
        return taken
