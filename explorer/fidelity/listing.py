"""Rows of a report as a CSV file, with all that is known of each."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.config.csvio import csv_text
from explorer.fidelity.report import Row

HEADER = (
    "id",
    "chip",
    "model",
    "quantity",
    "conditions",
    "measured",
    "predicted",
    "unit",
    "error",
    "left_out_error",
    "roofline_error",
    "how",
    "source",
)


def rows_csv(rows: Iterable[Row]) -> str:
    """Return rows as CSV: values in the printed unit, errors as fractions of the measured one.

    What a row has not, because it is not modelled, is empty; ``how`` then says why.
    """
    return csv_text(HEADER, map(_cells, rows))


def _cells(row: Row) -> tuple[str | float, ...]:
    m = row.measurement
    figures = (row.predicted, row.error, row.left_out_error, row.naive_error)
    predicted, error, left_out, naive = ("" if value is None else value for value in figures)
    conditions = ";".join(f"{key}={value}" for key, value in m.conditions.items())
    known = (m.id, m.chip, m.model, m.quantity, conditions, m.value, predicted, m.unit)
    return (*known, error, left_out, naive, row.basis or row.reason, m.source)
