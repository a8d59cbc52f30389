"""How often 300 trials end within one per cent of the certified optimum, over many seeds.

Usage: .venv/bin/python -m tests.benchmarks.seeds [--seeds N] [--trials N] [--sampler S]

Beside the study as the app runs it stands the plain one: the sampler alone with every axis.
"""

from __future__ import annotations

import argparse

from explorer.config.links import preset_scenario
from explorer.config.presets import scenario_presets
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import default_space
from explorer.search.study import SearchSettings, search

CLOSE = 0.01


def main() -> None:
    """Print one line a preset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--sampler", default="tpe")
    options = parser.parse_args()
    objective = CLUSTER_SECONDS_PER_TOKEN
    print(f"{'preset':<26} {'plans':>13} {'within 1 %':>12} {'worst gap':>10} {'plain: worst':>13}")
    for preset in scenario_presets():
        space = default_space(preset_scenario(preset.id))
        optimum = certify(space, objective).optimum
        gaps: dict[bool, list[float]] = {False: [], True: []}
        for seed in range(options.seeds):
            for plain, found in gaps.items():
                settings = SearchSettings(
                    trials=options.trials, seed=seed, sampler=options.sampler, plain=plain
                )
                found.append(objective.gap(search(space, settings).best_value, optimum))
        close = sum(gap <= CLOSE for gap in gaps[False])
        print(
            f"{preset.id:<26} {space.size:>13,} {close:>6} of {options.seeds:<3} "
            f"{max(gaps[False]):>9.2%} {max(gaps[True]):>12.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
