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


def as_float_array(value: object) -> NDArray[np.float64]:
    """Return ``value`` as a float64 array that keeps its own shape (0-d for a scalar).

    What stands in for an array in numpy's arithmetic, as an interval does, stays what it is.
    """
    if hasattr(value, "__array_function__") and not isinstance(value, np.ndarray):
        return cast("NDArray[np.float64]", value)
    return np.asarray(value, dtype=np.float64)
