"""What is simulated: whether the plan fits, how many requests arrive and when, sizes of pools."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from explorer.config.scenario import Scenario
from explorer.serving import arrivals
from explorer.serving.arrivals import RequestBlock
from explorer.serving.batching import Cutting
from explorer.serving.constraints import Constraint
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.pool import PoolShape
from explorer.serving.report import broken_constraints
from explorer.serving.steady_state import steady_requests_per_second
from explorer.serving.trace import Trace

AUTO_LOAD = 0.8
"""Arrival rate ``auto``, as a share of what the steady state serves."""
AUTO_REQUESTS = 10_000
AUTO_OPEN_BATCHES = 10
MOST_AUTO_REQUESTS = 200_000
"""Requests ``auto``: these, or so many batches of every pool where that is more, with a ceiling."""
AUTO_BATCHES = 24
AUTO_MICRO_BATCHES = 200
AUTO_PERIODS = 6
"""Least batches, decode micro-batches and periods of a run whose steady rate is measured."""
OF_THE_WORKLOAD = ("context", "ttft", "tpot")
"""Constraints on the scenario's own lengths, which a trace replaces."""


def auto_rate(capacity: float) -> float:
    """Return the arrival rate ``auto`` of a service that serves ``capacity`` [requests/s]."""
    return AUTO_LOAD * capacity


def misfits(scenario: Scenario, traced: bool = False) -> tuple[Constraint, ...]:
    """Return the constraints that keep a scenario from being simulated; none when it fits.

    Args:
        scenario: a scenario without arrays.
        traced: whether a trace replaces the scenario's own lengths.
    """
    return tuple(
        constraint
        for constraint in broken_constraints(evaluate(scenario))
        if not (traced and constraint.name in OF_THE_WORKLOAD)
        and not (constraint.name == "buffer" and scenario.simulation.policy == "no_buffer")
    )


@dataclass(frozen=True)
class SimulationPlan:
    """One scenario, ready to run.

    Attributes:
        scenario: the scenario.
        evaluation: what ``evaluate`` says of it.
        trace: requests from a file; None makes them from the scenario.
    """

    scenario: Scenario
    evaluation: Evaluation
    trace: Trace | None

    @property
    def saturated(self) -> bool:
        """Whether everything waits at the start; then one pool stands for all."""
        return self.trace is None and self.scenario.simulation.arrivals == "saturated"

    @property
    def pools(self) -> int:
        """Pools simulated."""
        return 1 if self.saturated else int(self.evaluation.pools)

    @property
    def waiting_seconds(self) -> float:
        """How long a micro-batch waits for requests to come [s]; when all are there, till full."""
        return math.inf if self.saturated else float(self.scenario.simulation.waiting_seconds)

    @property
    def rate(self) -> float:
        """Arrival rate asked for [requests/s]."""
        asked = self.scenario.simulation.rate_requests_per_second
        if not isinstance(asked, str):
            return float(asked)
        return auto_rate(float(steady_requests_per_second(self.evaluation)))

    @property
    def requests(self) -> int:
        """How many requests arrive."""
        if self.trace is not None:
            return self.trace.arrival_seconds.size
        asked = self.scenario.simulation.requests
        if not isinstance(asked, str):
            return int(asked)
        if self.saturated:
            return self._saturating_batches() * int(self.evaluation.batch)
        batches = AUTO_OPEN_BATCHES * self.pools * int(self.evaluation.batch)
        return min(max(AUTO_REQUESTS, batches), MOST_AUTO_REQUESTS)

    @property
    def period_batches(self) -> int:
        """Batches after which full pipelines are where they were: rates are taken over these.

        DP_P pipelines work through n micro-batches a batch.
        """
        lines = 1 if self.evaluation.inputs.shared else int(self.scenario.plan.dp_prefill)
        return lines // math.gcd(int(self.evaluation.prefill_micro_batches), lines)

    def _saturating_batches(self) -> int:
        """Return batches that fill the pipelines and buffer, and as many and more to measure."""
        e, plan = self.evaluation, self.scenario.plan
        filling = plan.dp_prefill * plan.pp_prefill / float(e.prefill_micro_batches)
        stored = self.buffer_micro_batches
        filling += (stored if math.isfinite(stored) else 0) / plan.pp_decode
        period = self.period_batches
        measured = max(AUTO_BATCHES, AUTO_MICRO_BATCHES / plan.pp_decode, AUTO_PERIODS * period)
        return math.ceil((2 * (filling + 2) + measured) / period) * period

    def blocks(self) -> Iterator[RequestBlock]:
        """Yield the requests in order of arrival."""
        if self.trace is not None:
            yield from self.trace.blocks()
            return
        chosen, work = self.scenario.simulation, self.scenario.workload
        lengths = (int(work.prompt_tokens), int(work.output_tokens))
        seed, together = int(chosen.seed), int(chosen.burst_requests)
        made = {
            "saturated": lambda: arrivals.saturated(self.requests, *lengths),
            "constant": lambda: arrivals.constant(self.requests, self.rate, *lengths),
            "poisson": lambda: arrivals.poisson(self.requests, self.rate, seed, *lengths),
            "bursts": lambda: arrivals.bursts(self.requests, self.rate, together, seed, *lengths),
        }
        yield from made[chosen.arrivals]()

    def cutting(self) -> Cutting:
        """Return how requests become prefill micro-batches, or batches when shared."""
        chosen = self.scenario.simulation
        return Cutting(
            int(self.scenario.plan.micro_batch_prefill),
            int(self.evaluation.batch),
            self.waiting_seconds,
            chosen.grouping == "by_length",
        )

    @property
    def buffer_room_requests(self) -> float:
        """Requests that the memory of a pool's buffer clusters holds."""
        e = self.evaluation
        return float(e.buffer_clusters * e.limit_bytes / e.request_cache_bytes)

    @property
    def buffer_micro_batches(self) -> float:
        """Buf_max: decode micro-batches that may wait; infinite when unbounded, 0 without."""
        chosen = self.scenario.simulation
        if chosen.policy == "unbounded":
            return math.inf
        if chosen.policy == "no_buffer" or self.evaluation.inputs.shared:
            return 0
        if isinstance(chosen.buffer_micro_batches, str):
            return int(self.evaluation.buffer_micro_batches)
        held = self.buffer_room_requests // int(self.scenario.plan.micro_batch_decode)
        return min(int(chosen.buffer_micro_batches), int(held))

    def shape(self) -> PoolShape:
        """Return the counts of one pool."""
        plan = self.scenario.plan
        return PoolShape(
            lines=int(plan.dp_prefill),
            prefill_stages=int(plan.pp_prefill),
            micro_batch=int(plan.micro_batch_decode),
            decode_stages=int(plan.pp_decode),
            buffer_requests=self.buffer_micro_batches * int(plan.micro_batch_decode),
            buffer_room=self.buffer_room_requests,
            has_buffer=self.scenario.simulation.policy != "no_buffer",
            waiting_seconds=self.waiting_seconds,
        )
