"""Any accelerator: a roofline for each operator, its launch, and ring all-reduces between cards.

Nothing here is of a particular machine. A layer runs as engines with a fused attention kernel run
it: norm with the residual's addition, Q/K/V product, RoPE, attention, output product, norm, gate
and up product, activation, down product. Each operator takes the longer of its arithmetic at the
achievable peak and its compulsory traffic at the achievable bandwidth (every operand moved once),
and one launch. Prefill counts all pairs of tokens, as on the MT-3000; a causal kernel does half.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from explorer.chips.generic_numbers import ACHIEVABLE, FRACTIONS, GenericNumbers
from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Limit, Link, Roof
from explorer.chips.passes import Pass, PassTerms, layer_all_reduces, stage_hand_over
from explorer.config.chip import peak_name
from explorer.config.errors import refuse
from explorer.config.model import LayerKind
from explorer.config.numbers import as_float_array
from explorer.config.sizes import caches_tokens, has_experts
from explorer.costs.arrays import ONE, ZERO, Array, Codes, scalar
from explorer.costs.attention import decode_attention, full_attention_macs
from explorer.costs.experts import distinct_experts, rows_per_expert
from explorer.costs.memory import attended_tokens, kv_bytes_per_token_layer, kv_heads_per_rank
from explorer.costs.partition import StageShare
from explorer.costs.roofline import roofline_seconds
from explorer.costs.terms import Bound, Stage, Term, code, fixed_term

ALL_OF_IT = 1 + 1e-5
"""A derivative is taken a small step beyond a value, which may be all of it already."""

MEMORY, LINK = "memory_bandwidth_bytes_per_second", "link_bandwidth_bytes_per_second"


@dataclass(frozen=True)
class Generic:
    """Stage times of a group of equal accelerators for one scenario."""

    inputs: Inputs
    numbers: GenericNumbers
    kinds: Kinds

    @classmethod
    def of(cls, inputs: Inputs) -> Generic:
        """Return the machine of a scenario.

        Raises:
            InputError: when the chip lacks a number, has zero where it divides, or a fraction
                above 1.
        """
        scenario = inputs.scenario
        chip = scenario.chip_document()
        if not chip.compute_precisions:
            peaks = " or ".join(peak_name(precision) for precision in ("fp32", "fp16"))
            raise refuse("chip.quantities", "", f"a {chip.family} chip also needs {peaks}")
        numbers = read_numbers(scenario, GenericNumbers)
        for name in FRACTIONS:
            if np.any(getattr(numbers, name) > ALL_OF_IT):
                value = getattr(numbers, name)
                raise refuse(f"chip.quantities.{name}", value, "expected a fraction of at most 1")
        for precision in chip.compute_precisions:
            name = peak_name(precision)
            if not np.all(as_float_array(scenario.value(f"hardware.{name}")) > 0):
                raise refuse(f"chip.quantities.{name}", 0, "expected a number above 0")
        return cls(inputs, numbers, kinds_reader(scenario))

    @property
    def capacity(self) -> Capacity:
        """Memory of one accelerator."""
        n = self.numbers
        return Capacity(n.memory_bytes, n.usable_memory_fraction, n.overhead_bytes)

    @property
    def link(self) -> Link:
        """Link between accelerators."""
        n = self.numbers
        kinds = self.kinds("link_latency_seconds", LINK)
        return Link(n.link_latency_seconds, n.link_bandwidth_bytes_per_second, kinds)

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """Peak of each precision over the memory bandwidth, and what of them is achievable."""
        n = self.numbers
        precision = self.inputs.scenario.precision.compute
        published = (
            Roof(name.upper(), self._peak(name), n.memory_bandwidth_bytes_per_second)
            for name in self.inputs.scenario.chip_document().compute_precisions
        )
        achievable = Roof(f"{precision.upper()}, achievable", self.peak, self.bandwidth)
        return (*published, achievable)

    @property
    def peak(self) -> Array:
        """Achievable MACs a second at the compute precision."""
        return self._peak(self.inputs.scenario.precision.compute) * (
            self.numbers.achievable_peak_fraction
        )

    @property
    def bandwidth(self) -> Array:
        """Achievable bytes a second of memory."""
        n = self.numbers
        return n.memory_bandwidth_bytes_per_second * n.achievable_bandwidth_fraction

    def smallest_tile(self) -> tuple[Array, Array]:
        """Return no requirement: what a kernel keeps on chip is not modelled."""
        return ZERO, scalar(np.inf)

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill micro-batch through a stage."""
        return self._prefill.of(share)

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode micro-batch, one token a request, through a stage."""
        return self._decode.of(share)

    def environment(self) -> dict[str, str]:
        """Return no variables: no engine is meant in particular."""
        return {}

    def deployment(self) -> dict[str, Any]:
        """Return what any serving engine has a setting for, by plain names; JSON values.

        Raises:
            TypeError: when the scenario holds arrays.
        """
        plan, workload = self.inputs.scenario.plan, self.inputs.scenario.workload
        headroom = float(self.inputs.array("limits.memory_headroom_fraction"))
        return {
            "limits": {
                "requests_a_decode_step": int(plan.micro_batch_decode),
                "requests_in_flight": int(plan.pp_decode) * int(plan.micro_batch_decode),
                "requests_a_prefill_pass": int(plan.micro_batch_prefill),
                "tokens_a_prefill_pass": int(plan.micro_batch_prefill)
                * int(workload.prompt_tokens),
                "tokens_a_request": int(workload.max_context_tokens),
                "memory_fraction": float(self.numbers.usable_memory_fraction) * (1 - headroom),
            }
        }

    def notes(self) -> tuple[str, ...]:
        """Return that nothing was measured, where achievable fractions are only assumed."""
        if not self.kinds(*ACHIEVABLE) & {"assumed", "override"}:
            return ()
        chip = self.inputs.scenario.chip_document()
        return (
            f"No measurement of the {chip.name} is behind these times: they are peaks and "
            "bandwidths of its document times assumed achievable fractions, which have sliders.",
        )

    def remarks(self) -> tuple[str, ...]:
        """Return nothing: the plan runs as asked."""
        return ()

    def limits(self) -> tuple[Limit, ...]:
        """Return that messages come out of memory, and that no more than all is achieved."""
        n = self.numbers
        memory = n.memory_bandwidth_bytes_per_second
        return (
            Limit(LINK, memory, "memory bandwidth", most=True),
            *(Limit(name, ONE, "all of it", most=True) for name in FRACTIONS),
        )

    @cached_property
    def _prefill(self) -> PassTerms:
        return self._terms(Pass.of_prefill(self.inputs))

    @cached_property
    def _decode(self) -> PassTerms:
        return self._terms(Pass.of_decode(self.inputs))

    def _terms(self, work: Pass) -> PassTerms:
        model = self.inputs.model
        vocabulary = model.vocabulary_size / work.tp
        head = (
            self._norm("final_norm", work.requests),
            self._product("output_head", work.requests, ONE * model.hidden_size, vocabulary),
        )
        payload = self._payload_bytes(work)
        reduces = layer_all_reduces(self.link, payload, work.tp)
        return PassTerms(
            layers={
                kind: [*self._launched(self._operators(kind, work)), reduces]
                for kind in model.kinds
            },
            head=self._launched(head),
            once=(stage_hand_over(self.link, payload, work.pp),),
        )

    def _launched(self, operators: tuple[Term, ...]) -> tuple[Term, ...]:
        """Return operators and the launches that they cost."""
        name = "operator_launch_seconds"
        seconds = len(operators) * self.numbers.operator_launch_seconds
        return *operators, fixed_term("operator_launch", seconds, Bound.LAUNCH, self.kinds(name))

    def _operators(self, kind: LayerKind, work: Pass) -> tuple[Term, ...]:
        return (
            self._norm("attention_norm", work.rows),
            *(self._attention(kind, work) if caches_tokens(kind) else self._recurrence(work)),
            self._norm("ffn_norm", work.rows),
            *(self._experts(work) if has_experts(kind) else self._dense_mlp(work)),
        )

    def _attention(self, kind: LayerKind, work: Pass) -> tuple[Term, ...]:
        i, model, rows = self.inputs, self.inputs.model, work.rows
        heads, kv_heads = model.query_heads / work.tp, kv_heads_per_rank(model, work.tp)
        columns = (heads * model.query_projection_factor + 2 * kv_heads) * model.head_dim
        rotated = 2 * rows * (heads + kv_heads) * model.head_dim * i.compute_bytes
        return (
            self._product("qkv_linear", rows, ONE * model.hidden_size, columns),
            self._operator("rope", ZERO, rotated, code(Bound.ACTIVATIONS)),
            self._scores(kind, work, heads),
            self._product("output_linear", rows, heads * model.head_dim, ONE * model.hidden_size),
        )

    def _scores(self, kind: LayerKind, work: Pass, heads: Array) -> Term:
        """Return attention itself: scores stay on chip, K and V are read once a request.

        In prefill as they were just computed, in decode as the cache stores them.
        """
        i, head_dim = self.inputs, scalar(self.inputs.model.head_dim)
        if work.decodes:
            cost = decode_attention(
                work.requests,
                attended_tokens(i.model, kind, i.mean_context_tokens),
                heads,
                kv_bytes_per_token_layer(i.model, work.tp, i.kv_bytes),
                head_dim,
                scalar(i.compute_bytes),
            )
            macs, moved = cost.macs, cost.bytes
        else:
            macs = full_attention_macs(
                work.requests, i.prompt_tokens, heads, head_dim, i.model.attended_window(kind)
            )
            width = 2 * (heads + kv_heads_per_rank(i.model, work.tp)) * head_dim
            moved = work.rows * width * i.compute_bytes
        return self._operator("attention", macs, moved, code(Bound.KV_CACHE))

    def _recurrence(self, work: Pass) -> tuple[Term, ...]:
        """Return a gated-delta layer: projections, and three passes over the state a token.

        The state crosses memory in and out once a pass and request (k^T S, the rank-1 update and
        q^T S work on it on chip).
        """
        i, model, rows = self.inputs, self.inputs.model, work.rows
        value_width = model.linear_value_width
        wide = 2 * model.linear_key_width + 2 * value_width + 2 * model.linear_value_heads
        columns = wide / work.tp
        macs = 3 * rows * model.linear_state_elements / work.tp
        state = 2 * work.requests * model.state_bytes_per_layer / work.tp
        moved = state + rows * (columns + value_width / work.tp) * i.compute_bytes
        hidden = ONE * model.hidden_size
        return (
            self._product("qkv_linear", rows, hidden, columns),
            self._operator("recurrence", macs, moved, code(Bound.KV_CACHE)),
            self._product("output_linear", rows, value_width / work.tp, hidden),
        )

    def _dense_mlp(self, work: Pass) -> tuple[Term, ...]:
        return self._mlp(work.rows, self.inputs.model.ffn_width / work.tp)

    def _mlp(self, rows: Array, width: Array, prefix: str = "") -> tuple[Term, ...]:
        """Return the products and the activation of an MLP of a rank's width."""
        model = self.inputs.model
        hidden, inner = ONE * model.hidden_size, (model.mlp_matrices - 1) * width
        moved = rows * (inner + width) * self.inputs.compute_bytes
        return (
            self._product(f"{prefix}gate_up_linear", rows, hidden, inner),
            self._operator(f"{prefix}activation", ZERO, moved, code(Bound.ACTIVATIONS)),
            self._product(f"{prefix}down_linear", rows, width, hidden),
        )

    def _experts(self, work: Pass) -> tuple[Term, ...]:
        """Return router, routed experts as grouped products, and shared experts.

        A grouped product is one launch over all experts that the rows pass, each on its mean share
        of the rows.
        """
        model, rows, tp = self.inputs.model, work.rows, work.tp
        touched = distinct_experts(rows, model.experts, model.experts_per_token)
        each = rows_per_expert(rows, model.experts, model.experts_per_token)
        routed = self._mlp(each, model.expert_ffn_width / tp, "expert_")
        shared = model.shared_expert_ffn_width
        return (
            self._product("router", rows, ONE * model.hidden_size, ONE * model.experts),
            *(term.times(touched) for term in routed),
            *(self._mlp(rows, shared / tp) if shared else ()),
        )

    def _norm(self, name: str, rows: Array) -> Term:
        """Return a norm that adds the sublayer's output to the residual: two in, two out."""
        moved = 2 * 2 * rows * self.inputs.model.hidden_size * self.inputs.compute_bytes
        return self._operator(name, ZERO, moved, code(Bound.ACTIVATIONS))

    def _product(self, name: str, rows: Array, k: Array, n: Array) -> Term:
        """Return rows x k by k x n, each matrix moved once (Eq. 1)."""
        i = self.inputs
        weights, activations = k * n * i.weight_bytes, rows * (k + n) * i.compute_bytes
        bound = np.where(weights >= activations, int(Bound.WEIGHTS), int(Bound.ACTIVATIONS))
        return self._operator(name, rows * k * n, weights + activations, bound)

    def _operator(self, name: str, macs: Array, moved: Array, memory_bound: Codes) -> Term:
        seconds = roofline_seconds(macs, moved, self.peak, self.bandwidth)
        by_compute = (macs > 0) & (macs / self.peak >= moved / self.bandwidth)
        bound = np.where(by_compute, int(Bound.COMPUTE), memory_bound)
        return Term(name, seconds, seconds, moved, macs, bound, self._roofline_kinds)

    @cached_property
    def _roofline_kinds(self) -> frozenset[str]:
        peak = peak_name(self.inputs.scenario.precision.compute)
        return self.kinds(peak, MEMORY, *ACHIEVABLE)

    def _payload_bytes(self, work: Pass) -> Array:
        """Return the hidden state of a micro-batch, which all-reduces and hand-overs carry."""
        return work.rows * self.inputs.model.hidden_size * self.inputs.compute_bytes

    def _peak(self, precision: str) -> Array:
        return as_float_array(self.inputs.scenario.value(f"hardware.{peak_name(precision)}"))
