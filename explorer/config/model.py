"""The model document and the shape that the cost functions read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, isqrt
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, Strict, model_serializer, model_validator

from explorer.config.parts import Part, end_parts, final_norm_vectors, layer_parts
from explorer.config.quantity import Document, Quantity, Text, Version
from explorer.config.sizes import (
    ATTENTION_OF,
    LayerKind,
    Sizes,
    caches_tokens,
    has_experts,
)

__all__ = ["LayerKind", "Model", "ModelDocument", "ModelNumbers", "ModelQuantity"]

MODEL_SCHEMA = "explorer.model/1"
EXPERT_NUMBERS = ("experts", "experts_per_token", "expert_ffn_width")
LINEAR_NUMBERS = ("linear_key_heads", "linear_value_heads", "linear_head_dim")
LARGEST_SIZE = 10_000_000
MOST_LAYERS = 1024


class ModelQuantity(Quantity):
    """A size of a model: always a whole number."""

    value: Annotated[int, Strict(), Field(ge=0, le=LARGEST_SIZE)]


class ModelNumbers(Document):
    """The sizes of a decoder-only transformer, each with its source."""

    layers: ModelQuantity
    hidden_size: ModelQuantity
    query_heads: ModelQuantity
    kv_heads: ModelQuantity
    head_dim: ModelQuantity
    ffn_width: ModelQuantity
    vocabulary_size: ModelQuantity
    mlp_matrices: ModelQuantity
    embedding_tables: ModelQuantity
    norm_vectors_per_layer: ModelQuantity
    query_projection_factor: ModelQuantity | None = None
    linear_key_heads: ModelQuantity | None = None
    linear_value_heads: ModelQuantity | None = None
    linear_head_dim: ModelQuantity | None = None
    linear_state_element_bytes: ModelQuantity | None = None
    sliding_window: ModelQuantity | None = None
    experts: ModelQuantity | None = None
    experts_per_token: ModelQuantity | None = None
    expert_ffn_width: ModelQuantity | None = None
    shared_expert_ffn_width: ModelQuantity | None = None
    shared_expert_gates: ModelQuantity | None = None
    qk_norm_elements: ModelQuantity | None = None
    attention_bias_elements: ModelQuantity | None = None
    mlp_bias_elements: ModelQuantity | None = None
    final_norm_vectors: ModelQuantity | None = None
    learned_positions: ModelQuantity | None = None
    output_head_bias_elements: ModelQuantity | None = None
    linear_value_head_dim: ModelQuantity | None = None
    linear_convolution_width: ModelQuantity | None = None
    linear_vector_elements: ModelQuantity | None = None
    linear_convolution_element_bytes: ModelQuantity | None = None

    @model_serializer(mode="wrap")
    def _without_absent(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the numbers that the model does not have."""
        written: dict[str, Any] = serialise(self)
        return {name: quantity for name, quantity in written.items() if quantity is not None}

    def at_least_one(self, *names: str) -> bool:
        """Return whether all these numbers are given and above zero."""
        given = [getattr(self, name) for name in names]
        return all(number is not None and number.value >= 1 for number in given)


class ModelDocument(Document):
    """A model as data; ``layer_pattern`` repeats until all layers have a kind."""

    schema_: Literal["explorer.model/1"] = Field(alias="schema")
    id: Text
    version: Version
    name: Text
    source: str
    layer_pattern: Annotated[tuple[LayerKind, ...], Field(min_length=1, max_length=1024)]
    numbers: ModelNumbers

    @model_validator(mode="after")
    def _sizes_are_usable(self) -> ModelDocument:
        numbers = self.numbers
        for name in ("layers", "hidden_size", "query_heads", "kv_heads", "head_dim", "ffn_width"):
            if getattr(numbers, name).value < 1:
                raise ValueError(f"numbers.{name} must be at least 1")
        if numbers.layers.value > MOST_LAYERS:
            raise ValueError(f"numbers.layers must be at most {MOST_LAYERS}")
        if numbers.query_heads.value % numbers.kv_heads.value:
            raise ValueError("numbers.kv_heads must divide numbers.query_heads")
        if numbers.mlp_matrices.value not in (2, 3) or numbers.embedding_tables.value not in (1, 2):
            raise ValueError("numbers.mlp_matrices must be 2 or 3, numbers.embedding_tables 1 or 2")
        pattern = self.layer_pattern
        if not all(map(caches_tokens, pattern)) and not numbers.at_least_one(*LINEAR_NUMBERS):
            raise ValueError(f"linear_attention layers need {', '.join(LINEAR_NUMBERS)}")
        sliding = any(ATTENTION_OF[kind] == "sliding_attention" for kind in pattern)
        if sliding and not numbers.at_least_one("sliding_window"):
            raise ValueError("sliding_attention layers need numbers.sliding_window of at least 1")
        if any(map(has_experts, pattern)):
            self._experts_are_usable()
        return self

    def _experts_are_usable(self) -> None:
        numbers = self.numbers
        if not numbers.at_least_one(*EXPERT_NUMBERS):
            raise ValueError(f"layers with experts need {', '.join(EXPERT_NUMBERS)}")
        values = self.values()
        if values["experts_per_token"] > values["experts"]:
            raise ValueError("numbers.experts_per_token must be at most numbers.experts")
        if values.get("shared_expert_gates", 0) > 1:
            raise ValueError("numbers.shared_expert_gates must be 0 or 1")

    def values(self) -> dict[str, int]:
        """Return the sizes that the document gives, by name."""
        return {
            name: quantity.value
            for name in ModelNumbers.model_fields
            if (quantity := getattr(self.numbers, name)) is not None
        }

    def shape(self) -> Model:
        """Return the plain sizes for the cost functions."""
        return _shape_of(self)


@lru_cache(maxsize=256)
def _shape_of(document: ModelDocument) -> Model:
    """Return the sizes of a document, the same object each time: what follows is kept with it."""
    values = document.values()
    layers = values["layers"]
    repeats = -(-layers // len(document.layer_pattern))
    kinds = (document.layer_pattern * repeats)[:layers]
    return Model(id=document.id, name=document.name, layer_kinds=kinds, **values)


@dataclass(frozen=True)
class Model(Sizes):
    """Sizes of a decoder-only transformer, and what follows from them."""

    @cached_property
    def legal_tp(self) -> tuple[int, ...]:
        """Tensor-parallel degrees that split every projection evenly.

        TP divides query heads, the width of dense MLP and of experts, and linear-attention heads;
        KV heads are split evenly, or replicated evenly above their number.
        """
        widths = [self.query_heads]
        if self.dense_mlp:
            widths.append(self.ffn_width)
        if any(map(has_experts, self.kinds)):
            widths += [self.expert_ffn_width, self.shared_expert_ffn_width]
        if not all(map(caches_tokens, self.kinds)):
            widths += [self.linear_key_heads, self.linear_value_heads]
        common = gcd(*widths)
        small = [tp for tp in range(1, isqrt(common) + 1) if common % tp == 0]
        return tuple(
            tp
            for tp in sorted({*small, *(common // tp for tp in small)})
            if self.kv_heads % tp == 0 or tp % self.kv_heads == 0
        )

    @cached_property
    def layer_parts(self) -> dict[LayerKind, tuple[Part, ...]]:
        """Weights of one layer of each kind, part by part."""
        return {kind: layer_parts(self, kind) for kind in self.kinds}

    @cached_property
    def end_parts(self) -> tuple[Part, ...]:
        """Weights before and after the layers, part by part."""
        return end_parts(self)

    @cached_property
    def layer_weight_elements(self) -> dict[LayerKind, int]:
        """Weight elements of one layer of each kind, norms included where they are counted."""
        return {kind: sum(part.elements for part in self.layer_parts[kind]) for kind in self.kinds}

    @cached_property
    def layer_whole_elements(self) -> dict[LayerKind, int]:
        """Weight elements of one layer that TP does not split: norms, the router of experts."""
        return {
            kind: sum(part.elements for part in self.layer_parts[kind] if part.whole)
            for kind in self.kinds
        }

    @cached_property
    def layer_product_elements(self) -> dict[LayerKind, int]:
        """Multiply-accumulates of one token with the weights of one layer of each kind."""
        return {
            kind: sum(part.active for part in self.layer_parts[kind] if part.product)
            for kind in self.kinds
        }

    @property
    def expert_elements(self) -> int:
        """Weight elements of one routed expert of one layer."""
        return self.mlp_matrices * self.hidden_size * self.expert_ffn_width

    @property
    def embedding_elements(self) -> int:
        """Elements of one vocabulary table (the input embedding or the output head)."""
        return self.vocabulary_size * self.hidden_size

    @property
    def final_norm_elements(self) -> int:
        """Elements of the norm after the last layer."""
        return final_norm_vectors(self) * self.hidden_size

    def total(self, counted: Callable[[Part], int]) -> int:
        """Return the sum over all weights of the model of what is counted of each part."""
        layers = (
            self.layers_of(kind) * sum(map(counted, self.layer_parts[kind])) for kind in self.kinds
        )
        return sum(layers) + sum(map(counted, self.end_parts))

    @cached_property
    def parameters(self) -> int:
        """Weight elements of the whole model."""
        return self.total(lambda part: part.elements)

    @cached_property
    def active_parameters(self) -> int:
        """Weight elements that one token passes: routed experts that it does not pass left out."""
        return self.total(lambda part: part.active)

    @cached_property
    def macs_per_token(self) -> int:
        """Multiply-accumulates of one token, attention to its context not included.

        One for each active element of a matrix (the input embedding is looked up, not multiplied),
        and three for each element of a recurrent state: k^T S, the rank-1 update, q^T S.
        """
        products = self.total(lambda part: part.active if part.product else 0)
        return products + 3 * self.linear_state_elements * self.layers_with("linear_attention")

    @property
    def attention_macs_per_context_token(self) -> int:
        """Multiply-accumulates of one token for each token that it attends to, in all layers."""
        return 2 * self.query_heads * self.head_dim * self.caching_layers

    @property
    def caching_layers(self) -> int:
        """Layers that keep K and V of tokens."""
        return sum(map(caches_tokens, self.layer_kinds))

    @property
    def kv_elements_per_token_layer(self) -> int:
        """KV-cache elements a token in one layer that caches tokens, replication not counted."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def kv_elements_per_token(self) -> int:
        """KV-cache elements a token over all layers that cache tokens, replication not counted."""
        return self.kv_elements_per_token_layer * self.caching_layers

    @property
    def state_bytes_per_layer(self) -> int:
        """What one request keeps in one linear-attention layer [B].

        The recurrent state, and the tokens before the next one that the convolution still sees.
        """
        recurrent = self.linear_state_elements * self.linear_state_element_bytes
        seen = max(self.linear_convolution_width - 1, 0) * self.linear_convolution_channels
        return recurrent + seen * self.linear_convolution_element_bytes

    @property
    def state_bytes_per_request(self) -> int:
        """What one request keeps in all linear-attention layers, however long its context [B]."""
        return self.state_bytes_per_layer * self.layers_with("linear_attention")
