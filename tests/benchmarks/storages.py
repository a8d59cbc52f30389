"""What a trial costs by where the study is kept, as a ratio to memory within one run.

Usage: .venv/bin/python -m tests.benchmarks.storages [--trials N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from explorer.config.links import preset_scenario
from explorer.search.space import Space, default_space
from explorer.search.storage import Storage, open_storage
from explorer.search.studies import begin_or_resume
from explorer.search.study import SearchSettings, search
from tests.postgres import programs, running_postgres

SAMPLERS = ("tpe", "random")
ROUNDS = 3


def milliseconds_a_trial(trials: int, run: Callable[[int], object]) -> float:
    """Return the median over some rounds."""
    taken = []
    for number in range(ROUNDS):
        started = time.perf_counter()
        run(number)
        taken.append((time.perf_counter() - started) / trials * 1e3)
    return statistics.median(taken)


def measured(space: Space, settings: SearchSettings, storages: dict[str, Storage]) -> None:
    """Print one line a storage."""
    runs: dict[str, Callable[[int], object]] = {
        "memory, plain loop": lambda _: search(space, settings)
    }
    for name, storage in storages.items():

        def stored(number: int, storage: Storage = storage) -> object:
            name = f"{settings.sampler} {number}"
            return begin_or_resume(storage, name, space, settings).run()

        runs[name] = stored
    search(space, settings)
    floor = 0.0
    for name, run in runs.items():
        value = milliseconds_a_trial(settings.trials, run)
        floor = floor or value
        sys.stdout.write(
            f"{settings.sampler:<7} {name:<20} {value:8.1f} ms a trial   {value / floor:5.1f} x\n"
        )


def main() -> int:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--trials", type=int, default=60, help="trials a search (default 60)")
    options = parser.parse_args()
    space = default_space(preset_scenario("mt3000-llama2-13b"))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        storages = {
            "memory": open_storage(None),
            "journal file": open_storage(str(folder / "searches.journal")),
        }
        if programs() is None:
            sys.stderr.write("PostgreSQL is not installed: left out\n")
        else:
            server = stack.enter_context(running_postgres())
            storages["PostgreSQL"] = open_storage(server.create("searches"))
            stack.callback(storages["PostgreSQL"].close)
        for sampler in SAMPLERS:
            measured(space, SearchSettings(trials=options.trials, sampler=sampler), storages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
