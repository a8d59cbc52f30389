"""Times written out: a formula a term, over symbols that each say where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.costs.arrays import Array


@dataclass(frozen=True)
class Symbol:
    """One input of a formula.

    Attributes:
        meaning: what it is, for people.
        value: in ``unit``.
        unit: unit of the value, empty for a plain count.
        path: number of the scenario that it is, such as ``hardware.norm_seconds_per_row_layer``;
            empty for one that follows from others.
        source: where one that follows from others comes from.
    """

    meaning: str
    value: Array
    unit: str = ""
    path: str = ""
    source: str = ""


@dataclass(frozen=True)
class Formula:
    """The work of one term [s] as arithmetic over symbols.

    Attributes:
        expression: Python arithmetic over the symbols' names.
        note: how the exposed part follows where it is not all of the work; empty otherwise.
    """

    expression: str
    note: str = ""


@dataclass(frozen=True)
class Unfolding:
    """Formulas by term, in program order, and the symbols in them by name."""

    formulas: Mapping[str, Formula]
    symbols: Mapping[str, Symbol]
