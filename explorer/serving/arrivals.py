"""Requests as they arrive: saturated, at random, at constant gaps, in bursts, or from a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.costs.arrays import Array, Codes

BLOCK_REQUESTS = 8192
"""Requests made at once: memory does not grow with how many arrive."""


@dataclass(frozen=True)
class RequestBlock:
    """Some consecutive requests.

    Attributes:
        arrival_seconds: when each arrives, never before the one in front of it [s].
        prompt_tokens: prompt length of each.
        output_tokens: output length of each.
    """

    arrival_seconds: Array
    prompt_tokens: Codes
    output_tokens: Codes


def saturated(requests: int, prompt_tokens: int, output_tokens: int) -> Iterator[RequestBlock]:
    """Yield requests that all wait at the start."""
    for size in _block_sizes(requests):
        yield _alike(np.zeros(size), prompt_tokens, output_tokens)


def constant(
    requests: int, rate: float, prompt_tokens: int, output_tokens: int
) -> Iterator[RequestBlock]:
    """Yield requests at equal gaps, the first at 0; ``rate`` in requests/s."""
    first = 0
    for size in _block_sizes(requests):
        yield _alike(np.arange(first, first + size) / rate, prompt_tokens, output_tokens)
        first += size


def poisson(
    requests: int, rate: float, seed: int, prompt_tokens: int, output_tokens: int
) -> Iterator[RequestBlock]:
    """Yield requests with exponential gaps of mean 1 / ``rate``; one seed gives one sequence.

    Gaps scale with the rate, so that runs at two rates see the same luck.
    """
    yield from bursts(requests, rate, 1, seed, prompt_tokens, output_tokens)


def bursts(
    requests: int, rate: float, together: int, seed: int, prompt_tokens: int, output_tokens: int
) -> Iterator[RequestBlock]:
    """Yield ``together`` requests at once after exponential gaps of mean together / ``rate``."""
    random = np.random.default_rng(seed)
    clock, left_over = 0.0, np.zeros(0)
    for size in _block_sizes(requests):
        missing = -(-(size - left_over.size) // together)
        epochs = clock + np.cumsum(random.exponential(together / rate, missing))
        clock = float(epochs[-1]) if missing > 0 else clock
        times = np.concatenate([left_over, np.repeat(epochs, together)])
        left_over = times[size:]
        yield _alike(times[:size], prompt_tokens, output_tokens)


def _block_sizes(requests: int) -> Iterator[int]:
    for first in range(0, requests, BLOCK_REQUESTS):
        yield min(BLOCK_REQUESTS, requests - first)


def _alike(times: Array, prompt_tokens: int, output_tokens: int) -> RequestBlock:
    return RequestBlock(
        times, np.full(times.size, prompt_tokens), np.full(times.size, output_tokens)
    )
