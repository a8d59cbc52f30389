"""Charts on a page, and their download as PNG, SVG and HTML, which costs nothing while closed."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import plotly.graph_objects as go
import streamlit as st

from explorer.plots.standalone import standalone_html
from explorer.search.turns import FOREGROUND

DRAWN, MENU = "charts_drawn", "open:chart_downloads"
SCRIPT = Path(__file__).with_name("charts.js")
FILE_PREFIX = "explorer-"
PICTURE_SCALE = 2
HEAD_START_SECONDS = 0.02
"""Long enough that the browser has begun to draw the charts before it hears of the controls."""


class Drawn(NamedTuple):
    """A chart of this run: its figure, and what it shows."""

    figure: go.Figure
    alt: str


def chart(figure: go.Figure, key: str, alt: str, **selection: Any) -> Any:
    """Draw a figure as wide as its place.

    Args:
        figure: from ``explorer.plots``.
        key: name of the chart in the session; its downloads are named after it.
        alt: what it shows, for those who hear the page and in the list of downloads.
        selection: ``on_select`` and ``selection_mode``, as Streamlit takes them.

    Returns:
        What Streamlit returns: the selection, when there may be one.
    """
    st.session_state.setdefault(DRAWN, {})[key] = Drawn(figure, alt)
    picture = {"format": "png", "filename": file_stem(key), "scale": PICTURE_SCALE}
    return st.plotly_chart(
        figure,
        key=key,
        width="stretch",
        alt=alt,
        config={"displaylogo": False, "toImageButtonOptions": picture},
        **selection,
    )


def start() -> None:
    """Forget the charts of the run before."""
    st.session_state[DRAWN] = {}


def head_start() -> None:
    """Give the charts of this run a head start over what the page sends after them.

    A script that goes on at once leaves the thread that sends its messages no turn, so that charts
    arrive together with some forty controls, and are drawn only when all of these are.
    """
    if st.session_state[DRAWN]:
        with FOREGROUND.pausing():
            time.sleep(HEAD_START_SECONDS)


def downloads() -> None:
    """Offer the charts that this run has drawn as files; nothing is built until it is opened."""
    drawn: dict[str, Drawn] = st.session_state.get(DRAWN, {})
    if not drawn:
        return
    menu = st.popover("Download charts", key=MENU, on_change="rerun", type="tertiary")
    if not menu.open:
        return
    with menu:
        for key, item in drawn.items():
            st.markdown(f"{item.alt}.")
            with st.container(horizontal=True, vertical_alignment="center"):
                _pictures(key, item.alt)
                st.download_button(
                    "HTML",
                    data=partial(standalone_html, item.figure, item.alt),
                    file_name=f"{file_stem(key)}.html",
                    mime="text/html",
                    on_click="ignore",
                    key=f"chart_html:{key}",
                )
        st.caption("PNG and SVG look as on the page; HTML works on its own, without a network.")


def file_stem(key: str) -> str:
    """Return the name of a chart's files, without their ending."""
    return FILE_PREFIX + re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")


def _pictures(key: str, alt: str) -> None:
    """Draw the two buttons that let the browser make a picture of what it shows."""
    buttons = st.components.v2.component("explorer.chart_pictures", js=SCRIPT.read_text("utf-8"))
    buttons(
        key=f"chart_pictures:{key}",
        data={
            "place": f"st-key-{re.sub(r'[^a-zA-Z0-9_-]', '-', key)}",
            "name": file_stem(key),
            "alt": alt,
            "scale": PICTURE_SCALE,
        },
        width="content",
    )
