"""The floor of a redraw: one slider, and recorded figures with no model behind them.

Run by ``tests.benchmarks.redraw``, which names the folder of the recorded figures in FLOOR_FIGURES:
``<page>.json`` holds two lists of figures, one for each position of the slider.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import plotly.graph_objects as go
import streamlit as st


@st.cache_resource(max_entries=32)
def recorded(page: str) -> list[list[go.Figure]]:
    """Return the figures of a page for both positions of the slider."""
    text = (Path(os.environ["FLOOR_FIGURES"]) / f"{page}.json").read_text(encoding="utf-8")
    return [[go.Figure(figure) for figure in position] for position in json.loads(text)]


st.set_page_config(layout="wide")
position = st.select_slider("Position", options=list(range(1000)), value=0)
for number, figure in enumerate(recorded(st.query_params["page"])[position % 2]):
    st.plotly_chart(figure, key=f"figure{number}", width="stretch")
