"""Finished requests as rows of a CSV file, written while a simulation runs."""

from __future__ import annotations

import csv
from typing import TextIO

from explorer.costs.arrays import Array, Codes
from explorer.serving.simulation_results import RequestRows

HEADER = (
    "request",
    "pool",
    "prompt_tokens",
    "output_tokens",
    "arrival_seconds",
    "prefill_seconds",
    "first_token_seconds",
    "decode_seconds",
    "end_seconds",
    "ttft_seconds",
    "tpot_seconds",
)
"""Columns, named as the fields of ``RequestRows``."""


class RowWriter:
    """A reader of finished requests that writes them to a text file, the header first."""

    def __init__(self, file: TextIO) -> None:
        """Write the header."""
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(HEADER)

    def __call__(self, rows: RequestRows) -> None:
        """Write some rows; a time that a request does not have stays empty."""
        columns = [_cells(getattr(rows, name)) for name in HEADER]
        self._writer.writerows(zip(*columns, strict=True))


def _cells(values: Array | Codes) -> list[object]:
    return ["" if value != value else value for value in values.tolist()]  # noqa: PLR0124
