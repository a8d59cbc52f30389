"""How many slices: prefill passes over rows and slice counts, the rule's choice and its loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.config.errors import refuse
from explorer.config.numbers import as_float_array
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array, Codes
from explorer.costs.overlap import effective_slices, slices_by_rule
from explorer.serving.evaluate import Evaluation, evaluate

FAMILY = "ascend910a"
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8)
CONSTANT = 4
"""The count that the engine used for every length before it had a rule (section 3)."""
DOUBLED = (2, 4, 8, 16)
"""Counts of the rule's first steps."""
CROSSING_ROWS = (96, 8192)
ROUND_PARTS = 24
CROSSING_POINTS = 65


@dataclass(frozen=True)
class SliceStudy:
    """Passes of one scenario's chip and plan; all arrays are rows x counts or rows.

    Attributes:
        rows: rows of a pass.
        counts: slice counts tried.
        seconds: time of a pass, rows x counts [s].
        runs_as: slices that really run, rows x counts; 1 is the serial path.
        best: count of the shortest pass, the smaller of equal ones.
        rule: count that the scenario's rule gives.
        evaluation: the passes themselves.
    """

    rows: Codes
    counts: Codes
    seconds: Array
    runs_as: Codes
    best: Codes
    rule: Codes
    evaluation: Evaluation

    @property
    def tokens_per_second(self) -> Array:
        """Prefill rate of each pass, rows x counts."""
        rate: Array = self.rows[:, None] / self.seconds
        return rate

    def seconds_at(self, counts: Codes | int) -> Array:
        """Return the time of one count for each number of rows [s]; the count must be tried."""
        columns = np.searchsorted(self.counts, np.broadcast_to(counts, self.rows.shape))
        found: Array = self.seconds[np.arange(self.rows.size), columns]
        return found

    def loss(self, counts: Codes | int) -> Array:
        """Return how much longer than the best a count takes, as a fraction."""
        return self.seconds_at(counts) / self.seconds_at(self.best) - 1


def rows_of_a_pass(scenario: Scenario) -> int:
    """Return the rows of the scenario's own prefill pass: prompt tokens of its micro-batch."""
    return int(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)


def slices_that_run(scenario: Scenario) -> int:
    """Return the slices of the scenario's own prefill pass: 1 is the serial path."""
    rows: Codes = np.asarray([rows_of_a_pass(scenario)], dtype=np.int64)
    forced = scenario.plan.slices
    runs = (
        rule_counts(scenario, rows)
        if isinstance(forced, str)
        else _effective(scenario, rows, forced)
    )
    return int(runs[0])


def jump_rows(scenario: Scenario) -> tuple[int, ...]:
    """Return the rows where a pass jumps, and those just before: a count begins to run there."""
    plan = scenario.plan
    least = int(scenario.value("hardware.serial_below_rows_per_slice"))
    counts = {*DOUBLED, *([] if isinstance(plan.slices, str) else [int(plan.slices)])}
    steps = {count * rows for count in counts for rows in (least, int(plan.min_rows_per_slice))}
    return tuple(sorted(row for step in steps for row in (step - 1, step)))


def runs_serially(scenario: Scenario, count: int) -> bool:
    """Return whether a forced count runs serially at the scenario's own rows."""
    rows: Codes = np.asarray([rows_of_a_pass(scenario)], dtype=np.int64)
    return bool(_effective(scenario, rows, count)[0] == 1)


def require_slicing(scenario: Scenario) -> None:
    """Raise InputError, in one sentence, for a chip whose all-reduces are not sliced."""
    chip = scenario.chip_document()
    if chip.family != FAMILY:
        accepted = "does not slice its all-reduces; expected a scenario of the Ascend 910A"
        raise refuse("chip", chip.name, accepted)


def slice_study(scenario: Scenario, rows: Sequence[int]) -> SliceStudy:
    """Return passes of ``rows`` prompt tokens at every count of ``COUNTS``, through ``evaluate``.

    What the rule chooses is tried too. One prompt makes a pass, whatever the micro-batch.

    Raises:
        InputError: when a number of rows is no accepted prompt length.
    """
    lengths: Codes = np.asarray(rows, dtype=np.int64)
    single = scenario.replacing({"workload.prompt_tokens": lengths, "plan.micro_batch_prefill": 1})
    rule = rule_counts(scenario, lengths)
    counts: Codes = np.unique(np.concatenate([COUNTS, rule]))
    swept = single.replacing(
        {"workload.prompt_tokens": lengths[:, None], "plan.slices": counts[None, :]}
    )
    evaluation = evaluate(swept)
    shape = (lengths.size, counts.size)
    seconds = np.broadcast_to(evaluation.prefill_stage.seconds, shape)
    best: Codes = counts[seconds.argmin(axis=1)]
    runs_as = _effective(scenario, lengths[:, None], counts[None, :])
    return SliceStudy(lengths, counts, seconds, runs_as, best, rule, evaluation)


def rule_counts(scenario: Scenario, rows: Codes) -> Codes:
    """Return the slices that really run when the scenario's rule chooses, for each pass."""
    plan = scenario.plan
    chosen = slices_by_rule(
        as_float_array(rows),
        as_float_array(plan.max_slices),
        as_float_array(plan.min_rows_per_slice),
    )
    return _effective(scenario, rows, chosen)


def best_spans(scenario: Scenario) -> tuple[tuple[int, int], ...]:
    """Return (first row, count) of each span of rows with one best count.

    Looks from 96 to 8192 rows at a grid, and ever closer between two of its points that differ; a
    span shorter than the grid's steps can be missed.
    """
    low, high = CROSSING_ROWS
    grid = np.unique(np.geomspace(low, high, CROSSING_POINTS).round().astype(np.int64))
    best = slice_study(scenario, grid.tolist()).best
    changes = np.flatnonzero(best[1:] != best[:-1])
    if changes.size == 0:
        return ((low, int(best[0])),)
    left, right = grid[changes].copy(), grid[changes + 1].copy()
    before, after = best[changes], best[changes + 1]
    each = np.arange(changes.size)
    # A round of many points costs little more than one of one point.
    while np.any(right - left > 1):
        parts = np.linspace(left, right, ROUND_PARTS + 1).astype(np.int64)
        found = slice_study(scenario, parts.ravel().tolist()).best.reshape(parts.shape)
        first = (found != before).argmax(axis=0)
        left, right, after = parts[first - 1, each], parts[first, each], found[first, each]
    spans = zip(right.tolist(), after.tolist(), strict=True)
    return ((low, int(best[0])), *spans)


def _effective(scenario: Scenario, rows: Codes, counts: Any) -> Codes:
    least = as_float_array(scenario.value("hardware.serial_below_rows_per_slice"))
    tp = as_float_array(scenario.plan.tp_prefill)
    real = effective_slices(as_float_array(counts), as_float_array(rows), tp, least)
    return real.astype(np.int64)
