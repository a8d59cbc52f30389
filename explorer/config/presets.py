"""Presets on disk: one file a version, so that a name with a version never changes meaning."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from explorer.config.chip import Chip
from explorer.config.errors import InputError, refuse, shown
from explorer.config.jsonio import PRESETS, read_document
from explorer.config.model import ModelDocument
from explorer.config.quantity import Document

PRESET_FILE = re.compile(r"(?P<id>[a-z0-9][a-z0-9.\-]*)@(?P<version>[1-9][0-9]{0,5})\.json")
REFERENCE = re.compile(r"(?P<id>[A-Za-z0-9.\-]+)(?:@(?P<version>[1-9][0-9]{0,5}))?")


class ScenarioPreset(Document):
    """A scenario with an id, a version and the reason it is worth opening."""

    schema_: Literal["explorer.scenario-preset/1"] = Field(alias="schema")
    id: str
    version: int
    title: str
    why: str
    scenario: dict[str, Any]


@cache
def versions_of(folder: str) -> dict[str, tuple[int, ...]]:
    """Return the versions on disk by preset id, ascending, for ``chips``, ``models``, ..."""
    found: dict[str, list[int]] = {}
    for path in sorted((PRESETS / folder).glob("*.json")):
        match = PRESET_FILE.fullmatch(path.name)
        if match:
            found.setdefault(match["id"], []).append(int(match["version"]))
    return {preset_id: tuple(sorted(versions)) for preset_id, versions in found.items()}


def preset_path(folder: str, reference: str, version: int | None = None) -> Path:
    """Return the file of a preset, the newest version unless one is named.

    Args:
        folder: ``chips``, ``models`` or ``scenarios``.
        reference: ``id`` or ``id@version``.
        version: version to use when the reference names none.

    Raises:
        InputError: when there is no such preset or version.
    """
    known = versions_of(folder)
    match = REFERENCE.fullmatch(reference)
    field = folder.removesuffix("s")
    if match is None or match["id"] not in known:
        raise refuse(field, shown(reference), f"unknown preset; expected {', '.join(known)}")
    versions = known[match["id"]]
    wanted = int(match["version"]) if match["version"] else (version or versions[-1])
    if wanted not in versions:
        available = ", ".join(map(str, versions))
        raise refuse(field, f"{match['id']}@{wanted}", f"unknown version; available: {available}")
    return PRESETS / folder / f"{match['id']}@{wanted}.json"


@cache
def _chip_at(path: Path) -> Chip:
    return read_document(path, Chip)


@cache
def _model_at(path: Path) -> ModelDocument:
    return read_document(path, ModelDocument)


@cache
def _scenario_preset_at(path: Path) -> ScenarioPreset:
    return read_document(path, ScenarioPreset)


@lru_cache(maxsize=256)
def load_chip(reference: str, version: int | None = None) -> Chip:
    """Return a chip preset; raises InputError when there is none."""
    return _chip_at(preset_path("chips", reference, version))


@lru_cache(maxsize=256)
def load_model(reference: str, version: int | None = None) -> ModelDocument:
    """Return a model preset; raises InputError when there is none."""
    return _model_at(preset_path("models", reference, version))


def load_scenario_preset(reference: str) -> ScenarioPreset:
    """Return a scenario preset; raises InputError when there is none."""
    return _scenario_preset_at(preset_path("scenarios", reference))


def scenario_presets() -> tuple[ScenarioPreset, ...]:
    """Return the newest version of every scenario preset, by id."""
    return tuple(load_scenario_preset(preset_id) for preset_id in versions_of("scenarios"))


def is_preset_reference(text: str, folder: str = "scenarios") -> bool:
    """Return whether ``text`` names an existing preset."""
    try:
        preset_path(folder, text)
    except InputError:
        return False
    return True
