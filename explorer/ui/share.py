"""Page "Take it with me": share link, exported file, and opening either."""

from __future__ import annotations

import json
import re

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.links import open_link
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.ui import deploy, state
from explorer.ui.remedies import remedies
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4


def page() -> None:
    """Draw the page for this session's scenario."""
    st.header("Take it with me", anchor=False)
    scenario = state.scenario()
    if state.says_that_it_does_not_fit(evaluate(scenario), "there is no speed to take along"):
        remedies(scenario)
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
        st.info(
            f"**This scenario travels by file.** {plain(state.why_no_link())}. The exported file "
            "below holds all of it, and opens on this page."
        )
        return
    st.code(f"{_address()}?{query}", language=None, wrap_lines=True)
    st.caption(
        "The preset with its version, and only what differs from it. It can be edited by hand: "
        "each parameter is the path shown in a control's help."
    )


def _address() -> str:
    """Return the address of the app: this page's own without its last part."""
    url = (st.context.url or "").partition("?")[0]
    return re.sub(r"/share/?$", "/", url)


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
    deploy.section(document["deploy"])


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
        state.notice(error.problems, "The link was not opened", place="pasted", leaves=True)
        return
    if opened.meaningless:
        state.notice(opened.problems[:1], "The link was not opened", place="pasted", leaves=True)
        return
    state.replace(opened.scenario, opened.preset)
    state.notice(
        opened.problems, "The link was opened without these parts", place="pasted", leaves=True
    )
    st.session_state["opened"] = "the link"
