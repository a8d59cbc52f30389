"""CSV that spreadsheets open as data: no cell of text is taken for a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")
"""First characters that spreadsheets act on, those of full width included."""
QUOTE = "'"
"""Before a cell of text it keeps a spreadsheet from calculating; itself it is not shown."""


def begins_a_formula(text: str) -> bool:
    """Return whether a spreadsheet might take a cell of text for a formula."""
    return text.lstrip(" ").startswith(FORMULA_STARTS)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """Return rows as CSV; numbers stay numbers, and text that begins a formula gets a quote."""
    buffer = StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow([_cell(name) for name in header])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def _cell(cell: str | float) -> str:
    if isinstance(cell, str):
        return QUOTE + cell if begins_a_formula(cell) else cell
    return str(cell) if isinstance(cell, int) else repr(float(cell))
