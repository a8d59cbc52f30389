"""Sliding windows: what is kept and read stops at the window, and at no window nothing changes."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.chips.inputs import Inputs
from explorer.chips.mt3000 import Mt3000
from explorer.config.hugging_face import imported
from explorer.config.own_model import with_model
from explorer.costs.attention import attention_cost, causal_keys, full_attention_macs
from explorer.costs.memory import attended_tokens, request_cache_bytes
from explorer.serving.evaluate import evaluate
from tests.configs import config, config_model, imported_config
from tests.scenarios import scenario

METHODS = ("mt", "flash", "unfused")


def test_a_request_keeps_no_more_than_its_window_in_sliding_layers():
    model = config_model("gemma-3-1b")
    a_layer = 2 * 1 * 256 * 2
    assert request_cache_bytes(model, np.float64(300), 2) == 26 * 300 * a_layer
    kept = 22 * 512 + 4 * 8192
    assert request_cache_bytes(model, np.float64(8192), 2) == kept * a_layer
    assert attended_tokens(model, "sliding_attention", np.float64(8192)) == 512
    assert attended_tokens(model, "full_attention", np.float64(8192)) == 8192


def test_budget_buffer_and_decode_reads_agree_on_the_window():
    base, _ = with_model(scenario(), imported_config("mistral-7b-v0.1").document)
    changes = {"workload.prompt_tokens": 8000, "workload.output_tokens": 128}
    long = base.replacing({**changes, "workload.max_context_tokens": 8192})
    evaluation = evaluate(long)
    plan, a_token = long.plan, 2 * 8 * 128 * 2
    batch = plan.pp_decode * plan.micro_batch_decode
    assert evaluation.buffer_kv_bytes == batch * 32 * 4096 * a_token
    memory = evaluation.decode_memory
    held = 32 / plan.pp_decode * batch * 4096 * a_token / plan.tp_decode
    assert memory.kv_bytes == held
    attention = next(term for term in evaluation.decode_stage.terms if term.name == "attention")
    cache = plan.micro_batch_decode * 4096 * a_token / plan.tp_decode * 32 / plan.pp_decode
    activations = 2 * plan.micro_batch_decode * 32 / plan.tp_decode * 128 * 2 * 32 / plan.pp_decode
    assert attention.bytes == pytest.approx(cache + activations)


def cost(method, seq, window):
    machine = Mt3000.of(Inputs(scenario()))
    return attention_cost(
        method,
        np.float64(8),
        np.float64(seq),
        np.float64(128),
        machine.attention_tiles,
        machine.cluster,
        window,
    )


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None)
@given(seq=st.integers(1, 20_000), window=st.integers(1, 20_000))
def test_a_window_never_costs_more_and_one_as_long_as_the_prompt_nothing_less(method, seq, window):
    full, slid = cost(method, seq, inf), cost(method, seq, window)
    assert slid.seconds <= full.seconds * (1 + 1e-12)
    assert slid.macs == 2 * 8 * seq * min(seq, window) * 128
    wider = cost(method, seq, window + 100)
    assert slid.macs <= wider.macs
    if window >= seq:
        assert slid == full


def test_the_unfused_kernel_saves_nothing_and_mt_most_of_a_long_prompt():
    assert cost("unfused", 16_384, 512).seconds == cost("unfused", 16_384, inf).seconds
    for method in ("mt", "flash"):
        assert cost(method, 16_384, 512).seconds < 0.4 * cost(method, 16_384, inf).seconds


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300))
def test_causal_pairs_equal_counting_them(seq, window):
    pairs = sum(min(query + 1, window) for query in range(seq))
    # The closed form takes pairs as areas: half a pair a query is on the diagonal.
    closed = float(causal_keys(np.float64(seq), window)) * seq / 2
    diagonal = min(seq, window) / 2
    assert closed + diagonal == pytest.approx(pairs)
    assert causal_keys(np.float64(seq), inf) == seq
    macs = full_attention_macs(np.float64(1), np.float64(seq), np.float64(2), np.float64(3), window)
    assert macs == pytest.approx(2 * 2 * 3 * 2 * closed)


@pytest.mark.parametrize("preset", ["mt3000-llama2-13b", "ascend910a-qwen3.8-27b"])
def test_a_narrower_window_is_never_slower(preset):
    seconds = []
    for window in (256, 1024, 4096, 8192, None):
        document = imported(config("mistral-7b-v0.1", sliding_window=window)).document
        base, _ = with_model(scenario(preset), document)
        changes = {"workload.prompt_tokens": 8000, "workload.max_context_tokens": 8192}
        evaluation = evaluate(base.replacing(changes))
        seconds.append((evaluation.prefill_stage.seconds, evaluation.decode_stage.seconds))
    prefill, decode = zip(*seconds, strict=True)
    assert list(prefill) == sorted(prefill)
    assert list(decode) == sorted(decode)
    assert prefill[0] < prefill[-1]
    assert decode[0] < decode[-1]
    assert prefill[-2] == pytest.approx(prefill[-1])
    assert decode[-2] == pytest.approx(decode[-1])
