"""What a model amounts to: parameters, caches and work a token, each with its formula filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.config.hugging_face import ImportedModel
from explorer.config.model import Model
from explorer.config.parts import Part
from explorer.config.sizes import LayerKind, caches_tokens
from explorer.config.units import human

SUMMARY_SCHEMA = "explorer.model-summary/1"
KV_ELEMENT_BYTES = 2
"""KV bytes a token are told for 16-bit caches, as model cards tell them."""
KIND_NAMES: dict[LayerKind, str] = {
    "full_attention": "full attention",
    "sliding_attention": "attention in a sliding window",
    "linear_attention": "linear attention",
    "full_attention_moe": "full attention with experts",
    "sliding_attention_moe": "attention in a sliding window with experts",
    "linear_attention_moe": "linear attention with experts",
}


@dataclass(frozen=True)
class Figure:
    """One figure of a model: its value, its unit, and how it comes about."""

    key: str
    label: str
    value: int
    unit: str
    formula: str


@dataclass(frozen=True)
class PartRow:
    """Weights of one kind in all layers that have them: ``elements`` in ``layers`` layers."""

    name: str
    layers: int
    formula: str
    elements: int
    active: int


def figures(model: Model) -> tuple[Figure, ...]:
    """Return what a model amounts to, the figures that do not apply left out."""
    found = [
        Figure("parameters", "Parameters", model.parameters, "", "the sum of the parts below"),
        _active(model),
        _kv(model),
        _kv_beyond_window(model),
        _state(model),
        _macs(model),
        _context_macs(model),
    ]
    return tuple(figure for figure in found if figure is not None)


def part_rows(model: Model) -> tuple[PartRow, ...]:
    """Return every kind of weights once, those of equal name and size in one row."""
    layers: dict[Part, int] = {}
    for kind in model.kinds:
        for part in model.layer_parts[kind]:
            layers[part] = layers.get(part, 0) + model.layers_of(kind)
    rows = [_row(part, count, True) for part, count in layers.items()]
    return (*rows, *(_row(part, 1, False) for part in model.end_parts))


def layer_words(model: Model) -> str:
    """Return how many layers are of which kind, such as ``2 layers of full attention``."""
    if len(model.kinds) == 1:
        return f"{human(model.layers, 'layers')} of {KIND_NAMES[model.kinds[0]]}"
    each = [f"{model.layers_of(kind)} of {KIND_NAMES[kind]}" for kind in model.kinds]
    return f"{model.layers} layers, {', '.join(each)}"


def summary_document(read: ImportedModel) -> dict[str, Any]:
    """Return the summary of a model as JSON values."""
    model = read.document.shape()
    told = figures(model)
    return {
        "schema": SUMMARY_SCHEMA,
        "name": read.document.name,
        "family": read.family or None,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "layers": model.layers,
        "layer_kinds": {kind: model.layers_of(kind) for kind in model.kinds},
        "kv_bytes_per_token": model.kv_elements_per_token * KV_ELEMENT_BYTES,
        "kv_bytes_per_token_beyond_window": _beyond_window(model) * KV_ELEMENT_BYTES,
        "sliding_window_tokens": model.sliding_window or None,
        "state_bytes_per_request": model.state_bytes_per_request,
        "macs_per_token": model.macs_per_token,
        "flops_per_token": 2 * model.macs_per_token,
        "attention_macs_per_context_token": model.attention_macs_per_context_token,
        "tensor_parallel": list(model.legal_tp),
        "formulas": {figure.key: figure.formula for figure in told},
        "parts": [
            {
                "name": row.name,
                "layers": row.layers,
                "formula": row.formula,
                "parameters": row.elements,
                "active_parameters": row.active,
            }
            for row in part_rows(model)
        ],
        "assumed": list(read.assumed),
        "not_modelled": list(read.not_modelled),
    }


def _row(part: Part, layers: int, repeated: bool) -> PartRow:
    formula = f"{human(layers, 'layers')} × {part.formula}" if repeated else part.formula
    return PartRow(part.name, layers, formula, layers * part.elements, layers * part.active)


def _active(model: Model) -> Figure | None:
    if model.active_parameters == model.parameters:
        return None
    idle = model.experts - model.experts_per_token
    with_experts = sum(count for _, count in _expert_layers(model))
    formula = (
        f"{model.parameters:,} - {with_experts} layers × {idle} experts × "
        f"{model.mlp_matrices} × {model.hidden_size:,} × {model.expert_ffn_width:,}"
    )
    return Figure("active_parameters", "Active a token", model.active_parameters, "", formula)


def _expert_layers(model: Model) -> list[tuple[LayerKind, int]]:
    return [(kind, model.layers_of(kind)) for kind in model.kinds if kind.endswith("_moe")]


def _kv(model: Model) -> Figure | None:
    if not model.caching_layers:
        return None
    value = model.kv_elements_per_token * KV_ELEMENT_BYTES
    return Figure(
        "kv_bytes_per_token",
        "KV cache a token",
        value,
        "B",
        f"2 × {model.kv_heads} KV heads × {model.head_dim} × {KV_ELEMENT_BYTES} B × "
        f"{model.caching_layers} layers",
    )


def _beyond_window(model: Model) -> int:
    layers = sum(
        model.layers_of(kind)
        for kind in model.kinds
        if caches_tokens(kind) and not kind.startswith("sliding")
    )
    return layers * model.kv_elements_per_token_layer


def _kv_beyond_window(model: Model) -> Figure | None:
    if not model.layers_with("sliding_attention"):
        return None
    value = _beyond_window(model) * KV_ELEMENT_BYTES
    layers = model.caching_layers - model.layers_with("sliding_attention")
    return Figure(
        "kv_bytes_per_token_beyond_window",
        "KV a token past the window",
        value,
        "B",
        f"2 × {model.kv_heads} KV heads × {model.head_dim} × {KV_ELEMENT_BYTES} B × "
        f"{layers} layers without the window of {model.sliding_window:,} tokens",
    )


def _state(model: Model) -> Figure | None:
    if not model.state_bytes_per_request:
        return None
    seen = max(model.linear_convolution_width - 1, 0)
    state = (
        f"{model.linear_value_heads} heads × {model.linear_head_dim} × {model.linear_value_dim} × "
        f"{model.linear_state_element_bytes} B"
    )
    convolution = (
        f" + {seen} tokens × {model.linear_convolution_channels:,} channels × "
        f"{model.linear_convolution_element_bytes} B"
        if seen
        else ""
    )
    return Figure(
        "state_bytes_per_request",
        "Recurrent state a request",
        model.state_bytes_per_request,
        "B",
        f"{model.layers_with('linear_attention')} layers × ({state}{convolution})",
    )


def _macs(model: Model) -> Figure:
    products = model.total(lambda part: part.active if part.product else 0)
    formula = f"{products:,} active elements of matrices, one MAC each"
    linear = model.layers_with("linear_attention")
    if linear:
        formula += f" + 3 × {linear} layers × {model.linear_state_elements:,} elements of state"
    return Figure("macs_per_token", "Work a token", model.macs_per_token, "MAC", formula)


def _context_macs(model: Model) -> Figure | None:
    if not model.caching_layers:
        return None
    return Figure(
        "attention_macs_per_context_token",
        "Attention a context token",
        model.attention_macs_per_context_token,
        "MAC",
        f"2 × {model.query_heads} heads × {model.head_dim} × {model.caching_layers} layers",
    )
