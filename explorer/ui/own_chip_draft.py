"""A chip while it is edited: where it started, and its numbers as text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import pandas as pd

from explorer.config.chip import Chip
from explorer.config.numbers import number_text
from explorer.config.own_chip import Row, changes_in, derived_chip, rows_of
from explorer.config.presets import load_chip, versions_of
from explorer.config.quantity import LONGEST_NAME
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.ui.text import plain

PRESENT, UPLOADED = "present", "uploaded"
ON_A_SLIDER = "set on its slider"


@dataclass(frozen=True)
class Draft:
    """A chip being edited.

    Attributes:
        start: what it was started from: ``present``, ``uploaded``, or a preset's reference.
        base: the chip that its differences are told from.
        name: name that it will have.
        rows: its numbers as edited, by name.
        turn: counts drafts, so that each has an editor of its own.
        first: name and rows that it began with.
    """

    start: str
    base: Chip
    name: str
    rows: dict[str, Row]
    turn: int
    first: tuple[str, dict[str, Row]]

    @property
    def touched(self) -> bool:
        """Whether anything was edited since it began."""
        return (self.name, self.rows) != self.first

    @property
    def changed(self) -> bool:
        """Whether any number or the name differs from the base's."""
        return self.name != self.base.name or self.rows != rows_of(self.base)

    def chip(self) -> Chip:
        """Return the chip; raises InputError where a number or the name is not accepted."""
        if not self.changed:
            return self.base
        changes = changes_in(self.base, self.rows)
        return derived_chip(self.base, (own_id(self.name), 1, self.name, ""), changes)


def own_id(name: str) -> str:
    """Return an id made of a name, which is no preset's."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", letters)[:60].strip("-") or "chip"
    return f"my-{slug}" if slug in versions_of("chips") or slug == "chip" else slug


def begun(start: str, scenario: Scenario, turn: int, uploaded: Chip | None = None) -> Draft:
    """Return a fresh draft.

    Args:
        start: ``present``, ``uploaded``, or a preset's reference.
        scenario: its chip, with what its sliders set, is the present one.
        turn: count of drafts before.
        uploaded: the chip in a file.

    Raises:
        InputError: when there is no such preset.
    """
    if start != PRESENT:
        base = uploaded if uploaded is not None else load_chip(start)
        rows = rows_of(base)
        return Draft(start, base, base.name, rows, turn, (base.name, rows))
    base = scenario.chip_document()
    rows = rows_of(base)
    for name, value in scenario.hardware.items():
        rows[name] = Row(number_text(float(value)), "assumed", ON_A_SLIDER)
    name = f"My {base.name}"[:LONGEST_NAME] if scenario.hardware else base.name
    return Draft(start, base, name, rows, turn, (name, rows))


def editor_table(draft: Draft) -> pd.DataFrame:
    """Return the rows that a person edits, in the order of the base's numbers."""
    return pd.DataFrame(
        [
            {
                "number": quantity.label,
                "value": draft.rows[name].value,
                "unit": quantity.unit,
                "accepted": f"{number_text(quantity.minimum)} to {number_text(quantity.maximum)}",
                "kind": draft.rows[name].kind,
                "source": draft.rows[name].source,
            }
            for name, quantity in draft.base.quantities.items()
        ]
    )


def edited_rows(base: Chip, table: pd.DataFrame) -> dict[str, Row]:
    """Return the rows of an edited table by name of the number; an emptied cell is empty text."""
    texts = table[list(Row._fields)].fillna("").astype(str)
    cells = texts.itertuples(index=False, name=None)
    return {name: Row(*row) for name, row in zip(base.quantities, cells, strict=True)}


def difference_table(base: Chip, chip: Chip) -> pd.DataFrame:
    """Return the numbers that differ: before, after, their ratio, kind and source."""
    rows = []
    for name, quantity in chip.quantities.items():
        before = base.quantities[name]
        if quantity == before:
            continue
        unit = quantity.display_unit or quantity.unit
        ratio = quantity.value / before.value if before.value else None
        rows.append(
            {
                "number": plain(quantity.label),
                "before": human(before.value, unit),
                "now": human(quantity.value, unit),
                "times": "–" if ratio is None else significant(ratio),
                "kind": quantity.kind,
                "source": plain(quantity.source),
            }
        )
    return pd.DataFrame(rows, columns=["number", "before", "now", "times", "kind", "source"])
