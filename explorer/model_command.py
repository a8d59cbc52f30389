"""The ``model`` command: a Hugging Face config read, with parameters, caches and work a token."""

from __future__ import annotations

import argparse
from typing import Any

from explorer.config.errors import printable
from explorer.config.hugging_face import ImportedModel
from explorer.config.model import Model
from explorer.config.model_summary import figures, layer_words, part_rows, summary_document
from explorer.config.own_model import model_from
from explorer.config.quantity import listed
from explorer.config.units import human
from explorer.outfile import json_text, write_text

LABEL_WIDTH = 38


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "config", metavar="CONFIG.json", help="a Hugging Face config, a model document, or a preset"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="write the model document, for --model of other commands"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Read the model; return its document and its text.

    Raises:
        InputError: when the file is no model or the output cannot be written.
    """
    read = model_from(options.config)
    if options.out is not None:
        write_text(options.out, json_text(read.document.model_dump(mode="json", by_alias=True)))
    return summary_document(read), summary_text(read)


def summary_text(read: ImportedModel) -> str:
    """Return a model as text: figures with their formulas, parts, and what is left out."""
    model = read.document.shape()
    lines = [printable(read.document.name), f"  {layer_words(model)}", ""]
    for figure in figures(model):
        value = f"{figure.value:,} {figure.unit}".rstrip()
        lines += [f"  {figure.label}: {value}", f"    = {figure.formula}"]
        if figure.unit == "MAC":
            lines.append(f"    = {human(2.0 * figure.value, 'FLOP')}, two a MAC")
    lines += ["", *_parts(model), "", f"  splits over {listed(model.legal_tp)} ranks of TP"]
    lines += [f"  assumed: {printable(sentence)}" for sentence in read.assumed]
    lines += [f"  not modelled: {printable(sentence)}" for sentence in read.not_modelled]
    return "\n".join(lines)


def _parts(model: Model) -> list[str]:
    lines = ["  parts"]
    for row in part_rows(model):
        lines.append(f"    {row.name:<{LABEL_WIDTH}}{row.elements:>20,}  = {row.formula}")
    return lines
