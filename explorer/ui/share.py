"""Page "Take it with me": share link, exported file, and opening either."""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd
import streamlit as st

from explorer.config.errors import InputError
from explorer.config.links import open_link
from explorer.serving.export import export_document
from explorer.ui import state
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4


def page() -> None:
    """Draw the page for this session's scenario."""
    st.header("Take it with me", anchor=False)
    left, right = st.columns(2)
    with left:
        _link()
    with right:
        _open()
    _export()


def _link() -> None:
    st.subheader("Share link", anchor=False)
    query = state.share_query()
    if query is None:
        st.info(f"There is no link to this scenario: {plain(state.why_no_link())}")
        return
    st.code(f"{_address()}?{query}", language=None, wrap_lines=True)
    st.caption(
        "The preset with its version, and only what differs from it. It can be edited by hand: "
        "each parameter is the path shown in a control's help."
    )


def _address() -> str:
    """Return the address of the app's first page."""
    url = (st.context.url or "").partition("?")[0]
    return re.sub(r"/(search|inside|slices|attribution|fidelity|share)/?$", "/", url)


def _export() -> None:
    st.subheader("Exported file", anchor=False)
    document = export_document(state.scenario())
    st.download_button(
        "Download JSON",
        data=json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False),
        file_name="explorer-scenario.json",
        mime="application/json",
        on_click="ignore",
        key="download",
    )
    st.caption(
        "Scenario, results, preset versions, sources of every number, and what to set on the "
        "real engine. `python -m explorer evaluate FILE` prints the same numbers."
    )
    st.markdown("**What to set on the engine**")
    st.table(_deploy_table(document["deploy"]), hide_index=True)
    for note in document["deploy"].get("notes", ()):
        st.caption(f"Note: {plain(note)}")
    commands = [*document["deploy"].get("prepare", ()), *document["deploy"].get("launch", ())]
    if commands:
        st.markdown("**How to start it, a line for each rank**")
        st.code("\n".join(commands), language=None, wrap_lines=True)


def _deploy_table(deploy: dict[str, Any]) -> pd.DataFrame:
    rows = [
        (f"{pool}: {name.replace('_', ' ')}", str(value))
        for pool in ("prefill", "decode")
        for name, value in deploy[pool].items()
    ]
    rows += [(name.replace("_", " "), str(deploy[name])) for name in ("buffer_clusters", "pools")]
    rows += [(f"environment: {name}", value) for name, value in deploy["environment"].items()]
    rows += [
        (f"slice rule: {name.replace('_', ' ')}", str(value))
        for name, value in deploy.get("slice_rule", {}).items()
    ]
    return pd.DataFrame(rows, columns=["setting", "value"])


def _open() -> None:
    st.subheader("Open a file or a link", anchor=False)
    uploaded = st.file_uploader(
        "Exported file or scenario", type=["json"], key="upload", max_upload_size=LARGEST_UPLOAD_MB
    )
    if uploaded is not None and st.session_state.get("uploaded") != uploaded.file_id:
        # The widget keeps its file on every rerun; it must be applied once only.
        st.session_state["uploaded"] = uploaded.file_id
        opened = state.import_file(uploaded.getvalue(), uploaded.name)
        st.session_state["opened"] = uploaded.name if opened else ""
        st.rerun()
    st.text_input(
        "Link",
        key="pasted",
        placeholder="?preset=mt3000-llama2-13b@1&plan.tp_decode=8",
        on_change=_pasted,
    )
    if st.session_state.get("opened"):
        st.text(f"Opened: {st.session_state['opened']}. It is on the sliders now.")


def _pasted() -> None:
    text = str(state.widget_value("pasted")).strip()
    if not text:
        return
    try:
        opened = open_link(text, state.preset())
    except InputError as error:
        state.notice(error.problems, "The link was not opened")
        return
    if any(problem.field == "preset" for problem in opened.problems):
        state.notice(opened.problems[:1], "The link was not opened")
        return
    st.session_state[state.PRESET] = opened.preset
    state.replace(opened.scenario)
    state.notice(opened.problems, "The link was opened without these parts")
    st.session_state["opened"] = "the link"
