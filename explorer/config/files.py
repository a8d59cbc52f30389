"""Scenarios and chips from files and preset names."""

from __future__ import annotations

from pathlib import Path

from explorer.config.chip import Chip
from explorer.config.errors import refuse
from explorer.config.jsonio import parse_json_object, read_bounded
from explorer.config.links import preset_scenario
from explorer.config.migrations import migrated, newest
from explorer.config.own_chip import check_own_id, parse_chip
from explorer.config.presets import is_preset_reference, load_chip
from explorer.config.scenario import SCENARIO_SCHEMA, Scenario, parse_scenario

WRAPPERS = ("explorer.export", "explorer.scenario-preset")


def scenario_from_json(content: str | bytes, name: str = "file") -> Scenario:
    """Return the scenario in a file's content: on its own, in an export or in a preset.

    Raises:
        InputError: when the content is none of these, or a value in it is not accepted.
    """
    document = parse_json_object(content, name)
    schema = document.get("schema")
    family = str(schema).partition("/")[0]
    if family in WRAPPERS:
        document = migrated(document, family)
        if "scenario" not in document:
            raise refuse("scenario", "", "this field is required")
        return parse_scenario(document["scenario"])
    if schema is None:
        raise refuse(
            "schema", "", f'this field is required: not a scenario; expected "{SCENARIO_SCHEMA}"'
        )
    return parse_scenario(document)


def scenario_from(reference: str) -> Scenario:
    """Return the scenario of a preset (``id`` or ``id@version``) or of a file.

    Raises:
        InputError: when there is neither, or the file is not a scenario.
    """
    if _means_preset(reference, "scenarios"):
        return preset_scenario(reference)
    return scenario_from_json(read_bounded(reference), Path(reference).name)


def chip_from_json(content: str | bytes, name: str = "file") -> Chip:
    """Return the chip in a file's content: whole, or as differences from a preset.

    Raises:
        InputError: when the content is neither, a value in it is not accepted, or it goes by the
            id of a preset without being it.
    """
    document = parse_json_object(content, name)
    if document.get("schema") is None:
        raise refuse(
            "schema",
            "",
            f'this field is required: not a chip; expected "{newest("explorer.chip")}"',
        )
    chip = parse_chip(document)
    check_own_id(chip)
    return chip


def chip_from(reference: str) -> Chip | str:
    """Return a preset's reference as it is (``id`` or ``id@version``), or the chip in a file.

    Raises:
        InputError: when there is neither, or the file is not a chip.
    """
    if _means_preset(reference, "chips"):
        chip = load_chip(reference)
        return f"{chip.id}@{chip.version}"
    return chip_from_json(read_bounded(reference), Path(reference).name)


def _means_preset(reference: str, folder: str) -> bool:
    """Return whether a reference is a preset's, or looks so little like a path that it should."""
    if is_preset_reference(reference, folder):
        return True
    return not ("/" in reference or reference.endswith(".json") or is_file(reference))


def is_file(reference: str) -> bool:
    """Return whether a text is the path of a file."""
    try:
        return Path(reference).is_file()
    except (OSError, ValueError):
        return False
