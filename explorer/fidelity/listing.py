"""Rows of a report as a CSV file, with all that is known of each."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.config.csvio import csv_text
from explorer.fidelity.measurements import COLUMNS
from explorer.fidelity.report import Row

HEADER = (
    *COLUMNS,
    "predicted",
    "error",
    "left_out_error",
    "roofline_error",
    "how",
)
"""The columns of a file of measurements, and what the models say of each row."""
RATE_UNIT = "tokens/s"
"""What every unit of a rate is written as: the size of all of them is 1."""


def rows_csv(rows: Iterable[Row]) -> str:
    """Return rows as CSV: values in the printed unit, errors as fractions of the measured one.

    ``value`` and ``predicted`` are both in ``unit``.
    What a row has not, because it is not modelled, is empty; ``how`` then says why.
    """
    return csv_text(HEADER, map(_cells, rows))


def _cells(row: Row) -> tuple[str | float, ...]:
    m = row.measurement
    figures = (row.predicted, row.error, row.left_out_error, row.naive_error)
    conditions = ";".join(f"{key}={value}" for key, value in m.conditions.items())
    unit = RATE_UNIT if m.dimension == "rate" else m.unit
    known = (m.id, m.chip, m.model, m.quantity, conditions, m.value, unit, m.source)
    found = ("" if value is None else value for value in figures)
    return (*known, *found, row.basis or row.reason)
