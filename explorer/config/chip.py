"""The chip document: every number of a machine, with unit, range and provenance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from explorer.config.errors import shown
from explorer.config.quantity import Document, Knob, Number, Quantity, Scale, Text, Version

CHIP_SCHEMA = "explorer.chip/1"
LARGEST_VALUE = 1e30
SMALLEST_VALUE = 1e-18
"""Smaller numbers are no machine's, and would make times that no float can hold."""


class ChipQuantity(Quantity):
    """A chip constant that a person may move: a quantity with label, range and effect.

    ``stated_range`` is where an assumed value plausibly lies, as its source states; the slider's
    range is wider. None where nothing is stated.
    """

    label: str
    minimum: Number
    maximum: Number
    scale: Scale
    raising: str
    display_unit: str = ""
    stated_range: tuple[Number, Number] | None = None

    @model_validator(mode="after")
    def _value_is_in_range(self) -> ChipQuantity:
        if not 0 <= self.minimum <= self.value <= self.maximum <= LARGEST_VALUE:
            numbers = ", ".join(map(shown, (self.minimum, self.value, self.maximum)))
            accepted = f"0 <= minimum <= value <= maximum <= {LARGEST_VALUE:g}"
            raise ValueError(f"expected {accepted}, not {numbers}")
        if any(0 < number < SMALLEST_VALUE for number in (self.minimum, self.value)):
            raise ValueError(f"expected 0 or at least {SMALLEST_VALUE:g}, not {shown(self.value)}")
        low, high = self.stated_range or (self.minimum, self.maximum)
        if not self.minimum <= low <= high <= self.maximum:
            numbers = ", ".join(map(shown, (low, high)))
            raise ValueError(f"expected a stated_range within minimum and maximum, not {numbers}")
        return self


class Chip(Document):
    """One machine as data; ``family`` names the cost model that reads its quantities."""

    schema_: Literal["explorer.chip/1"] = Field(alias="schema")
    id: Text
    version: Version
    family: Literal["mt3000", "ascend910a"]
    name: Text
    source: str
    unit_name: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
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
            display_unit=quantity.display_unit,
        )

    @property
    def compute_precisions(self) -> tuple[str, ...]:
        """Precisions that the chip's arithmetic has a published peak for."""
        return tuple(
            precision
            for precision in ("fp32", "fp16")
            if f"peak_macs_per_second_{precision}" in self.quantities
        )
