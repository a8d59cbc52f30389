"""Tables, each written as one text.

Streamlit's own table parses the text of every cell by itself, and a browser takes some 15 ms more
for thirty cells that change; of a table that is one text it takes a quarter of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

SPACES = re.compile(r"[ \t\r\n]+")
"""Not the space that does not break."""

BEFORE_UNIT = re.compile(r"(?<=\d) (?=[A-Za-zµ%])")
NO_BREAK = "\u00a0"


def show_table(rows: pd.DataFrame | Sequence[Mapping[str, str]], *, index: bool = False) -> None:
    """Show a table, its cells as Markdown.

    Args:
        rows: a frame, or rows that all have the same columns.
        index: whether a frame's index is the first column.
    """
    st.markdown(table_text(rows, index=index))


def table_text(rows: pd.DataFrame | Sequence[Mapping[str, str]], *, index: bool = False) -> str:
    """Return the text of a table; nothing where there are no rows."""
    if not len(rows):
        return ""
    if isinstance(rows, pd.DataFrame):
        columns, cells = _of_frame(rows, index)
    else:
        columns, cells = list(rows[0]), [list(row.values()) for row in rows]
    lines: list[list[object]] = [[*columns], ["---"] * len(columns), *cells]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _of_frame(frame: pd.DataFrame, index: bool) -> tuple[list[str], list[list[object]]]:
    if index:
        frame = frame.reset_index(names="" if frame.index.name is None else str(frame.index.name))
    return [str(name) for name in frame.columns], frame.to_numpy().tolist()


def _cell(value: object) -> str:
    """Return a cell on one line, whose numbers keep their units where the page breaks it."""
    return unbroken(SPACES.sub(" ", str(value).strip())).replace("|", "\\|")


def unbroken(text: str) -> str:
    """Return a text whose numbers stay on the line of their units."""
    return BEFORE_UNIT.sub(NO_BREAK, text)
