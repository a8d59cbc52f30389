"""The simulation document ``explorer.simulation/1``, and whether a plan holds in sentences."""

from __future__ import annotations

import math
from typing import Any

from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.serving.capacity import LargestRate, LeastClusters, Probe
from explorer.serving.constraints import Constraint
from explorer.serving.report import number, violation_document
from explorer.serving.simulation_results import (
    BufferUse,
    Goodput,
    Histogram,
    Quantiles,
    Simulation,
    Speed,
)
from explorer.serving.trace import Trace

SIMULATION_SCHEMA = "explorer.simulation/1"


def verdict(simulation: Simulation) -> tuple[str, ...]:
    """Return sentences: whether the plan holds, and if not, every reason why."""
    reasons = [*_memory_reasons(simulation), *_queue_reasons(simulation)]
    reasons += _limit_reasons(simulation)
    if reasons:
        return ("The plan does not hold.", *reasons, *_where(simulation))
    speed = simulation.speed
    if math.isinf(speed.offered_requests_per_second):
        rate = human(speed.requests_per_second, "requests/s")
        return (f"Saturated, the plan serves {rate}.",)
    rate = human(speed.offered_requests_per_second, "requests/s")
    load = human(speed.load, "fraction")
    arrivals = f"{rate} arriving, {load} of what its steady state serves"
    return (f"The plan holds at {arrivals}.", *_where(simulation))


def _memory_reasons(simulation: Simulation) -> list[str]:
    buffer = simulation.buffer
    if buffer is None or buffer.out_of_memory_seconds is None:
        return []
    moment = human(buffer.out_of_memory_seconds, "s")
    peak, limit = human(buffer.peak_bytes, "B"), human(buffer.limit_bytes, "B")
    return [
        f"The buffer runs out of memory after {moment}: it would grow to {peak}, and its "
        f"clusters have {limit}."
    ]


def _queue_reasons(simulation: Simulation) -> list[str]:
    if simulation.keeps_up:
        return []
    speed = simulation.speed
    offered = human(speed.offered_requests_per_second, "requests/s")
    if speed.load > 1:
        served = human(speed.capacity_requests_per_second, "requests/s")
        most = f"the steady state serves {served} at most"
    else:
        most = f"{human(speed.requests_per_second, 'requests/s')} are served"
    growth = simulation.backlog_growth
    growing = f": waiting grows by {human(growth, 's')} with each second" if growth > 0 else ""
    return [f"Requests arrive at {offered} and {most}{growing}."]


def _limit_reasons(simulation: Simulation) -> list[str]:
    goodput = simulation.goodput
    if goodput is None or goodput.attained:
        return []
    kept, asked = (
        human(share, "fraction") for share in (goodput.attained_fraction, goodput.target_fraction)
    )
    parts = [
        f"{human(share, 'fraction')} {words} within {human(limit, 's')}, where an idle pool takes "
        f"{human(idle, 's')}"
        for words, limit, share, idle in (
            (
                "have their first token",
                goodput.ttft_limit_seconds,
                goodput.ttft_fraction,
                goodput.idle_ttft_seconds,
            ),
            (
                "get each token after it",
                goodput.tpot_limit_seconds,
                goodput.tpot_fraction,
                goodput.idle_tpot_seconds,
            ),
        )
        if limit is not None
    ]
    return [f"{kept} of the requests keep the limits, {asked} must: {'; '.join(parts)}."]


def _where(simulation: Simulation) -> list[str]:
    """Return where requests wait most."""
    waiting = simulation.waiting
    places = {
        "before prefill starts": waiting.queue,
        "for the buffer to take their cache": waiting.blocked,
        "in the buffer for decode": waiting.buffer,
    }
    name, longest = max(places.items(), key=lambda item: item[1].total_seconds)
    if longest.total_seconds <= 0:
        return []
    mean = human(longest.total_seconds / simulation.requests, "s")
    return [f"Requests wait longest {name}: {mean} on average."]


def simulation_document(
    scenario: Scenario, simulation: Simulation, trace: Trace | None = None
) -> dict[str, Any]:
    """Return a run as JSON values; speeds are None where the buffer ran out of memory."""
    dead = simulation.out_of_memory
    chosen, speed = scenario.simulation, simulation.speed
    return {
        "schema": SIMULATION_SCHEMA,
        "feasible": True,
        "violations": [],
        "holds": simulation.holds,
        "verdict": list(verdict(simulation)),
        "arrivals": "trace" if trace is not None else chosen.arrivals,
        "trace": None if trace is None else trace.name,
        "policy": None if simulation.buffer is None else chosen.policy,
        "requests": simulation.requests,
        "pools": simulation.pools,
        "simulated_pools": simulation.simulated_pools,
        "seconds": simulation.seconds,
        **_speeds(speed, dead),
        "ttft_seconds": None if dead else _quantiles(simulation.ttft),
        "tpot_seconds": None if dead else _quantiles(simulation.tpot),
        "end_to_end_seconds": None if dead else _quantiles(simulation.end_to_end),
        "goodput": None if dead or simulation.goodput is None else _goodput(simulation.goodput),
        "buffer": None if simulation.buffer is None else _buffer(simulation.buffer),
        "memory": {
            use.place: {
                "peak_bytes": use.peak_bytes,
                "mean_bytes": use.mean_bytes,
                "limit_bytes": use.limit_bytes,
            }
            for use in simulation.caches
        },
        "stages": [
            {
                "pool": stage.pool,
                "pipeline": stage.pipeline,
                "stage": stage.stage,
                "busy_fraction": stage.busy_fraction,
                "blocked_fraction": stage.blocked_fraction,
            }
            for stage in simulation.stages
        ],
        "waiting": {
            "queue_mean_seconds": _mean(simulation.waiting.queue, simulation),
            "blocked_mean_seconds": _mean(simulation.waiting.blocked, simulation),
            "buffer_mean_seconds": _mean(simulation.waiting.buffer, simulation),
        },
        "mean_requests_in_system": simulation.mean_in_system,
        "observed_requests_per_second": number(simulation.observed_rate),
        "keeps_up": simulation.keeps_up,
        "backlog_growth": simulation.backlog_growth,
        "notes": list(simulation.notes),
    }


def misfit_document(broken: tuple[Constraint, ...]) -> dict[str, Any]:
    """Return the document of a plan that does not fit: why, and no speeds."""
    speeds = ("throughput_tokens_per_second", "closed_form_tokens_per_second")
    times = ("ttft_seconds", "tpot_seconds", "end_to_end_seconds", "goodput", "buffer")
    return {
        "schema": SIMULATION_SCHEMA,
        "feasible": False,
        "violations": [violation_document(constraint) for constraint in broken],
        "holds": False,
        **dict.fromkeys((*speeds, *times)),
    }


def largest_rate_document(found: LargestRate) -> dict[str, Any]:
    """Return a search for the largest rate as JSON values."""
    return {
        "rate_requests_per_second": found.rate_requests_per_second,
        "fails_requests_per_second": found.fails_requests_per_second,
        "capacity_requests_per_second": found.capacity_requests_per_second,
        "runs": [_probe(probe) for probe in found.probes],
    }


def least_clusters_document(found: LeastClusters) -> dict[str, Any]:
    """Return a search for the fewest clusters as JSON values."""
    best = found.best
    return {
        "rate_requests_per_second": found.rate_requests_per_second,
        "clusters": None if best is None else best.clusters,
        "pools": None if best is None else best.pools,
        "clusters_per_pool": None if best is None else best.clusters_per_pool,
        "dp_prefill": None if best is None else best.dp_prefill,
        "choices": [
            {
                "dp_prefill": choice.dp_prefill,
                "clusters_per_pool": choice.clusters_per_pool,
                "least_pools": choice.least_pools,
                "pools": choice.pools,
            }
            for choice in found.choices
        ],
        "runs": [_probe(probe) for probe in found.probes],
    }


def _speeds(speed: Speed, dead: bool) -> dict[str, Any]:
    return {
        "throughput_tokens_per_second": None if dead else number(speed.tokens_per_second),
        "requests_per_second": None if dead else number(speed.requests_per_second),
        "closed_form_tokens_per_second": number(speed.closed_form_tokens_per_second),
        "closed_form_gap": None if dead else number(speed.closed_form_gap),
        "eq21_tokens_per_second": number(speed.eq21_tokens_per_second),
        "eq21_gap": None if dead else number(speed.eq21_gap),
        "offered_requests_per_second": number(speed.offered_requests_per_second),
        "capacity_requests_per_second": number(speed.capacity_requests_per_second),
    }


def _quantiles(found: Quantiles) -> dict[str, Any]:
    return {
        "p50": number(found.p50),
        "p90": number(found.p90),
        "p99": number(found.p99),
        "mean": number(found.mean),
        "max": number(found.largest),
        "relative_error": found.relative_error,
    }


def _goodput(goodput: Goodput) -> dict[str, Any]:
    return {
        "ttft_limit_seconds": goodput.ttft_limit_seconds,
        "tpot_limit_seconds": goodput.tpot_limit_seconds,
        "idle_ttft_seconds": number(goodput.idle_ttft_seconds),
        "idle_tpot_seconds": number(goodput.idle_tpot_seconds),
        "attained_fraction": goodput.attained_fraction,
        "ttft_fraction": goodput.ttft_fraction,
        "tpot_fraction": goodput.tpot_fraction,
        "target_fraction": goodput.target_fraction,
        "requests_per_second": goodput.requests_per_second,
        "tokens_per_second": goodput.tokens_per_second,
    }


def _buffer(buffer: BufferUse) -> dict[str, Any]:
    return {
        "capacity_micro_batches": number(buffer.capacity_micro_batches),
        "peak_micro_batches": buffer.peak_micro_batches,
        "peak_bytes": buffer.peak_bytes,
        "limit_bytes": buffer.limit_bytes,
        "paused_seconds": buffer.paused_seconds,
        "paused_fraction": buffer.paused_fraction,
        "out_of_memory_seconds": buffer.out_of_memory_seconds,
    }


def _mean(histogram: Histogram, simulation: Simulation) -> float:
    return histogram.total_seconds / simulation.requests


def _probe(probe: Probe) -> dict[str, Any]:
    return {
        "rate_requests_per_second": probe.rate_requests_per_second,
        "pools": probe.pools,
        "holds": probe.holds,
        "keeps_up": probe.keeps_up,
        "attained_fraction": probe.attained_fraction,
    }
