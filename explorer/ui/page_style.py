"""What the theme cannot say: text on the primary colour, the page on paper, widths of figures."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

METRIC_WIDTH = 225
"""Width of a figure in its frame [px]: two stand side by side on a page of 800 px."""
STYLE = Path(__file__).with_name("page.css")


def start() -> None:
    """Put the rules on the page."""
    st.html(STYLE)
