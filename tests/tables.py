"""Reading the tables of a page that is run without a browser."""

from __future__ import annotations

import re

import pandas as pd
from streamlit.testing.v1 import AppTest

from explorer.ui.tables import NO_BREAK

BETWEEN_CELLS = re.compile(r"(?<!\\)\|")


def tables(app: AppTest, *, index: bool = False) -> list[pd.DataFrame]:
    """Return the tables that the page writes as text, the first column as index if told so."""
    found = [_read(part.value) for part in app.markdown if part.value.startswith("| ")]
    return [frame.set_index(frame.columns[0]) for frame in found] if index else found


def _read(text: str) -> pd.DataFrame:
    columns, _, *rows = [
        [
            cell.replace(NO_BREAK, " ").strip().replace("\\|", "|")
            for cell in BETWEEN_CELLS.split(line)[1:-1]
        ]
        for line in text.splitlines()
    ]
    return pd.DataFrame(rows, columns=columns)
