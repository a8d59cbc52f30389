"""Section "Chip": a preset's numbers edited, each with its source, and what that delivers."""

from __future__ import annotations

import json
from dataclasses import replace

import streamlit as st

from explorer.chips.registry import check_numbers
from explorer.config.chip import Chip
from explorer.config.errors import InputError
from explorer.config.files import chip_from_json
from explorer.config.own_chip import NO_SOURCE
from explorer.config.presets import load_chip, versions_of
from explorer.config.quantity import LONGEST_NAME
from explorer.config.units import significant
from explorer.serving.evaluate import evaluate
from explorer.serving.report import why_not
from explorer.ui import state, uploads
from explorer.ui.own_chip_draft import (
    PRESENT,
    UPLOADED,
    Draft,
    begun,
    difference_table,
    edited_rows,
    editor_table,
    own_id,
)
from explorer.ui.tables import show_table
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
DRAFT, SEED, REFUSED = "own_chip", "own_chip_seed", "own_chip_refused"
START, NAME, UPLOAD = "own_chip_start", "own_chip_name", "own_chip_upload"
KINDS = ("published", "measured", "derived", "assumed", "fitted", "override")
TABLE_HEIGHT = 420
AS_FAST = 5e-4
EXAMPLE = """{
 "schema": "explorer.chip/1",
 "base": "mt3000@1",
 "id": "mt3000-twice-the-memory",
 "name": "MT-3000, twice the memory",
 "quantities": {
  "memory_bytes": {"value": 4e10, "source": "what if", "kind": "assumed"},
  "ddr_bandwidth_bytes_per_second": 6e10
 }
}"""


def section() -> None:
    """Draw the section."""
    draft = _draft()
    answer = st.empty()
    left, right = st.columns(2)
    with left:
        _start(draft)
    with right:
        draft = _named(draft)
    draft = _edited(draft)
    st.session_state[DRAFT] = draft
    try:
        chip = draft.chip()
        check_numbers(chip)
        sentence = answer_sentence(draft, chip)
    except InputError as error:
        answer.error("**This chip cannot be used.** " + plain(str(error)))
        _upload()
        return
    answer.markdown(sentence)
    if draft.changed:
        show_table(difference_table(draft.base, chip))
    _take(draft, chip)
    _upload()


def answer_sentence(draft: Draft, chip: Chip) -> str:
    """Return what this session's scenario delivers on the chip, and on the one it is compared with.

    That is the chip that the draft differs from; for an unchanged one, the scenario's present chip.

    Raises:
        InputError: when the scenario cannot run on the chip.
    """
    scenario = state.scenario()
    before = scenario.with_chip(draft.base) if draft.changed else scenario
    there, here = evaluate(scenario.with_chip(chip)), evaluate(before)
    name, other = plain(chip.name), plain(before.chip_document().name)
    if not there.feasible:
        return (
            f"On **{name}** this scenario's plan **does not fit**: {plain(why_not(there))} "
            "The search may find one that does."
        )
    rate, reference = (float(item.objective("throughput")) for item in (there, here))
    lead = f"On **{name}** this scenario delivers **{significant(rate)} tokens/s**"
    if not here.feasible:
        return f"{lead}; on {other} its plan does not fit."
    if chip == before.chip_document() and not before.hardware:
        return f"{lead}. Change a number, or start from another chip."
    if abs(rate / reference - 1) < AS_FAST:
        return f"{lead}, as on {other}."
    return f"{lead}, {significant(rate / reference)} times the {significant(reference)} on {other}."


def _draft() -> Draft:
    """Return the draft; one that nobody touched follows the scenario that it started from."""
    draft: Draft | None = st.session_state.get(DRAFT)
    if draft is None:
        return begun(PRESENT, state.scenario(), 0)
    if draft.start == PRESENT and not draft.touched:
        fresh = begun(PRESENT, state.scenario(), draft.turn)
        return draft if fresh == draft else replace(fresh, turn=draft.turn + 1)
    return draft


def _start(draft: Draft) -> None:
    options = [PRESENT, *(f"{name}@{all_[-1]}" for name, all_ in versions_of("chips").items())]
    if draft.start not in options:
        options.append(draft.start)
    words = {PRESENT: "This scenario's chip, sliders as set", UPLOADED: "The uploaded file"}
    if st.session_state.get(START) != draft.start:
        st.session_state[START] = draft.start
    st.selectbox(
        "Start from",
        options,
        key=START,
        format_func=lambda option: words.get(option) or plain(load_chip(option).name),
        on_change=_start_chosen,
        help="Choosing one begins afresh.",
    )


def _start_chosen() -> None:
    start = str(state.widget_value(START))
    draft = _draft()
    uploaded = draft.base if start == UPLOADED else None
    st.session_state[DRAFT] = begun(start, state.scenario(), draft.turn + 1, uploaded)


def _named(draft: Draft) -> Draft:
    key = f"{NAME}#{draft.turn}"
    if key not in st.session_state:
        st.session_state[key] = draft.name
    name = st.text_input("Name", key=key, max_chars=LONGEST_NAME)
    draft = replace(draft, name=str(name).strip())
    if draft.changed:
        st.caption(f"Its id: {own_id(draft.name)}, version 1.")
    return draft


def _edited(draft: Draft) -> Draft:
    key = f"own_chip:numbers#{draft.turn}"
    if key not in st.session_state:
        # What the editor starts with must stay as it is while it is edited.
        st.session_state[SEED] = editor_table(draft)
    edited = st.data_editor(
        st.session_state[SEED],
        key=key,
        hide_index=True,
        num_rows="fixed",
        height=TABLE_HEIGHT,
        disabled=["number", "unit", "accepted"],
        column_config={
            "number": st.column_config.TextColumn(width="medium", pinned=True),
            "value": st.column_config.TextColumn(required=True, max_chars=40),
            "kind": st.column_config.SelectboxColumn(options=list(KINDS), required=True),
            "source": st.column_config.TextColumn(width="large"),
        },
    )
    st.caption(
        "Values are in the unit beside them; 6e10 is 60 billion. A value that changes without a "
        f"source of its own counts as assumed, “{NO_SOURCE}”."
    )
    return replace(draft, rows=edited_rows(draft.base, edited))


def _take(draft: Draft, chip: Chip) -> None:
    with st.container(horizontal=True):
        st.button(
            "Use it in this scenario",
            key="own_chip_use",
            type="primary",
            on_click=_use,
            disabled=state.scenario().chip_document() == chip and not state.scenario().hardware,
            help="Plan, workload and model stay. Sliders then move this chip's numbers.",
        )
        st.download_button(
            "Download as JSON",
            data=json.dumps(
                chip.model_dump(mode="json", by_alias=True), indent=1, ensure_ascii=False
            ),
            file_name=f"{own_id(chip.id)}.json" if draft.changed else f"{chip.id}.json",
            mime="application/json",
            on_click="ignore",
            key="own_chip_download",
            help="Opens here again, and on the command line with --chip FILE.",
        )


def _use() -> None:
    draft = _draft()
    try:
        chip = draft.chip()
        check_numbers(chip)
        preset = chip.id in versions_of("chips")
        reference = f"{chip.id}@{chip.version}" if preset else chip
        state.replace(state.scenario().with_chip(reference))
    except InputError as error:
        state.notice(error.problems, "The chip was not used")


def _upload() -> None:
    st.subheader("A chip from a file", anchor=False)
    st.caption("A whole chip document, or only what differs from a preset, such as:")
    st.code(EXAMPLE, language="json")
    st.file_uploader(
        "Chip document",
        type=["json"],
        key=UPLOAD,
        max_upload_size=LARGEST_UPLOAD_MB,
        on_change=_uploaded,
    )
    uploads.show_refused(REFUSED)


def _uploaded() -> None:
    """Read the file once, when it arrives."""
    chip = uploads.read_upload(UPLOAD, REFUSED, _modelled_chip)
    if chip is not None:
        st.session_state[DRAFT] = begun(UPLOADED, state.scenario(), _draft().turn + 1, chip)


def _modelled_chip(content: bytes, name: str) -> Chip:
    chip = chip_from_json(content, name)
    check_numbers(chip)
    return chip
