"""Tables that follow a slider, each written as one text.

Streamlit's own table parses the text of every cell by itself, and a browser takes some 15 ms more
for thirty cells that change; of a table that is one text it takes a quarter of that.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st


def show_table(frame: pd.DataFrame, *, index: bool = False) -> None:
    """Show a table, its cells as Markdown.

    Args:
        frame: rows and named columns.
        index: whether its index is the first column.
    """
    if index:
        frame = frame.reset_index(names="" if frame.index.name is None else str(frame.index.name))
    st.markdown(table_text(frame))


def table_text(frame: pd.DataFrame) -> str:
    """Return a frame as the text of a table."""
    columns = [str(name) for name in frame.columns]
    rows = [columns, ["---"] * len(columns), *frame.to_numpy().tolist()]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
