"""Plans enumerated a second on one core, beside a bare numpy pass over the final combination.

Usage: .venv/bin/python -m tests.benchmarks.enumeration [--repeats N]

The enumeration evaluates the full model over the default space of a preset and proves its optimum.
The bare pass is handed stage times and memory masks ready-made on their own axes and does what is
left on all of them, in the same blocks: clusters, the longer of both pools' times, the objective,
feasibility, the least value and the counts. Its speed is the floor that numpy itself sets. Both
take turns, so that noise of the machine meets both. Peak memory is that of a process of its own
which enumerates nearly 300 million plans.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Before numpy starts threads of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from explorer.config.links import preset_scenario
from explorer.search.bound import prove
from explorer.search.certificate import Block, Blocks, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import Space, default_space
from explorer.serving.evaluate import evaluate

SPEED_PRESET, MEMORY_PRESET = "mt3000-llama2-13b", "mt3000-llama2-70b"
MEGABYTE = 1e6


def main() -> None:
    """Print speed, its ratio to the floor, and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        _enumerate_the_largest()
        return
    space = default_space(preset_scenario(SPEED_PRESET))
    ready = [_ready(block) for block in Blocks(space)]
    full, bare, bounded = [], [], []
    for _ in range(options.repeats):
        full.append(_timed(lambda: certify(space, CLUSTER_SECONDS_PER_TOKEN)))
        bare.append(_timed(lambda: [_bare_pass(parts) for parts in ready]))
        bounded.append(_timed(lambda: prove(space, CLUSTER_SECONDS_PER_TOKEN)))
    seconds, floor = statistics.median(full), statistics.median(bare)
    print(f"{SPEED_PRESET}: {space.size:,} plans, one core, median of {options.repeats}")
    print(f"  full model    {space.size / seconds / 1e6:7.1f} million plans/s  {seconds:.3f} s")
    print(f"  bare numpy    {space.size / floor / 1e6:7.1f} million plans/s  {floor:.3f} s")
    print(f"  ratio         {seconds / floor:7.2f} times the bare pass")
    print(f"  by bounds     {statistics.median(bounded):.3f} s to the same optimum, proved")
    command = [sys.executable, "-m", "tests.benchmarks.enumeration", "--memory"]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


def _timed(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def _ready(block: Block) -> tuple[np.ndarray, ...]:
    """Return what depends on some axes only, and the masks of all but the clusters."""
    e = evaluate(block.scenario)
    masks = sorted(
        (c.kept for c in e.constraints if c.name != "clusters"), key=lambda mask: mask.size
    )
    pipelines = e.inputs.dp_prefill * (e.inputs.pp_prefill * e.inputs.tp_prefill)
    decode = e.inputs.tp_decode * e.inputs.pp_decode + e.buffer_clusters
    total = e.inputs.array("workload.clusters_total")
    return (
        pipelines,
        decode,
        e.prefill_seconds,
        e.inputs.dp_prefill,
        e.decode_seconds,
        e.batch_tokens,
        total,
        *masks,
    )


def _bare_pass(parts: tuple[np.ndarray, ...]) -> tuple[float, int]:
    pipelines, decode, prefill_seconds, dp, decode_seconds, tokens, total, *masks = parts
    clusters = pipelines + decode
    feasible = clusters <= total
    for mask in masks:
        feasible = feasible & mask
    count = int(np.count_nonzero(feasible))
    if not count:
        return np.nan, 0
    seconds = np.maximum(prefill_seconds / dp, decode_seconds)
    value = np.where(feasible, (clusters / tokens) * seconds, np.nan)
    return float(np.nanmin(value)), count


def _enumerate_the_largest() -> None:
    space: Space = default_space(preset_scenario(MEMORY_PRESET))
    before = _peak_bytes()
    found = certify(space, CLUSTER_SECONDS_PER_TOKEN)
    after = _peak_bytes()
    print(
        f"{MEMORY_PRESET}: {found.enumerated:,} plans in {found.seconds:.1f} s, peak memory "
        f"{after / MEGABYTE:.0f} MB, of which {before / MEGABYTE:.0f} MB before the first plan"
    )


def _peak_bytes() -> float:
    """Return the most memory that this process has held; Linux counts it from its start."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status holds no peak memory")


if __name__ == "__main__":
    main()
