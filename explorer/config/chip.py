"""The chip document: every number of a machine, with unit, range and provenance."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explorer.config.quantity import Document, Knob, Number, Quantity, Scale

CHIP_SCHEMA = "explorer.chip/1"


class ChipQuantity(Quantity):
    """A chip constant that a person may move: a quantity with label, range and effect."""

    label: str
    minimum: Number
    maximum: Number
    scale: Scale
    raising: str


class Chip(Document):
    """One machine as data; ``family`` names the cost model that reads its quantities."""

    schema_: Literal["explorer.chip/1"] = Field(alias="schema")
    id: str
    version: int
    family: Literal["mt3000", "ascend910a"]
    name: str
    source: str
    unit_name: str
    quantities: dict[str, ChipQuantity]

    def knob(self, name: str) -> Knob:
        """Return the knob ``hardware.<name>`` of one quantity."""
        quantity = self.quantities[name]
        return Knob(
            path=f"hardware.{name}",
            label=quantity.label,
            unit=quantity.unit,
            minimum=quantity.minimum,
            maximum=quantity.maximum,
            scale=quantity.scale,
            raising=quantity.raising,
            source=quantity.source,
        )

    @property
    def compute_precisions(self) -> tuple[str, ...]:
        """Precisions that the chip's arithmetic has a published peak for."""
        return tuple(
            precision
            for precision in ("fp32", "fp16")
            if f"peak_macs_per_second_{precision}" in self.quantities
        )
