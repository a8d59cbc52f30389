"""Many scenarios as one whose numbers are arrays: a single evaluation answers all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.config.numbers import AnyArray
from explorer.config.scenario import Scenario, knob_at


def stacked(
    scenario: Scenario, changes: Sequence[Mapping[str, int | float | AnyArray]]
) -> Scenario:
    """Return one scenario whose arrays [n] hold n scenarios, each with some numbers changed.

    Args:
        scenario: gives every number that a change leaves alone; none of those changed is a word.
        changes: the changed numbers by path, within their knobs' ranges; arrays [k] of one change
            are k scenarios, one after the other.
    """
    counts = [max(map(np.size, change.values()), default=1) for change in changes]
    ends = np.cumsum(counts, dtype=np.int64)
    arrays: dict[str, AnyArray] = {}
    for change, count, end in zip(changes, counts, ends, strict=True):
        for path, values in change.items():
            if path not in arrays:
                knob = knob_at(scenario, path)
                kind = np.int64 if knob is not None and knob.whole else np.float64
                arrays[path] = np.full(ends[-1], scenario.value(path), dtype=kind)
            arrays[path][end - count : end] = values
    return scenario.unchecked(arrays)
