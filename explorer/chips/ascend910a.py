"""Ascend 910A: a prefill pass is a race between host issue and device; decode streams weights.

Source of the structure and of the numbers: Ascend TP Collective Overlap, sections 2 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Link, Roof
from explorer.config.errors import refuse
from explorer.config.numbers import as_float_array
from explorer.costs.arrays import ONE, ZERO, Array, scalar, total
from explorer.costs.attention import decode_attention, full_attention_macs
from explorer.costs.collective import all_reduce_rank_bytes, marginal_all_reduce_seconds
from explorer.costs.memory import kv_bytes_per_token_layer, kv_heads_per_rank, layer_weight_bytes
from explorer.costs.overlap import effective_slices, slices_by_rule
from explorer.costs.partition import StageShare
from explorer.costs.terms import Bound, Stage, Term, code
from explorer.costs.transfer import message_seconds

ALL_REDUCES_PER_LAYER = 2
"""One after the attention output and one after the MLP, both row-parallel (section 1)."""


@dataclass(frozen=True)
class Ascend910aNumbers:
    """Numbers of the chip document, one card each unless the name says otherwise."""

    peak_macs_per_second_fp16: Array
    hbm_bandwidth_bytes_per_second: Array
    weight_stream_bytes_per_second: Array
    memory_bytes: Array
    usable_memory_fraction: Array
    overhead_bytes: Array
    link_latency_seconds: Array
    link_bandwidth_bytes_per_second: Array
    gated_delta_seconds_per_row_layer: Array
    full_attention_seconds_per_row_layer: Array
    projection_seconds_per_row_layer: Array
    norm_seconds_per_row_layer: Array
    other_seconds_per_row_layer: Array
    host_issue_seconds_per_layer: Array
    host_issue_seconds_per_collective: Array
    device_fixed_seconds_per_layer: Array
    overlap_seconds_per_row_layer: Array
    collective_fixed_seconds: Array
    decode_fixed_seconds_per_layer: Array
    serial_below_rows_per_slice: Array
    shortest_measured_rows: Array
    longest_measured_rows: Array
    largest_measured_decode_batch: Array
    measured_tp: Array


@dataclass(frozen=True)
class Ascend910a:
    """Stage times of a group of Ascend 910A cards for one scenario."""

    inputs: Inputs
    numbers: Ascend910aNumbers
    kinds: Kinds

    @classmethod
    def of(cls, inputs: Inputs) -> Ascend910a:
        """Return the machine of a scenario; raises InputError when the chip lacks a number."""
        scenario = inputs.scenario
        numbers = read_numbers(scenario, Ascend910aNumbers)
        if np.any(numbers.measured_tp <= 1):
            accepted = "expected at least 2 cards: one alone reduces nothing"
            raise refuse("chip.quantities.measured_tp", numbers.measured_tp, accepted)
        return cls(inputs, numbers, kinds_reader(scenario))

    @property
    def capacity(self) -> Capacity:
        """Memory of one card."""
        n = self.numbers
        return Capacity(n.memory_bytes, n.usable_memory_fraction, n.overhead_bytes)

    @property
    def link(self) -> Link:
        """Link between cards."""
        n = self.numbers
        kinds = self.kinds("link_latency_seconds", "link_bandwidth_bytes_per_second")
        return Link(n.link_latency_seconds, n.link_bandwidth_bytes_per_second, kinds)

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """FP16 peak over HBM, and over the rate that single-row products stream weights at."""
        n = self.numbers
        peak = n.peak_macs_per_second_fp16
        return (
            Roof("FP16, HBM", peak, n.hbm_bandwidth_bytes_per_second),
            Roof("FP16, weight streaming", peak, n.weight_stream_bytes_per_second),
        )

    @property
    def prefill_rows(self) -> Array:
        """Rows of one prefill pass: all prompt tokens of the micro-batch."""
        return self.inputs.micro_batch_prefill * self.inputs.prompt_tokens

    def slices(self) -> Array:
        """Return the slices that each all-reduce of a prefill pass runs in; 1 is serial."""
        plan, rows = self.inputs.scenario.plan, self.prefill_rows
        if isinstance(plan.slices, str):
            chosen = slices_by_rule(
                rows, as_float_array(plan.max_slices), as_float_array(plan.min_rows_per_slice)
            )
        else:
            chosen = as_float_array(plan.slices)
        least = self.numbers.serial_below_rows_per_slice
        return effective_slices(chosen, rows, self.inputs.tp_prefill, least)

    def smallest_tile(self) -> tuple[Array, Array]:
        """Return no requirement: the report gives no tiles of its kernels."""
        return ZERO, scalar(np.inf)

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill pass: the device's terms, and waiting for the host if it is later.

        Wall = max(host issue, device). On the device, slicing hides part of the all-reduce (and
        of the GEMMs beside it) and pays a fixed cost for each extra collective.
        """
        device = self._device_terms(share)
        issued = self._host_issue_seconds(share)
        waiting = np.maximum(issued - total([term.seconds for term in device]), 0.0)
        kinds = self.kinds("host_issue_seconds_per_layer", "host_issue_seconds_per_collective")
        host = Term("host_issue_wait", waiting, issued, bound_by=code(Bound.HOST), kinds=kinds)
        return Stage((*device, host))

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode step: weights, KV cache, recurrent state, collectives, issue."""
        i, n = self.inputs, self.numbers
        tp, requests, layers = i.tp_decode, i.micro_batch_decode, share.layer_count
        rank_weights = self._weight_bytes(share, tp)
        rank_macs = requests * rank_weights / i.weight_bytes
        streaming = np.maximum(
            rank_weights / n.weight_stream_bytes_per_second,
            rank_macs / n.peak_macs_per_second_fp16,
        )
        cache = decode_attention(
            requests,
            i.mean_context_tokens,
            i.model.query_heads / tp,
            kv_bytes_per_token_layer(i.model, tp, i.kv_bytes),
            scalar(i.model.head_dim),
            scalar(i.compute_bytes),
        )
        full, linear = self._layers(share)
        return Stage(
            (
                self._term(
                    "weight_streaming",
                    streaming,
                    Bound.WEIGHTS,
                    ("weight_stream_bytes_per_second",),
                    rank_weights,
                    rank_macs,
                ),
                self._hbm_term("kv_cache", full * cache.bytes, full * cache.macs),
                self._hbm_term(
                    "recurrent_state",
                    linear * 2 * requests * i.model.state_bytes_per_layer / tp,
                    linear * self._recurrence_macs(requests, tp),
                ),
                *self._collective_terms(share, requests, tp),
                self._term(
                    "decode_issue",
                    layers * n.decode_fixed_seconds_per_layer,
                    Bound.HOST,
                    ("decode_fixed_seconds_per_layer",),
                ),
                self._hand_over(requests, i.pp_decode),
            )
        )

    def environment(self) -> dict[str, str]:
        """Return the engine's slice setting; off is written as 1, since older builds take 0 for 4.

        A forced count is pinned as it is; with the rule the variable carries the ceiling.
        """
        plan = self.inputs.scenario.plan
        setting = plan.max_slices if isinstance(plan.slices, str) else plan.slices
        return {"QWEN_COMM_OVERLAP_SLICES": str(max(int(setting), 1))}

    def notes(self) -> tuple[str, ...]:
        """Return where the scenario leaves the report's measurements."""
        n, i = self.numbers, self.inputs
        rows, batch = self.prefill_rows, i.micro_batch_decode
        measured = f"{n.shortest_measured_rows:.0f} to {n.longest_measured_rows:.0f} rows"
        notes = []
        if np.any((rows < n.shortest_measured_rows) | (rows > n.longest_measured_rows)):
            notes.append(
                f"Prefill passes of {measured} were measured: this plan's time is extrapolated, "
                "and the memory of its activations is not counted."
            )
        if np.any(batch > n.largest_measured_decode_batch):
            notes.append(
                f"Decode was measured at up to {n.largest_measured_decode_batch:.0f} request a "
                "step: larger batches assume that weights are still streamed once."
            )
        if np.any((i.tp_prefill != n.measured_tp) | (i.tp_decode != n.measured_tp)):
            notes.append(f"Only {n.measured_tp:.0f} cards were measured: other TP is extrapolated.")
        return tuple(notes)

    def _layers(self, share: StageShare) -> tuple[Array, Array]:
        full = share.layers.get("full_attention", ZERO)
        return full, share.layers.get("linear_attention", ZERO)

    def _weight_bytes(self, share: StageShare, tp: Array) -> Array:
        """Return weights read in one pass: the layers and the output head, not the embedding."""
        i = self.inputs
        layers = total(
            [
                count * layer_weight_bytes(i.model, kind, tp, i.weight_bytes)
                for kind, count in share.layers.items()
            ]
        )
        return layers + share.head * i.model.embedding_elements * i.weight_bytes / tp

    def _recurrence_macs(self, rows: Array, tp: Array) -> Array:
        """Return MACs of one gated-delta layer: three passes over the state a token."""
        model = self.inputs.model
        return 3 * rows * model.linear_value_heads * model.linear_head_dim**2 / tp

    def _device_terms(self, share: StageShare) -> tuple[Term, ...]:
        i, n = self.inputs, self.numbers
        tp, rows, layers = i.tp_prefill, self.prefill_rows, share.layer_count
        full, linear = self._layers(share)
        split = n.measured_tp / tp
        weights = self._weight_bytes(share, tp)
        attention_macs = full_attention_macs(
            i.micro_batch_prefill,
            i.prompt_tokens,
            i.model.query_heads / tp,
            scalar(i.model.head_dim),
        )
        heads = i.model.query_heads / tp + kv_heads_per_rank(i.model, tp)
        attention_bytes = 2 * rows * heads * i.model.head_dim * i.compute_bytes
        projections = layers * rows * n.projection_seconds_per_row_layer * split
        fixed, wire = self._prefill_collectives(share)
        hidden = self._hidden_by_slicing(layers)
        wire_hidden = np.minimum(hidden, wire)
        projections_hidden = np.minimum(hidden - wire_hidden, projections)
        reduces, payload = self._all_reduces(share), self._payload(rows)
        return (
            self._term(
                "gated_delta",
                linear * rows * n.gated_delta_seconds_per_row_layer * split,
                Bound.INSTRUCTION_ISSUE,
                ("gated_delta_seconds_per_row_layer",),
                linear * 2 * i.micro_batch_prefill * i.model.state_bytes_per_layer / tp,
                linear * self._recurrence_macs(rows, tp),
            ),
            self._term(
                "full_attention",
                full * rows * n.full_attention_seconds_per_row_layer * split,
                Bound.COMPUTE,
                ("full_attention_seconds_per_row_layer",),
                full * attention_bytes,
                full * attention_macs,
            ),
            Term(
                "projections",
                projections - projections_hidden,
                projections,
                weights + layers * self._payload(rows),
                rows * weights / i.weight_bytes,
                code(Bound.COMPUTE),
                self.kinds("projection_seconds_per_row_layer", "overlap_seconds_per_row_layer"),
            ),
            Term(
                "all_reduce_bytes",
                wire - wire_hidden,
                wire,
                reduces * all_reduce_rank_bytes(payload, tp),
                ZERO,
                code(Bound.COLLECTIVE),
                self.kinds("link_bandwidth_bytes_per_second", "overlap_seconds_per_row_layer"),
            ),
            self._term("extra_collectives", fixed, Bound.COLLECTIVE, ("collective_fixed_seconds",)),
            self._term(
                "norms",
                layers * rows * n.norm_seconds_per_row_layer,
                Bound.ACTIVATIONS,
                ("norm_seconds_per_row_layer",),
            ),
            self._term(
                "other_operators",
                layers * rows * n.other_seconds_per_row_layer,
                Bound.ACTIVATIONS,
                ("other_seconds_per_row_layer",),
            ),
            self._term(
                "device_fixed",
                layers * n.device_fixed_seconds_per_layer,
                Bound.LAUNCH,
                ("device_fixed_seconds_per_layer",),
            ),
            self._hand_over(rows, i.pp_prefill),
        )

    def _prefill_collectives(self, share: StageShare) -> tuple[Array, Array]:
        """Return the fixed cost of the extra slices' collectives and the byte term of all [s].

        The fixed cost of one collective a site is part of the device's fixed time.
        """
        i, n = self.inputs, self.numbers
        fixed, wire = marginal_all_reduce_seconds(
            self._payload(self.prefill_rows),
            i.tp_prefill,
            n.collective_fixed_seconds,
            n.link_bandwidth_bytes_per_second,
            n.measured_tp,
        )
        extra = ALL_REDUCES_PER_LAYER * share.layer_count * (self.slices() - 1)
        return extra * fixed, self._all_reduces(share) * wire

    def _hidden_by_slicing(self, layers: Array) -> Array:
        """Return f (1 - 1/s) rows [s], the device time that slicing takes off the pass."""
        n = self.numbers
        share = 1 - 1 / self.slices()
        return layers * self.prefill_rows * n.overlap_seconds_per_row_layer * share

    def _host_issue_seconds(self, share: StageShare) -> Array:
        """Return when the host thread has issued the whole pass [s]; length does not matter."""
        n = self.numbers
        sites = (
            ALL_REDUCES_PER_LAYER
            * share.layer_count
            * np.where(self.inputs.tp_prefill > 1, ONE, ZERO)
        )
        issue = sites * self.slices() * n.host_issue_seconds_per_collective
        return share.layer_count * n.host_issue_seconds_per_layer + issue

    def _all_reduces(self, share: StageShare) -> Array:
        """Return all-reduces of one pass: two a layer and one of the final hidden state."""
        return ALL_REDUCES_PER_LAYER * share.layer_count + share.head

    def _payload(self, rows: Array) -> Array:
        return rows * self.inputs.model.hidden_size * self.inputs.compute_bytes

    def _collective_terms(self, share: StageShare, rows: Array, tp: Array) -> tuple[Term, Term]:
        n = self.numbers
        payload = self._payload(rows)
        fixed, wire = marginal_all_reduce_seconds(
            payload,
            tp,
            n.collective_fixed_seconds,
            n.link_bandwidth_bytes_per_second,
            n.measured_tp,
        )
        reduces = self._all_reduces(share)
        return (
            self._term(
                "collectives_fixed",
                reduces * fixed,
                Bound.COLLECTIVE,
                ("collective_fixed_seconds",),
            ),
            self._term(
                "collectives_bytes",
                reduces * wire,
                Bound.COLLECTIVE,
                ("link_bandwidth_bytes_per_second",),
                reduces * all_reduce_rank_bytes(payload, tp),
            ),
        )

    def _hand_over(self, rows: Array, pp: Array) -> Term:
        n = self.numbers
        several = np.where(pp > 1, ONE, ZERO)
        payload = several * self._payload(rows)
        seconds = several * message_seconds(
            payload, n.link_latency_seconds, n.link_bandwidth_bytes_per_second
        )
        names = ("link_latency_seconds", "link_bandwidth_bytes_per_second")
        return self._term("stage_hand_over", seconds, Bound.LINK, names, payload)

    def _hbm_term(self, name: str, bytes_moved: Array, macs: Array) -> Term:
        seconds = bytes_moved / self.numbers.hbm_bandwidth_bytes_per_second
        names = ("hbm_bandwidth_bytes_per_second",)
        return self._term(name, seconds, Bound.KV_CACHE, names, bytes_moved, macs)

    def _term(
        self,
        name: str,
        seconds: Array,
        bound: Bound,
        sources: tuple[str, ...],
        bytes_moved: Array = ZERO,
        macs: Array = ZERO,
    ) -> Term:
        kinds = self.kinds(*sources)
        return Term(name, seconds, seconds, bytes_moved, macs, code(bound), kinds)
