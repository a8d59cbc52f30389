"""Peak memory above the bare import, each case in a process of its own.

Usage: .venv/bin/python -m tests.benchmarks.memory CASE SIZE

prints the peak of one case as two numbers of bytes: after the imports, and at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from explorer.config.links import preset_scenario
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import default_space
from explorer.search.study import SearchSettings, search
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation import simulate
from tests.benchmarks.evaluation import spaces
from tests.benchmarks.measuring import Row
from tests.scenarios import MT3000, scenario

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 286_720_000
LARGEST_PRESET = "mt3000-llama2-70b"


@dataclass(frozen=True)
class Used:
    """Peak memory of a process [B]: when everything is imported, and at its end."""

    before_bytes: float
    peak_bytes: float

    @property
    def above(self) -> float:
        """What the work took beyond the imports [B]."""
        return self.peak_bytes - self.before_bytes


def enumeration(plans: int) -> None:
    """Enumerate a default space of so many plans, some of its axes pinned."""
    largest = default_space(preset_scenario(LARGEST_PRESET))
    space = next(space for space in [*spaces(), largest] if space.size == plans)
    certify(space, CLUSTER_SECONDS_PER_TOKEN)


def simulation(requests: int) -> None:
    """Simulate so many requests that arrive at random."""
    simulate(scenario(MT3000, simulation__requests=requests))


def trials(count: int) -> None:
    """Search with so many trials."""
    search(default_space(preset_scenario(MT3000)), SearchSettings(trials=count, sampler="tpe"))


def evaluations(count: int) -> None:
    """Evaluate so many plans, one at a time."""
    for number in range(count):
        evaluate(scenario(MT3000, workload__prompt_tokens=1 + number)).objective("throughput")


CASES: dict[str, Callable[[int], None]] = {
    "evaluation": evaluations,
    "enumeration": enumeration,
    "search": trials,
    "simulation": simulation,
}
SIZES = {
    "evaluation": ("plans, one at a time", (30, 300, 3000)),
    "enumeration": ("plans at once", (409_600, 4_096_000, 40_960_000)),
    "search": ("trials", (10, 100, 1000)),
    "simulation": ("requests", (4_000, 40_000, 400_000)),
}


def rows(quick: bool) -> list[Row]:
    """Return a row for each case, its memory above the imports by size."""
    found = []
    for case, (words, sizes) in SIZES.items():
        chosen = sizes[:2] if quick else sizes
        uses = [used(case, size) for size in chosen]
        last = uses[-1]
        found.append(
            Row(
                "memory",
                f"{chosen[-1]:,} {words}",
                f"{last.above / 1e6:.1f} MB above the imports",
                f"the imports, {last.before_bytes / 1e6:.0f} MB",
                last.above / last.before_bytes,
                chosen,
                tuple(use.above for use in uses),
            )
        )
    return found


def used(case: str, size: int) -> Used:
    """Return the memory of a case, run in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.memory", case, str(size)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Used(*map(float, done.stdout.split()))


def peak_bytes() -> float:
    """Return the most memory that this process has held; Linux counts it from its start."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) * 1024
    raise SystemExit("/proc/self/status holds no peak memory")


def main() -> None:
    """Run one case and print its memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("size", type=int)
    options = parser.parse_args()
    before = peak_bytes()
    CASES[options.case](options.size)
    print(before, peak_bytes())


if __name__ == "__main__":
    main()
