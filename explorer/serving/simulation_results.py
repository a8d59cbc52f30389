"""What a simulated service gives: frozen results, each with its unit, for command line and page.

All times are seconds since the start of the run. A *pool* is one prefill-buffer-decode group of
clusters (or one group of cards); several stand side by side and serve one queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from explorer.costs.arrays import Array, Codes

StagePool = Literal["prefill", "decode", "cards"]
SpanKind = Literal["prefill", "blocked", "decode"]


@dataclass(frozen=True)
class Detail:
    """How much a run keeps for pictures; none of it changes a number.

    Attributes:
        micro_batches: how many prefill and how many decode micro-batches of the first pool the
            Gantt shows, 0 for none.
        gantt_start_seconds: it shows the first ones that start from then on [s].
        occupancy_points: most points in time that occupancy keeps, at least 16.
        histogram_bins: bins of each waiting-time histogram.
    """

    micro_batches: int = 24
    gantt_start_seconds: float = 0.0
    occupancy_points: int = 240
    histogram_bins: int = 40


@dataclass(frozen=True)
class Quantiles:
    """One time over all finished requests [s]; NaN where no request has it.

    Attributes:
        count: requests that have this time.
        p50, p90, p99: nearest-rank quantiles.
        mean: arithmetic mean, exact.
        largest: the longest, exact.
        relative_error: how far a quantile may be off: 0 where every value was kept.
    """

    count: int
    p50: float
    p90: float
    p99: float
    mean: float
    largest: float
    relative_error: float


@dataclass(frozen=True)
class Histogram:
    """How many requests waited how long.

    Attributes:
        edges_seconds: bin edges [s], one more than counts, equally wide from 0.
        counts: requests in each bin.
        total_seconds: all waiting together [s].
    """

    edges_seconds: Array
    counts: Codes
    total_seconds: float


@dataclass(frozen=True)
class Waiting:
    """Where requests wait, one histogram a place.

    Attributes:
        queue: from arrival until prefill starts.
        blocked: from the end of prefill until the buffer takes the cache.
        buffer: from then until the first decode step.
    """

    queue: Histogram
    blocked: Histogram
    buffer: Histogram


@dataclass(frozen=True)
class StageUse:
    """What one stage of the first pool did with its time; the three shares and idling add to 1.

    Attributes:
        pool: ``prefill``, ``decode``, or ``cards`` for both on the same cards.
        pipeline: number of the pipeline from 1.
        stage: number of the stage from 1.
        busy_fraction: share of the run in which it computed.
        blocked_fraction: share in which it held a finished micro-batch that nothing took.
    """

    pool: StagePool
    pipeline: int
    stage: int
    busy_fraction: float
    blocked_fraction: float

    @property
    def idle_fraction(self) -> float:
        """Share in which it had nothing to do."""
        return max(1.0 - self.busy_fraction - self.blocked_fraction, 0.0)


@dataclass(frozen=True)
class CacheUse:
    """KV cache and state held in one part of a pool, reserved at maximum context [B].

    Attributes:
        place: ``prefill``, ``buffer``, ``decode``, or ``cards``.
        peak_bytes: most at any moment, of the pool that held most.
        mean_bytes: average over the run, of the first pool.
        limit_bytes: room beside weights and overhead; for prefill, which sends each layer's cache
            away as it computes, what would be needed to keep all of it is only an upper bound.
    """

    place: str
    peak_bytes: float
    mean_bytes: float
    limit_bytes: float


@dataclass(frozen=True)
class BufferUse:
    """What the buffer and its backpressure did.

    Attributes:
        capacity_micro_batches: Buf_max, decode micro-batches; infinite when unbounded, 0 when
            there is none.
        peak_micro_batches: most at any moment, in decode micro-batches.
        peak_bytes: the same in bytes.
        limit_bytes: memory of one pool's buffer clusters.
        paused_seconds: time that a prefill pipeline held a finished micro-batch because the
            buffer had no room, mean over all pipelines [s].
        paused_fraction: the same as a share of the run.
        out_of_memory_seconds: when the buffer first held more than its memory; None if never.
    """

    capacity_micro_batches: float
    peak_micro_batches: float
    peak_bytes: float
    limit_bytes: float
    paused_seconds: float
    paused_fraction: float
    out_of_memory_seconds: float | None


@dataclass(frozen=True)
class Goodput:
    """Requests that kept the limits on TTFT and TPOT.

    Attributes:
        ttft_limit_seconds, tpot_limit_seconds: the limits; None where none is set.
        idle_ttft_seconds, idle_tpot_seconds: what ``evaluate`` says of an idle pool, at the mean
            lengths of the requests; NaN for TPOT of one output token.
        attained_fraction: share of the finished requests that kept both.
        ttft_fraction, tpot_fraction: shares that kept one.
        target_fraction: share that must keep both.
        requests_per_second: finished requests that kept both, a second.
        tokens_per_second: their output tokens a second.
    """

    ttft_limit_seconds: float | None
    tpot_limit_seconds: float | None
    idle_ttft_seconds: float
    idle_tpot_seconds: float
    attained_fraction: float
    ttft_fraction: float
    tpot_fraction: float
    target_fraction: float
    requests_per_second: float
    tokens_per_second: float

    @property
    def attained(self) -> bool:
        """Whether enough requests kept the limits; true without limits."""
        return self.attained_fraction >= self.target_fraction


@dataclass(frozen=True)
class Speed:
    """Simulated rate beside the closed forms, all pools together.

    Attributes:
        tokens_per_second: output tokens a second, measured over whole batches after warm-up.
        requests_per_second: the same in requests.
        closed_form_tokens_per_second: steady state, max(n x stage / DP_P, T_d) a batch, or
            T_p + T_d when shared, at the mean lengths of the requests.
        eq21_tokens_per_second: Eq. 21, which fills the prefill pipeline anew for every batch.
        offered_requests_per_second: observed arrival rate; infinite when saturated.
        capacity_requests_per_second: requests a second of the steady state.
    """

    tokens_per_second: float
    requests_per_second: float
    closed_form_tokens_per_second: float
    eq21_tokens_per_second: float
    offered_requests_per_second: float
    capacity_requests_per_second: float

    @property
    def closed_form_gap(self) -> float:
        """Signed (simulated - steady state) / steady state."""
        return self.tokens_per_second / self.closed_form_tokens_per_second - 1

    @property
    def eq21_gap(self) -> float:
        """Signed (simulated - Eq. 21) / Eq. 21."""
        return self.tokens_per_second / self.eq21_tokens_per_second - 1

    @property
    def load(self) -> float:
        """Offered rate as a share of what the steady state serves."""
        return self.offered_requests_per_second / self.capacity_requests_per_second


@dataclass(frozen=True)
class StageSpan:
    """One bar of the Gantt.

    Attributes:
        pool: ``prefill``, ``decode`` or ``cards``.
        pipeline: number of the prefill pipeline, or of the decode slot, from 1.
        stage: number of the stage from 1; 0 for a decode slot, whose micro-batch goes round all
            stages.
        kind: ``prefill``, ``blocked`` (finished, but nothing takes it) or ``decode``.
        micro_batch: number of the micro-batch from 0, prefill and decode counted apart.
        requests: requests in it.
        start_seconds, end_seconds: when.
    """

    pool: StagePool
    pipeline: int
    stage: int
    kind: SpanKind
    micro_batch: int
    requests: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Occupancy:
    """Cache held in the first pool over time; each point is the end of an interval.

    Attributes:
        seconds: ends of the intervals [s].
        prefill_bytes, buffer_bytes, decode_bytes: most in each interval [B].
        admitted_bytes, released_bytes: counted up to each point [B].
        resident_bytes: held at each point, all places together [B].
    """

    seconds: Array
    prefill_bytes: Array
    buffer_bytes: Array
    decode_bytes: Array
    admitted_bytes: Array
    released_bytes: Array
    resident_bytes: Array


@dataclass(frozen=True)
class RequestRows:
    """Some finished requests, one array a column; rows are in order of finishing.

    Attributes:
        request: number of the request from 0, by arrival.
        pool: number of the pool from 0.
        prompt_tokens, output_tokens: its lengths.
        arrival_seconds, prefill_seconds, first_token_seconds, decode_seconds, end_seconds: when it
            arrived, its prefill started, its first token and cache had left prefill, its first
            decode step started, and its last token was there.
        ttft_seconds: first token less arrival.
        tpot_seconds: (end - first token) / (output tokens - 1); NaN for one output token.
    """

    request: Codes
    pool: Codes
    prompt_tokens: Codes
    output_tokens: Codes
    arrival_seconds: Array
    prefill_seconds: Array
    first_token_seconds: Array
    decode_seconds: Array
    end_seconds: Array
    ttft_seconds: Array
    tpot_seconds: Array


RowReader = Callable[[RequestRows], None]
"""Gets the finished requests of a run block by block, for a file that grows as it runs."""


@dataclass(frozen=True)
class Simulation:
    """Everything that a run gives.

    Attributes:
        requests: requests that arrived at the simulated pools; all finished.
        pools: pools side by side.
        simulated_pools: pools that were simulated: one for all when saturated, as all are alike.
        seconds: from 0 to the end of the last request.
        speed: rates beside the closed forms.
        ttft, tpot, end_to_end: times of requests.
        waiting: where requests waited.
        goodput: under the limits; None for saturated arrivals, where the time to a first token
            only tells how many requests were asked for.
        stages: what each stage of the first pool did.
        caches: KV cache by place.
        buffer: buffer and backpressure; None when the same cards prefill and decode.
        mean_in_system: requests between arrival and last token, time average over ``seconds``.
        backlog_growth: seconds that end-to-end time grows by for each second of arrivals, after
            warm-up; near 0 where the plan keeps up.
        keeps_up: whether it does: less is asked than the steady state serves, and end-to-end
            time does not grow from part to part of the run. True for saturated arrivals, which ask
            for all there is.
        notes: what a reader must know.
        spans: the Gantt of the first micro-batches.
        occupancy: cache over time.
    """

    requests: int
    pools: int
    simulated_pools: int
    seconds: float
    speed: Speed
    ttft: Quantiles
    tpot: Quantiles
    end_to_end: Quantiles
    waiting: Waiting
    goodput: Goodput | None
    stages: tuple[StageUse, ...]
    caches: tuple[CacheUse, ...]
    buffer: BufferUse | None
    mean_in_system: float
    backlog_growth: float
    keeps_up: bool
    notes: tuple[str, ...] = ()
    spans: tuple[StageSpan, ...] = field(default=(), repr=False)
    occupancy: Occupancy | None = field(default=None, repr=False)

    @property
    def out_of_memory(self) -> bool:
        """Whether the buffer ever held more than its memory: such a run has no speed."""
        return self.buffer is not None and self.buffer.out_of_memory_seconds is not None

    @property
    def holds(self) -> bool:
        """Whether the plan serves these arrivals: memory, queue and limits."""
        attained = self.goodput is None or self.goodput.attained
        return not self.out_of_memory and self.keeps_up and attained

    @property
    def observed_rate(self) -> float:
        """Requests over the whole run, a second; what Little's law multiplies with."""
        return self.requests / self.seconds if self.seconds > 0 else math.inf
