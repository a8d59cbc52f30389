"""MT-3000: times of a decoder layer's operators, composed into Eqs 18-19 of THInfer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Limit, Link, Roof
from explorer.chips.mt3000_deploy import deployment
from explorer.chips.mt3000_layers import expert_terms, linear_attention_terms, unfused_operators
from explorer.chips.mt3000_limits import physical_limits
from explorer.chips.mt3000_numbers import Mt3000Numbers
from explorer.chips.passes import Pass, PassTerms, layer_all_reduces, stage_hand_over
from explorer.config.model import LayerKind
from explorer.config.sizes import caches_tokens, has_experts
from explorer.costs.arrays import ONE, ZERO, Array, Codes, choose, scalar
from explorer.costs.attention import (
    AttentionTiles,
    attention_cost,
    decode_attention,
    scored_keys,
    smallest_blocks,
)
from explorer.costs.gemm import (
    GemmCluster,
    GemmTile,
    gemm_cost,
    largest_tile,
    tightest,
    tile_bytes,
)
from explorer.costs.launch import layer_launch_seconds, operator_launch_seconds
from explorer.costs.memory import (
    STORAGE_BYTES,
    attended_tokens,
    kv_bytes_per_token_layer,
    kv_heads_per_rank,
)
from explorer.costs.partition import StageShare
from explorer.costs.roofline import roofline_seconds
from explorer.costs.terms import Bound, Stage, Term, code, fixed_term

FUSED_REGIONS = 5
"""Regions of Fig. 4: norm with Q/K/V and RoPE; attention; O with Add; norm with gate and up; down
with SiLU, Mul and Add."""
SEPARATE_OPERATORS = 18
"""Norm, Q, K, V, RoPE, two Matmuls with Scale and Softmax between, O, Add, norm, gate, up, SiLU,
Mul, down, Add: every operator of Fig. 4 on its own."""


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

    @cached_property
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

    @cached_property
    def cluster_tile(self) -> GemmTile:
        """The blocking of the scenario's own products."""
        return self.tile(self.cluster)

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
                scored_keys(i.prompt_tokens, i.model.widest_window, self.attention_tiles),
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
        return self._terms(Pass.of_prefill(self.inputs))

    @cached_property
    def _decode(self) -> PassTerms:
        return self._terms(Pass.of_decode(self.inputs))

    def environment(self) -> dict[str, str]:
        """Return no variables: the paper publishes none of its runtime's."""
        return {}

    def deployment(self) -> dict[str, Any]:
        """Return tile sizes and mechanisms by the paper's names, which has no launch lines.

        Raises:
            TypeError: when the scenario holds arrays.
        """
        return deployment(
            self.inputs.scenario.kernel,
            self.cluster_tile,
            self.cluster,
            self.attention_tiles,
            self.inputs.prompt_tokens,
            self.inputs.shared,
        )

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
                self.gemm("output_head", requests, hidden, model.vocabulary_size, work.tp),
            ),
            once=(
                stage_hand_over(self.link, self._payload_bytes(work), work.pp),
                self._launch_term("pass_launch", ONE),
            ),
        )

    def _layer(self, kind: LayerKind, work: Pass) -> list[Term]:
        """Return T_norm + T_self_attention + T_norm + T_ffn, and TP's all-reduces and launches."""
        model, rows, tp = self.inputs.model, work.rows, work.tp
        return [
            self._norm("attention_norm", rows, model.norm_vectors_per_layer > 0),
            *self._self_attention(kind, work),
            self._norm("ffn_norm", rows, model.norm_vectors_per_layer > 1),
            *(
                expert_terms(self, work)
                if has_experts(kind)
                else self.mlp(rows, model.ffn_width, tp)
            ),
            unfused_operators(self, kind, work),
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

    def mlp(self, rows: Array, width: int, tp: Array) -> list[Term]:
        """Return gate and up, and down, of an MLP that every row passes."""
        hidden, gates = self.inputs.model.hidden_size, self.inputs.model.mlp_matrices - 1
        return [
            self.gemm("gate_up_linear", rows, hidden, width, tp).times(ONE * gates),
            self.gemm("down_linear", rows, width, hidden, tp, split_inputs=True),
        ]

    def _self_attention(self, kind: LayerKind, work: Pass) -> list[Term]:
        model, rows, tp = self.inputs.model, work.rows, work.tp
        hidden, head_dim = model.hidden_size, model.head_dim
        if not caches_tokens(kind):
            return linear_attention_terms(self, work)
        kv_heads = kv_heads_per_rank(model, tp)
        query_columns = model.query_heads * head_dim * model.query_projection_factor / tp
        return [
            self.gemm_rank("q_linear", rows, hidden, query_columns),
            self.gemm_rank("kv_linear", rows, hidden, kv_heads * head_dim).times(2 * ONE),
            self._decode_attention(kind, work)
            if work.decodes
            else self._prefill_attention(kind, work),
            self.gemm("output_linear", rows, model.query_heads * head_dim, hidden, tp, True),
        ]

    def _prefill_attention(self, kind: LayerKind, work: Pass) -> Term:
        i = self.inputs
        cost = attention_cost(
            i.scenario.kernel.attention,
            work.requests * i.model.query_heads / work.tp,
            i.prompt_tokens,
            scalar(i.model.head_dim),
            self.attention_tiles,
            self.cluster,
            i.model.attended_window(kind),
        )
        parts = (cost.compute_seconds, cost.io_seconds, cost.round_seconds)
        largest = np.stack(np.broadcast_arrays(*parts)).argmax(axis=0)
        bound = choose(largest, [code(b) for b in (Bound.COMPUTE, Bound.KV_CACHE, Bound.ROUNDS)])
        kinds = self.kinds(
            *self._peak_and_bandwidth(), "attention_round_seconds", "attention_score_seconds"
        )
        return Term("attention", cost.seconds, cost.seconds, cost.bytes, cost.macs, bound, kinds)

    def _decode_attention(self, kind: LayerKind, work: Pass) -> Term:
        i = self.inputs
        cost = decode_attention(
            work.requests,
            attended_tokens(i.model, kind, i.mean_context_tokens),
            i.model.query_heads / work.tp,
            kv_bytes_per_token_layer(i.model, work.tp, i.kv_bytes),
            scalar(i.model.head_dim),
            scalar(i.compute_bytes),
        )
        kinds = self.kinds(*self._peak_and_bandwidth())
        return self.roofline_term("attention", cost.macs, cost.bytes, Bound.KV_CACHE, kinds)

    def _norm(self, name: str, rows: Array, present: bool) -> Term:
        """Return an RMSNorm of its own: activations in and out, whole on every rank.

        Within a fused region it works on the rows that the next product reads anyway.
        """
        if self.inputs.scenario.kernel.fusion == "fused":
            present = False
        moved = 2 * rows * self.inputs.model.hidden_size * self.inputs.compute_bytes
        kinds = self.kinds("ddr_bandwidth_bytes_per_second")
        return self.roofline_term(name, ZERO, moved if present else ZERO, Bound.ACTIVATIONS, kinds)

    def gemm(
        self, name: str, rows: Array, k: int, n: int, tp: Array, split_inputs: bool = False
    ) -> Term:
        """Return a linear operator split over TP: by columns, or by inputs (row-parallel)."""
        if split_inputs:
            return self.gemm_rank(name, rows, k / tp, ONE * n)
        return self.gemm_rank(name, rows, k, n / tp)

    def gemm_rank(self, name: str, rows: Array, k: Array | int, n: Array) -> Term:
        """Return one product of one rank: rows x k by k x n."""
        cost = gemm_cost(rows, ONE * k, n, self.cluster_tile, self.cluster)
        weights = np.where(
            cost.w_bytes >= cost.x_bytes + cost.y_bytes,
            code(Bound.WEIGHTS),
            code(Bound.ACTIVATIONS),
        )
        arithmetic = cost.compute_seconds >= cost.seconds - cost.compute_seconds
        bound = np.where(arithmetic, code(Bound.COMPUTE), weights)
        kinds = self.kinds(*self._peak_and_bandwidth(), "gemm_mixed_stream_efficiency")
        return Term(name, cost.seconds, cost.seconds, cost.bytes, cost.macs, bound, kinds)

    def roofline_term(
        self,
        name: str,
        macs: Array,
        bytes_moved: Array,
        memory_bound: Bound | Codes,
        kinds: frozenset[str],
    ) -> Term:
        """Return an operator that takes the longer of its arithmetic and its traffic (Eq. 3)."""
        peak, bandwidth = self.peak_macs_per_second, self.numbers.ddr_bandwidth_bytes_per_second
        seconds = roofline_seconds(macs, bytes_moved, peak, bandwidth)
        by_compute = macs / peak >= bytes_moved / bandwidth
        bound = np.where(by_compute & (macs > 0), int(Bound.COMPUTE), memory_bound)
        return Term(name, seconds, seconds, bytes_moved, macs, bound, kinds)

    def _all_reduces(self, work: Pass) -> Term:
        """Return the two all-reduces of a layer (Eq. 19)."""
        return layer_all_reduces(self.link, self._payload_bytes(work), work.tp)

    def _payload_bytes(self, work: Pass) -> Array:
        """Return the hidden state of a micro-batch, which all-reduces and hand-overs carry."""
        return work.rows * self.inputs.model.hidden_size * self.inputs.compute_bytes

    def _peak_and_bandwidth(self) -> tuple[str, str]:
        precision = self.inputs.scenario.precision.compute
        return f"peak_macs_per_second_{precision}", "ddr_bandwidth_bytes_per_second"
