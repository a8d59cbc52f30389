"""Section "Model" of "Bring your own": a config.json read, explained, and put on the sliders."""

from __future__ import annotations

import json

import pandas as pd
import streamlit as st

from explorer.config.hugging_face import ImportedModel
from explorer.config.model import Model, ModelDocument
from explorer.config.model_summary import Figure, figures, layer_words, part_rows
from explorer.config.own_model import LEAD, model_from_json, with_model
from explorer.config.quantity import listed
from explorer.config.units import human, significant
from explorer.ui import state, uploads
from explorer.ui.page_style import METRIC_WIDTH
from explorer.ui.tables import show_table
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
UPLOAD, READ, REFUSED = "own:model_file", "own:model", "own:model_refused"
BILLION, MILLION = 1e9, 1e6


def section() -> None:
    """Draw the upload, what the model amounts to, and how to use it."""
    st.file_uploader(
        "A Hugging Face config.json, or a model document written by this tool",
        type=["json"],
        key=UPLOAD,
        max_upload_size=LARGEST_UPLOAD_MB,
        on_change=_uploaded,
        help="Read as text in this session: nothing in it is run, and nothing is fetched.",
    )
    uploads.show_refused(REFUSED)
    read: ImportedModel | None = st.session_state.get(READ)
    if read is None:
        lead = "Nothing was read" if st.session_state.get(REFUSED) else "No file yet"
        st.caption(f"{lead}. Below is the model of the present scenario, explained the same way.")
        _model(ImportedModel(state.scenario().model_document()))
    else:
        _use_it(read)
        _model(read)
    _how_it_travels()


def _uploaded() -> None:
    """Read the file once, when it arrives; one that is taken back is forgotten."""
    st.session_state.pop(READ, None)
    read = uploads.read_upload(UPLOAD, REFUSED, model_from_json, "was not read")
    if read is not None:
        st.session_state[READ] = read


def _use_it(read: ImportedModel) -> None:
    scenario = state.scenario()
    if scenario.model_document() == read.document:
        st.success(
            f"**{plain(read.document.name)} is on the sliders**, with the chip and workload of the "
            "scenario. Overview says what it delivers."
        )
        return
    present = plain(scenario.model_document().name)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Use this model", type="primary", key="use_model", on_click=_use)
        st.caption(
            f"In place of {present}. Chip and workload stay; a plan that does not divide this "
            "model changes, and a message says how."
        )


def _use() -> None:
    read: ImportedModel = st.session_state[READ]
    changed, problems = with_model(state.scenario(), read.document)
    state.replace(changed)
    state.notice(problems, LEAD)


def _model(read: ImportedModel) -> None:
    document, model = read.document, read.document.shape()
    st.subheader(plain(document.name), anchor=False)
    st.markdown(_sentence(model))
    with st.container(horizontal=True):
        for figure in figures(model):
            st.metric(
                figure.label,
                _metric(figure),
                border=True,
                width=METRIC_WIDTH,
                help=f"{figure.value:,} {figure.unit} = {plain(figure.formula)}",
            )
    _said("Assumed", read.assumed, "What the file does not say")
    _said("Not modelled", read.not_modelled, "What of the file has no part in the results")
    st.markdown("**Where these figures come from**")
    show_table(_formulas(model))
    st.markdown("**What its parameters are**")
    show_table(_parts(model))
    with st.expander("Every size, with its source"):
        show_table(_sizes(document))
    st.download_button(
        "Download the model document",
        data=json.dumps(document.model_dump(mode="json", by_alias=True), indent=1),
        file_name=f"{document.id}.json",
        mime="application/json",
        on_click="ignore",
        key="download_model",
        help="For `python -m explorer evaluate ID --model FILE`, which takes a config.json too.",
    )


def _sentence(model: Model) -> str:
    active = (
        f", of which a token passes {_count(model.active_parameters)}"
        if model.active_parameters != model.parameters
        else ""
    )
    return (
        f"{_count(model.parameters)} parameters{active}, in {layer_words(model)}. Tensor "
        f"parallelism splits it over {listed(model.legal_tp)} ranks."
    )


def _count(parameters: int) -> str:
    if parameters >= BILLION:
        return f"{significant(parameters / BILLION)} billion"
    return f"{significant(parameters / MILLION)} million"


def _metric(figure: Figure) -> str:
    if figure.unit == "MAC":
        return human(2.0 * figure.value, "FLOP")
    return human(float(figure.value), figure.unit) if figure.unit else _count(figure.value)


def _formulas(model: Model) -> pd.DataFrame:
    rows = []
    for figure in figures(model):
        value = f"{figure.value:,} {figure.unit}".rstrip()
        flops = f" (1 MAC is 2 FLOP: {2 * figure.value:,} FLOP)" if figure.unit == "MAC" else ""
        rows.append((figure.label, value + flops, figure.formula))
    return pd.DataFrame(rows, columns=["figure", "value", "formula"])


def _parts(model: Model) -> pd.DataFrame:
    rows = [(row.name, f"{row.elements:,}", row.formula) for row in part_rows(model)]
    rows.append(("all", f"{model.parameters:,}", ""))
    return pd.DataFrame(rows, columns=["weights", "parameters", "formula"])


def _sizes(document: ModelDocument) -> pd.DataFrame:
    rows = []
    for name, value in document.values().items():
        quantity = getattr(document.numbers, name)
        note = f"; {quantity.note}" if quantity.note else ""
        words = f"{value:,} {quantity.unit}", quantity.kind, f"{quantity.source}{note}"
        rows.append((name.replace("_", " "), *(plain(word) for word in words)))
    return pd.DataFrame(rows, columns=["size", "value", "kind", "source"])


def _said(title: str, sentences: tuple[str, ...], meaning: str) -> None:
    if not sentences:
        return
    st.markdown(f"**{title}.** {meaning}:")
    st.markdown("\n".join(f"- {plain(sentence)}" for sentence in sentences))


def _how_it_travels() -> None:
    if isinstance(state.scenario().model, ModelDocument):
        st.info(
            "This scenario travels by file: no link can carry a model of its own. The page Share "
            "exports it, and opens it again."
        )
