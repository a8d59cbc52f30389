"""Chips of one's own: a whole document, or only what differs from a preset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from explorer.config.chip import Chip, ChipQuantity, QuantityName
from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.jsonio import validated
from explorer.config.numbers import number_text, plain_number
from explorer.config.presets import load_chip, versions_of
from explorer.config.quantity import Document, Kind, Name, Note, Number, Version

OWN_ID = r"^[a-z0-9][a-z0-9.\-]{0,79}$"
NO_SOURCE = "changed without a source"


class QuantityChange(Document):
    """What a person says of one number of a chip; what is None stays as it is."""

    value: Number | None = None
    unit: Name | None = None
    source: Note | None = None
    kind: Kind | None = None
    note: Note | None = None
    minimum: Number | None = None
    maximum: Number | None = None


def _change(value: object) -> object:
    """Return a bare number as the change of a value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": value}
    if not isinstance(value, Mapping | QuantityChange):
        raise ValueError("expected a number, or an object with value, source and kind")
    return value


class ChipChanges(Document):
    """A chip as its differences from a preset, which ``base`` names with its version."""

    schema_: Literal["explorer.chip/1"] = Field(alias="schema")
    base: str
    id: Annotated[str, Field(pattern=OWN_ID)]
    version: Version = 1
    name: Annotated[Name, Field(min_length=1)]
    source: Note = ""
    quantities: dict[
        QuantityName,
        Annotated[
            QuantityChange, BeforeValidator(_change, json_schema_input_type=Number | QuantityChange)
        ],
    ]


class Row(NamedTuple):
    """One number of a chip as a person sees and edits it."""

    value: str
    kind: str
    source: str


def rows_of(chip: Chip) -> dict[str, Row]:
    """Return the numbers of a chip by name, for editing; every digit is kept."""
    return {
        name: Row(number_text(quantity.value), quantity.kind, quantity.source)
        for name, quantity in chip.quantities.items()
    }


def changes_in(base: Chip, rows: Mapping[str, Row]) -> dict[str, QuantityChange]:
    """Return what edited rows change of a chip.

    Raises:
        InputError: names each number whose text is none, and each source that is no plain text.
    """
    problems: list[Problem] = []
    changes: dict[str, QuantityChange] = {}
    for name, before in rows_of(base).items():
        row = rows.get(name, before)
        if row == before:
            continue
        knob = base.knob(name)
        try:
            value = plain_number(row.value.strip(), knob.whole)
        except ValueError:
            value = math.nan
        if knob.problem(value) is not None:
            problems.append(Problem(knob.label, shown(row.value), knob.accepted()))
            continue
        given = {
            "value": value,
            "kind": row.kind if row.kind != before.kind else None,
            "source": row.source.strip() if row.source != before.source else None,
        }
        try:
            changes[name] = validated(given, QuantityChange, knob.label)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return changes


def parse_chip(value: object, prefix: str = "") -> Chip:
    """Return the chip in a JSON value: a whole document, or a preset's with some numbers changed.

    Args:
        value: the JSON value.
        prefix: path that problems are told under.

    Raises:
        InputError: names every wrong field.
    """
    if not (isinstance(value, Mapping) and "base" in value):
        return validated(value, Chip, prefix)
    changes = validated(value, ChipChanges, prefix)
    where = f"{prefix}." if prefix else ""
    if "@" not in changes.base:
        accepted = "expected a preset with its version, such as mt3000@1, which never changes"
        raise refuse(f"{where}base", changes.base, accepted)
    base = load_chip(changes.base)
    return derived_chip(
        base, (changes.id, changes.version, changes.name, changes.source), changes.quantities, where
    )


def derived_chip(
    base: Chip,
    head: tuple[str, int, str, str],
    changes: Mapping[str, QuantityChange],
    where: str = "",
) -> Chip:
    """Return a chip that differs from ``base`` in some numbers.

    A value that moves without a source of its own says so and counts as assumed, and the note on
    the old one goes. Ranges stay unless they are changed too.

    Args:
        base: the chip that everything else is taken from.
        head: id, version, name and source of the new chip; without a source, the base is named.
        changes: by name of the number.
        where: path that problems are told under, ending in a dot; empty for none.

    Raises:
        InputError: for a number that the base does not have, another unit, a value outside its
            range, or an id that is a preset's.
    """
    problems = [
        problem
        for name, change in changes.items()
        if (problem := _problem(base, name, change, f"{where}quantities.{name}")) is not None
    ]
    if problems:
        raise InputError(problems)
    quantities = {
        name: _changed(quantity, changes.get(name)) for name, quantity in base.quantities.items()
    }
    chip_id, version, name, source = head
    document = base.model_dump(by_alias=True) | {
        "id": chip_id,
        "version": version,
        "name": name,
        "source": source or f"derived from {base.name} ({base.id}@{base.version})",
        "quantities": quantities,
    }
    chip = validated(document, Chip, where.rstrip("."))
    check_own_id(chip, where)
    return chip


def check_own_id(chip: Chip, where: str = "") -> None:
    """Refuse a chip that goes by the id of a preset without being it.

    Measurements belong to a chip by its id, so another machine's would be shown as its own.

    Raises:
        InputError: names the id.
    """
    versions = versions_of("chips").get(chip.id)
    if versions is None or (chip.version in versions and load_chip(chip.id, chip.version) == chip):
        return
    raise refuse(f"{where}id", chip.id, "is a preset's; expected an id of the chip's own")


def _changed(own: ChipQuantity, change: QuantityChange | None) -> dict[str, Any]:
    fields = own.model_dump()
    if change is None:
        return fields
    given = change.model_dump(exclude_none=True)
    if given.get("value", own.value) != own.value:
        fields |= {"source": NO_SOURCE, "kind": "assumed", "note": ""}
    return fields | given


def _problem(base: Chip, name: str, change: QuantityChange, path: str) -> Problem | None:
    if name not in base.quantities:
        near = get_close_matches(name, base.quantities, n=3) or list(base.quantities)
        return Problem(path, "", f"{base.name} has no such number; expected {', '.join(near)}")
    unit = base.quantities[name].unit
    if change.unit not in (None, unit):
        return Problem(f"{path}.unit", shown(change.unit), f'expected "{unit}"')
    if change.value is None or change.minimum is not None or change.maximum is not None:
        return None
    knob = base.knob(name)
    problem = knob.problem(change.value)
    if problem is None:
        return None
    further = "; a file may give a minimum or a maximum of its own"
    return Problem(path, problem.value, problem.accepted + further)
