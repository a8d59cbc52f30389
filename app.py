"""Entry of the web app: pages and sidebar wiring, nothing else."""

from __future__ import annotations

import streamlit as st

from explorer.search.turns import FOREGROUND
from explorer.ui import (
    attribution,
    charts,
    compare,
    explore,
    fidelity,
    garbage,
    inside,
    own,
    page_style,
    pipeline,
    search,
    sensitivity,
    share,
    slices,
    state,
    story,
    tradeoffs,
)
from explorer.ui.sidebar import sidebar


def main() -> None:
    """Draw the page that the address names, with the sidebar that all pages share."""
    st.set_page_config(page_title="Inference explorer", layout="wide", page_icon="◧")
    state.start()
    page_style.start()
    charts.start()
    sections = {
        "": [st.Page(explore.page, title="Overview", url_path="explore", default=True)],
        "Choose": [
            st.Page(search.page, title="Search", url_path="search"),
            st.Page(tradeoffs.page, title="Trade-offs", url_path="tradeoffs"),
            st.Page(sensitivity.page, title="Sensitivity", url_path="sensitivity"),
            st.Page(pipeline.page, title="Pipeline", url_path="pipeline"),
        ],
        "Look inside": [
            st.Page(inside.page, title="Mechanisms", url_path="inside"),
            st.Page(slices.page, title="Slices", url_path="slices"),
            st.Page(attribution.page, title="Attribution", url_path="attribution"),
        ],
        "Believe": [st.Page(fidelity.page, title="Fidelity", url_path="fidelity")],
        "Bring and take": [
            st.Page(own.page, title="Bring your own", url_path="own"),
            st.Page(compare.page, title="Compare", url_path="compare"),
            st.Page(share.page, title="Share", url_path="share"),
        ],
    }
    chosen = st.navigation(sections, position="top")
    story.remember(page for pages in sections.values() for page in pages)
    state.show_notices(chosen.url_path)
    chosen.run()
    charts.head_start()
    charts.downloads()
    story.next_questions(chosen.url_path, state.scenario().chip_document().family)
    # After the page: its answer is sent first, and the sliders already show where they are.
    sidebar()
    state.keep_in_address_bar(chosen.url_path)
    garbage.leave_out_what_stays()


with FOREGROUND.running():
    main()
