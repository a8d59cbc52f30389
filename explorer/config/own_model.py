"""A model that is no preset: read from a file, and put into a scenario in place of its own."""

from __future__ import annotations

from pathlib import Path

from explorer.config.errors import Problem
from explorer.config.hugging_face import ImportedModel, imported
from explorer.config.jsonio import parse_json_object, read_bounded, validated
from explorer.config.migrations import migrated
from explorer.config.model import ModelDocument
from explorer.config.presets import load_model, versions_of
from explorer.config.quantity import LONGEST_NAME, listed
from explorer.config.scenario import TP_PATHS, Scenario

PP_PATHS = ("plan.pp_prefill", "plan.pp_decode")
LEAD = "Changed to fit the model"


def model_from_json(content: str | bytes, name: str = "file") -> ImportedModel:
    """Return the model in a file's content: a Hugging Face config, or a model document.

    Raises:
        InputError: when the content is neither, or a value in it is not accepted.
    """
    value = parse_json_object(content, name)
    schema = value.get("schema")
    if schema is None:
        return imported(value, name)
    return ImportedModel(validated(migrated(value, "explorer.model"), ModelDocument))


def model_from(reference: str) -> ImportedModel:
    """Return the model of a preset (``id`` or ``id@version``) or of a file.

    Raises:
        InputError: when there is neither, or the file is not a model.
    """
    if reference.partition("@")[0] in versions_of("models"):
        return ImportedModel(load_model(reference))
    return model_from_json(read_bounded(reference), Path(reference).name)


def with_model(scenario: Scenario, document: ModelDocument) -> tuple[Scenario, tuple[Problem, ...]]:
    """Return the scenario with another model, and what of its plan had to change.

    Chip, workload and plan stay, but for degrees of TP that the model does not admit, which fall to
    the next one that it does, and for more pipeline stages than layers. The name tells chip and
    model.

    Args:
        scenario: without arrays.
        document: a preset's or one of its own.
    """
    known = document.version in versions_of("models").get(document.id, ())
    preset = known and document == load_model(document.id, document.version)
    shape = document.shape()
    name = f"{scenario.chip_document().name} · {document.name}"[:LONGEST_NAME]
    changed = scenario.model_copy(
        update={
            "name": name,
            "model": document.id if preset else document,
            "versions": scenario.versions.model_copy(
                update={"model": document.version if preset else None}
            ),
        }
    )
    changes: dict[str, object] = {}
    problems = []
    for path in TP_PATHS:
        value = int(scenario.value(path))
        if value not in shape.legal_tp:
            changes[path] = max(tp for tp in shape.legal_tp if tp <= value)
            accepted = f"{document.name} splits over {listed(shape.legal_tp)} ranks"
            problems.append(Problem(path, str(value), f"now {changes[path]}, {accepted}"))
    for path in PP_PATHS:
        value = int(scenario.value(path))
        if value > shape.layers:
            changes[path] = shape.layers
            accepted = f"now {shape.layers}, {document.name} has that many layers"
            problems.append(Problem(path, str(value), accepted))
    return changed.replacing(changes), tuple(problems)
