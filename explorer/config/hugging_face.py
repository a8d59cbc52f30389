"""A Hugging Face config.json as a model document: read as text, nothing run, nothing fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from explorer.config.errors import printable, refuse, shown
from explorer.config.hugging_face_families import (
    ALIASES,
    FAMILIES,
    GENERIC,
    REFUSED,
    REFUSED_FIELDS,
    Family,
)
from explorer.config.hugging_face_fields import Fields, refuse_what_json_lacks
from explorer.config.hugging_face_layers import attention_kinds, experts_of, layer_kinds
from explorer.config.hugging_face_notes import not_modelled
from explorer.config.hugging_face_sizes import SizeReader
from explorer.config.jsonio import parse_json_object, validated
from explorer.config.model import MODEL_SCHEMA, ModelDocument
from explorer.config.quantity import plain_text
from explorer.config.units import significant

NESTED = ("text_config", "language_config", "llm_config")
LONGEST_NAME = 80
BILLION = 1e9


@dataclass(frozen=True)
class ImportedModel:
    """A model from a file.

    Attributes:
        document: its sizes, each with its source.
        family: how the file was read; empty for a model document.
        assumed: sizes and habits that the file does not give, a sentence each.
        not_modelled: what of the file has no part in the results, a sentence each.
    """

    document: ModelDocument
    family: str = ""
    assumed: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()


def read_config(content: str | bytes, name: str = "config.json") -> ImportedModel:
    """Return the model that a config.json describes.

    Raises:
        InputError: when the content is no such file, lacks a size, or describes an architecture
            that would be modelled wrongly; each field is named.
    """
    return imported(parse_json_object(content, name), name)


def imported(config: Mapping[str, Any], name: str = "config.json") -> ImportedModel:
    """Return the model that a parsed config describes; raises InputError like ``read_config``."""
    refuse_what_json_lacks(config)
    fields = _fields(config)
    model_type, family = _family(fields)
    sizes = SizeReader(fields, family, model_type)
    layers = sizes.value("layers")
    attention = attention_kinds(fields, family, layers)
    experts = experts_of(fields, layers, model_type)
    if "sliding_attention" in attention:
        sizes.window()
    if "linear_attention" in attention:
        sizes.linear()
    if experts is not None and any(experts.here):
        sizes.experts(experts)
    label = _label(fields, name)
    described = shown(model_type) if model_type else "no stated type"
    document = validated(
        {
            "schema": MODEL_SCHEMA,
            "id": "own",
            "version": 1,
            "name": label or family.label,
            "source": f"{shown(name)}, a Hugging Face config ({described})",
            "layer_pattern": layer_kinds(attention, experts),
            "numbers": sizes.quantities(),
        },
        ModelDocument,
    )
    if not label:
        billions = significant(document.shape().parameters / BILLION)
        label = f"{family.label} {billions}B"
    document = document.model_copy(update={"id": _slug(label), "name": label})
    notes = not_modelled(fields, family, document.shape())
    assumed = tuple(sizes.assumed)
    if family is GENERIC:
        assumed = (_generic(described), *assumed)
    return ImportedModel(document, family.label, assumed, notes)


def _fields(config: Mapping[str, Any]) -> Fields:
    """Return the fields of the language model, which multimodal configs nest."""
    for key in NESTED:
        nested = config.get(key)
        if nested is None:
            continue
        if not isinstance(nested, Mapping):
            raise refuse(key, nested, "expected a JSON object")
        return Fields(nested, config, read={key})
    return Fields(config, config)


def _family(fields: Fields) -> tuple[str, Family]:
    """Return the model type and its family; raises InputError for what would be read wrongly."""
    model_type = fields.text("model_type").removesuffix("_text")
    model_type = ALIASES.get(model_type, model_type)
    if model_type in REFUSED:
        raise refuse("model_type", model_type, REFUSED[model_type])
    for key, reason in REFUSED_FIELDS.items():
        if fields.raw(key):
            raise refuse(key, fields.raw(key), reason)
    for key in ("is_encoder_decoder", "add_cross_attention"):
        if fields.flag(key, False):
            raise refuse(key, "true", "expected a decoder on its own")
    fields.words("architectures")
    return model_type, FAMILIES.get(model_type, GENERIC)


def _generic(described: str) -> str:
    return (
        f"The type of the file ({described}) is not known here: it is read as Llama's, with a "
        "gated MLP, two RMSNorms a layer and rotary positions. If it differs, so do the numbers."
    )


def _label(fields: Fields, name: str) -> str:
    """Return the last part of the model's path, or the file's name; empty where both say nothing.

    Raises:
        InputError: for a name with characters that cannot be seen.
    """
    path = fields.text("_name_or_path")
    try:
        label = PurePosixPath(plain_text(path)).name
    except ValueError as error:
        raise refuse("_name_or_path", path, str(error)) from None
    if not label:
        stem = printable(PurePosixPath(name).stem)
        label = "" if stem.lower() in ("config", "") else stem
    return label.strip()[:LONGEST_NAME]


def _slug(label: str) -> str:
    """Return an id that no preset has."""
    return "own-" + (re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-") or "model")
