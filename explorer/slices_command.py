"""The ``slices`` command: prefill passes by rows and slice count, and the count to choose."""

from __future__ import annotations

import argparse
import re
from typing import Any

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.knobs import scenario_knobs
from explorer.config.scenario import Scenario
from explorer.config.units import human, percent, significant
from explorer.serving.evaluate import evaluate
from explorer.serving.report import broken_constraints, violation_message
from explorer.serving.slice_study import CONSTANT, SliceStudy, require_slicing, slice_study

SLICES_SCHEMA = "explorer.slices/1"
WHOLE = re.compile(r"[0-9]{1,9}")
MOST_ROW_COUNTS = 64
ROWS_PATH = "workload.prompt_tokens"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a table of slices."""
    parser.add_argument(
        "--rows",
        required=True,
        metavar="N[,N...]",
        help="prompt tokens of a pass, such as 512,1024,2048,4096",
    )


def run(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the document and the text of a scenario's passes.

    Raises:
        InputError: for rows that are no prompt lengths, or a chip that does not slice.
    """
    rows = parse_rows(options.rows)
    require_slicing(scenario)
    study = slice_study(scenario, rows)
    misfits = plan_misfits(scenario)
    document = slices_document(study)
    if misfits:
        # A plan that does not fit has no speed, at any count.
        document["rows"] = [
            {**row, "prefill_seconds": None, "tokens_per_second": None, "best": None}
            for row in document["rows"]
        ]
        document["notes"] = [*misfits, *document["notes"]]
        return document, "this plan does not fit:\n" + "\n".join(f"  {text}" for text in misfits)
    return document, slices_text(study, document["notes"])


def plan_misfits(scenario: Scenario) -> tuple[str, ...]:
    """Return why the plan fits no machine; its prompt length is replaced by ``--rows``."""
    return tuple(
        violation_message(constraint)
        for constraint in broken_constraints(evaluate(scenario))
        if constraint.name != "context"
    )


def parse_rows(text: str) -> tuple[int, ...]:
    """Return the row counts in ``512,1024``, each once and in this order.

    Raises:
        InputError: names each part that is no prompt length.
    """
    knob = scenario_knobs()[ROWS_PATH]
    accepted = f"expected whole numbers from {knob.minimum:g} to {knob.maximum:g}, as 512,1024"
    parts = [part.strip() for part in text.split(",")]
    wrong = [
        part
        for part in parts
        if not WHOLE.fullmatch(part) or not knob.minimum <= int(part) <= knob.maximum
    ]
    if wrong:
        raise InputError([Problem("--rows", shown(wrong[0]) or "nothing", accepted)])
    rows = tuple(dict.fromkeys(int(part) for part in parts))
    if len(rows) > MOST_ROW_COUNTS:
        raise refuse("--rows", len(rows), f"expected at most {MOST_ROW_COUNTS} row counts")
    return rows


def slices_document(study: SliceStudy) -> dict[str, Any]:
    """Return one entry for each rows x slices.

    ``slices`` is the entry's count; ``rule`` is the count that the rule chooses for these rows and
    ``best`` the count of the shortest pass, the same in all entries of the rows. ``runs_as`` is
    what the engine really runs: 1, the serial path, where it refuses the count.
    """
    rates = study.tokens_per_second
    rows = [
        {
            "rows": int(length),
            "slices": int(count),
            "prefill_seconds": float(study.seconds[i, j]),
            "tokens_per_second": float(rates[i, j]),
            "rule": int(study.rule[i]),
            "best": int(study.best[i]),
            "runs_as": int(study.runs_as[i, j]),
        }
        for i, length in enumerate(study.rows)
        for j, count in enumerate(study.counts)
    ]
    return {"schema": SLICES_SCHEMA, "rows": rows, "notes": list(notes(study))}


def notes(study: SliceStudy) -> tuple[str, ...]:
    """Return what a reader must know: extrapolation, counts that run serially."""
    found = list(study.evaluation.machine.notes())
    refused = [
        f"{human(float(length), 'rows')}: {_range(counts)} run serially, at fewer rows a slice "
        "than the kernels serve or without another card"
        for length, real in zip(study.rows, study.runs_as, strict=True)
        if (counts := [int(c) for c in study.counts[(study.counts > 1) & (real == 1)]])
    ]
    return (*found, *(f"{text}." for text in refused))


def slices_text(study: SliceStudy, remarks: list[str]) -> str:
    """Return a table of tokens/s, a line for each number of rows, its answer at the end."""
    head = f"{'rows':>8}" + "".join(f"{f's={count}':>9}" for count in study.counts)
    title = f"{head}  best  rule  rule loses  {CONSTANT} loses"
    lines = ["prefill tokens/s by slices", title]
    rule, constant = study.loss(study.rule), study.loss(CONSTANT)
    for i, length in enumerate(study.rows):
        cells = "".join(f"{significant(rate):>9}" for rate in study.tokens_per_second[i])
        lines.append(
            f"{length:>8}{cells}{study.best[i]:>6}{study.rule[i]:>6}"
            f"{percent(rule[i]):>12}{percent(constant[i]):>9}"
        )
    return "\n".join([line.rstrip() for line in lines] + [f"note: {text}" for text in remarks])


def _range(counts: list[int]) -> str:
    if len(counts) == 1:
        return f"{counts[0]} slices"
    return f"{counts[0]} to {counts[-1]} slices"
