"""What a stored study is about: enough for any worker to take part, and to refuse another's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from explorer.config.errors import InputError, refuse
from explorer.config.jsonio import validated
from explorer.config.quantity import Document, Text
from explorer.config.scenario import parse_scenario
from explorer.search.objectives import objective_named
from explorer.search.space import Axis, Space
from explorer.search.study import SearchSettings
from explorer.serving.evaluate import evaluate

STUDY_SCHEMA: Literal["explorer.study/1"] = "explorer.study/1"
SAME_MODEL = 1e-9
"""Relative difference that two machines' arithmetic may make."""


class AxisDocument(Document):
    """One axis of the space."""

    name: Text
    paths: tuple[Text, ...]
    values: tuple[int | float, ...]


class SettingsDocument(Document):
    """How it is searched; the objective by name."""

    objective: Text
    trials: int
    seed: int
    sampler: Text
    plain: bool


class StudyDocument(Document):
    """The user attribute that a study carries.

    ``stage_seconds`` are T_p and T_d of the scenario itself, None where they are no numbers: a
    worker whose models give others is of another version, and its results must not be mixed in.
    """

    schema_: Literal["explorer.study/1"] = Field(alias="schema", default=STUDY_SCHEMA)
    scenario: dict[str, Any]
    axes: tuple[AxisDocument, ...]
    settings: SettingsDocument
    stage_seconds: tuple[float | None, float | None]


def study_document(space: Space, settings: SearchSettings) -> dict[str, Any]:
    """Return the definition of a study as JSON values."""
    document = StudyDocument(
        scenario=space.base.pinned().to_json(),
        axes=tuple(
            AxisDocument(name=axis.name, paths=axis.paths, values=axis.values)
            for axis in space.axes
        ),
        settings=SettingsDocument(**{**vars(settings), "objective": settings.objective.name}),
        stage_seconds=_stage_seconds(space),
    )
    return document.model_dump(mode="json", by_alias=True)


def parse_definition(name: str, found: object) -> StudyDocument:
    """Return the definition of a study.

    Raises:
        InputError: when it is none of this program's, of another schema, or damaged.
    """
    if not isinstance(found, Mapping):
        raise refuse("study", name, "was made by another program; expected another name")
    try:
        return validated({"schema": None, **found}, StudyDocument)
    except InputError as error:
        raise refuse("study", name, f"cannot be read: {error}") from None


def read_definition(name: str, found: object) -> tuple[Space, SearchSettings]:
    """Return the space and the settings in a study's definition.

    Raises:
        InputError: as ``parse_definition``, and when a value is not accepted, or was made by
            models that give other times.
    """
    document = parse_definition(name, found)
    try:
        axes = tuple(Axis(item.name, item.paths, item.values) for item in document.axes)
        space = Space(parse_scenario(document.scenario), axes)
        for end in (0, -1):
            space.scenario(tuple(axis.values[end] for axis in axes))
        settings = vars(document.settings)
        read = SearchSettings(**{**settings, "objective": objective_named(settings["objective"])})
    except ValueError as error:
        raise refuse("study", name, f"cannot be read: {error}") from None
    if not all(map(_same, document.stage_seconds, _stage_seconds(space))):
        problem = "was made by a version whose models give other times; expected the same version"
        raise refuse("study", name, problem)
    return space, read


def check_same(name: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to go on with a study under another definition.

    Raises:
        InputError: names what differs, what the study has and what was asked for.
    """
    theirs, ours = _flat(found), _flat(wanted)
    for path in dict.fromkeys((*ours, *theirs)):
        if theirs.get(path) != ours.get(path) and not path.startswith("stage_seconds"):
            raise refuse(
                "study",
                name,
                f"exists with {path} = {theirs.get(path, 'none')}, not "
                f"{ours.get(path, 'none')}; expected the same search, or another name",
            )


def _flat(value: Mapping[str, Any]) -> dict[str, str]:
    """Return a definition as one line a value, by the names that a person would use."""
    lines: dict[str, str] = {}
    for axis in value.get("axes", ()):
        values = axis["values"]
        lines[f"the range of {axis['name']}"] = (
            f"{values[0]} to {values[-1]} ({len(values)} values)"
            if values == sorted(values) and len(values) > 1
            else str(values)
        )
        lines[f"the values of {axis['name']}"] = str(values)

    def walk(part: object, path: str) -> None:
        if isinstance(part, Mapping):
            for key, inner in part.items():
                walk(inner, f"{path}.{key}" if path else str(key))
        else:
            lines[path] = str(part)

    walk(value.get("scenario", {}), "")
    walk(value.get("settings", {}), "")
    return lines


def _stage_seconds(space: Space) -> tuple[float | None, float | None]:
    evaluation = evaluate(space.base)
    seconds = (float(evaluation.prefill_seconds), float(evaluation.decode_seconds))
    first, second = (value if math.isfinite(value) else None for value in seconds)
    return first, second


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=SAME_MODEL)
