"""Requests a second of the simulation, against a bare loop, and its memory as requests grow.

    python -m tests.benchmarks.simulation

Times on a shared machine are noisy: each is the best of a few runs, and what tells is the ratio
to the floor, measured in the same process.
"""

from __future__ import annotations

import tracemalloc
from time import perf_counter

import numpy as np

from explorer.serving.service_times import ServiceTimes
from explorer.serving.simulation import simulate
from explorer.serving.simulation_results import Detail
from explorer.serving.trace import Trace
from tests.scenarios import ASCEND, MT3000, scenario

REQUESTS = 100_000
RUNS = 3
GROWING_REQUESTS = (25_000, 100_000, 400_000)


def best(work):
    """Return the shortest time of a few runs [s]."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def floor(requests):
    """A bare loop: one server and its queue, and nothing remembered but the waiting."""
    random = np.random.default_rng(0)
    arrivals = np.cumsum(random.exponential(1.0, requests)).tolist()

    def loop():
        free = waited = 0.0
        for arrival in arrivals:
            start = arrival if arrival > free else free
            waited += start - arrival
            free = start + 0.8
        return waited

    return best(loop)


def random_trace(requests, rate):
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
    yield "MT-3000, trace of unequal requests", base, random_trace(REQUESTS, 6.0)
    by_size = base.replacing({"simulation.unfilled": "by_size"})
    yield "MT-3000, the same, priced by size", by_size, random_trace(REQUESTS, 6.0)
    ascend = scenario(ASCEND, simulation__requests=REQUESTS)
    yield "4 x 910A, micro-batches of 1", ascend, None
    yield "4 x 910A, trace of unequal requests", ascend, random_trace(REQUESTS, 0.05)


def speed():
    bare = floor(REQUESTS)
    print(f"{REQUESTS:,} requests, one core; bare loop {1e6 * bare / REQUESTS:.2f} us a request")
    for name, s, trace in cases():
        seconds = best(lambda s=s, trace=trace: simulate(s, trace))
        rate = REQUESTS / seconds
        print(f"  {name:<42}{seconds:6.2f} s{rate:10,.0f} requests/s{seconds / bare:8.0f} x floor")


def memory():
    print("peak memory of a summary while it runs")
    for requests in GROWING_REQUESTS:
        s = scenario(MT3000, simulation__requests=requests)
        ServiceTimes(s).prefill(1, 512)
        tracemalloc.start()
        simulate(s, detail=Detail())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"  {requests:>9,} requests{peak / 1e6:8.1f} MB")


if __name__ == "__main__":
    speed()
    memory()
