"""Strict reading of JSON from strangers: bounded, without duplicates, one clear sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.migrations import migrated

PRESETS = Path(__file__).resolve().parents[2] / "presets"
LARGEST_DOCUMENT_BYTES = 4_000_000
NUMBER_TYPES = ("int", "float")
"""What pydantic adds to the path of a number that may be whole or not."""
AnyDocument = TypeVar("AnyDocument", bound=BaseModel)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise refuse(shown(key), "", "this key appears twice; expected each key once")
        result[key] = value
    return result


def parse_json(content: str | bytes, name: str = "file") -> Any:
    """Return the parsed JSON value.

    Raises:
        InputError: when ``content`` is too large, not UTF-8, not JSON, nested too deeply, or
            repeats a key.
    """
    if len(content) > LARGEST_DOCUMENT_BYTES:
        limit = LARGEST_DOCUMENT_BYTES // 1_000_000
        raise refuse(name, "", f"larger than the {limit} MB accepted")
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except UnicodeDecodeError:
        raise refuse(name, "", "not UTF-8 text; expected a JSON document") from None
    except RecursionError:
        raise refuse(name, "", "nested too deeply; expected a scenario of a few levels") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise refuse(name, "", f"not valid JSON at {place}: {error.msg}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise refuse(name, "", "holds a number that is too long to read") from None


def read_bounded(reference: str) -> bytes:
    """Return a file's content, cut off one byte after what ``parse_json`` accepts.

    Raises:
        InputError: when the file cannot be read.
    """
    try:
        with Path(reference).open("rb") as file:
            return file.read(LARGEST_DOCUMENT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise refuse("file", reference, f"cannot be read: {reason}") from None


def parse_json_object(content: str | bytes, name: str = "file") -> dict[str, Any]:
    """Return the parsed JSON object.

    Raises:
        InputError: as ``parse_json``, and when the value is not an object.
    """
    value = parse_json(content, name)
    if not isinstance(value, dict):
        raise refuse(name, value, "expected a JSON object")
    return value


def validated(value: object, document: type[AnyDocument], prefix: str = "") -> AnyDocument:
    """Return ``value`` as a validated document; one of an older version is brought forward.

    Raises:
        InputError: names each wrong field by its dotted path; a newer version is refused as such.
    """
    schema = schema_of(document)
    if schema and isinstance(value, Mapping):
        value = migrated(value, schema.partition("/")[0], prefix)
    try:
        return document.model_validate(value)
    except ValidationError as error:
        problems: dict[str, Problem] = {}
        for item in error.errors():
            problem = _problem(item, prefix)
            # A field that takes one of two types has a problem with each: the last one is told.
            problems[problem.field] = problem
        raise InputError(problems.values()) from None


def _problem(item: Mapping[str, Any], prefix: str) -> Problem:
    place = [shown(str(part)) for part in item["loc"] if part not in NUMBER_TYPES]
    return Problem(
        ".".join([prefix, *place] if prefix else place),
        "" if item["type"] in ("missing", "extra_forbidden") else shown(item["input"]),
        _accepted(item["type"], item["msg"]),
    )


def schema_of(document: type[BaseModel]) -> str:
    """Return the schema that a kind of document is of; empty for a part of another."""
    field = document.model_fields.get("schema_")
    return "" if field is None else str(get_args(field.annotation)[0])


def _accepted(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown field"
    if kind == "missing":
        return "this field is required"
    return message.removeprefix("Value error, ").replace("Input should be", "expected")


def read_document(path: Path, document: type[AnyDocument]) -> AnyDocument:
    """Return the validated document in a file of the project.

    Raises:
        InputError: when the file cannot be read or is not such a document.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise refuse(path.name, "", f"cannot be read: {error.strerror}") from None
    return validated(parse_json_object(content, path.name), document)
