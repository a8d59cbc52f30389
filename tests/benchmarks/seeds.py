"""How close 300 trials come to the certified optimum: ten seeds of each preset, and TPE alone.

Usage: .venv/bin/python -m tests.benchmarks.seeds [--seeds N] [--trials N]

The search as it is (first plans, prefill pool solved in each trial, climb and neighbours) and a
plain study of the same sampler have the same seeds and trials. Printed are the gaps to the optimum,
which is certified by bounds, and how many of the seeds end within 1 % of it.
"""

from __future__ import annotations

import argparse
import time

from explorer.config.links import preset_scenario
from explorer.search.bound import Bound, prove
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT, Objective
from explorer.search.space import default_space
from explorer.search.study import SearchSettings, search
from tests.scenarios import PRESETS

CLOSE = 0.01


def main() -> None:
    """Print a line for each preset and objective."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=300)
    options = parser.parse_args()
    for name in PRESETS:
        space = default_space(preset_scenario(name))
        for objective in (CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT):
            proof = prove(space, objective, seconds=600)
            if not proof.closed:
                raise SystemExit(f"{name}: the optimum was not certified")
            print(f"{name}, {objective.name}: {space.size:,} plans")
            for plain in (False, True):
                _line(proof, objective, plain, options.seeds, options.trials)


def _line(proof: Bound, objective: Objective, plain: bool, seeds: int, trials: int) -> None:
    started = time.perf_counter()
    gaps = []
    for seed in range(seeds):
        settings = SearchSettings(objective, trials, seed, "tpe", plain)
        gaps.append(proof.gap(search(proof.space, settings).best_value))
    close = sum(gap <= CLOSE for gap in gaps)
    words = " ".join(f"{100 * gap:.2f}" for gap in sorted(gaps))
    seconds = (time.perf_counter() - started) / seeds
    kind = "TPE alone" if plain else "search"
    print(f"  {kind:<10}{close} of {seeds} within 1 %, {seconds:.1f} s each; gaps [%]: {words}")


if __name__ == "__main__":
    main()
