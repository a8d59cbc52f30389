"""What the theme cannot say: text on the primary colour, and the page on paper."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

STYLE = Path(__file__).with_name("page.css")


def start() -> None:
    """Put the rules on the page."""
    st.html(STYLE)
