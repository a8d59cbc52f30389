"""Plans enumerated a second on one core, beside a bare numpy pass over the final combination.

Usage: .venv/bin/python -m tests.benchmarks.enumeration [--repeats N]

The enumeration evaluates the full model over the default space of a preset and proves its optimum;
``tests.benchmarks.evaluation`` says what the bare pass does. Both take turns, so that noise of the
machine meets both. Peak memory is that of a process of its own which enumerates nearly 300 million
plans.
"""

from __future__ import annotations

import argparse

from explorer.config.links import preset_scenario
from explorer.search.bound import prove
from explorer.search.certificate import Blocks, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import default_space
from tests.benchmarks import memory
from tests.benchmarks.evaluation import bare_pass, ready
from tests.benchmarks.measuring import in_turns

SPEED_PRESET = "mt3000-llama2-13b"


def main() -> None:
    """Print speed, its ratio to the floor, and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    space = default_space(preset_scenario(SPEED_PRESET))
    parts = [ready(block) for block in Blocks(space)]
    works = {
        "full": lambda: certify(space, CLUSTER_SECONDS_PER_TOKEN),
        "bare": lambda: [bare_pass(part) for part in parts],
        "bounded": lambda: prove(space, CLUSTER_SECONDS_PER_TOKEN),
    }
    taken = in_turns(works, options.repeats)
    seconds, floor = taken["full"], taken["bare"]
    print(f"{SPEED_PRESET}: {space.size:,} plans, CPU of one core, least of {options.repeats}")
    print(f"  full model    {space.size / seconds / 1e6:7.1f} million plans/s  {seconds:.3f} s")
    print(f"  bare numpy    {space.size / floor / 1e6:7.1f} million plans/s  {floor:.3f} s")
    print(f"  ratio         {seconds / floor:7.2f} times the bare pass")
    print(f"  by bounds     {taken['bounded']:.3f} s to the same optimum, proved")
    used = memory.used("enumeration", memory.LARGEST)
    print(
        f"{memory.LARGEST:,} plans: peak memory {used.peak_bytes / 1e6:.0f} MB, of which "
        f"{used.before_bytes / 1e6:.0f} MB before the first plan"
    )


if __name__ == "__main__":
    main()
