"""What to set on the real engine, as a table, launch lines and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from explorer.config.units import human
from explorer.ui.tables import show_table
from explorer.ui.text import plain

UNITS = {
    "buffer_bytes": "B",
    "memory_fraction": "fraction",
    "requests_a_decode_step": "requests",
    "requests_in_flight": "requests",
    "requests_a_prefill_pass": "requests",
    "tokens_a_prefill_pass": "tokens",
    "tokens_a_request": "tokens",
    "M_g": "rows",
    "M_2": "rows",
    "M_1": "rows",
    "M_r": "rows",
    "M_c": "columns",
    "N_2": "columns",
    "N_1": "columns",
    "K_g": "elements of the inner dimension",
    "K_2": "elements of the inner dimension",
}
WORDS = {"tp": "TP", "pp": "PP", "dp": "DP", "gemm": "products", "kv": "KV"}
SECTIONS = ("limits", "kernels", "slice_rule", "environment")
MOST_STAGES = 4


def section(document: Mapping[str, Any]) -> None:
    """Show a ``deploy`` document."""
    st.markdown("**What to set on the engine**")
    show_table(pd.DataFrame(list(rows(document)), columns=["setting", "value"]))
    for note in document.get("notes", ()):
        st.caption(f"Note: {plain(note)}")
    commands = [*document.get("prepare", ()), *document.get("launch", ())]
    if commands:
        st.markdown("**How to start it, a line for each rank**")
        st.code("\n".join(commands), language=None, wrap_lines=True)


def rows(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield setting and value, in the order in which an engine is set up."""
    for pool in ("prefill", "decode"):
        for name, value in document[pool].items():
            yield f"{pool}: {_words(name)}", str(value)
        layers = document["layers"][pool]
        yield f"{pool}: layers of the stages, counted from 1 as on every page", _stages(layers, 1)
        yield f"{pool}: the same, counted from 0 as in the file", _stages(layers, 0)
    buffer = ("buffer_clusters", "buffer_bytes") if document["buffer_clusters"] else ()
    for name in (*buffer, "pools"):
        yield _words(name), human(document[name], UNITS.get(name, ""))
    for group in document["ranks"]:
        last = group["first_rank"] + group["ranks"] - 1
        if group["ranks"]:
            yield f"ranks of a pool: {group['group']}", f"{group['first_rank']} to {last}"
    for name in SECTIONS:
        yield from _flat(_words(name), document.get(name, {}), as_is=name == "environment")


def _flat(where: str, values: Mapping[str, Any], as_is: bool = False) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        label = f"{where}: {name if as_is else _words(name)}"
        if isinstance(value, Mapping):
            yield from _flat(label, value)
        elif isinstance(value, str):
            yield label, value if as_is else value.replace("_", " ")
        else:
            yield label, human(float(value), UNITS.get(name, ""))


def _stages(layers: list[list[int]], first_number: int) -> str:
    """Return ``1–20, 21–40``, the middle left out of a long list.

    Args:
        layers: first and last layer of each stage, counted from 0.
        first_number: number that the first layer is to have.
    """
    numbered = [(first + first_number, last + first_number) for first, last in layers]
    spans = [f"{first}–{last}" if first < last else str(first) for first, last in numbered]
    if len(spans) <= MOST_STAGES:
        return ", ".join(spans)
    return f"{', '.join(spans[: MOST_STAGES - 1])}, …, {spans[-1]} ({len(spans)} stages)"


def _words(name: str) -> str:
    """Return a name as words; a symbol of the paper, such as ``M_2``, stays as it is."""
    if name[:1].isupper():
        return name
    return " ".join(WORDS.get(word, word) for word in name.split("_"))
