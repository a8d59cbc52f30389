"""Two to four scenarios side by side: what differs between them, and what each delivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from explorer.config.budget import BUDGET
from explorer.config.csvio import csv_text
from explorer.config.errors import refuse
from explorer.config.scenario import CLUSTER, WORD_FIELDS, Scenario, knob_at, paths_of
from explorer.config.units import human
from explorer.costs.arrays import Array
from explorer.serving.evaluate import Evaluation, bottleneck_name, evaluate
from explorer.serving.report import number, why_not

FEWEST, MOST = 2, 4
COMPARISON_SCHEMA = "explorer.comparison/1"
NOT_THERE = "–"
INPUT_NAMES = {
    "precision.compute": "Format of the arithmetic",
    "precision.weights": "Format of the stored weights",
    "precision.kv": "Format of the KV cache",
    "plan.placement": "Placement of prefill and decode",
    "kernel.attention": "Attention in prefill",
    "kernel.fusion": "Operator fusion",
    "kernel.launch": "Kernel launches",
    "kernel.recurrence": "Instruction groups of the recurrence",
    "simulation.arrivals": "Arrival of requests",
    "simulation.policy": "Rule for a full buffer",
    "simulation.grouping": "Order in which micro-batches are cut",
    "simulation.unfilled": "Time of an unfilled micro-batch",
    BUDGET: "Budget across the machine",
}
"""Names of the inputs that are words, and so have no knob."""


@dataclass(frozen=True)
class Candidate:
    """One scenario under the name it has in a comparison."""

    name: str
    scenario: Scenario

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the models say of it."""
        return evaluate(self.scenario)


@dataclass(frozen=True)
class InputRow:
    """One input that is not the same everywhere.

    Attributes:
        path: its path, as in links.
        label: its words.
        values: its value in each scenario, as text with unit; a dash where there is no such input.
    """

    path: str
    label: str
    values: tuple[str, ...]

    @property
    def everywhere(self) -> bool:
        """Whether every scenario has it: numbers of one kind of chip are missing on another."""
        return NOT_THERE not in self.values


@dataclass(frozen=True)
class FigureRow:
    """One figure of every scenario.

    Attributes:
        name: its name in the comparison document.
        label: its words; clusters or cards by what the scenarios have.
        unit: unit of the values.
        more_is_better: None where neither is.
        values: one value a scenario; None where a plan does not fit, or has no such figure.
    """

    name: str
    label: str
    unit: str
    more_is_better: bool | None
    values: tuple[float | None, ...]

    @property
    def ratios(self) -> tuple[float | None, ...]:
        """Each value over the first scenario's; None where either is missing or zero."""
        first = self.values[0]
        return tuple(None if value is None or not first else value / first for value in self.values)


@dataclass(frozen=True)
class Comparison:
    """Scenarios with what tells them apart and what each delivers.

    Attributes:
        candidates: the scenarios, the first of which the ratios refer to.
        inputs: the inputs that differ.
        figures: the headline figures.
        bottlenecks: what limits each.
        misfits: why each does not fit; empty where it does.
    """

    candidates: tuple[Candidate, ...]
    inputs: tuple[InputRow, ...]
    figures: tuple[FigureRow, ...]
    bottlenecks: tuple[str, ...]
    misfits: tuple[str, ...]


def compare(candidates: Sequence[Candidate]) -> Comparison:
    """Return two to four scenarios side by side.

    Raises:
        InputError: for another number of scenarios, or a chip that lacks a number.
    """
    if not FEWEST <= len(candidates) <= MOST:
        raise refuse("scenarios", len(candidates), f"expected {FEWEST} to {MOST} to compare")
    evaluations = [candidate.evaluation for candidate in candidates]
    every = dict.fromkeys(c.scenario.chip_document().unit_name for c in candidates)
    units = sorted(every, key=lambda unit: unit != CLUSTER)
    named = {
        "units": " or ".join(f"{unit}s" for unit in units).capitalize(),
        "unit_seconds": f"{'- or '.join(units)}-seconds".capitalize(),
    }
    return Comparison(
        tuple(candidates),
        different_inputs([candidate.scenario for candidate in candidates]),
        tuple(
            FigureRow(
                name,
                label.format_map(named),
                unit,
                better,
                tuple(_value(e, name, read) for e in evaluations),
            )
            for name, label, unit, better, read in FIGURES
        ),
        tuple(bottleneck_name(int(e.bottleneck)) for e in evaluations),
        tuple(why_not(e) for e in evaluations),
    )


Reader = Callable[[Evaluation], Array]

FIGURES: tuple[tuple[str, str, str, bool | None, Reader], ...] = (
    (
        "throughput_tokens_per_second",
        "Throughput",
        "tokens/s",
        True,
        lambda e: e.objective("throughput"),
    ),
    ("ttft_seconds", "Time to first token", "s", False, lambda e: e.ttft_seconds),
    ("tpot_seconds", "Time per output token", "s", False, lambda e: e.tpot_seconds),
    (
        "cluster_seconds_per_token",
        "{unit_seconds} a token",
        "",
        False,
        lambda e: e.objective("cluster_seconds_per_token"),
    ),
    ("prefill_seconds", "T_p, prefill of a batch", "s", False, lambda e: e.prefill_seconds),
    ("decode_seconds", "T_d, decode of a batch", "s", False, lambda e: e.decode_seconds),
    ("batch", "Batch", "requests", None, lambda e: e.batch),
    ("clusters", "{units} a pool", "", None, lambda e: e.clusters),
    ("pools", "Pools", "", None, lambda e: e.pools),
    (
        "prefill_memory_bytes",
        "Memory, fullest for prefill",
        "B",
        None,
        lambda e: e.prefill_memory.total_bytes,
    ),
    (
        "decode_memory_bytes",
        "Memory, fullest for decode",
        "B",
        None,
        lambda e: e.decode_memory.total_bytes,
    ),
)
STAY_WITHOUT_FIT = {"batch", "clusters", "pools", "prefill_memory_bytes", "decode_memory_bytes"}


def _value(evaluation: Evaluation, name: str, read: Reader) -> float | None:
    if not evaluation.feasible and name not in STAY_WITHOUT_FIT:
        return None
    return number(read(evaluation))


def different_inputs(scenarios: Sequence[Scenario]) -> tuple[InputRow, ...]:
    """Return the inputs that are not the same in all scenarios, in the order of a scenario."""
    known = [dict.fromkeys(paths_of(scenario)) for scenario in scenarios]
    rows = []
    for path in dict.fromkeys(path for paths in known for path in paths):
        if path == "name":
            continue
        raw = tuple(
            _raw(scenario, path) if path in paths else None
            for scenario, paths in zip(scenarios, known, strict=True)
        )
        if any(value != raw[0] for value in raw):
            label = next(filter(None, (_label(scenario, path) for scenario in scenarios)), path)
            values = tuple(_text(scenario, path) for scenario in scenarios)
            rows.append(InputRow(path, label, values))
    return tuple(rows)


def _raw(scenario: Scenario, path: str) -> object:
    if path in ("chip", "model"):
        document = scenario.chip_document() if path == "chip" else scenario.model_document()
        return document.model_dump_json()
    return scenario.value(path)


def _label(scenario: Scenario, path: str) -> str:
    if path in ("chip", "model"):
        return path.capitalize()
    if path in INPUT_NAMES:
        return INPUT_NAMES[path]
    knob = knob_at(scenario, path) if path in paths_of(scenario) else None
    return knob.label if knob is not None else ""


def _text(scenario: Scenario, path: str) -> str:
    if path not in paths_of(scenario):
        return NOT_THERE
    if path == "chip":
        return _document_name(scenario.chip, scenario.chip_document().name)
    if path == "model":
        return _document_name(scenario.model, scenario.model_document().name)
    value = scenario.value(path)
    if value is None:
        return "none"
    if path in WORD_FIELDS or isinstance(value, str):
        return str(value).replace("_", " ")
    knob = knob_at(scenario, path)
    return human(float(value), knob.shown_unit if knob is not None else "")


def _document_name(reference: object, name: str) -> str:
    return name if isinstance(reference, str) else f"{name} (a document of its own)"


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """Return a comparison as JSON values."""
    names = [candidate.name for candidate in comparison.candidates]
    return {
        "schema": COMPARISON_SCHEMA,
        "scenarios": [
            {
                "name": candidate.name,
                "scenario": candidate.scenario.pinned().to_json(),
                "feasible": not misfit,
                "does_not_fit": misfit or None,
                "bottleneck": bottleneck,
            }
            for candidate, misfit, bottleneck in zip(
                comparison.candidates, comparison.misfits, comparison.bottlenecks, strict=True
            )
        ],
        "inputs": [
            {
                "path": row.path,
                "label": row.label,
                "values": dict(zip(names, row.values, strict=True)),
            }
            for row in comparison.inputs
        ],
        "figures": [
            {
                "name": row.name,
                "unit": row.unit,
                "values": dict(zip(names, row.values, strict=True)),
                "ratios": dict(zip(names, row.ratios, strict=True)),
            }
            for row in comparison.figures
        ],
    }


def comparison_csv(comparison: Comparison) -> str:
    """Return a comparison as CSV: inputs that differ, then figures and their ratios."""
    names = [candidate.name for candidate in comparison.candidates]
    rows: list[list[str | float]] = [
        ["input", row.path, "", *row.values] for row in comparison.inputs
    ]
    rows.append(["does not fit", "", "", *comparison.misfits])
    rows.append(["limited by", "", "", *comparison.bottlenecks])
    for figure in comparison.figures:
        rows.append(["figure", figure.name, figure.unit, *map(_cell, figure.values)])
    for figure in comparison.figures:
        rows.append(["ratio to the first", figure.name, "", *map(_cell, figure.ratios)])
    return csv_text(["kind", "name", "unit", *names], rows)


def _cell(value: float | None) -> str | float:
    return "" if value is None else value
