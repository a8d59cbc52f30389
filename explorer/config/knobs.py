"""The knobs of a scenario that no chip owns, read from ``presets/knobs.json``."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import Field

from explorer.config.jsonio import PRESETS, read_document
from explorer.config.quantity import Document, Knob


class KnobTable(Document):
    """The file that defines every scenario knob once."""

    schema_: Literal["explorer.knobs/1"] = Field(alias="schema")
    knobs: tuple[Knob, ...]


@cache
def scenario_knobs() -> dict[str, Knob]:
    """Return the knobs by path, in the order of the file."""
    table = read_document(PRESETS / "knobs.json", KnobTable)
    return {knob.path: knob for knob in table.knobs}
