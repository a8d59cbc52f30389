"""Lines of a chart that lie on each other, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.plots.style import joined

SEEN_APART = 0.01
"""Share of a chart's height from which two lines are told apart."""


def coinciding(lines: Mapping[str, Sequence[float]]) -> tuple[tuple[str, ...], ...]:
    """Return the names of lines that nobody can tell apart on a chart, group by group.

    Args:
        lines: heights over the same places, by name.
    """
    highest = max((abs(value) for line in lines.values() for value in line), default=0.0)
    groups: list[list[str]] = []
    for name, line in lines.items():
        for group in groups:
            if np.allclose(line, lines[group[0]], rtol=0, atol=SEEN_APART * highest):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def coinciding_sentence(lines: Mapping[str, Sequence[float]]) -> str:
    """Return which lines lie on each other, with a space before it; empty where none do."""
    told = "; ".join(map(joined, coinciding(lines)))
    return f" Lines that lie on each other: {told}." if told else ""
