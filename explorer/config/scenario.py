"""The scenario: the one document that sliders edit, links carry and exports hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from explorer.config.budget import BUDGET, budget_problem
from explorer.config.chip import Chip
from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.jsonio import validated
from explorer.config.knobs import scenario_knobs
from explorer.config.migrations import migrated
from explorer.config.model import Model, ModelDocument
from explorer.config.numbers import AnyArray, Real, Whole
from explorer.config.own_chip import parse_chip
from explorer.config.presets import load_chip, load_model
from explorer.config.quantity import (
    LONGEST_NAME,
    Document,
    Knob,
    Text,
    listed,
    plain_text,
)
from explorer.config.sections import (
    Kernel,
    Limits,
    Measured,
    Plan,
    Precision,
    Versions,
    Workload,
)
from explorer.config.simulation import SIMULATION_WORDS, Simulation
from explorer.config.units import in_words_of

SCENARIO_SCHEMA: Literal["explorer.scenario/1"] = "explorer.scenario/1"
CLUSTER = "cluster"


class Scenario(Document):
    """A chip, a model, a workload and a plan; any number may be a numpy array."""

    schema_: Literal["explorer.scenario/1"] = Field(alias="schema", default=SCENARIO_SCHEMA)
    name: Text = Field(min_length=1, max_length=LONGEST_NAME)
    chip: str | Chip
    model: str | ModelDocument
    versions: Versions = Versions()
    precision: Precision
    hardware: dict[str, Real | Whole] = Field(default_factory=dict)
    workload: Workload
    plan: Plan
    kernel: Kernel = Kernel()
    limits: Limits = Limits()
    measured: Measured = Measured()
    simulation: Simulation = Simulation()

    def chip_document(self) -> Chip:
        """Return the chip itself.

        Raises:
            InputError: when there is no such preset.
        """
        if isinstance(self.chip, Chip):
            return self.chip
        return load_chip(self.chip, self.versions.chip)

    def model_document(self) -> ModelDocument:
        """Return the model itself.

        Raises:
            InputError: when there is no such preset.
        """
        if isinstance(self.model, ModelDocument):
            return self.model
        return load_model(self.model, self.versions.model)

    def model_shape(self) -> Model:
        """Return the sizes of the model."""
        return self.model_document().shape()

    def value(self, path: str) -> Any:
        """Return the value at a knob path; a hardware number falls back to the chip's.

        Raises:
            InputError: when no such field exists.
        """
        section, _, name = path.partition(".")
        if section == "hardware":
            if name in self.hardware:
                return self.hardware[name]
            quantities = self.chip_document().quantities
            if name not in quantities:
                raise unknown_field(self, path)
            return quantities[name].value
        part = getattr(self, section, None)
        if not isinstance(part, Document) or name not in type(part).model_fields:
            raise unknown_field(self, path)
        return getattr(part, name)

    def replacing(self, changes: Mapping[str, object]) -> Scenario:
        """Return a copy with the values at some paths changed, and checked.

        A hardware number set to None is the chip's own again.

        Raises:
            InputError: when a path is unknown or a value is not accepted.
        """
        updated = self.unchecked(changes)
        problems = problems_of(updated, tuple(changes))
        if problems:
            raise InputError(problems)
        return updated

    def unchecked(self, changes: Mapping[str, object]) -> Scenario:
        """Return a copy with values changed whose ranges nobody checked yet.

        Raises:
            InputError: when a path is unknown or a word is not one of its field's.
        """
        updated = self
        for path, value in changes.items():
            updated = _replaced(updated, path, value)
        return updated

    def with_chip(self, chip: Chip | str) -> Scenario:
        """Return a copy on another chip, a preset's or one's own, and checked.

        Numbers set on the present chip go with it, and the name tells chip and model.

        Raises:
            InputError: when there is no such preset, or the chip lacks the scenario's arithmetic.
        """
        document = load_chip(chip) if isinstance(chip, str) else chip
        name = f"{document.name} · {self.model_document().name}"[:LONGEST_NAME]
        bare = self.model_copy(update={"hardware": {}, "name": name})
        if isinstance(chip, str):
            return bare.replacing({"chip": chip})
        versions = self.versions.model_copy(update={"chip": None})
        updated = bare.model_copy(update={"chip": chip, "versions": versions})
        problems = problems_of(updated)
        if problems:
            raise InputError(problems)
        return updated

    def pinned(self) -> Scenario:
        """Return a copy whose preset versions are written out, so that its meaning stays."""
        update: dict[str, object] = {}
        versions: dict[str, int | None] = {}
        for field, document in (("chip", self.chip_document()), ("model", self.model_document())):
            if isinstance(getattr(self, field), str):
                update[field] = document.id
                versions[field] = document.version
        return self.model_copy(update={**update, "versions": Versions(**versions)})

    def to_json(self) -> dict[str, Any]:
        """Return the document as plain JSON values; raises TypeError when it holds arrays."""
        if any(isinstance(value, np.ndarray) for value in _numbers_of(self)):
            raise TypeError("a scenario with arrays has no JSON form; export single plans")
        return self.model_dump(mode="json", by_alias=True)


def parse_scenario(value: object) -> Scenario:
    """Return the scenario in a JSON value, completely checked.

    Raises:
        InputError: names every wrong field; a newer schema is refused as such.
    """
    if not isinstance(value, Mapping):
        raise refuse("scenario", value, "expected a JSON object")
    document = migrated(value, "explorer.scenario")
    if isinstance(document.get("chip"), Mapping):
        document["chip"] = parse_chip(document["chip"], "chip")
    if isinstance(document.get("model"), Mapping):
        document["model"] = validated(document["model"], ModelDocument, "model")
    try:
        scenario = validated(document, Scenario)
    except InputError as error:
        raise InputError(_with_knob_words(error.problems)) from None
    problems = problems_of(scenario)
    if problems:
        raise InputError(problems)
    return scenario.pinned()


def knob_at(scenario: Scenario, path: str) -> Knob | None:
    """Return the knob of a path as it holds for this scenario's chip and model, or None."""
    section, _, name = path.partition(".")
    if section == "hardware":
        chip = scenario.chip_document()
        return chip.knob(name) if name in chip.quantities else None
    knob = _for_chip(scenario_knobs().get(path), scenario.chip_document())
    if knob is not None and path in ("plan.pp_prefill", "plan.pp_decode"):
        return knob.model_copy(update={"maximum": scenario.model_shape().layers})
    return knob


def _for_chip(knob: Knob | None, chip: Chip) -> Knob | None:
    """Return the knob in the chip's own words: its unit of scale is a cluster or a card."""
    if knob is None or chip.unit_name == CLUSTER:
        return knob
    told = ("unit", "label", "raising")
    words = {name: in_words_of(chip.unit_name, getattr(knob, name)) for name in told}
    return knob.model_copy(update=words)


def legal_values(scenario: Scenario, path: str) -> tuple[int, ...]:
    """Return the values a ``divisors`` knob accepts for this scenario's model."""
    return scenario.model_shape().legal_tp if path in TP_PATHS else ()


TP_PATHS = ("plan.tp_prefill", "plan.tp_decode")
WORD_FIELDS = {
    "precision.compute": ("fp32", "fp16"),
    "precision.weights": ("fp32", "fp16", "int8"),
    "precision.kv": ("fp32", "fp16", "int8"),
    "plan.placement": ("disaggregated", "shared"),
    "kernel.attention": ("mt", "flash", "unfused"),
    "kernel.fusion": ("fused", "separate"),
    "kernel.launch": ("unified", "per_operator", "per_head"),
    "kernel.recurrence": (
        "whole",
        "without_broadcast_rows",
        "without_rank1_update",
        "without_both",
    ),
    **SIMULATION_WORDS,
}
OPTIONAL_PATHS = (
    "limits.ttft_seconds",
    "limits.tpot_seconds",
    "measured.prefill_seconds",
    "measured.decode_seconds",
)


TEXT_PATHS = (BUDGET,)


def paths_of(scenario: Scenario) -> tuple[str, ...]:
    """Return every path that ``replacing`` accepts for this scenario."""
    hardware = (f"hardware.{name}" for name in scenario.chip_document().quantities)
    return ("name", "chip", "model", *WORD_FIELDS, *scenario_knobs(), *TEXT_PATHS, *hardware)


def unknown_field(scenario: Scenario, path: str) -> InputError:
    """Return the error for a path that does not exist, naming its neighbours."""
    section = path.partition(".")[0]
    known = paths_of(scenario)
    near = [other for other in known if other.startswith(section + ".")] or [
        *dict.fromkeys(other.partition(".")[0] for other in known)
    ]
    return refuse(shown(path), "", f"unknown field; known here: {', '.join(near)}")


def problems_of(scenario: Scenario, changed: tuple[str, ...] | None = None) -> list[Problem]:
    """Return everything wrong with the values of a scenario.

    Args:
        scenario: a structurally valid scenario.
        changed: look only at these paths and what depends on them; None looks at all.
    """
    everything = changed is None or "chip" in changed or "model" in changed
    paths = paths_of(scenario) if changed is None or everything else changed
    problems = [problem for path in paths if (problem := _problem_at(scenario, path)) is not None]
    if everything:
        unknown = set(scenario.hardware) - set(scenario.chip_document().quantities)
        problems += [
            unknown_field(scenario, f"hardware.{name}").problems[0] for name in sorted(unknown)
        ]
    return problems


def _problem_at(scenario: Scenario, path: str) -> Problem | None:
    if path == "precision.compute":
        return _compute_problem(scenario)
    if path in WORD_FIELDS or path in ("name", "chip", "model"):
        return None
    if path in TEXT_PATHS:
        return budget_problem(scenario.limits.budget, scenario.chip_document().quantities)
    if path.startswith("hardware.") and path.partition(".")[2] not in scenario.hardware:
        return None
    return _knob_problem(scenario, path)


def _knob_problem(scenario: Scenario, path: str) -> Problem | None:
    knob = knob_at(scenario, path)
    if knob is None:
        return unknown_field(scenario, path).problems[0]
    value = scenario.value(path)
    if value is None and path in OPTIONAL_PATHS:
        return None
    problem = knob.problem(value)
    if problem is None and path in TP_PATHS:
        return _tp_problem(scenario, path, value)
    if problem is not None and path in ("plan.pp_prefill", "plan.pp_decode"):
        model = scenario.model_shape()
        return Problem(path, problem.value, f"{knob.accepted()}: {model.name} has that many layers")
    return problem


def _compute_problem(scenario: Scenario) -> Problem | None:
    chip = scenario.chip_document()
    precision = scenario.precision.compute
    if precision in chip.compute_precisions:
        return None
    return Problem(
        "precision.compute",
        precision,
        f"{chip.name} has no {precision} arithmetic in its preset; "
        f"expected {' or '.join(chip.compute_precisions)} "
        "(other formats may still store weights and KV cache)",
    )


def _tp_problem(scenario: Scenario, path: str, value: int | AnyArray) -> Problem | None:
    model = scenario.model_shape()
    if np.isin(value, model.legal_tp).all():
        return None
    return Problem(
        path,
        shown(value),
        f"does not divide the heads and FFN width of {model.name}; "
        f"expected one of {listed(model.legal_tp)}",
    )


def _replaced(scenario: Scenario, path: str, value: object) -> Scenario:
    section, _, name = path.partition(".")
    if path in ("name", "chip", "model"):
        return _replaced_head(scenario, path, value)
    if path in WORD_FIELDS:
        words = WORD_FIELDS[path]
        if value not in words:
            raise refuse(path, value, f"expected {' or '.join(words)}")
    elif section == "hardware" and name in scenario.hardware and value is None:
        hardware = {key: item for key, item in scenario.hardware.items() if key != name}
        return scenario.model_copy(update={"hardware": hardware})
    elif path not in TEXT_PATHS and (section == "hardware" or knob_at(scenario, path) is None):
        if knob_at(scenario, path) is None:
            raise unknown_field(scenario, path)
        if value is None:
            return scenario
        return scenario.model_copy(update={"hardware": {**scenario.hardware, name: value}})
    part = getattr(scenario, section)
    return scenario.model_copy(update={section: part.model_copy(update={name: value})})


def _replaced_head(scenario: Scenario, path: str, value: object) -> Scenario:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise refuse(path, value, f"expected a text of 1 to {LONGEST_NAME} characters")
    try:
        plain_text(value)
    except ValueError as error:
        raise refuse(path, value, str(error)) from None
    updated = scenario.model_copy(update={path: value})
    if path == "name":
        return updated
    versions = scenario.versions.model_copy(update={path: None})
    updated = updated.model_copy(update={"versions": versions})
    if path == "chip":
        updated.chip_document()
    else:
        updated.model_document()
    return updated.pinned()


def _with_knob_words(problems: tuple[Problem, ...]) -> list[Problem]:
    """Replace a validator's words by the knob's, one problem a field."""
    result: dict[str, Problem] = {}
    for problem in problems:
        field = ".".join(problem.field.split(".")[:2])
        knob = scenario_knobs().get(field)
        known = problem.accepted in ("unknown field", "this field is required")
        worded = problem
        if knob is not None and not known:
            worded = Problem(field, problem.value, knob.accepted())
        elif problem.field.startswith(("chip.", "model.")):
            field = field.partition(".")[0]
            worded = Problem(field, problem.value, "expected a preset id or a whole document")
        result.setdefault(field, worded)
    return list(result.values())


def _numbers_of(scenario: Scenario) -> list[object]:
    sections: tuple[Document, ...] = (scenario.workload, scenario.plan, scenario.limits)
    sections += (scenario.measured, scenario.simulation)
    values: list[object] = list(scenario.hardware.values())
    for section in sections:
        values += [getattr(section, name) for name in type(section).model_fields]
    return values
