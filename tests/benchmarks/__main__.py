"""All benchmarks in one table.

Usage: .venv/bin/python -m tests.benchmarks [--quick] [--only PART]...

A ratio is cost over that of the floor beside it: above 1 is slower, or larger. The floor took its
turns in the same run, so that ratios hold on other machines where the figures do not. Under "cost
by size", 10x: 9.8 is a problem ten times as large that costs 9.8 times as much; the exponent is the
power of the size that the cost follows. All count the CPU of one process, least of a few rounds,
but for what a browser sees, which is timed by the clock: figures in ms and s without "of CPU".
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable

from tests.benchmarks import evaluation, interaction, memory, simulation, startup, trials
from tests.benchmarks.measuring import Row, table

PARTS: dict[str, Callable[[bool], list[Row]]] = {
    "evaluation": evaluation.rows,
    "search": trials.rows,
    "simulation": simulation.rows,
    "redraw": interaction.rows,
    "start-up": startup.rows,
    "memory": memory.rows,
}


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts that are asked for and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a minute: few rounds, small sizes")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; repeatable")
    options = parser.parse_args(arguments)
    before = os.getloadavg()[0]
    rows: list[Row] = []
    for name, measure in PARTS.items():
        if not options.only or name in options.only:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            rows += measure(options.quick)
    print(table(rows))
    print(
        f"{os.cpu_count()} CPUs; load {before:.1f} when it began, {os.getloadavg()[0]:.1f} at the "
        "end: its own processes count, others make times noisy and ratios less so"
    )
    return 0


if __name__ == "__main__":
    # Pages that run without a server warn of it each time.
    logging.disable(logging.WARNING)
    sys.exit(main())
