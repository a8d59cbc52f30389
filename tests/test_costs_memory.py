"""Parameters and memory against published counts and a stage-by-stage tally."""

import numpy as np
import pytest
from hypothesis import given, settings

from explorer.costs.memory import kv_bytes_per_token_layer, kv_heads_per_rank
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, MODELS, PRESETS, model, scenario, scenarios

BYTES = {"fp32": 4, "fp16": 2, "int8": 1}


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama2-7b", 6.738),
        ("llama2-13b", 13.016),
        ("llama-30b", 32.529),
        ("llama2-70b", 68.977),
        ("qwen3.8-27b", 26.893),
    ],
)
def test_parameters_are_the_published_count(name, billions):
    assert round(model(name).parameters / 1e9, 3) == billions


def test_llama_parameters_are_exact():
    # Counted from the checkpoint's tensors: q, k, v, o, gate, up, down, two norms a layer.
    layer = 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096
    assert model("llama2-7b").parameters == 32 * layer + 2 * 32000 * 4096 + 4096 == 6738415616
    grouped = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert model("llama2-70b").parameters == 80 * grouped + 2 * 32000 * 8192 + 8192


def test_qwen_parameters_are_the_sum_of_the_reports_shapes_on_four_ranks():
    hidden = 5120
    mlp = 8704 * hidden + hidden * 4352
    linear = (2560 + 1536 + 24) * hidden + hidden * 1536
    full = (3072 + 256 + 256) * hidden + hidden * 1536
    rank = 64 * mlp + 48 * linear + 16 * full + 2 * 62080 * hidden
    assert model("qwen3.8-27b").parameters == 4 * rank


def test_a_910a_rank_holds_13_449_gb_at_tp_4():
    memory = evaluate(scenario(ASCEND)).decode_memory
    weights = memory.total_bytes - memory.overhead_bytes - memory.kv_bytes - memory.state_bytes
    assert weights == pytest.approx(13.449e9, rel=1e-3)
    assert memory.params_bytes == pytest.approx(13.449e9, rel=1e-3)


def test_910a_cache_is_1024_bytes_a_token_a_full_attention_layer_and_state_elsewhere():
    shape = model("qwen3.8-27b")
    assert kv_bytes_per_token_layer(shape, np.float64(4), 2) == 1024
    memory = evaluate(scenario(ASCEND, workload__max_context_tokens=8192)).decode_memory
    assert memory.kv_bytes == 16 * 8192 * 1024
    assert memory.state_bytes == 48 * 12 * 128 * 128 * 4


def worked_example(**changes):
    plan = {
        "plan.pp_prefill": 2, "plan.micro_batch_prefill": 8, "plan.tp_decode": 4,
        "plan.pp_decode": 4, "plan.micro_batch_decode": 64, "workload.max_context_tokens": 640,
    }  # fmt: skip
    return scenario("mt3000-llama2-13b", **{**plan, **changes})


def test_worked_example_of_equations_12_to_15():
    result = evaluate(worked_example())
    assert result.prefill_memory.params_bytes == pytest.approx(13.016e9, rel=1e-4)
    assert result.prefill_memory.params_bytes == 13015864320
    assert result.prefill_memory.kv_bytes == 104857600
    assert result.decode_memory.params_bytes == pytest.approx(1.627e9, rel=1e-3)
    assert result.decode_memory.params_bytes == 13015864320 * 2 / 16
    assert result.decode_memory.kv_bytes == 8388608000
    assert result.batch == 256


@pytest.mark.parametrize(
    ("name", "a_token", "at_8192"),
    [("llama2-70b", 327_680, 2_684_354_560), ("llama2-7b", 524_288, 4_294_967_296)],
)
def test_cache_counts_kv_heads(name, a_token, at_8192):
    shape = model(name)
    assert 2 * shape.kv_elements_per_token == a_token
    per_layer = kv_bytes_per_token_layer(shape, np.float64(1), 2)
    assert per_layer * shape.layers == a_token
    result = evaluate(
        scenario(f"mt3000-{name}", workload__max_context_tokens=8192, plan__micro_batch_decode=1)
    )
    assert result.request_cache_bytes == at_8192


def test_cache_of_70b_is_an_eighth_of_the_multi_head_formula():
    result = evaluate(scenario("mt3000-llama2-70b"))
    micro_batch, context, hidden, layers, tp = 64, 640, 8192, 80, 8
    printed = micro_batch * context * 2 * 2 * hidden * layers / tp
    assert result.decode_memory.kv_bytes == printed / 8
    assert result.prefill_memory.kv_bytes == 8 * context * 2 * 2 * hidden / 8


def test_kv_heads_replicate_above_their_number():
    shape = model("llama2-70b")
    heads = kv_heads_per_rank(shape, np.asarray([1.0, 2, 4, 8, 16, 32, 64]))
    assert heads.tolist() == [8, 4, 2, 1, 1, 1, 1]
    at = {
        tp: evaluate(scenario("mt3000-llama2-70b", plan__tp_decode=tp)).decode_memory
        for tp in (4, 8, 16)
    }
    assert at[4].kv_bytes == 2 * at[8].kv_bytes
    assert at[16].kv_bytes == at[8].kv_bytes
    assert at[16].params_bytes == at[8].params_bytes / 2
    # A replicated KV projection is really held twice: 80 / 4 layers, K and V, half a head more.
    held = {
        tp: memory.total_bytes - memory.kv_bytes - memory.overhead_bytes
        for tp, memory in at.items()
    }
    norms = 20 * 2 * 8192 * 2 + 8192 * 2
    tables = 32000 * 8192 * 2
    half_kv = 20 * 8192 * 2 * 128 / 2 * 2
    assert held[8] - norms - tables / 8 == pytest.approx(
        2 * (held[16] - norms - tables / 16) - 2 * half_kv, rel=1e-12
    )


def tally(s, pool):
    """Return the bytes of the fullest rank, stage by stage, from tensors and requests."""
    shape, plan = s.model_shape(), s.plan
    shared = plan.placement == "shared"
    tp, pp = getattr(plan, f"tp_{pool}"), getattr(plan, f"pp_{pool}")
    weight, kv = BYTES[s.precision.weights], BYTES[s.precision.kv]
    h, d, f = shape.hidden_size, shape.head_dim, shape.ffn_width
    q, heads = shape.query_heads // tp, max(shape.kv_heads // tp, 1)
    norms = shape.norm_vectors_per_layer * h
    mlp = shape.mlp_matrices * h * f // tp
    key, value = shape.linear_key_heads // tp, shape.linear_value_heads // tp
    ld = shape.linear_head_dim
    layer = {
        "full_attention": h * d * (q * (shape.query_projection_factor + 1) + 2 * heads),
        "linear_attention": h * (2 * key * ld + 3 * value * ld + 2 * value),
    }
    context = s.workload.max_context_tokens
    whole = shared or pool == "decode"
    requests = plan.pp_decode * plan.micro_batch_decode if whole else plan.micro_batch_prefill
    cache = {
        "full_attention": requests * context * 2 * heads * d * kv,
        "linear_attention": requests * value * ld * ld * shape.linear_state_element_bytes,
    }
    fullest, start = 0, 0
    for stage in range(pp):
        size = shape.layers // pp + (stage < shape.layers % pp)
        held = shape.layer_kinds[start : start + size]
        start += size
        elements = sum(layer[kind] + mlp + norms for kind in held)
        elements += (shape.vocabulary_size * h // tp) * ((stage == 0) + (stage == pp - 1))
        elements += (stage == pp - 1) * (h if norms else 0)
        kept = held if whole else shape.kinds
        fullest = max(fullest, elements * weight + sum(cache[kind] for kind in kept))
    return fullest + float(s.value("hardware.overhead_bytes"))


@given(scenarios())
@settings(max_examples=150, deadline=None)
def test_the_fullest_rank_is_what_a_stage_by_stage_tally_finds(s):
    result = evaluate(s)
    assert result.prefill_memory.total_bytes == pytest.approx(tally(s, "prefill"), rel=1e-12)
    assert result.decode_memory.total_bytes == pytest.approx(tally(s, "decode"), rel=1e-12)


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_memory_parts_add_up_and_imbalance_is_never_negative(s):
    for memory in (evaluate(s).prefill_memory, evaluate(s).decode_memory):
        parts = memory.params_bytes + memory.kv_bytes + memory.state_bytes + memory.overhead_bytes
        assert memory.imbalance_bytes == max(memory.total_bytes - parts, 0)
        assert memory.excess_bytes == memory.total_bytes - memory.limit_bytes


def test_one_stage_of_one_rank_holds_exactly_the_parameters():
    for name in MODELS:
        preset = ASCEND if name.startswith("qwen") else f"mt3000-{name}"
        pool = {
            f"plan.{name}": 1 for name in ("tp_prefill", "pp_prefill", "tp_decode", "pp_decode")
        }
        memory = evaluate(scenario(preset, **pool)).decode_memory
        assert memory.imbalance_bytes == 0
        held = memory.total_bytes - memory.overhead_bytes - memory.kv_bytes - memory.state_bytes
        assert held == memory.params_bytes == 2 * model(name).parameters


def test_tied_tables_are_held_once_by_a_single_stage_and_twice_by_a_pipeline():
    document = scenario().model_document().model_dump(mode="json", by_alias=True)
    document["numbers"]["embedding_tables"]["value"] = 1
    tied = scenario().model_copy(update={"model": type(scenario().model_document())(**document)})
    table = 2 * 32000 * 5120

    def weights(s, pp):
        memory = evaluate(s.replacing({"plan.pp_prefill": pp})).prefill_memory
        return memory.total_bytes - memory.kv_bytes - memory.overhead_bytes

    assert weights(scenario(), 1) - weights(tied, 1) == table
    assert weights(scenario(), 40) == weights(tied, 40)


@pytest.mark.parametrize("preset", PRESETS)
def test_limit_is_the_usable_memory_less_the_headroom(preset):
    s = scenario(
        preset, hardware__usable_memory_fraction=0.5, limits__memory_headroom_fraction=0.25
    )
    memory = float(s.value("hardware.memory_bytes"))
    assert evaluate(s).limit_bytes == memory * 0.5 * 0.75
