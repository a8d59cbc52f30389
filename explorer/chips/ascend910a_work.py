"""Work that prefill, the device-synced profile and decode of the Ascend 910A share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.chips.ascend910a_numbers import RECURRENCE_GROUPS, Ascend910aNumbers
from explorer.chips.ascend910a_scale import (
    average_layer_products,
    hidden_ratio,
    recurrence_ratio,
)
from explorer.chips.inputs import Inputs, Kinds
from explorer.config.model import LayerKind
from explorer.config.sizes import ATTENTION_OF, AttentionKind, caches_tokens, has_experts
from explorer.costs.arrays import ONE, ZERO, Array, Codes, total
from explorer.costs.collective import marginal_all_reduce_seconds
from explorer.costs.experts import distinct_experts
from explorer.costs.memory import layer_passed_elements, layer_read_bytes
from explorer.costs.partition import StageShare
from explorer.costs.terms import Bound, Term, code
from explorer.costs.transfer import message_seconds

RECURRENCE_PASSES = 3
"""Passes over the state a token: k^T S, the rank-1 update, and scaling it (section 5.4)."""
RECURRENCE_NUMBERS = (*RECURRENCE_GROUPS, "recurrence_time_factor")


@dataclass(frozen=True)
class Work:
    """Bytes, MACs and measured slopes of one stage at one TP; sections are of the report."""

    inputs: Inputs
    numbers: Ascend910aNumbers
    kinds: Kinds
    share: StageShare
    tp: Array

    @property
    def full(self) -> Array:
        """Full-attention layers."""
        return self._layers_with("full_attention")

    @property
    def sliding(self) -> Array:
        """Layers that attend within a sliding window; none in the report."""
        return self._layers_with("sliding_attention")

    @property
    def linear(self) -> Array:
        """Gated-delta layers."""
        return self._layers_with("linear_attention")

    def _layers_with(self, attention: AttentionKind) -> Array:
        layers = self.share.layers
        return total([layers[kind] for kind in layers if ATTENTION_OF[kind] == attention])

    @property
    def split(self) -> Array:
        """How much longer a card works than at the TP that slopes were measured at."""
        return self.numbers.measured_tp / self.tp

    @cached_property
    def head_weight_bytes(self) -> Array:
        """Output head on one rank [B]; the embedding is looked up, not streamed."""
        i = self.inputs
        return self.share.head * i.model.embedding_elements * i.weight_bytes / self.tp

    def layer_weights_bytes(self, rows: Array) -> Array:
        """Return the weights of the stage's layers that a pass reads on one rank [B]."""
        i = self.inputs
        return total(
            [
                count * layer_read_bytes(i.model, kind, rows, self.tp, i.weight_bytes)
                for kind, count in self.share.layers.items()
            ]
        )

    @cached_property
    def passed_elements(self) -> Array:
        """Weights of the stage's layers that one row passes on one rank: a MAC each."""
        return total(
            [
                count * layer_passed_elements(self.inputs.model, kind, self.tp)
                for kind, count in self.share.layers.items()
            ]
        )

    @cached_property
    def mean_layers(self) -> Array:
        """The stage's layers, weighted by the MACs of a row over the measured average layer's."""
        return total(
            [
                count * sum(self.gemm_shares(kind).values())
                for kind, count in self.share.layers.items()
            ]
        )

    @property
    def width(self) -> float:
        """How much wider a row is than that of the model that slopes were measured with."""
        return hidden_ratio(self.inputs.model)

    @property
    def all_reduces(self) -> Array:
        """All-reduces of one pass: two a layer and one of the hidden state (129 at 64 layers)."""
        layers = self.numbers.all_reduces_per_layer * self.share.layer_count
        return layers + self.share.embedding

    def payload_bytes(self, rows: Array) -> Array:
        """Return bytes of an all-reduce: rows x hidden size x element (section 5.3)."""
        return rows * self.inputs.model.hidden_size * self.inputs.compute_bytes

    def all_reduce_seconds(self, rows: Array) -> tuple[Array, Array]:
        """Return fixed and byte term of one collective on the device [s]; none on one card."""
        n = self.numbers
        return marginal_all_reduce_seconds(
            self.payload_bytes(rows),
            self.tp,
            n.collective_fixed_seconds,
            n.link_bandwidth_bytes_per_second,
            n.measured_tp,
        )

    @property
    def recurrence_seconds_per_row(self) -> Array:
        """Recurrence of one token in one layer [s]: the sum of its groups (section 5.4)."""
        groups = self.numbers.recurrence_groups(self.inputs.scenario.kernel.recurrence)
        return total(list(groups.values())) * self.split * recurrence_ratio(self.inputs.model)

    def recurrence_macs(self, rows: Array) -> Array:
        """Return MACs of one gated-delta layer: three passes over the state a token."""
        return RECURRENCE_PASSES * rows * self.inputs.model.linear_state_elements / self.tp

    def gemm_shares(self, kind: LayerKind) -> dict[str, float]:
        """Return MACs of a layer's products as fractions of the measured model's average layer.

        ``in`` and ``out`` of the mixer, ``up`` (gate and up) and ``down`` of the MLP; the profile
        gives all 384 products as one phase, split here by their MACs (assumed).
        """
        model = self.inputs.model
        down = model.hidden_size * model.passed_ffn_width(kind)
        width = (
            model.query_heads * model.head_dim if caches_tokens(kind) else model.linear_value_width
        )
        out = model.hidden_size * width
        up = (model.mlp_matrices - 1) * down
        rest = model.layer_product_elements[kind] - down - up - out
        parts = {"in": rest, "out": out, "up": up, "down": down}
        return {name: part / average_layer_products() for name, part in parts.items()}

    def expert_stream_seconds(self, kind: LayerKind, rows: Array) -> Array:
        """Return how long one matrix of the experts that a pass touches takes to read [s].

        None for a dense MLP, whose products were measured as they are. A pass gives each expert so
        few rows that its weights may outlast its arithmetic; they stream as in decode.
        """
        if not has_experts(kind):
            return ZERO
        i = self.inputs
        touched = distinct_experts(rows, i.model.experts, i.model.experts_per_token)
        width = touched * i.model.expert_ffn_width + i.model.shared_expert_ffn_width
        matrix_bytes = i.model.hidden_size * width / self.tp * i.weight_bytes
        return matrix_bytes / self.numbers.weight_stream_bytes_per_second

    def hand_over(self, rows: Array, pp: Array) -> Term:
        """Return the hidden state's way to the next pipeline stage; nothing without one."""
        n = self.numbers
        several = np.where(pp > 1, ONE, ZERO)
        payload = several * self.payload_bytes(rows)
        seconds = several * message_seconds(
            payload, n.link_latency_seconds, n.link_bandwidth_bytes_per_second
        )
        names = ("link_latency_seconds", "link_bandwidth_bytes_per_second")
        return self.term("stage_hand_over", seconds, Bound.LINK, names, payload)

    def term(
        self,
        name: str,
        seconds: Array,
        bound: Bound,
        sources: tuple[str, ...],
        bytes_moved: Array = ZERO,
        macs: Array = ZERO,
        busy_seconds: Array | None = None,
    ) -> Term:
        """Return a term bound by one resource, exposed in full unless ``busy_seconds`` is given."""
        busy = seconds if busy_seconds is None else busy_seconds
        codes: Codes = code(bound)
        return Term(name, seconds, busy, bytes_moved, macs, codes, self.kinds(*sources))
