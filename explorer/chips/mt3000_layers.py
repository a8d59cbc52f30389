"""MT-3000: parts of a layer that depend on its kind: experts, a recurrence, operators apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from explorer.config.model import LayerKind
from explorer.config.sizes import caches_tokens
from explorer.costs.arrays import ONE, ZERO
from explorer.costs.experts import distinct_experts, rows_per_expert
from explorer.costs.memory import kv_heads_per_rank
from explorer.costs.terms import Bound, Term

if TYPE_CHECKING:
    from explorer.chips.mt3000 import Mt3000
    from explorer.chips.passes import Pass


def expert_terms(machine: Mt3000, work: Pass) -> list[Term]:
    """Return router, routed experts and shared experts.

    Every rank holds a slice of each expert and routes all rows. The experts that a pass touches run
    one after the other, each on its mean share of the rows; the products of one are those of an
    MLP of its width.
    """
    model, rows, tp = machine.inputs.model, work.rows, work.tp
    hidden, gates = model.hidden_size, model.mlp_matrices - 1
    touched = distinct_experts(rows, model.experts, model.experts_per_token)
    each = rows_per_expert(rows, model.experts, model.experts_per_token)
    width = model.expert_ffn_width / tp
    terms = [
        machine.gemm_rank("router", rows, hidden, ONE * model.experts),
        machine.gemm_rank("expert_gate_up_linear", each, hidden, width).times(touched * gates),
        machine.gemm_rank("expert_down_linear", each, width, ONE * hidden).times(touched),
    ]
    if model.shared_expert_ffn_width:
        terms += machine.mlp(rows, model.shared_expert_ffn_width, tp)
    return terms


def linear_attention_terms(machine: Mt3000, work: Pass) -> list[Term]:
    """Return the projections and the recurrence of a gated-delta layer.

    The state is read and written once a pass and request; the recurrence multiplies it three
    times a token and head (k^T S, the rank-1 update, q^T S).
    """
    model, rows, tp = machine.inputs.model, work.rows, work.tp
    value_width = model.linear_value_width
    columns = 2 * model.linear_key_width + 2 * value_width + 2 * model.linear_value_heads
    state_bytes = 2 * work.requests * model.state_bytes_per_layer / tp
    macs = 3 * rows * model.linear_state_elements / tp
    kinds = machine.kinds("ddr_bandwidth_bytes_per_second")
    return [
        machine.gemm("qkv_linear", rows, model.hidden_size, columns, tp),
        machine.roofline_term("recurrence", macs, state_bytes, Bound.KV_CACHE, kinds),
        machine.gemm("output_linear", rows, value_width, model.hidden_size, tp, True),
    ]


def unfused_operators(machine: Mt3000, kind: LayerKind, work: Pass) -> Term:
    """Return what RoPE, SiLU, Mul and Add move through DDR as operators of their own.

    Within fused regions these tensors never leave the chip.
    """
    i = machine.inputs
    separate = i.scenario.kernel.fusion == "separate"
    model = i.model
    rotated = model.query_heads / work.tp + kv_heads_per_rank(model, work.tp)
    rope = 2 * rotated * model.head_dim * (1 if caches_tokens(kind) else 0)
    gates = model.mlp_matrices - 1
    activation = (2 + 3 * (gates - 1)) * model.passed_ffn_width(kind) / work.tp
    adds = 2 * 3 * model.hidden_size
    moved = work.rows * (rope + activation + adds) * i.compute_bytes * (1 if separate else 0)
    kinds = machine.kinds("ddr_bandwidth_bytes_per_second")
    return machine.roofline_term("separate_operators", ZERO, moved, Bound.ACTIVATIONS, kinds)
