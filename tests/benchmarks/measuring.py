"""How benchmarks measure: CPU in turns, how cost grows with size, and the row of a table.

Another program on the machine hardly moves CPU seconds, and it meets a floor as much as what is
compared with it where both take turns. So ratios are printed, of the least of a few rounds each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Work = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        part: which part of the program it is about.
        what: what was measured.
        measured: the figure with its unit.
        floor: what it is compared with; empty without.
        ratio: cost over that of the floor: above 1 is slower or larger than the floor.
        sizes: sizes of the problem, the first one 1x.
        costs: what each of them cost, in one unit.
    """

    part: str
    what: str
    measured: str
    floor: str = ""
    ratio: float | None = None
    sizes: tuple[float, ...] = ()
    costs: tuple[float, ...] = ()

    @property
    def growth(self) -> str:
        """How much more the larger sizes cost: 10x the size, 9.8x the cost."""
        pairs = zip(self.sizes[1:], self.costs[1:], strict=True)
        return ", ".join(
            f"{size / self.sizes[0]:.0f}x: {cost / self.costs[0]:.3g}" for size, cost in pairs
        )

    @property
    def exponent(self) -> float | None:
        """Cost grows as size to this power: 1 is in proportion, 0 not at all."""
        return exponent(self.sizes, self.costs) if len(self.sizes) > 1 else None


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of log cost over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def cpu_seconds(work: Work) -> float:
    """Return the CPU time that this process spends on some work [s]."""
    started = time.process_time()
    work()
    return time.process_time() - started


def in_turns(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Return the least CPU seconds of each of some works, which take turns."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            least[name] = min(least[name], cpu_seconds(work))
    return least


def best(work: Work, rounds: int = 3) -> float:
    """Return the least CPU seconds of a few rounds."""
    return in_turns({"": work}, rounds)[""]


def table(rows: Sequence[Row]) -> str:
    """Return rows as text, one line each under a line of titles."""
    cells = [("part", "what", "measured", "floor", "ratio", "cost by size", "exponent")]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        power = "" if row.exponent is None else f"{row.exponent:.2f}"
        cells.append((row.part, row.what, row.measured, row.floor, ratio, row.growth, power))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
