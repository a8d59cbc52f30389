"""A number with its unit and provenance, and the knob that lets a person move it."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from explorer.config.csvio import begins_a_formula
from explorer.config.errors import Problem, shown
from explorer.config.numbers import AnyArray

Kind = Literal["published", "measured", "derived", "assumed", "fitted", "override"]
Scale = Literal["linear", "log", "integers", "log_integers", "powers_of_two", "divisors"]
WHOLE_SCALES = ("integers", "log_integers", "powers_of_two", "divisors")
Number = Annotated[int, Strict()] | Annotated[float, Strict(), Field(allow_inf_nan=False)]
Version = Annotated[int, Strict(), Field(ge=1, le=999_999)]
MOST_VALUES_LISTED = 24


UNSEEN = ("Cc", "Cs", "Cf", "Zl", "Zp")
"""Controls, lone surrogates, marks of direction or of no width, and separators of lines."""


def plain_text(text: str) -> str:
    """Return ``text``; raises ValueError where it holds characters that nobody sees.

    Two names that look alike must be alike, and none may turn the text around it.
    """
    if any(unicodedata.category(character) in UNSEEN for character in text):
        raise ValueError("expected text without control characters or invisible ones")
    return text


Text = Annotated[str, AfterValidator(plain_text)]


def no_formula(text: str) -> str:
    """Return ``text``; raises ValueError where a spreadsheet would calculate with it."""
    if begins_a_formula(text):
        raise ValueError("begins like a spreadsheet formula; expected plain text")
    return text


LONGEST_NAME = 200
LONGEST_TEXT = 4000
Name = Annotated[Text, Field(max_length=LONGEST_NAME), AfterValidator(no_formula)]
Note = Annotated[Text, Field(max_length=LONGEST_TEXT), AfterValidator(no_formula)]


class Document(BaseModel):
    """Base of every validated document: immutable, and a field nobody reads is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Quantity(Document):
    """A constant of a chip or model preset: value, unit, source and kind."""

    value: Number
    unit: Name
    source: Note
    kind: Kind
    note: Note = ""


class Knob(Document):
    """Everything the project knows of one adjustable number, defined once.

    Sliders, search ranges, fit bounds, link checks and help texts are all read from here.
    """

    path: str
    label: str
    unit: str
    minimum: Number
    maximum: Number
    scale: Scale
    raising: str
    source: str
    words: tuple[str, ...] = ()
    display_unit: str = ""

    @property
    def shown_unit(self) -> str:
        """Unit to show the value in, where it is not the unit it is kept in."""
        return self.display_unit or self.unit

    @property
    def whole(self) -> bool:
        """Whether only integers are accepted."""
        return self.scale in WHOLE_SCALES

    def accepted(self) -> str:
        """Return the accepted values as the end of a sentence."""
        kind = "a whole number" if self.whole else "a number"
        bounds = f"{kind} from {self.minimum:g} to {self.maximum:g}"
        unit = f" {self.unit}" if self.unit else ""
        words = "".join(f' or "{word}"' for word in self.words)
        return f"expected {bounds}{unit}{words}"

    def problem(self, value: object) -> Problem | None:
        """Return what is wrong with ``value`` (a number, word or array), or None."""
        if isinstance(value, str):
            fine = value in self.words
        elif isinstance(value, np.ndarray):
            fine = self._array_is_fine(value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            fine = False
        else:
            fine = not (self.whole and not isinstance(value, int))
            # False for NaN too, and exact for integers that no float can hold.
            fine = fine and self.minimum <= value <= self.maximum
        return None if fine else Problem(self.path, shown(value), self.accepted())

    def _array_is_fine(self, values: AnyArray) -> bool:
        if values.dtype.kind not in ("iu" if self.whole else "iuf"):
            return False
        return bool(values.size and np.all((values >= self.minimum) & (values <= self.maximum)))


def listed(values: tuple[int, ...]) -> str:
    """Return integers as ``1, 2, 4`` with the middle left out of a long list."""
    if len(values) <= MOST_VALUES_LISTED:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[:6]))}, ..., {values[-1]}"
