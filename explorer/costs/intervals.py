"""Intervals that stand in for arrays: every cost function then returns what its values can be.

The fundamental theorem of interval arithmetic: replace each number of an expression by an interval
that holds it and each operation by its interval form, and the result holds the value of the
expression for every choice of numbers within. So the engine itself, run on intervals, bounds what
it gives for any scenario inside a box, stairs and all, and nothing about the shape of a cost
function has to be known or believed. Where one number occurs several times the interval is wider
than need be; it shrinks to the value as the box shrinks to a point.

Each end is computed by the very operation that the engine applies to numbers, in the same order,
and rounding to nearest is monotone: what is enclosed is the engine's rounded result, not only the
exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from explorer.costs.arrays import Array, Codes, Mask

Ends: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Interval(np.lib.mixins.NDArrayOperatorsMixin):
    """All numbers from ``lowest`` to ``highest``, element by element; arrays of any shape.

    It takes part in numpy's arithmetic, comparisons, ``where``, ``stack``, ``choose``,
    ``broadcast_arrays``, ``nan_to_num`` and ``max``; anything else of numpy raises TypeError.
    """

    lowest: Array
    highest: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both ends, broadcast."""
        return np.broadcast_shapes(np.shape(self.lowest), np.shape(self.highest))

    @property
    def ndim(self) -> int:
        """Dimensions of both ends, broadcast."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Elements of both ends, broadcast."""
        return int(np.prod(self.shape))

    def __getitem__(self, index: Any) -> Interval:
        """Return some of the elements."""
        return Interval(*(np.broadcast_to(end, self.shape)[index] for end in _ends(self)))

    def argmax(self, axis: int | None = None) -> Codes:
        """Return where the largest of the upper ends is.

        That element's interval also bounds the largest of all from below, as each element does.
        """
        return np.asarray(np.argmax(self.highest, axis=axis), dtype=np.int64)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply an elementwise operation of numpy."""
        if method != "__call__" or options or ufunc not in _OPERATIONS:
            return NotImplemented
        return _OPERATIONS[ufunc](*map(_ends, inputs))

    def __array_function__(
        self, function: Callable[..., Any], _types: Any, arguments: Any, options: Any
    ) -> Any:
        """Apply another function of numpy."""
        if function not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[function](*arguments, **options)


@dataclass(frozen=True, eq=False)
class Uncertain(np.lib.mixins.NDArrayOperatorsMixin):
    """A mask of which some elements are unknown.

    Attributes:
        surely: where it is true for every choice of numbers.
        possibly: where it is true for some.
    """

    surely: Mask
    possibly: Mask

    def any(self) -> bool:
        """Return whether some element may be true."""
        return bool(np.any(self.possibly))

    def all(self) -> bool:
        """Return whether all elements are true for sure."""
        return bool(np.all(self.surely))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply ``&``, ``|`` or ``~``."""
        if method != "__call__" or options or ufunc not in _LOGIC:
            return NotImplemented
        known = [_known(mask) for mask in inputs]
        surely, possibly = zip(*known, strict=True)
        if ufunc in (np.logical_not, np.invert):
            surely, possibly = possibly, surely
        return _mask(ufunc(*surely), ufunc(*possibly))

    def __array_function__(
        self, function: Callable[..., Any], _types: Any, arguments: Any, options: Any
    ) -> Any:
        """Apply ``np.where``, ``np.any`` or ``np.all``."""
        if function not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[function](*arguments, **options)


def lowest(value: Array | Interval) -> Array:
    """Return the lower ends of an interval, or an array itself."""
    return value.lowest if isinstance(value, Interval) else value


def highest(value: Array | Interval) -> Array:
    """Return the upper ends of an interval, or an array itself."""
    return value.highest if isinstance(value, Interval) else value


def stand_in(lowest_values: Array, highest_values: Array) -> Array:
    """Return an interval, typed as the array that it stands in for."""
    return cast("Array", Interval(lowest_values, highest_values))


def looked_up(table: Array, row: Array | Interval) -> Array:
    """Return the rows of a table, or for intervals the range of all rows within them.

    Args:
        table: rows first.
        row: whole numbers.
    """
    if not isinstance(row, Interval):
        found: Array = table[np.asarray(row).astype(np.int64)]
        return found
    first, last = (np.asarray(end).astype(np.int64) for end in np.broadcast_arrays(*_ends(row)))
    ranges = [slice(a, b + 1) for a, b in zip(first.flat, last.flat, strict=True)]
    shape = (*first.shape, *table.shape[1:])
    return stand_in(
        np.reshape([table[part].min(axis=0) for part in ranges], shape),
        np.reshape([table[part].max(axis=0) for part in ranges], shape),
    )


def _ends(value: Any) -> Ends:
    return (
        (value.lowest, value.highest)
        if isinstance(value, Interval)
        else (np.asarray(value), np.asarray(value))
    )


def _known(mask: Any) -> tuple[Mask, Mask]:
    return (mask.surely, mask.possibly) if isinstance(mask, Uncertain) else (mask, mask)


def _mask(surely: Mask, possibly: Mask) -> Mask | Uncertain:
    """Return a plain mask where nothing is unknown."""
    return surely if np.array_equal(surely, possibly) else Uncertain(surely, possibly)


def _add(a: Ends, b: Ends) -> Interval:
    return Interval(a[0] + b[0], a[1] + b[1])


def _subtract(a: Ends, b: Ends) -> Interval:
    return Interval(a[0] - b[1], a[1] - b[0])


def _negative(a: Ends) -> Interval:
    return Interval(-a[1], -a[0])


def _multiply(a: Ends, b: Ends) -> Interval:
    with np.errstate(invalid="ignore"):
        if np.all(a[0] >= 0) and np.all(b[0] >= 0):
            return _repaired(a[0] * b[0], a[1] * b[1])
        products = [x * y for x in a for y in b]
        return _repaired(_extreme(np.minimum, products), _extreme(np.maximum, products))


def _divide(a: Ends, b: Ends) -> Interval:
    """Quotients; unbounded where the divisor may be zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        if np.all(a[0] >= 0) and np.all(b[0] >= 0):
            # Adding zero makes a negative one positive, which a quotient would tell apart.
            return _repaired(a[0] / (b[1] + 0.0), a[1] / (b[0] + 0.0))
        quotients = [x / y for x in a for y in b]
        crossing = (b[0] <= 0) & (b[1] >= 0)
        low, high = _extreme(np.minimum, quotients), _extreme(np.maximum, quotients)
        return _repaired(np.where(crossing, -np.inf, low), np.where(crossing, np.inf, high))


def _power(a: Ends, b: Ends) -> Interval:
    """Powers of what is not negative: extreme at the corners; unbounded for other bases.

    A power is not rounded to the nearest number, so both ends are moved out by one.
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        powers = [np.power(x, y) for x in a for y in b]
    low, high = _extreme(np.minimum, powers), _extreme(np.maximum, powers)
    negative = a[0] < 0
    return _repaired(
        np.where(negative, -np.inf, np.nextafter(low, -np.inf)),
        np.where(negative, np.inf, np.nextafter(high, np.inf)),
    )


def _repaired(low: Array, high: Array) -> Interval:
    """Return the interval with what is undefined (0 x infinity, 0 / 0) left unbounded."""
    if np.isnan(low).any() or np.isnan(high).any():
        low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Interval(low, high)


def _extreme(pick: np.ufunc, values: Sequence[Array]) -> Array:
    result = values[0]
    for value in values[1:]:
        result = pick(result, value)
    return result


def _rising(ufunc: np.ufunc) -> Callable[..., Interval]:
    """Return the interval form of an operation that falls in none of its arguments."""

    def apply(*ends: Ends) -> Interval:
        return Interval(ufunc(*(end[0] for end in ends)), ufunc(*(end[1] for end in ends)))

    return apply


def _less(a: Ends, b: Ends) -> Mask | Uncertain:
    return _mask(a[1] < b[0], a[0] < b[1])


def _less_equal(a: Ends, b: Ends) -> Mask | Uncertain:
    return _mask(a[1] <= b[0], a[0] <= b[1])


def _equal(a: Ends, b: Ends) -> Mask | Uncertain:
    points = (a[0] == a[1]) & (b[0] == b[1])
    return _mask(points & (a[0] == b[0]), (a[0] <= b[1]) & (b[0] <= a[1]))


def _unequal(a: Ends, b: Ends) -> Mask | Uncertain:
    surely, possibly = _known(_equal(a, b))
    return _mask(~possibly, ~surely)


def _where(condition: Any, first: Any, second: Any) -> Interval:
    surely, possibly = _known(condition)
    a, b = _ends(first), _ends(second)
    return Interval(
        np.where(surely, a[0], np.where(possibly, np.minimum(a[0], b[0]), b[0])),
        np.where(surely, a[1], np.where(possibly, np.maximum(a[1], b[1]), b[1])),
    )


def _each_end(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of several arrays that works on lower and upper ends alike."""

    def apply(values: Sequence[Any], **options: Any) -> Interval:
        ends = [_ends(value) for value in values]
        return Interval(
            function([end[0] for end in ends], **options),
            function([end[1] for end in ends], **options),
        )

    return apply


def _broadcast_arrays(*values: Any) -> tuple[Interval, ...]:
    pairs = [_ends(value) for value in values]
    every = np.broadcast_arrays(*(end for pair in pairs for end in pair))
    return tuple(Interval(low, high) for low, high in zip(every[::2], every[1::2], strict=True))


def _choose(index: Codes, choices: Sequence[Any], **options: Any) -> Interval:
    ends = [_ends(choice) for choice in choices]
    low, high = (np.choose(index, [end[i] for end in ends], **options) for i in (0, 1))
    return Interval(low, high)


def _max(value: Interval, axis: int | None = None) -> Interval:
    ends = (np.asarray(np.max(end, axis=axis)) for end in _ends(value))
    return Interval(*ends)


def _nan_to_num(value: Interval, nan: float = 0.0) -> Interval:
    low, high = np.nan_to_num(value.lowest, nan=nan), np.nan_to_num(value.highest, nan=nan)
    return Interval(np.minimum(low, high), np.maximum(low, high))


_OPERATIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: _add,
    np.subtract: _subtract,
    np.multiply: _multiply,
    np.divide: _divide,
    np.power: _power,
    np.negative: _negative,
    np.maximum: _rising(np.maximum),
    np.minimum: _rising(np.minimum),
    np.ceil: _rising(np.ceil),
    np.floor: _rising(np.floor),
    np.less: _less,
    np.less_equal: _less_equal,
    np.greater: lambda a, b: _less(b, a),
    np.greater_equal: lambda a, b: _less_equal(b, a),
    np.equal: _equal,
    np.not_equal: _unequal,
}
_LOGIC = (np.logical_and, np.bitwise_and, np.logical_or, np.bitwise_or, np.logical_not, np.invert)
_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.stack: _each_end(np.stack),
    np.broadcast_arrays: _broadcast_arrays,
    np.choose: _choose,
    np.max: _max,
    np.nan_to_num: _nan_to_num,
    np.any: lambda mask: mask.any(),
    np.all: lambda mask: mask.all(),
}
