"""MT-3000: times of a decoder layer's operators, composed into Eqs 18-19 of THInfer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Limit, Link, Roof
from explorer.chips.mt3000_limits import physical_limits
from explorer.chips.mt3000_numbers import Mt3000Numbers
from explorer.config.model import LayerKind
from explorer.costs.arrays import ONE, ZERO, Array, Codes, scalar
from explorer.costs.attention import (
    AttentionTiles,
    attention_cost,
    decode_attention,
    smallest_blocks,
)
from explorer.costs.collective import all_reduce_rank_bytes, ring_all_reduce_seconds
from explorer.costs.gemm import (
    GemmCluster,
    GemmTile,
    gemm_cost,
    largest_tile,
    tightest,
    tile_bytes,
)
from explorer.costs.launch import layer_launch_seconds, operator_launch_seconds
from explorer.costs.memory import STORAGE_BYTES, kv_bytes_per_token_layer, kv_heads_per_rank
from explorer.costs.partition import StageShare
from explorer.costs.roofline import roofline_seconds
from explorer.costs.terms import Bound, Stage, Term, code, fixed_term, merged
from explorer.costs.transfer import message_seconds

FUSED_REGIONS = 5
"""Regions of Fig. 4: norm with Q/K/V and RoPE; attention; O with Add; norm with gate and up; down
with SiLU, Mul and Add."""
SEPARATE_OPERATORS = 18
"""Norm, Q, K, V, RoPE, two Matmuls with Scale and Softmax between, O, Add, norm, gate, up, SiLU,
Mul, down, Add: every operator of Fig. 4 on its own."""


@dataclass(frozen=True)
class Pass:
    """What one micro-batch brings to a stage: requests, rows of activations, the group's split."""

    requests: Array
    rows: Array
    tp: Array
    pp: Array
    decodes: bool


@dataclass(frozen=True)
class PassTerms:
    """Terms of one micro-batch: a layer of each kind, the output head, and once a pass."""

    layers: dict[LayerKind, list[Term]]
    head: tuple[Term, ...]
    once: tuple[Term, ...]

    def of(self, share: StageShare) -> Stage:
        """Return the pass through a stage that holds ``share``."""
        terms = [
            term.times(count) for kind, count in share.layers.items() for term in self.layers[kind]
        ]
        terms += [term.times(share.head) for term in self.head]
        return Stage(merged([*terms, *self.once]))


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

    @property
    def cluster(self) -> GemmCluster:
        """What products need to know of a cluster, at the precision of the scenario."""
        return self.cluster_at(self.inputs.scenario.precision.compute, self.inputs.weight_bytes)

    def cluster_at(self, precision: str, weight_bytes: float) -> GemmCluster:
        """Return what products need to know of a cluster at a precision."""
        n, fp32 = self.numbers, precision == "fp32"
        return GemmCluster(
            peak_macs_per_second=n.peak_macs_per_second_fp32
            if fp32
            else n.peak_macs_per_second_fp16,
            bandwidth_bytes_per_second=n.ddr_bandwidth_bytes_per_second,
            mixed_stream_efficiency=n.gemm_mixed_stream_efficiency,
            broadcast_cost=n.broadcast_cost,
            sm_bytes=n.sm_bytes,
            am_bytes=n.am_bytes,
            gsm_bytes=n.gsm_bytes,
            dsps=n.dsps_per_cluster,
            kernel_rows=n.gemm_kernel_rows,
            kernel_columns=n.gemm_kernel_columns_fp32 if fp32 else n.gemm_kernel_columns_fp16,
            kernel_cycles_per_depth=n.gemm_kernel_cycles_per_depth,
            kernel_ramp_cycles=n.gemm_kernel_ramp_cycles,
            output_buffers=n.gemm_output_buffers,
            element_bytes=scalar(STORAGE_BYTES[precision]),
            weight_bytes=scalar(weight_bytes),
        )

    def tile(self, cluster: GemmCluster) -> GemmTile:
        """Return the paper's blocking with as many rows as this cluster's memories admit."""
        n = self.numbers
        return largest_tile(n.gemm_tile_k, n.gemm_tile_n, n.gemm_block_k, cluster)

    @property
    def attention_tiles(self) -> AttentionTiles:
        """Blocks and constants of attention."""
        n = self.numbers
        return AttentionTiles(
            n.attention_mt_rows,
            n.attention_flash_columns,
            n.attention_flash_rows,
            n.attention_score_memory_bytes,
            n.attention_round_seconds,
            n.attention_score_seconds,
            n.attention_unfused_score_moves,
        )

    def smallest_tile(self) -> tuple[Array, Array]:
        """Return bytes that the smallest tile takes of its tightest memory, and what there is.

        One micro-kernel a DSP must fit SM (Eq. 6), AM (Eq. 7, its D N term left out since N
        differs by operator) and GSM (Eq. 8), and so must attention's smallest blocks.
        """
        cluster, n, i = self.cluster, self.numbers, self.inputs
        least = GemmTile(n.gemm_kernel_rows, n.gemm_tile_k, n.gemm_tile_n, n.gemm_block_k)
        taken = tile_bytes(least, ZERO, cluster)
        return tightest(
            (taken.sm_bytes, cluster.sm_bytes),
            (taken.am_bytes, cluster.am_bytes),
            (taken.gsm_bytes, cluster.gsm_bytes),
            *smallest_blocks(
                i.scenario.kernel.attention,
                i.prompt_tokens,
                scalar(i.model.head_dim),
                self.attention_tiles,
                cluster,
            ),
        )

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill micro-batch through a stage (Eqs 18-19)."""
        return self._prefill.of(share)

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode micro-batch, one token a request, through a stage (Eqs 18-19)."""
        return self._decode.of(share)

    @cached_property
    def _prefill(self) -> PassTerms:
        i = self.inputs
        requests = i.micro_batch_prefill
        rows = requests * i.prompt_tokens
        return self._terms(Pass(requests, rows, i.tp_prefill, i.pp_prefill, False))

    @cached_property
    def _decode(self) -> PassTerms:
        i = self.inputs
        requests = i.micro_batch_decode
        return self._terms(Pass(requests, requests, i.tp_decode, i.pp_decode, True))

    def environment(self) -> dict[str, str]:
        """Return no variables: the paper publishes none of its runtime's."""
        return {}

    def deployment(self) -> dict[str, Any]:
        """Return nothing: the paper gives no launch lines."""
        return {}

    def notes(self) -> tuple[str, ...]:
        """Return where a kernel is used outside what its constants were fitted to."""
        longest = self.numbers.attention_longest_fitted_tokens
        if not np.any(self.inputs.prompt_tokens > longest):
            return ()
        return (
            f"Attention was fitted to prompts of up to {longest:.0f} tokens: longer ones are "
            "extrapolated.",
        )

    def remarks(self) -> tuple[str, ...]:
        """Return nothing: the plan runs as asked."""
        return ()

    def limits(self) -> tuple[Limit, ...]:
        """Return what messages, kernel and softmax of this cluster cannot pass."""
        return physical_limits(self.numbers)

    def _terms(self, work: Pass) -> PassTerms:
        model = self.inputs.model
        requests, hidden = work.requests, model.hidden_size
        return PassTerms(
            layers={kind: self._layer(kind, work) for kind in model.kinds},
            head=(
                self._norm("final_norm", requests, model.norm_vectors_per_layer > 0),
                self._gemm("output_head", requests, hidden, model.vocabulary_size, work.tp),
            ),
            once=(self._hand_over(work), self._launch_term("pass_launch", ONE)),
        )

    def _layer(self, kind: LayerKind, work: Pass) -> list[Term]:
        """Return T_norm + T_self_attention + T_norm + T_ffn, and TP's all-reduces and launches."""
        model, rows, tp = self.inputs.model, work.rows, work.tp
        hidden = model.hidden_size
        gates = model.mlp_matrices - 1
        return [
            self._norm("attention_norm", rows, model.norm_vectors_per_layer > 0),
            *self._self_attention(kind, work),
            self._norm("ffn_norm", rows, model.norm_vectors_per_layer > 1),
            self._gemm("gate_up_linear", rows, hidden, model.ffn_width, tp).times(ONE * gates),
            self._gemm("down_linear", rows, model.ffn_width, hidden, tp, split_inputs=True),
            self._unfused_operators(kind, work, gates),
            self._all_reduces(work),
            fixed_term(
                "layer_launch",
                layer_launch_seconds(tp, self.numbers.hthreads_launch_seconds),
                Bound.LAUNCH,
                self.kinds("hthreads_launch_seconds"),
            ),
            self._layer_launches(work),
        ]

    def _layer_launches(self, work: Pass) -> Term:
        """Return launches beyond the unified kernel's (Eq. 11): operators, and heads one by one."""
        model, kernel = self.inputs.model, self.inputs.scenario.kernel
        operators = FUSED_REGIONS if kernel.fusion == "fused" else SEPARATE_OPERATORS
        if kernel.launch == "unified":
            return self._launch_term("operator_launch", ZERO)
        if kernel.launch == "per_operator":
            return self._launch_term("operator_launch", ONE * operators)
        heads = work.requests * model.query_heads / work.tp
        return self._launch_term("operator_launch", operators - 1 + heads)

    def _launch_term(self, name: str, groups: Array) -> Term:
        n = self.numbers
        seconds = operator_launch_seconds(
            groups, n.hthreads_create_seconds, n.hthreads_launch_seconds
        )
        kinds = self.kinds("hthreads_create_seconds", "hthreads_launch_seconds")
        return fixed_term(name, seconds, Bound.LAUNCH, kinds)

    def _unfused_operators(self, kind: LayerKind, work: Pass, gates: int) -> Term:
        """Return what RoPE, SiLU, Mul and Add move through DDR as operators of their own.

        Within fused regions these tensors never leave the chip.
        """
        i = self.inputs
        separate = i.scenario.kernel.fusion == "separate"
        model = i.model
        rotated = model.query_heads / work.tp + kv_heads_per_rank(model, work.tp)
        rope = 2 * rotated * model.head_dim * (1 if kind == "full_attention" else 0)
        activation = (2 + 3 * (gates - 1)) * model.ffn_width / work.tp
        adds = 2 * 3 * model.hidden_size
        moved = work.rows * (rope + activation + adds) * i.compute_bytes * (1 if separate else 0)
        kinds = self.kinds("ddr_bandwidth_bytes_per_second")
        return self._roofline_term("separate_operators", ZERO, moved, Bound.ACTIVATIONS, kinds)

    def _self_attention(self, kind: LayerKind, work: Pass) -> list[Term]:
        model, rows, tp = self.inputs.model, work.rows, work.tp
        hidden, head_dim = model.hidden_size, model.head_dim
        if kind == "linear_attention":
            return self._linear_attention(work)
        kv_heads = kv_heads_per_rank(model, tp)
        query_columns = model.query_heads * head_dim * model.query_projection_factor / tp
        return [
            self._gemm_rank("q_linear", rows, hidden, query_columns),
            self._gemm_rank("kv_linear", rows, hidden, kv_heads * head_dim).times(2 * ONE),
            self._decode_attention(work) if work.decodes else self._prefill_attention(work),
            self._gemm("output_linear", rows, model.query_heads * head_dim, hidden, tp, True),
        ]

    def _prefill_attention(self, work: Pass) -> Term:
        i = self.inputs
        cost = attention_cost(
            i.scenario.kernel.attention,
            work.requests * i.model.query_heads / work.tp,
            i.prompt_tokens,
            scalar(i.model.head_dim),
            self.attention_tiles,
            self.cluster,
        )
        parts = (cost.compute_seconds, cost.io_seconds, cost.round_seconds)
        largest = np.stack(np.broadcast_arrays(*parts)).argmax(axis=0)
        bound = np.choose(largest, [Bound.COMPUTE, Bound.KV_CACHE, Bound.ROUNDS])
        kinds = self.kinds(
            *self._peak_and_bandwidth(), "attention_round_seconds", "attention_score_seconds"
        )
        return Term("attention", cost.seconds, cost.seconds, cost.bytes, cost.macs, bound, kinds)

    def _decode_attention(self, work: Pass) -> Term:
        i = self.inputs
        cost = decode_attention(
            work.requests,
            i.mean_context_tokens,
            i.model.query_heads / work.tp,
            kv_bytes_per_token_layer(i.model, work.tp, i.kv_bytes),
            scalar(i.model.head_dim),
            scalar(i.compute_bytes),
        )
        kinds = self.kinds(*self._peak_and_bandwidth())
        return self._roofline_term("attention", cost.macs, cost.bytes, Bound.KV_CACHE, kinds)

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
        """Return an RMSNorm of its own: activations in and out, whole on every rank.

        Within a fused region it works on the rows that the next product reads anyway.
        """
        if self.inputs.scenario.kernel.fusion == "fused":
            present = False
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
        cluster = self.cluster
        cost = gemm_cost(rows, ONE * k, n, self.tile(cluster), cluster)
        weights = np.where(
            cost.w_bytes >= cost.x_bytes + cost.y_bytes, Bound.WEIGHTS, Bound.ACTIVATIONS
        )
        arithmetic = cost.compute_seconds >= cost.seconds - cost.compute_seconds
        bound = np.where(arithmetic, Bound.COMPUTE, weights)
        kinds = self.kinds(*self._peak_and_bandwidth(), "gemm_mixed_stream_efficiency")
        return Term(name, cost.seconds, cost.seconds, cost.bytes, cost.macs, bound, kinds)

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
