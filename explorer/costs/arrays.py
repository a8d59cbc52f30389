"""Array helpers shared by the cost functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""Float64 values of any shape, 0-d for a scalar; every cost function broadcasts over them."""
Codes: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Kept = TypeVar("Kept", np.float64, np.int64)


def scalar(value: float) -> Array:
    """Return a number as the 0-d value that arithmetic on arrays also gives."""
    return cast("Array", np.float64(value))


ZERO = scalar(0.0)
MOST_CHOICES = 32
"""numpy chooses among some sixty at once; more are taken in turns."""
FEW_CHOICES = 4
"""Up to so many, asking for one after the other is faster."""
ONE = scalar(1.0)


def ceil_divide(numerator: Array, denominator: Array) -> Array:
    """Return ceil(numerator / denominator), exact for whole numbers below 2**52."""
    return np.ceil(numerator / denominator)


def choose(winner: Codes, values: Sequence[NDArray[Kept]]) -> NDArray[Kept]:
    """Return, element by element, the value of the array that ``winner`` numbers.

    The result broadcasts as all of them do; where one of them is all there is, it is returned.
    """
    if winner.ndim == 0:
        return values[int(winner)]
    if all(value is values[0] for value in values):
        return values[0]
    if len(values) > MOST_CHOICES:
        first, rest = values[:MOST_CHOICES], values[MOST_CHOICES:]
        later = choose(winner - MOST_CHOICES, rest)
        return np.where(winner < MOST_CHOICES, choose(winner, first), later)
    if len(values) > FEW_CHOICES:
        return np.choose(winner, values, mode="clip")
    result = values[0]
    for number, value in enumerate(values[1:], 1):
        result = np.where(winner == number, value, result)
    return result


def total(arrays: Sequence[Array]) -> Array:
    """Return the broadcast sum of some arrays, zero for none."""
    result = ZERO
    for array in arrays:
        result = result + array
    return result
