"""The model document and the shape that the cost functions read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, isqrt
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from explorer.config.quantity import Document, Quantity, Text, Version

MODEL_SCHEMA = "explorer.model/1"
LayerKind = Literal["full_attention", "linear_attention"]
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
        linear = [getattr(numbers, name) for name in LINEAR_NUMBERS]
        if "linear_attention" in self.layer_pattern and any(
            number is None or number.value < 1 for number in linear
        ):
            raise ValueError(f"linear_attention layers need {', '.join(LINEAR_NUMBERS)}")
        return self

    def shape(self) -> Model:
        """Return the plain sizes for the cost functions."""
        values = {
            name: quantity.value
            for name in ModelNumbers.model_fields
            if (quantity := getattr(self.numbers, name)) is not None
        }
        layers = values["layers"]
        repeats = -(-layers // len(self.layer_pattern))
        return Model(
            id=self.id,
            name=self.name,
            layer_kinds=(self.layer_pattern * repeats)[:layers],
            **values,
        )


@dataclass(frozen=True)
class Model:
    """Sizes of a decoder-only transformer; counts are heads, elements, layers or bytes."""

    id: str
    name: str
    layer_kinds: tuple[LayerKind, ...]
    layers: int
    hidden_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    vocabulary_size: int
    mlp_matrices: int
    embedding_tables: int
    norm_vectors_per_layer: int
    query_projection_factor: int = 1
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_head_dim: int = 0
    linear_state_element_bytes: int = 4

    @cached_property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Distinct layer kinds, in order of first appearance."""
        return tuple(dict.fromkeys(self.layer_kinds))

    def layers_of(self, kind: LayerKind) -> int:
        """Return how many layers are of ``kind``."""
        return self.layer_kinds.count(kind)

    @cached_property
    def legal_tp(self) -> tuple[int, ...]:
        """Tensor-parallel degrees that split every projection evenly.

        TP divides query heads, FFN width and linear-attention heads; KV heads are split evenly,
        or replicated evenly above their number.
        """
        common = gcd(self.query_heads, self.ffn_width)
        if "linear_attention" in self.kinds:
            common = gcd(common, self.linear_key_heads, self.linear_value_heads)
        small = [tp for tp in range(1, isqrt(common) + 1) if common % tp == 0]
        return tuple(
            tp
            for tp in sorted({*small, *(common // tp for tp in small)})
            if self.kv_heads % tp == 0 or tp % self.kv_heads == 0
        )

    @cached_property
    def layer_weight_elements(self) -> dict[LayerKind, int]:
        """Weight elements of one layer of each kind, norms included where they are counted."""
        mlp = self.mlp_matrices * self.hidden_size * self.ffn_width
        norms = self.norm_vectors_per_layer * self.hidden_size
        key_width = self.linear_key_heads * self.linear_head_dim
        value_width = self.linear_value_heads * self.linear_head_dim
        linear_columns = 2 * key_width + 3 * value_width + 2 * self.linear_value_heads
        query_columns = self.query_heads * self.head_dim * (self.query_projection_factor + 1)
        kv_columns = 2 * self.kv_heads * self.head_dim
        attention = {
            "full_attention": self.hidden_size * (query_columns + kv_columns),
            "linear_attention": self.hidden_size * linear_columns,
        }
        return {kind: attention[kind] + mlp + norms for kind in self.kinds}

    @property
    def embedding_elements(self) -> int:
        """Elements of one vocabulary table (the input embedding or the output head)."""
        return self.vocabulary_size * self.hidden_size

    @cached_property
    def parameters(self) -> int:
        """Weight elements of the whole model."""
        layers = sum(self.layer_weight_elements[kind] for kind in self.layer_kinds)
        final_norm = self.hidden_size if self.norm_vectors_per_layer else 0
        return layers + final_norm + self.embedding_tables * self.embedding_elements

    @property
    def kv_elements_per_token(self) -> int:
        """KV-cache elements a token over all full-attention layers, replication not counted."""
        return 2 * self.kv_heads * self.head_dim * self.layers_of("full_attention")

    @property
    def state_bytes_per_layer(self) -> int:
        """Recurrent state of one request in one linear-attention layer [B]."""
        return self.linear_value_heads * self.linear_head_dim**2 * self.linear_state_element_bytes
