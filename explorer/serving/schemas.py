"""JSON Schemas of the documents that people write and read, made from the documents' own types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from explorer.config.chip import Chip
from explorer.config.errors import refuse
from explorer.config.jsonio import PRESETS, schema_of
from explorer.config.model import ModelDocument
from explorer.config.own_chip import ChipChanges
from explorer.config.quantity import Document
from explorer.config.scenario import Scenario
from explorer.serving.documents import EvaluationDocument, ExportDocument

DOCUMENTS: dict[str, type[Document]] = {
    "scenario": Scenario,
    "chip": Chip,
    "model": ModelDocument,
    "evaluation": EvaluationDocument,
    "export": ExportDocument,
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of document.

    A chip, on its own or in a scenario, may also be its differences from a preset. Ranges of
    numbers are not in it: they depend on the chip and the model.

    Args:
        name: one of ``DOCUMENTS``.

    Raises:
        InputError: when there is no such kind.
    """
    if name not in DOCUMENTS:
        raise refuse("schema", name, f"expected {', '.join(DOCUMENTS)}")
    document = DOCUMENTS[name]
    schema = TypeAdapter(document).json_schema()
    changes = TypeAdapter(ChipChanges).json_schema()
    parts = {**schema.pop("$defs", {})}
    if document is Chip:
        parts["Chip"], schema = schema, {"$ref": "#/$defs/Chip"}
    if "Chip" in parts:
        parts |= changes.pop("$defs", {})
        parts["Chip"] = {"anyOf": [parts["Chip"], changes]}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": schema_of(document),
        **schema,
        **({"$defs": parts} if parts else {}),
    }


def schema_path(name: str) -> Path:
    """Return the file in which the schema of a kind of document is published."""
    return PRESETS / "schemas" / f"{name}@{schema_of(DOCUMENTS[name]).rpartition('/')[2]}.json"


def schema_text(name: str) -> str:
    """Return the content of that file."""
    return json.dumps(json_schema(name), indent=1) + "\n"
