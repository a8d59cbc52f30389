"""The two floors of a redraw: what a page draws, recorded, with no model behind it.

Run by ``tests.benchmarks.redraw``, which names the folder of the records in FLOOR_RECORDS:
``<page>.json`` holds two positions of the page's slider. ``?page=NAME`` is the bare page, a slider
and the figures; with ``&elements=all`` it draws everything that the page draws, its controls,
texts and tables too, by sending the page's own messages again.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner_utils.script_run_context import enqueue_message


@st.cache_resource(max_entries=32)
def recorded(page: str) -> list[dict[str, Any]]:
    """Return figures and messages of a page for both positions of the slider."""
    text = (Path(os.environ["FLOOR_RECORDS"]) / f"{page}.json").read_text(encoding="utf-8")
    return [
        {
            "figures": [go.Figure(figure) for figure in position["figures"]],
            "elements": [b64decode(element) for element in position["elements"]],
        }
        for position in json.loads(text)
    ]


def bare(page: str) -> None:
    """Draw a slider, and the figures of its position."""
    position = st.select_slider("Position", options=list(range(1000)), value=0)
    for number, figure in enumerate(recorded(page)[position % 2]["figures"]):
        st.plotly_chart(figure, key=f"figure{number}", width="stretch")


def replay(page: str) -> None:
    """Send what the page sent, the two positions in turn: its own slider starts each run."""
    st.session_state["run"] = run = st.session_state.get("run", -1) + 1
    for element in recorded(page)[run % 2]["elements"]:
        message = ForwardMsg.FromString(element)
        message.ClearField("hash")
        enqueue_message(message)


st.set_page_config(layout="wide")
# The address changes as the page's own does, so that it names the page at the start alone.
page = st.session_state.setdefault("page", st.query_params.get("page"))
everything = st.session_state.setdefault("everything", "elements" in st.query_params)
(replay if everything else bare)(page)
