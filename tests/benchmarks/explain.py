"""What explaining costs: best plans, fronts and importance against the enumeration, and memory.

    python -m tests.benchmarks.explain

Times on a shared machine are noisy: each is the best of a few runs, and what tells is the ratio to
the enumeration of the same space, or to one evaluation, measured in the same process.
"""

from __future__ import annotations

import tracemalloc
from time import perf_counter

from explorer.search.best_plan import best_plan
from explorer.search.certificate import certify
from explorer.search.importance import importance
from explorer.search.measures import MEASURES
from explorer.search.objectives import THROUGHPUT
from explorer.search.pareto import pareto_front
from explorer.search.robustness import interval
from explorer.search.sensitivity import sensitivity
from explorer.search.space import default_space
from explorer.search.space_map import map_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import PRESETS, scenario

RUNS = 3
LARGEST = "mt3000-llama2-70b"
MAPPED = ("hardware.memory_bytes", "plan.micro_batch_decode")


def best(work):
    """Return the shortest time of a few runs [s]."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def peak_bytes(work):
    """Return the most that Python and numpy held at once while the work ran [B]."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def searches(space):
    """Return the work that is compared with the enumeration, by name."""
    return {
        "best plan": lambda: best_plan(space, THROUGHPUT),
        "front of 2": lambda: pareto_front(space, [MEASURES["throughput"], MEASURES["tpot"]]),
        "front of 4": lambda: pareto_front(space, list(MEASURES.values())),
        "importance": lambda: importance(space, THROUGHPUT),
    }


def main():
    print("time as a fraction of enumerating the default space")
    for preset in PRESETS:
        space = default_space(scenario(preset))
        whole = best(lambda space=space: certify(space, THROUGHPUT))
        shares = {name: best(work) / whole for name, work in searches(space).items()}
        words = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
        print(f"  {preset}: {space.size:,} plans in {whole:.2f} s; {words}")
    print("time in evaluations of one plan")
    for preset in PRESETS:
        base = scenario(preset)
        works = {
            "interval of the assumed constants": lambda base=base: interval(base),
            "sensitivity of the plan as it is": lambda base=base: sensitivity(base, THROUGHPUT),
            "map of 40 x 10": lambda base=base: map_space(base, THROUGHPUT, *MAPPED),
        }
        one = best(lambda base=base: evaluate(base).objective("throughput"))
        words = ", ".join(f"{name} {best(work) / one:.1f}" for name, work in works.items())
        print(f"  {preset}: {1e3 * one:.1f} ms; {words}")
    print(f"peak memory on {LARGEST}")
    for name, work in searches(default_space(scenario(LARGEST))).items():
        print(f"  {name}: {peak_bytes(work) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
