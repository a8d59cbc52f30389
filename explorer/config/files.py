"""Scenarios from files and preset names: a scenario, an export, or a preset file."""

from __future__ import annotations

from pathlib import Path

from explorer.config.errors import refuse
from explorer.config.jsonio import parse_json_object, read_bounded
from explorer.config.links import preset_scenario
from explorer.config.presets import is_preset_reference
from explorer.config.scenario import SCENARIO_SCHEMA, Scenario, parse_scenario

WRAPPERS = ("explorer.export", "explorer.scenario-preset")
WRAPPER_VERSION = "1"


def scenario_from_json(content: str | bytes, name: str = "file") -> Scenario:
    """Return the scenario in a file's content: on its own, in an export or in a preset.

    Raises:
        InputError: when the content is none of these, or a value in it is not accepted.
    """
    document = parse_json_object(content, name)
    schema = document.get("schema")
    family, _, version = str(schema).partition("/")
    if family in WRAPPERS:
        if version != WRAPPER_VERSION:
            raise refuse(
                "schema",
                schema,
                f"this version reads {family}/{WRAPPER_VERSION}; a newer explorer wrote this file",
            )
        if "scenario" not in document:
            raise refuse("scenario", "", "this field is required")
        return parse_scenario(document["scenario"])
    if schema is None:
        raise refuse("schema", "", f'this field is required; expected "{SCENARIO_SCHEMA}"')
    return parse_scenario(document)


def scenario_from(reference: str) -> Scenario:
    """Return the scenario of a preset (``id`` or ``id@version``) or of a file.

    Raises:
        InputError: when there is neither, or the file is not a scenario.
    """
    if is_preset_reference(reference):
        return preset_scenario(reference)
    path = Path(reference)
    if not ("/" in reference or reference.endswith(".json") or is_file(reference)):
        return preset_scenario(reference)
    return scenario_from_json(read_bounded(reference), path.name)


def is_file(reference: str) -> bool:
    """Return whether a text is the path of a file."""
    try:
        return Path(reference).is_file()
    except (OSError, ValueError):
        return False
