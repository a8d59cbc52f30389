"""The optional ``simulation`` section of a scenario: which requests arrive, and who waits when.

A trace is a file of its own and in no scenario or link.
"""

from __future__ import annotations

from typing import Literal

from explorer.config.numbers import Real, Whole
from explorer.config.quantity import Document


class Simulation(Document):
    """Arrivals and policy of a simulated service; none of it changes ``evaluate``.

    Attributes:
        arrivals: ``saturated`` (everything waits at the start), ``poisson``, ``constant`` gaps, or
            ``bursts`` of requests at random moments.
        policy: ``bounded`` (prefill pauses when the buffer is full), ``unbounded`` (prefill never
            pauses) or ``no_buffer`` (prefill hands over to decode itself).
        grouping: ``arrival_order``, or ``by_length``: the requests of a batch are sorted by prompt
            length before they are cut into micro-batches.
        unfilled: time of a micro-batch with empty places: ``as_full``, or ``by_size``.
        requests: how many arrive.
        rate_requests_per_second: mean arrival rate at all pools together; ``auto`` is a share of
            the steady state's.
        burst_requests: requests that arrive together.
        waiting_seconds: how long the first request of a micro-batch waits for others.
        buffer_micro_batches: Buf_max; ``auto`` as many decode micro-batches as ``evaluate`` holds.
        attained_fraction: share of the requests that must keep the limits.
        seed: start of the random numbers.
    """

    arrivals: Literal["saturated", "poisson", "constant", "bursts"] = "poisson"
    policy: Literal["bounded", "unbounded", "no_buffer"] = "bounded"
    grouping: Literal["arrival_order", "by_length"] = "arrival_order"
    unfilled: Literal["as_full", "by_size"] = "as_full"
    requests: Whole | Literal["auto"] = "auto"
    rate_requests_per_second: Real | Literal["auto"] = "auto"
    burst_requests: Whole = 16
    waiting_seconds: Real = 1.0
    buffer_micro_batches: Whole | Literal["auto"] = "auto"
    attained_fraction: Real = 0.9
    seed: Whole = 0


SIMULATION_WORDS = {
    "simulation.arrivals": ("saturated", "poisson", "constant", "bursts"),
    "simulation.policy": ("bounded", "unbounded", "no_buffer"),
    "simulation.grouping": ("arrival_order", "by_length"),
    "simulation.unfilled": ("as_full", "by_size"),
}
