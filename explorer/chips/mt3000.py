"""MT-3000: per-operator roofline times of a decoder layer (THInfer Eqs 18-19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Link, Roof
from explorer.config.model import LayerKind
from explorer.costs.arrays import ONE, ZERO, Array, Codes, scalar
from explorer.costs.attention import AttentionCost, decode_attention, prefill_attention
from explorer.costs.collective import all_reduce_rank_bytes, ring_all_reduce_seconds
from explorer.costs.gemm import Blocking, gemm_traffic, gsm_blocking
from explorer.costs.launch import layer_launch_seconds, pass_launch_seconds
from explorer.costs.memory import kv_bytes_per_token_layer, kv_heads_per_rank
from explorer.costs.partition import StageShare
from explorer.costs.roofline import roofline_seconds
from explorer.costs.terms import Bound, Stage, Term, code, fixed_term, merged
from explorer.costs.transfer import message_seconds


@dataclass(frozen=True)
class Mt3000Numbers:
    """Numbers of the chip document, one cluster each unless the name says otherwise."""

    peak_macs_per_second_fp32: Array
    peak_macs_per_second_fp16: Array
    ddr_bandwidth_bytes_per_second: Array
    memory_bytes: Array
    usable_memory_fraction: Array
    overhead_bytes: Array
    sm_bytes: Array
    am_bytes: Array
    gsm_bytes: Array
    dsps_per_cluster: Array
    hthreads_create_seconds: Array
    hthreads_launch_seconds: Array
    mpi_latency_seconds: Array
    mpi_bandwidth_bytes_per_second: Array
    gemm_block_k: Array
    gemm_tile_k: Array
    gemm_kernel_rows: Array
    attention_row_block_rows: Array


@dataclass(frozen=True)
class Pass:
    """What one micro-batch brings to a stage: requests, rows of activations, the group's TP."""

    requests: Array
    rows: Array
    tp: Array
    pp: Array
    attention: Callable[[Array], AttentionCost]


@dataclass(frozen=True)
class Mt3000:
    """Stage times of the MT-3000 for one scenario."""

    inputs: Inputs
    numbers: Mt3000Numbers
    kinds: Kinds

    @classmethod
    def of(cls, inputs: Inputs) -> Mt3000:
        """Return the machine of a scenario; raises InputError when the chip lacks a number."""
        scenario = inputs.scenario
        return cls(inputs, read_numbers(scenario, Mt3000Numbers), kinds_reader(scenario))

    @property
    def capacity(self) -> Capacity:
        """Memory of one cluster."""
        n = self.numbers
        return Capacity(n.memory_bytes, n.usable_memory_fraction, n.overhead_bytes)

    @property
    def link(self) -> Link:
        """MPI between clusters."""
        n = self.numbers
        kinds = self.kinds("mpi_latency_seconds", "mpi_bandwidth_bytes_per_second")
        return Link(n.mpi_latency_seconds, n.mpi_bandwidth_bytes_per_second, kinds)

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """FP32 and FP16 peaks over one DDR bandwidth."""
        n = self.numbers
        bandwidth = n.ddr_bandwidth_bytes_per_second
        return (
            Roof("FP32", n.peak_macs_per_second_fp32, bandwidth),
            Roof("FP16", n.peak_macs_per_second_fp16, bandwidth),
        )

    @property
    def peak_macs_per_second(self) -> Array:
        """Peak at the compute precision."""
        fp32 = self.inputs.scenario.precision.compute == "fp32"
        n = self.numbers
        return n.peak_macs_per_second_fp32 if fp32 else n.peak_macs_per_second_fp16

    def blocking(self) -> Blocking:
        """Return the GSM blocking at the compute precision."""
        n = self.numbers
        return gsm_blocking(
            n.sm_bytes,
            n.gsm_bytes,
            n.dsps_per_cluster,
            n.gemm_kernel_rows,
            n.gemm_tile_k,
            n.gemm_block_k,
            scalar(self.inputs.compute_bytes),
        )

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill micro-batch through a stage (Eqs 18-19)."""
        i = self.inputs
        tp = i.tp_prefill
        requests = i.micro_batch_prefill

        def attention(kv_heads: Array) -> AttentionCost:
            n = self.numbers
            return prefill_attention(
                requests,
                i.prompt_tokens,
                i.model.query_heads / tp,
                kv_heads,
                scalar(i.model.head_dim),
                scalar(i.compute_bytes),
                n.dsps_per_cluster * n.attention_row_block_rows,
            )

        work = Pass(requests, requests * i.prompt_tokens, tp, i.pp_prefill, attention)
        return self._stage(share, work)

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode micro-batch, one token a request, through a stage (Eqs 18-19)."""
        i = self.inputs
        tp = i.tp_decode
        requests = i.micro_batch_decode

        def attention(_: Array) -> AttentionCost:
            return decode_attention(
                requests,
                i.mean_context_tokens,
                i.model.query_heads / tp,
                kv_bytes_per_token_layer(i.model, tp, i.kv_bytes),
                scalar(i.model.head_dim),
                scalar(i.compute_bytes),
            )

        return self._stage(share, Pass(requests, requests, tp, i.pp_decode, attention))

    def environment(self) -> dict[str, str]:
        """Return no variables: the paper publishes none of its runtime's."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return no notes: at roofline level nothing is interpolated from measurements."""
        return ()

    def _stage(self, share: StageShare, work: Pass) -> Stage:
        terms: list[Term] = []
        for kind, count in share.layers.items():
            terms += [term.times(count) for term in self._layer(kind, work)]
        model = self.inputs.model
        terms += [
            term.times(share.head)
            for term in (
                self._norm("final_norm", work.requests, model.norm_vectors_per_layer > 0),
                self._gemm(
                    "output_head",
                    work.requests,
                    model.hidden_size,
                    model.vocabulary_size,
                    work.tp,
                ),
            )
        ]
        terms.append(self._hand_over(work))
        n = self.numbers
        launch = pass_launch_seconds(n.hthreads_create_seconds, n.hthreads_launch_seconds)
        kinds = self.kinds("hthreads_create_seconds", "hthreads_launch_seconds")
        terms.append(fixed_term("pass_launch", launch, Bound.LAUNCH, kinds))
        return Stage(merged(terms))

    def _layer(self, kind: LayerKind, work: Pass) -> list[Term]:
        """Return T_norm + T_self_attention + T_norm + T_ffn, and TP's all-reduces and launches."""
        model, rows, tp = self.inputs.model, work.rows, work.tp
        hidden = model.hidden_size
        ffn_inputs = model.mlp_matrices - 1
        return [
            self._norm("attention_norm", rows, model.norm_vectors_per_layer > 0),
            *self._self_attention(kind, work),
            self._norm("ffn_norm", rows, model.norm_vectors_per_layer > 1),
            self._gemm("gate_up_linear", rows, hidden, ffn_inputs * model.ffn_width, tp),
            self._gemm("down_linear", rows, model.ffn_width, hidden, tp, split_inputs=True),
            self._all_reduces(work),
            fixed_term(
                "layer_launch",
                layer_launch_seconds(tp, self.numbers.hthreads_launch_seconds),
                Bound.LAUNCH,
                self.kinds("hthreads_launch_seconds"),
            ),
        ]

    def _self_attention(self, kind: LayerKind, work: Pass) -> list[Term]:
        model, rows, tp = self.inputs.model, work.rows, work.tp
        hidden, head_dim = model.hidden_size, model.head_dim
        if kind == "linear_attention":
            return self._linear_attention(work)
        kv_heads = kv_heads_per_rank(model, tp)
        query_columns = model.query_heads * head_dim * model.query_projection_factor / tp
        return [
            self._gemm_rank("qkv_linear", rows, hidden, query_columns + 2 * kv_heads * head_dim),
            self._attention(work.attention(kv_heads)),
            self._gemm("output_linear", rows, model.query_heads * head_dim, hidden, tp, True),
        ]

    def _linear_attention(self, work: Pass) -> list[Term]:
        """Return the projections and the recurrence of a gated-delta layer.

        The state is read and written once a pass and request; the recurrence multiplies it three
        times a token and head (k^T S, the rank-1 update, q^T S).
        """
        model, rows, tp = self.inputs.model, work.rows, work.tp
        key_width = model.linear_key_heads * model.linear_head_dim
        value_width = model.linear_value_heads * model.linear_head_dim
        columns = 2 * key_width + 2 * value_width + 2 * model.linear_value_heads
        state_bytes = 2 * work.requests * model.state_bytes_per_layer / tp
        macs = 3 * rows * model.linear_value_heads * model.linear_head_dim**2 / tp
        kinds = self.kinds("ddr_bandwidth_bytes_per_second")
        return [
            self._gemm("qkv_linear", rows, model.hidden_size, columns, tp),
            self._roofline_term("recurrence", macs, state_bytes, Bound.KV_CACHE, kinds),
            self._gemm("output_linear", rows, value_width, model.hidden_size, tp, True),
        ]

    def _norm(self, name: str, rows: Array, present: bool) -> Term:
        """Return an RMSNorm: activations in and out, computed whole on every rank."""
        moved = 2 * rows * self.inputs.model.hidden_size * self.inputs.compute_bytes
        kinds = self.kinds("ddr_bandwidth_bytes_per_second")
        return self._roofline_term(name, ZERO, moved if present else ZERO, Bound.ACTIVATIONS, kinds)

    def _gemm(
        self, name: str, rows: Array, k: int, n: int, tp: Array, split_inputs: bool = False
    ) -> Term:
        """Return a linear operator split over TP: by columns, or by inputs (row-parallel)."""
        if split_inputs:
            return self._gemm_rank(name, rows, k / tp, ONE * n)
        return self._gemm_rank(name, rows, k, n / tp)

    def _gemm_rank(self, name: str, rows: Array, k: Array | int, n: Array) -> Term:
        i = self.inputs
        activation, weight = scalar(i.compute_bytes), scalar(i.weight_bytes)
        traffic = gemm_traffic(rows, ONE * k, n, self.blocking(), activation, weight)
        weights_dominate = traffic.w_bytes >= traffic.x_bytes + traffic.y_bytes
        memory = np.where(weights_dominate, int(Bound.WEIGHTS), int(Bound.ACTIVATIONS))
        kinds = self.kinds(*self._peak_and_bandwidth())
        return self._roofline_term(name, rows * k * n, traffic.bytes, memory, kinds)

    def _attention(self, cost: AttentionCost) -> Term:
        kinds = self.kinds(*self._peak_and_bandwidth(), "attention_row_block_rows")
        return self._roofline_term("attention", cost.macs, cost.bytes, Bound.KV_CACHE, kinds)

    def _roofline_term(
        self,
        name: str,
        macs: Array,
        bytes_moved: Array,
        memory_bound: Bound | Codes,
        kinds: frozenset[str],
    ) -> Term:
        peak, bandwidth = self.peak_macs_per_second, self.numbers.ddr_bandwidth_bytes_per_second
        seconds = roofline_seconds(macs, bytes_moved, peak, bandwidth)
        by_compute = macs / peak >= bytes_moved / bandwidth
        bound = np.where(by_compute & (macs > 0), int(Bound.COMPUTE), memory_bound)
        return Term(name, seconds, seconds, bytes_moved, macs, bound, kinds)

    def _all_reduces(self, work: Pass) -> Term:
        """Return the two all-reduces of a layer (Eq. 19)."""
        i, n = self.inputs, self.numbers
        payload = work.rows * i.model.hidden_size * i.compute_bytes
        seconds = 2 * ring_all_reduce_seconds(
            payload, work.tp, n.mpi_latency_seconds, n.mpi_bandwidth_bytes_per_second
        )
        moved = 2 * all_reduce_rank_bytes(payload, work.tp)
        return Term(
            "all_reduce",
            seconds,
            seconds,
            moved,
            ZERO,
            code(Bound.COLLECTIVE),
            self.link.kinds,
        )

    def _hand_over(self, work: Pass) -> Term:
        """Return sending the hidden state on to the next stage; nothing with one stage."""
        i, n = self.inputs, self.numbers
        several = np.where(work.pp > 1, ONE, ZERO)
        payload = several * work.rows * i.model.hidden_size * i.compute_bytes
        seconds = several * message_seconds(
            payload, n.mpi_latency_seconds, n.mpi_bandwidth_bytes_per_second
        )
        return Term(
            "stage_hand_over", seconds, seconds, payload, ZERO, code(Bound.LINK), self.link.kinds
        )

    def _peak_and_bandwidth(self) -> tuple[str, str]:
        precision = self.inputs.scenario.precision.compute
        return f"peak_macs_per_second_{precision}", "ddr_bandwidth_bytes_per_second"
