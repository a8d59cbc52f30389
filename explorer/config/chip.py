"""The chip document: every number of a machine, with unit, range and provenance."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from explorer.config.errors import shown
from explorer.config.quantity import (
    WHOLE_SCALES,
    Document,
    Knob,
    Name,
    Note,
    Number,
    Quantity,
    Version,
)

LARGEST_VALUE = 1e30
LARGEST_WHOLE = 2**53
MOST_QUANTITIES = 200
MOST_STEPS = 100_000
"""Values of an ``integers`` scale, each a step of its slider."""
SMALLEST_VALUE = 1e-18
"""Smaller numbers are no machine's, and would make times that no float can hold."""


class ChipQuantity(Quantity):
    """A chip constant that a person may move: a quantity with label, range and effect.

    ``stated_range`` is where an assumed value plausibly lies, as its source states; the slider's
    range is wider. None where nothing is stated.
    """

    label: Annotated[Name, Field(min_length=1)]
    minimum: Number
    maximum: Number
    scale: Literal["linear", "log", "integers", "log_integers", "powers_of_two"]
    raising: Note
    display_unit: Name = ""
    stated_range: tuple[Number, Number] | None = None

    @model_validator(mode="after")
    def _value_is_in_range(self) -> ChipQuantity:
        largest = LARGEST_WHOLE if self.scale in WHOLE_SCALES else LARGEST_VALUE
        if not 0 <= self.minimum <= self.value <= self.maximum <= largest or self.maximum == 0:
            numbers = ", ".join(map(shown, (self.minimum, self.value, self.maximum)))
            accepted = f"0 <= minimum <= value <= maximum <= {largest:g}, and maximum above 0"
            raise ValueError(f"expected {accepted}, not {numbers}")
        if any(0 < number < SMALLEST_VALUE for number in (self.minimum, self.value)):
            raise ValueError(f"expected 0 or at least {SMALLEST_VALUE:g}, not {shown(self.value)}")
        low, high = self.stated_range or (self.minimum, self.maximum)
        if not self.minimum <= low <= high <= self.maximum:
            numbers = ", ".join(map(shown, (low, high)))
            raise ValueError(f"expected a stated_range within minimum and maximum, not {numbers}")
        return self

    @model_validator(mode="after")
    def _scale_has_steps(self) -> ChipQuantity:
        if self.scale in WHOLE_SCALES:
            if not float(self.value).is_integer():
                raise ValueError(f"expected a whole number, not {shown(self.value)}")
            if self.maximum < 1:
                raise ValueError("a scale of whole numbers ends at 1 or above")
        if self.scale == "integers" and self.maximum - self.minimum >= MOST_STEPS:
            raise ValueError(f"an integers scale has fewer than {MOST_STEPS:,} steps")
        return self


QuantityName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,79}$")]


class Chip(Document):
    """One machine as data; ``family`` names the cost model that reads its quantities."""

    schema_: Literal["explorer.chip/1"] = Field(alias="schema")
    id: Annotated[Name, Field(min_length=1)]
    version: Version
    family: Literal["mt3000", "ascend910a", "generic"]
    name: Annotated[Name, Field(min_length=1)]
    source: Note
    unit_name: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]
    quantities: Annotated[dict[QuantityName, ChipQuantity], Field(max_length=MOST_QUANTITIES)]

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
            precision for precision in ("fp32", "fp16") if peak_name(precision) in self.quantities
        )


def peak_name(precision: str) -> str:
    """Return the name of the chip's number that is its peak at a precision."""
    return f"peak_macs_per_second_{precision}"
