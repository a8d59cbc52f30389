"""For a plan that does not fit: the nearest value of each single knob that makes it fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario, knob_at, legal_values
from explorer.serving.evaluate import evaluate

ADVISED = (
    "plan.micro_batch_decode",
    "plan.micro_batch_prefill",
    "plan.pp_prefill",
    "plan.pp_decode",
    "plan.tp_decode",
    "plan.dp_prefill",
    "workload.max_context_tokens",
    "workload.output_tokens",
    "workload.clusters_total",
)
MOST_VALUES = 4096


@dataclass(frozen=True)
class Change:
    """One knob moved to the nearest value that makes the plan feasible."""

    path: str
    label: str
    unit: str
    value: int


def single_changes_that_fit(scenario: Scenario) -> tuple[Change, ...]:
    """Return, for each plan or workload knob that can do it alone, its nearest fitting value."""
    changes = []
    for path in ADVISED:
        knob = knob_at(scenario, path)
        candidates = _candidates(scenario, path)
        if knob is None or candidates.size == 0:
            continue
        try:
            feasible = evaluate(scenario.replacing({path: candidates})).feasible
        except InputError:
            continue
        fitting = candidates[np.broadcast_to(feasible, candidates.shape)]
        if fitting.size:
            current = int(scenario.value(path))
            nearest = int(fitting[np.abs(np.log(fitting / current)).argmin()])
            changes.append(Change(path, knob.label, knob.unit, nearest))
    return tuple(changes)


def _candidates(scenario: Scenario, path: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    legal = legal_values(scenario, path)
    knob = knob_at(scenario, path)
    if legal:
        return np.asarray(legal, dtype=np.int64)
    if knob is None:
        return np.asarray([], dtype=np.int64)
    low, high = int(max(knob.minimum, 1)), int(knob.maximum)
    if high - low < MOST_VALUES:
        return np.arange(low, high + 1, dtype=np.int64)
    return np.unique(np.geomspace(low, high, MOST_VALUES).round().astype(np.int64))
