"""Number types of the documents: a plain number, or a numpy array of any shape."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict
from pydantic.json_schema import SkipJsonSchema

AnyArray: TypeAlias = NDArray[Any]
Whole: TypeAlias = Annotated[int, Strict()] | SkipJsonSchema[AnyArray]
Real: TypeAlias = Annotated[float, Strict(), Field(allow_inf_nan=False)] | SkipJsonSchema[AnyArray]

SMALLEST_PLAIN, LARGEST_PLAIN = 1e-3, 1e6
"""Numbers outside are written with an exponent."""
MOST_PLACES = 16
"""Decimals after the first digit that tell any two floats apart."""


def as_float_array(value: object) -> NDArray[np.float64]:
    """Return ``value`` as a float64 array that keeps its own shape (0-d for a scalar).

    What stands in for an array in numpy's arithmetic, as an interval does, stays what it is.
    """
    if hasattr(value, "__array_function__") and not isinstance(value, np.ndarray):
        return cast("NDArray[np.float64]", value)
    return np.asarray(value, dtype=np.float64)


def plain_number(text: str, whole: bool) -> int | float:
    """Return the number that a text writes plainly: 24 stays 24, and 2.50 is 2.5.

    Raises:
        ValueError: for what ``int`` or ``float`` alone would also read: ``1_000``, `` 7 ``, digits
            of other scripts; and for what is no number.
    """
    if not text.isascii() or any(sign == "_" or sign.isspace() for sign in text):
        raise ValueError("not a plain number")
    return int(text) if whole else float(text)


def number_text(value: float) -> str:
    """Return the shortest text that ``plain_number`` reads as exactly this number."""
    if isinstance(value, int):
        return str(value)
    plain = repr(value).removesuffix(".0")
    if value == 0 or SMALLEST_PLAIN <= abs(value) < LARGEST_PLAIN:
        return plain
    written = (f"{value:.{places}e}" for places in range(MOST_PLACES + 1))
    mantissa, _, exponent = next(text for text in written if float(text) == value).partition("e")
    return min(plain, f"{mantissa}e{int(exponent)}", key=len)
