"""How slopes measured with one model carry over to another on the Ascend 910A.

The report measured one model. A product takes longer with its MACs a row, a recurrence with its
state, attention with its heads, norms and the rest with the hidden size; issue and fixed times stay
a layer. For the measured model every ratio is 1.
"""

from __future__ import annotations

from functools import cache

from explorer.config.model import Model
from explorer.config.presets import load_model

MEASURED_MODEL = "qwen3.8-27b@1"
"""The model of Ascend TP Collective Overlap (its header)."""


@cache
def measured_model() -> Model:
    """Return the sizes of the model that slopes were measured with."""
    return load_model(MEASURED_MODEL).shape()


def is_measured(model: Model) -> bool:
    """Return whether slopes were measured with layers of these sizes, however many."""
    measured = measured_model()
    ratios = (attention_ratio(model), hidden_ratio(model), recurrence_ratio(model))
    layers = (model.layer_product_elements, measured.layer_product_elements)
    return all(ratio == 1 for ratio in ratios) and layers[0] == layers[1]


@cache
def average_layer_products() -> float:
    """Return the MACs of a row in an average layer of the measured model."""
    model = measured_model()
    elements = model.layer_product_elements
    return sum(elements[kind] for kind in model.layer_kinds) / model.layers


def attention_ratio(model: Model) -> float:
    """Return how much more attention a token takes: query heads x head dimension."""
    measured = measured_model()
    return model.query_heads * model.head_dim / (measured.query_heads * measured.head_dim)


def recurrence_ratio(model: Model) -> float:
    """Return how much more recurrence a token takes: elements of the state of a layer."""
    return model.linear_state_elements / measured_model().linear_state_elements


def hidden_ratio(model: Model) -> float:
    """Return how much wider a row is."""
    return model.hidden_size / measured_model().hidden_size
