"""One part of a page at a time: the choice outlives a visit to another page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import streamlit as st

View = TypeVar("View")


def chosen_view(label: str, views: Mapping[str, View], key: str, widget: str) -> View:
    """Show a choice of views and return the one that is chosen.

    A widget that another page does not draw is forgotten; the choice is kept beside it.

    Args:
        label: what is chosen, for those who hear the page.
        views: views by name, the first is shown at first.
        key: where the choice is kept.
        widget: key of the widget.
    """
    if widget not in st.session_state:
        st.session_state[widget] = st.session_state.get(key, next(iter(views)))
    chosen = st.segmented_control(
        label, options=list(views), key=widget, required=True, label_visibility="collapsed"
    )
    st.session_state[key] = chosen
    return views[str(chosen)]
