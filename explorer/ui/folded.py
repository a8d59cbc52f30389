"""Parts of a page that are folded away, and built only while they are open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st


@contextmanager
def folded(title: str, key: str) -> Iterator[bool]:
    """Show a part that starts closed; yields whether it is open, and so has to be built.

    A closed part costs neither the server nor the browser anything. Opening one runs the page
    again, so what it shows is of the present scenario.

    Args:
        title: what the part holds.
        key: name of its state; the same on every page for the same part.
    """
    part = st.expander(title, key=f"open:{key}", on_change="rerun")
    with part:
        yield bool(part.open)
