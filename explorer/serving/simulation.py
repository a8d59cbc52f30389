"""The service simulated in time: prefill pipelines, buffer and decode of every pool.

Service times come from ``evaluate`` alone. Events happen at micro-batches; within a prefill
pipeline and within the decode ring exact recurrences take the place of events.
"""

from __future__ import annotations

import math

from explorer.config.errors import refuse
from explorer.config.scenario import Scenario
from explorer.serving.batching import Queue
from explorer.serving.cache_ledger import CacheLedger, OccupancySeries
from explorer.serving.decode_ring import DecodeWork
from explorer.serving.evaluate import evaluate
from explorer.serving.gantt import Gantt
from explorer.serving.pool import Clock, Pool, Surroundings
from explorer.serving.report import violation_message
from explorer.serving.service_times import ServiceTimes
from explorer.serving.shared_pool import SharedPool
from explorer.serving.simulation_plan import SimulationPlan, misfits
from explorer.serving.simulation_results import Detail, RowReader, Simulation, StagePool
from explorer.serving.simulation_summary import summarised
from explorer.serving.tally import Tally
from explorer.serving.trace import Trace, require_context

WHOLE_DETAIL = Detail()

AnyPool = Pool | SharedPool


def simulate(
    scenario: Scenario,
    trace: Trace | None = None,
    detail: Detail = WHOLE_DETAIL,
    reader: RowReader | None = None,
) -> Simulation:
    """Return how a service behaves in time under the scenario's ``simulation`` section.

    The same scenario and trace always give the same result.

    Args:
        scenario: a scenario without arrays.
        trace: requests from a file, instead of those that the section describes; the scenario's
            own prompt and output lengths are then not used.
        detail: how much to keep for pictures.
        reader: gets every finished request, block by block.

    Raises:
        InputError: when the plan does not fit (see ``misfits``), or a request of the trace is
            longer than the maximum context.
    """
    if trace is not None:
        require_context(trace, int(scenario.workload.max_context_tokens))
    broken = misfits(scenario, trace is not None)
    if broken:
        messages = " ".join(violation_message(constraint) for constraint in broken)
        raise refuse("plan", "", f"does not fit, so it is not simulated: {messages}")
    run = _Run(SimulationPlan(scenario, evaluate(scenario), trace), detail, reader)
    run.clock.run()
    run.tally.flush()
    return summarised(run.plan, run.pools, run.tally, run.mean_in_system(), run.gantt, detail)


class _Run:
    """The queue, all pools and what is counted."""

    def __init__(self, plan: SimulationPlan, detail: Detail, reader: RowReader | None) -> None:
        self.plan = plan
        self.clock = Clock()
        stages = int(plan.scenario.plan.pp_decode)
        every = stages * plan.pools * plan.period_batches
        self.tally = Tally(plan.requests, plan.scenario.limits, every, reader)
        self._queue = Queue(plan.blocks(), plan.cutting())
        self._no_more_seconds = math.inf
        self._queued = 0.0
        shared = plan.evaluation.inputs.shared
        place: StagePool = "cards" if shared else "prefill"
        self.gantt = Gantt(detail.micro_batches, detail.gantt_start_seconds, place)
        around = Surroundings(
            clock=self.clock,
            times=ServiceTimes(plan.evaluation),
            finished=self._finished,
            line_free=self._line_free,
            no_more=lambda seconds: seconds >= self._no_more_seconds,
        )
        self.pools = [self._pool(number, around, detail) for number in range(plan.pools)]
        self._lines = 1 if shared else plan.shape().lines
        for line in range(self._lines):
            for pool in range(plan.pools):
                self._line_free(pool, line, 0.0)

    def _pool(self, number: int, around: Surroundings, detail: Detail) -> AnyPool:
        """Return an empty pool; pictures are kept of the first one only."""
        plan, first = self.plan, number == 0
        interval = float(plan.evaluation.prefill_stage.seconds) / detail.occupancy_points
        series = OccupancySeries(detail.occupancy_points, interval) if first else None
        ledger = CacheLedger(plan.buffer_room_requests, series)
        gantt = self.gantt if first else None
        chosen = plan.scenario.plan
        if not plan.evaluation.inputs.shared:
            return Pool(number, plan.shape(), around, ledger, gantt)
        sizes = (int(chosen.micro_batch_prefill), int(chosen.micro_batch_decode))
        return SharedPool(number, sizes, int(chosen.pp_decode), around, ledger, gantt)

    def mean_in_system(self) -> float:
        """Return the time average of requests between arrival and last token.

        Those in the queue and those whose cache is held, as the ledgers saw them, less those
        that have their last token and wait for the rest of their micro-batch.
        """
        seconds = self.tally.last_seconds
        held = sum(sum(pool.ledger.areas) for pool in self.pools)
        return (
            (self._queued + held - self.tally.early_seconds) / seconds if seconds > 0 else math.nan
        )

    def _line_free(self, pool: int, line: int, seconds: float) -> None:
        self.clock.plan(seconds, self._feed, pool * self._lines + line)

    def _feed(self, seconds: float, place: int) -> None:
        """Give the next micro-batch, or batch when shared, to what has been free longest."""
        number, line = divmod(place, self._lines)
        pool = self.pools[number]
        if isinstance(pool, SharedPool):
            launch = self._queue.gather_batch(seconds)
        else:
            launch = self._queue.launch(seconds)
        if launch is None:
            return
        self._queued += sum([launch.seconds - one.arrival_seconds for one in launch.requests])
        if isinstance(pool, SharedPool):
            pool.launch(launch)
            return
        pool.launch(line, launch)
        if self._queue.exhausted:
            # What is known of the future here the pools learn when it comes.
            self._no_more_seconds = launch.seconds
            for other in self.pools:
                if isinstance(other, Pool):
                    self.clock.plan(launch.seconds, other.settle)

    def _finished(self, pool: int, work: DecodeWork, seconds: float) -> None:
        self.tally.finish(pool, work, seconds)
