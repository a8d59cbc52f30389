"""Requests of a real service from a CSV file, read strictly and whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.costs.arrays import Array, Codes
from explorer.serving.arrivals import BLOCK_REQUESTS, RequestBlock


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival, 16 bytes each.

    Attributes:
        name: name of the file.
        arrival_seconds: when each arrives [s], never before the one in front of it.
        prompt_tokens: prompt length of each.
        output_tokens: output length of each.
    """

    name: str
    arrival_seconds: Array
    prompt_tokens: Codes
    output_tokens: Codes

    def blocks(self) -> Iterator[RequestBlock]:
        """Yield the requests, some at a time."""
        for first in range(0, self.arrival_seconds.size, BLOCK_REQUESTS):
            some = slice(first, first + BLOCK_REQUESTS)
            yield RequestBlock(
                self.arrival_seconds[some], self.prompt_tokens[some], self.output_tokens[some]
            )
