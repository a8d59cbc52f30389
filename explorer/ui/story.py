"""The way through the pages: each ends with the questions that its answer leads to."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

PAGES = "pages"
OVERVIEW = ""
SEARCH, TRADEOFFS, SENSITIVITY, PIPELINE = "search", "tradeoffs", "sensitivity", "pipeline"
INSIDE, SLICES, ATTRIBUTION, FIDELITY = "inside", "slices", "attribution", "fidelity"
OWN, COMPARE, SHARE = "own", "compare", "share"

QUESTIONS = {
    OVERVIEW: "What do I get?",
    SEARCH: "What should I choose?",
    TRADEOFFS: "What do I trade for what?",
    SENSITIVITY: "What is the answer sensitive to?",
    PIPELINE: "Does it hold when requests arrive?",
    INSIDE: "What do the mechanisms do?",
    SLICES: "How many slices, and why?",
    ATTRIBUTION: "Where does the time go, and what would a target take?",
    FIDELITY: "Can I believe it?",
    OWN: "What about my own model, chip, measurements?",
    COMPARE: "Which of these?",
    SHARE: "Take it with me",
}
LEADS_TO = {
    OVERVIEW: (SEARCH, SENSITIVITY, SLICES, ATTRIBUTION, FIDELITY),
    SEARCH: (TRADEOFFS, PIPELINE, FIDELITY, SHARE),
    TRADEOFFS: (PIPELINE, SENSITIVITY, COMPARE),
    SENSITIVITY: (SEARCH, ATTRIBUTION, FIDELITY),
    PIPELINE: (TRADEOFFS, SENSITIVITY, SHARE),
    INSIDE: (OVERVIEW, SENSITIVITY, FIDELITY),
    SLICES: (ATTRIBUTION, FIDELITY, SHARE),
    ATTRIBUTION: (SLICES, SENSITIVITY, FIDELITY),
    FIDELITY: (OWN, SENSITIVITY, SHARE),
    OWN: (OVERVIEW, FIDELITY, SHARE),
    COMPARE: (SEARCH, SHARE),
    SHARE: (COMPARE, OVERVIEW),
}
ONE_FAMILY = {INSIDE: "mt3000", SLICES: "ascend910a"}
"""Pages that have an answer for chips of one family only."""

ELSEWHERE = {
    INSIDE: (SLICES, ATTRIBUTION),
    SLICES: (INSIDE, OVERVIEW),
    ATTRIBUTION: (OVERVIEW, INSIDE),
}
"""Where the answer is for chips that such a page, or a part of it, is not for."""


def remember(pages: Iterable[st.Page]) -> None:
    """Keep the pages of this run, to link to them."""
    st.session_state[PAGES] = {page.url_path: page for page in pages}


def next_questions(here: str, family: str) -> None:
    """Draw links to the questions that come next.

    Args:
        here: address of the page, empty for the first.
        family: family of the scenario's chip.
    """
    with st.container(horizontal=True, key="next_questions"):
        _links(questions_after(here, family))


def elsewhere(here: str, family: str) -> None:
    """Draw links to the pages that have the answer for a chip that a page has none for.

    Args:
        here: address of the page that has none.
        family: family of the scenario's chip.
    """
    _links(answered_by(here, family))


def link(path: str) -> None:
    """Draw the link to one page."""
    _links((path,))


def answered_by(here: str, family: str) -> tuple[str, ...]:
    """Return the addresses of the pages that answer a page's question for another chip."""
    return _with_an_answer(ELSEWHERE.get(here, ()), family)


def questions_after(here: str, family: str) -> tuple[str, ...]:
    """Return the addresses of the pages that come next; none that has no answer for a chip."""
    return _with_an_answer(LEADS_TO[here], family)


def _with_an_answer(paths: Iterable[str], family: str) -> tuple[str, ...]:
    return tuple(path for path in paths if ONE_FAMILY.get(path, family) == family)


def _links(paths: Iterable[str]) -> None:
    # A page that is run by itself, without the others, has none to link to.
    pages: dict[str, st.Page] = st.session_state.get(PAGES, {})
    for path in paths:
        if path in pages:
            st.page_link(pages[path], label=QUESTIONS[path], icon=":material/arrow_forward:")
