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
    schema, changes = (
        _untitled(TypeAdapter(kind).json_schema()) for kind in (document, ChipChanges)
    )
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


def _untitled(schema: Any) -> Any:
    """Return a schema without the titles that only repeat the names of its fields."""
    if isinstance(schema, dict):
        return {
            key: _untitled(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_untitled(item) for item in schema] if isinstance(schema, list) else schema


def schema_path(name: str) -> Path:
    """Return the file in which the schema of a kind of document is published."""
    return PRESETS / "schemas" / f"{name}@{schema_of(DOCUMENTS[name]).rpartition('/')[2]}.json"


def schema_text(name: str) -> str:
    """Return the content of that file."""
    return json.dumps(json_schema(name), indent=1) + "\n"
