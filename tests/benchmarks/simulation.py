"""Requests a second of the simulation, and its memory as requests grow.

Usage: .venv/bin/python -m tests.benchmarks.simulation

It is compared with a bare loop of one server, and with the same pools as plain processes of simpy,
which the tests compare its results with. Times are CPU seconds, the least of a few runs; what tells
is the ratio, measured in the same process.
"""

from __future__ import annotations

import tracemalloc

import numpy as np

from explorer.config.scenario import Scenario
from explorer.serving.evaluate import evaluate
from explorer.serving.service_times import ServiceTimes
from explorer.serving.simulation import simulate
from explorer.serving.simulation_results import Detail
from explorer.serving.trace import Trace
from tests.benchmarks.measuring import Row, best, in_turns
from tests.pipeline_model import Model, numbers_of
from tests.scenarios import ASCEND, MT3000, scenario

REQUESTS = 100_000
GROWING_REQUESTS = (25_000, 100_000, 400_000)
SIZES = (4_000, 40_000, 400_000)
COMPARED_REQUESTS = 4_000
RATE = 6.0


def rows(quick: bool) -> list[Row]:
    """Return the simulation against a bare loop, by its size, and against simpy."""
    sizes = SIZES[:2] if quick else SIZES
    most, traces = sizes[-1], {size: random_trace(size, RATE) for size in sizes}
    base = scenario(MT3000, simulation__buffer_micro_batches=4)
    arrivals = traces[most].arrival_seconds.tolist()
    works = {str(size): lambda trace=trace: simulate(base, trace) for size, trace in traces.items()}
    taken = in_turns(works | {"loop": lambda: bare_loop(arrivals)}, 1 if quick else 3)
    seconds = taken[str(most)]
    trace = traces[COMPARED_REQUESTS]
    pair = {"ours": lambda: simulate(base, trace), "simpy": lambda: _simpy(base, trace)}
    turns = in_turns(pair, 1 if quick else 3)
    return [
        Row(
            "simulation",
            f"{most:,} requests of a trace",
            f"{most / seconds:,.0f} requests/s",
            "a bare loop of one server",
            seconds / taken["loop"],
            sizes,
            tuple(taken[str(size)] for size in sizes),
        ),
        Row(
            "simulation",
            f"{COMPARED_REQUESTS:,} requests of a trace",
            f"{COMPARED_REQUESTS / turns['ours']:,.0f} requests/s",
            "the same pools in simpy",
            turns["ours"] / turns["simpy"],
        ),
    ]


def bare_loop(arrivals: list[float]) -> float:
    """One server and its queue, and nothing remembered but the waiting."""
    free = waited = 0.0
    for arrival in arrivals:
        start = arrival if arrival > free else free
        waited += start - arrival
        free = start + 0.8 / RATE
    return waited


def _simpy(s: Scenario, trace: Trace) -> Model:
    times = ServiceTimes(evaluate(s))
    columns = (trace.arrival_seconds, trace.prompt_tokens, trace.output_tokens)
    requests = list(zip(*(column.tolist() for column in columns), strict=True))
    pools = s.workload.clusters_total // int(evaluate(s).clusters)
    return Model(numbers_of(s, pools), requests, times.prefill, times.decode)


def random_trace(requests: int, rate: float) -> Trace:
    """Requests of unequal lengths that arrive at random."""
    random = np.random.default_rng(0)
    times = np.cumsum(random.exponential(1 / rate, requests))
    prompts = np.clip(random.lognormal(5.5, 1.0, requests), 1, 511).astype(np.int32)
    outputs = np.clip(random.lognormal(4.0, 0.8, requests), 1, 128).astype(np.int32)
    return Trace("random", times, prompts, outputs)


def cases():
    base = scenario(MT3000, simulation__requests=REQUESTS)
    yield "MT-3000, Poisson", base, None
    yield "MT-3000, saturated", base.replacing({"simulation.arrivals": "saturated"}), None
    deep = {"plan.pp_prefill": 40, "plan.micro_batch_prefill": 1, "workload.clusters_total": 400}
    yield "MT-3000, 40 stages, micro-batches of 1", base.replacing(deep), None
    yield "MT-3000, trace of unequal requests", base, random_trace(REQUESTS, RATE)
    by_size = base.replacing({"simulation.unfilled": "by_size"})
    yield "MT-3000, the same, priced by size", by_size, random_trace(REQUESTS, RATE)
    ascend = scenario(ASCEND, simulation__requests=REQUESTS)
    yield "4 x 910A, micro-batches of 1", ascend, None
    yield "4 x 910A, trace of unequal requests", ascend, random_trace(REQUESTS, 0.05)


def speed():
    arrivals = random_trace(REQUESTS, RATE).arrival_seconds.tolist()
    bare = best(lambda: bare_loop(arrivals))
    print(f"{REQUESTS:,} requests, one core; bare loop {1e6 * bare / REQUESTS:.2f} us a request")
    for name, s, trace in cases():
        seconds = best(lambda s=s, trace=trace: simulate(s, trace))
        rate = REQUESTS / seconds
        print(f"  {name:<42}{seconds:6.2f} s{rate:10,.0f} requests/s{seconds / bare:8.0f} x floor")


def memory():
    print("peak memory of a summary while it runs")
    for requests in GROWING_REQUESTS:
        s = scenario(MT3000, simulation__requests=requests)
        ServiceTimes(evaluate(s)).prefill(1, 512)
        tracemalloc.start()
        simulate(s, detail=Detail())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"  {requests:>9,} requests{peak / 1e6:8.1f} MB")


if __name__ == "__main__":
    speed()
    memory()
