"""Sentences of the slices page: which count to use and why, spans of lengths, losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.arrays import Codes, total
from explorer.plots.style import joined
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.slice_study import (
    CONSTANT,
    COUNTS,
    CROSSING_ROWS,
    SliceStudy,
    best_spans,
    runs_serially,
)
from explorer.serving.stages import pass_seconds, slowest_stage_words

HOST_TERM = "host_issue_wait"
AS_FAST = 5e-4
TYPED_IN = "A measured prefill time is typed in, so that no slice count changes anything."


class Cut(NamedTuple):
    """A pass at one count: its time, waiting for the host and all of the host's issue [s]."""

    seconds: float
    wait: float
    issue: float

    @property
    def device(self) -> float:
        """Time of the device [s]."""
        return self.seconds - self.wait


def answer(scenario: Scenario, rows: int) -> str:
    """Return the count to use at these rows and what it trades, in a few sentences."""
    passes = _passes(scenario)
    seconds = {count: cut.seconds for count, cut in passes.items()}
    best = min(seconds, key=lambda count: seconds[count])
    of = f"For {_rows(scenario, rows)} a pass"
    rate = f"{significant(rows / seconds[best])} tokens/s of prefill"
    where = _pipeline(scenario, best)
    if max(seconds.values()) <= seconds[best] * (1 + AS_FAST):
        why = _why_all_alike(scenario, passes)
        return f"{of} **no slice count changes anything**: {rate}.{where} {why}"
    other = best if best > 1 else 2
    return (
        f"{of} use **{_named(best)}**: {rate}, {_against(seconds, best)}.{where} "
        f"Why: cutting in {other} {_trade(passes[1], passes[other])}. "
        f"{_setting(scenario, seconds[best])}"
    )


def spans_sentence(scenario: Scenario, measured: tuple[int, ...]) -> str:
    """Return from which rows on each count is best; ``measured`` are the counts that ran."""
    first, last = CROSSING_ROWS
    spans = best_spans(scenario)
    parts = [
        f"**{count}** {'up to' if i == 0 else 'from'} "
        + human(float(spans[1][0] - 1 if i == 0 else row), "rows")
        for i, (row, count) in enumerate(spans)
        if len(spans) > 1
    ]
    if not parts:
        count = "serial" if spans[0][1] == 1 else f"{spans[0][1]} slices"
        return f"From {first} to {last:,} rows nothing is faster than **{count}**."
    tail = ""
    if measured:
        told = joined([str(count) for count in measured])
        tail = f" Of these counts only {told} were run, and 8 only where it falls back to serial."
    return f"The best count is {', '.join(parts)}.{tail}"


def loss_sentence(study: SliceStudy) -> str:
    """Return how much the rule and a constant lose at most over the rows of a study."""
    rule, constant = study.loss(study.rule), study.loss(CONSTANT)
    lengths = f"From {_count(study.rows[0])} to {_count(study.rows[-1])}"
    if max(float(rule.max()), float(constant.max())) < AS_FAST:
        return f"{lengths} no choice loses anything: no slice count changes the pass."
    worst, other = int(rule.argmax()), int(constant.argmax())
    ruled = (
        "the rule loses nothing"
        if rule[worst] < AS_FAST
        else f"the rule loses at most **{significant(100 * float(rule[worst]))} %** (at "
        f"{_count(study.rows[worst])})"
    )
    return (
        f"{lengths} {ruled}, a constant {CONSTANT} up to "
        f"**{significant(100 * float(constant[other]))} %** (at {_count(study.rows[other])})."
    )


def forced(scenario: Scenario, count: int) -> Evaluation:
    """Return the scenario with a forced slice count."""
    return evaluate(scenario.replacing({"plan.slices": count}))


def _why_all_alike(scenario: Scenario, passes: Mapping[int, Cut]) -> str:
    """Return why every slice count takes as long."""
    if int(scenario.plan.tp_prefill) == 1:
        return "One card has nothing to reduce, so that nothing is cut."
    if all(runs_serially(scenario, count) for count in COUNTS):
        least = human(float(scenario.value("hardware.serial_below_rows_per_slice")), "rows")
        return f"Half of that is fewer than the {least} that a slice must have: all run serially."
    if passes[COUNTS[-1]].issue == passes[1].issue:
        return "No layer has an all-reduce to cut."
    return "What slicing hides and what it costs leave the pass as long."


def _rows(scenario: Scenario, rows: int) -> str:
    prompts = int(scenario.plan.micro_batch_prefill)
    each = f" ({prompts} prompts of {int(scenario.workload.prompt_tokens):,})"
    return f"{_count(rows)}{each if prompts > 1 else ''}"


def _count(rows: float) -> str:
    return human(float(rows), "rows")


def _pipeline(scenario: Scenario, count: int) -> str:
    """Return which stage sets the rate of a pipeline and how long a pass takes through all."""
    if int(scenario.plan.pp_prefill) == 1:
        return ""
    evaluation = forced(scenario, count)
    stage = slowest_stage_words(evaluation)
    if not stage:
        return ""
    return (
        f" A pass leaves the pipeline every {human(float(evaluation.prefill_stage.seconds), 's')}, "
        f"the time of the slowest stage ({stage}), and takes "
        f"{human(pass_seconds(evaluation), 's')} through all of them."
    )


def _against(seconds: dict[int, float], best: int) -> str:
    if best > 1:
        return f"{significant(100 * (seconds[1] / seconds[best] - 1))} % more than serial"
    longer = seconds[2] / seconds[1] - 1
    if longer <= AS_FAST:
        return "2 slices are as fast"
    return f"2 slices would take {significant(100 * longer)} % longer"


def _trade(serial: Cut, sliced: Cut) -> str:
    """Return what a slice count hides on the device and what it costs the host."""
    issue, wait = sliced.issue - serial.issue, sliced.wait - serial.wait
    gain = serial.device - sliced.device
    hidden = (
        f"hides {human(gain, 's')} of device time, all fixed costs of the further collectives paid"
        if gain > 0
        else f"makes the device {human(-gain, 's')} slower, since fixed costs of the further "
        "collectives outweigh what they hide"
    )
    waited = (
        f", of which {human(wait, 's')} are waited for"
        if wait > AS_FAST * serial.seconds
        else ", which stays behind the device's work"
    )
    return f"{hidden}; the host needs {human(issue, 's')} more to issue them{waited}"


def _setting(scenario: Scenario, best_seconds: float) -> str:
    loss = float(evaluate(scenario).prefill_stage.seconds) / best_seconds - 1
    name = "The rule" if isinstance(scenario.plan.slices, str) else "The present setting"
    if loss < AS_FAST:
        return f"{name} is as fast."
    return f"{name} takes {significant(100 * loss)} % longer."


def _passes(scenario: Scenario) -> dict[int, Cut]:
    """Return the pass at every count, through one evaluation."""
    counts: Codes = np.asarray(COUNTS, dtype=np.int64)
    stage = evaluate(scenario.replacing({"plan.slices": counts})).prefill_stage
    host = [term for term in stage.terms if term.name == HOST_TERM]
    columns = (
        stage.seconds,
        total([term.seconds for term in host]),
        total([term.busy_seconds for term in host]),
    )
    each = [np.broadcast_to(column, counts.shape).tolist() for column in columns]
    return {count: Cut(*numbers) for count, *numbers in zip(COUNTS, *each, strict=True)}


def _named(count: int) -> str:
    return "1 slice (serial)" if count == 1 else f"{count} slices"
