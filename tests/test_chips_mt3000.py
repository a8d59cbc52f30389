"""MT-3000 stage times against a plain recomputation of THInfer Eqs 10, 18 and 19."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.terms import Bound
from explorer.serving.evaluate import evaluate
from tests.scenarios import MT3000, scenario, scenarios

BYTES = {"fp32": 4, "fp16": 2, "int8": 1}
MT3000_PRESETS = (
    "mt3000-llama-30b", "mt3000-llama2-13b", "mt3000-llama2-70b", "mt3000-llama2-7b",
)  # fmt: skip


class Reference:
    """One scenario, one number at a time, operator by operator."""

    def __init__(self, s):
        self.s, self.shape = s, s.model_shape()
        self.d = BYTES[s.precision.compute]
        self.w = BYTES[s.precision.weights]
        self.peak = self.number(f"peak_macs_per_second_{s.precision.compute}")
        self.bandwidth = self.number("ddr_bandwidth_bytes_per_second")

    def number(self, name):
        return float(self.s.value(f"hardware.{name}"))

    def roof(self, macs, moved):
        return max(macs / self.peak, moved / self.bandwidth)

    def product(self, m, k, n):
        dsps, rows = self.number("dsps_per_cluster"), self.number("gemm_kernel_rows")
        deep = self.number("gemm_block_k")
        m2 = min(
            self.number("sm_bytes") / (2 * self.d * self.number("gemm_tile_k")),
            self.number("gsm_bytes") / (self.d * deep * dsps),
        )
        block = dsps * max(m2 // rows * rows, 1)
        blocks, passes = math.ceil(m / block), math.ceil(k / deep)
        moves = 2 * passes - 1 if blocks > 1 else 1
        moved = m * k * self.d + blocks * k * n * self.w + moves * m * n * self.d
        return self.roof(m * k * n, moved)

    def norm(self, rows):
        return self.roof(0, 2 * rows * self.shape.hidden_size * self.d)

    def all_reduce(self, rows, tp):
        part = rows * self.shape.hidden_size * self.d / tp
        latency, bandwidth = (self.number(f"mpi_{x}") for x in LINK)
        return 2 * (tp - 1) * (latency + part / bandwidth)

    def layer(self, kind, rows, requests, tp, attention):
        a = self.shape
        hidden, ffn = a.hidden_size, a.ffn_width
        norms = a.norm_vectors_per_layer
        if kind == "full_attention":
            query, kv = a.query_heads / tp, max(a.kv_heads / tp, 1)
            columns = (query * a.query_projection_factor + 2 * kv) * a.head_dim
            attended = (
                self.product(rows, hidden, columns)
                + attention(query, kv)
                + self.product(rows, query * a.head_dim, hidden)
            )
        else:
            keys, values, d = a.linear_key_heads, a.linear_value_heads, a.linear_head_dim
            columns = (2 * keys * d + 2 * values * d + 2 * values) / tp
            state = values * d * d / tp
            attended = (
                self.product(rows, hidden, columns)
                + self.roof(3 * rows * state, 2 * requests * state * 4)
                + self.product(rows, values * d / tp, hidden)
            )
        fed = self.product(rows, hidden, 2 * ffn / tp) + self.product(rows, ffn / tp, hidden)
        launches = 2 * self.number("hthreads_launch_seconds") if tp > 1 else 0
        return (
            min(norms, 1) * self.norm(rows)
            + attended
            + max(norms - 1, 0) * self.norm(rows)
            + fed
            + 2 * self.all_reduce(rows, tp)
            + launches
        )

    def stage(self, pool):
        """Return the time of the slowest stage."""
        plan, a = self.s.plan, self.shape
        tp, pp = getattr(plan, f"tp_{pool}"), getattr(plan, f"pp_{pool}")
        requests = getattr(plan, f"micro_batch_{pool}")
        prompt = self.s.workload.prompt_tokens
        rows = requests * prompt if pool == "prefill" else requests
        kv_bytes = BYTES[self.s.precision.kv]
        latency, bandwidth = (self.number(f"mpi_{x}") for x in LINK)

        def prefill(query, kv):
            blocks = self.number("dsps_per_cluster") * self.number("attention_row_block_rows")
            one = prompt * a.head_dim * self.d
            passes = math.ceil(prompt / blocks)
            moved = requests * query * (2 * one + 2 * one * passes)
            return self.roof(2 * requests * query * prompt**2 * a.head_dim, moved)

        def decode(query, kv):
            context = prompt + self.s.workload.output_tokens / 2
            moved = requests * (
                2 * query * a.head_dim * self.d + context * 2 * kv * a.head_dim * kv_bytes
            )
            return self.roof(2 * requests * query * context * a.head_dim, moved)

        attention = prefill if pool == "prefill" else decode
        cost = {k: self.layer(k, rows, requests, tp, attention) for k in a.kinds}
        payload = {
            "full_attention": prompt * 2 * max(a.kv_heads / tp, 1) * a.head_dim * kv_bytes,
            "linear_attention": a.linear_value_heads * a.linear_head_dim**2 * 4 / tp,
        }
        send = {k: latency + requests * payload[k] / bandwidth for k in a.kinds}
        head = self.norm(requests) * min(a.norm_vectors_per_layer, 1) + self.product(
            requests, a.hidden_size, a.vocabulary_size / tp
        )
        every = self.number("hthreads_create_seconds") + self.number("hthreads_launch_seconds")
        if pp > 1:
            every += latency + rows * a.hidden_size * self.d / bandwidth
        slowest, start = 0, 0
        for index in range(pp):
            size = a.layers // pp + (index < a.layers % pp)
            held = a.layer_kinds[start : start + size]
            start += size
            seconds = sum(cost[kind] for kind in held) + every + (index == pp - 1) * head
            if pool == "prefill" and plan.placement == "disaggregated":
                seconds = max(seconds, sum(send[kind] for kind in held))
            slowest = max(slowest, seconds)
        return slowest


LINK = ("latency_seconds", "bandwidth_bytes_per_second")


@given(scenarios(MT3000_PRESETS), st.data())
@settings(max_examples=200, deadline=None)
def test_stage_times_are_the_sum_of_their_operators_on_the_slowest_stage(s, data):
    hardware = {}
    for name, quantity in s.chip_document().quantities.items():
        if data.draw(st.booleans()):
            factor = data.draw(st.sampled_from([0.5, 2]))
            value = quantity.value * factor
            knob = s.chip_document().knob(name)
            if knob.minimum <= value <= knob.maximum:
                hardware[f"hardware.{name}"] = int(value) if knob.whole else value
    s = s.replacing(hardware)
    result, reference = evaluate(s), Reference(s)
    assert result.decode_stage.seconds == pytest.approx(reference.stage("decode"), rel=1e-10)
    assert result.prefill_stage.seconds == pytest.approx(reference.stage("prefill"), rel=1e-10)


@given(st.integers(1, 64), st.sampled_from([1, 2, 4, 8]), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_a_hybrid_model_is_summed_the_same_way(pp, tp, micro_batch):
    s = scenario(
        MT3000,
        model="qwen3.8-27b",
        plan__tp_prefill=tp,
        plan__pp_prefill=pp,
        plan__tp_decode=tp,
        plan__pp_decode=pp,
        plan__micro_batch_decode=micro_batch,
    )
    result, reference = evaluate(s), Reference(s)
    assert result.decode_stage.seconds == pytest.approx(reference.stage("decode"), rel=1e-10)
    assert result.prefill_stage.seconds == pytest.approx(reference.stage("prefill"), rel=1e-10)


def test_a_hybrid_models_work_is_counted_from_its_heads_and_states():
    s = scenario(
        MT3000, model="qwen3.8-27b", plan__pp_decode=1, plan__tp_decode=4,
        plan__micro_batch_decode=3,
    )  # fmt: skip
    terms = terms_of(evaluate(s).decode_stage)
    assert terms["recurrence"].macs == 48 * 3 * 3 * 12 * 128 * 128
    assert terms["recurrence"].bytes == 48 * 2 * 3 * 12 * 128 * 128 * 4
    # Section shapes at TP=4: lin.qkv 2560, lin.z 1536, lin.ab 24; full.q 3072, full.k and v 256.
    columns = 48 * (2560 + 1536 + 24) + 16 * (3072 + 256 + 256)
    assert terms["qkv_linear"].macs == 3 * 5120 * columns
    assert terms["output_linear"].macs == 3 * 5120 * 1536 * 64
    assert terms["gate_up_linear"].macs == 3 * 5120 * 8704 * 64
    assert terms["down_linear"].macs == 3 * 5120 * 4352 * 64
    assert terms["output_head"].macs == 3 * 5120 * 62080
    assert terms["attention_norm"].bytes == terms["final_norm"].bytes == 0


def one_cluster(**changes):
    return scenario(
        "mt3000-llama2-7b",
        **{
            "plan.tp_prefill": 1, "plan.pp_prefill": 1, "plan.tp_decode": 1, "plan.pp_decode": 1,
            "plan.micro_batch_decode": 1, "plan.micro_batch_prefill": 1, **changes,
        },
    )  # fmt: skip


def terms_of(stage):
    return {term.name: term for term in stage.terms}


def test_decode_of_7b_streams_all_weights_but_the_embedding_table():
    stage = evaluate(one_cluster()).decode_stage
    linears = ("qkv_linear", "output_linear", "gate_up_linear", "down_linear", "output_head")
    terms = terms_of(stage)
    norms = 65 * 4096
    weights = 2 * (6738415616 - 32000 * 4096 - norms)
    assert weights / 1e9 == pytest.approx(13.21, abs=0.005)
    # x in and y out of each product, by hand: hidden 4096, ffn 11008, vocabulary 32000.
    vectors = 32 * (4096 + 12288 + 4096 + 4096 + 4096 + 22016 + 11008 + 4096) + 4096 + 32000
    moved = sum(float(terms[name].bytes) for name in linears)
    assert moved == weights + 2 * vectors
    seconds = sum(float(terms[name].seconds) for name in linears)
    assert seconds == pytest.approx(0.440, abs=0.001)
    assert seconds == pytest.approx(moved / 30e9, rel=1e-12)
    assert all(terms[name].bound_by == Bound.WEIGHTS for name in linears)
    assert stage.seconds > seconds


def test_macs_of_a_decode_step_are_one_per_weight_and_two_per_cached_element():
    terms = terms_of(evaluate(one_cluster()).decode_stage)
    weights = 6738415616 - 32000 * 4096 - 65 * 4096
    attention = 32 * 2 * (512 + 64) * 4096
    assert sum(float(term.macs) for term in terms.values()) == weights + attention
    assert terms["attention"].bytes == (512 + 64) * 524288 + 32 * 2 * 4096 * 2


def test_doubling_the_prompt_doubles_linear_macs_and_quadruples_attention():
    at = {
        tokens: terms_of(evaluate(one_cluster(**{"workload.prompt_tokens": tokens})).prefill_stage)
        for tokens in (512, 1024)
    }
    for name in ("qkv_linear", "output_linear", "gate_up_linear", "down_linear"):
        assert at[1024][name].macs == 2 * at[512][name].macs
    assert at[1024]["attention"].macs == 4 * at[512]["attention"].macs
    assert at[1024]["output_head"].macs == at[512]["output_head"].macs == 4096 * 32000


def test_without_tensor_parallelism_equation_19_is_equation_18():
    for pool in ("prefill_stage", "decode_stage"):
        alone = terms_of(getattr(evaluate(one_cluster()), pool))
        assert alone["all_reduce"].seconds == alone["all_reduce"].bytes == 0
        assert alone["layer_launch"].seconds == 0
        several = terms_of(
            getattr(evaluate(one_cluster(**{"plan.tp_decode": 4, "plan.tp_prefill": 4})), pool)
        )
        assert several["layer_launch"].seconds == pytest.approx(32 * 2 * 2e-5)
        rows = 512 if pool == "prefill_stage" else 1
        ring = 6 * (1e-5 + rows * 4096 * 2 / 4 / 5e9)
        assert several["all_reduce"].seconds == pytest.approx(32 * 2 * ring)
        assert several["all_reduce"].bytes == pytest.approx(32 * 2 * 6 * rows * 4096 * 2 / 4)


def test_a_single_stage_hands_nothing_over():
    for pp, sent in ((1, 0), (2, 4096 * 2)):
        stage = evaluate(one_cluster(**{"plan.pp_decode": pp})).decode_stage
        hand_over = terms_of(stage)["stage_hand_over"]
        assert hand_over.bytes == sent
        assert hand_over.seconds == pytest.approx(1e-5 + sent / 5e9 if sent else 0)


def test_double_the_layers_of_one_shape_take_double_the_layer_time():
    document = one_cluster().model_document()

    def stage(layers):
        numbers = document.numbers.model_copy(
            update={"layers": document.numbers.layers.model_copy(update={"value": layers})}
        )
        changed = document.model_copy(update={"numbers": numbers})
        result = evaluate(one_cluster().model_copy(update={"model": changed}))
        return result.prefill_stage, result.decode_stage

    once = ("pass_launch", "stage_hand_over", "final_norm", "output_head", "kv_transfer_stall")
    for short, tall in zip(stage(32), stage(64), strict=True):
        per_layer = [
            sum(float(t.seconds) for t in s.terms if t.name not in once) for s in (short, tall)
        ]
        assert per_layer[1] == pytest.approx(2 * per_layer[0], rel=1e-12)


def test_each_precision_has_its_own_peak():
    for compute, peak in (("fp32", 4.05e12), ("fp16", 8.1e12)):
        s = scenario(MT3000, precision__compute=compute, workload__prompt_tokens=2048)
        term = terms_of(evaluate(s).prefill_stage)["gate_up_linear"]
        assert term.bound_by == Bound.COMPUTE
        assert term.seconds == pytest.approx(float(term.macs) / peak)


def test_bounds_follow_the_roofline():
    decode = terms_of(evaluate(scenario(MT3000)).decode_stage)
    assert decode["gate_up_linear"].bound_by == Bound.WEIGHTS
    assert decode["attention"].bound_by == Bound.KV_CACHE
    assert decode["attention_norm"].bound_by == Bound.ACTIVATIONS
    assert decode["pass_launch"].bound_by == Bound.LAUNCH
    assert decode["all_reduce"].bound_by == Bound.COLLECTIVE
    assert decode["stage_hand_over"].bound_by == Bound.LINK
    slow = scenario(MT3000, hardware__ddr_bandwidth_bytes_per_second=1e9)
    many_rows = terms_of(evaluate(slow).prefill_stage)
    assert many_rows["output_linear"].bound_by == Bound.ACTIVATIONS


def test_terms_tell_what_kinds_of_sources_they_rest_on():
    decode = terms_of(evaluate(scenario(MT3000)).decode_stage)
    assert decode["all_reduce"].kinds == decode["pass_launch"].kinds == {"assumed"}
    assert decode["down_linear"].kinds == {"published", "derived"}
    moved = scenario(MT3000, hardware__ddr_bandwidth_bytes_per_second=60e9)
    assert "override" in terms_of(evaluate(moved).decode_stage)["down_linear"].kinds


def test_roofs_and_link_are_the_documents_numbers():
    machine = evaluate(scenario(MT3000)).machine
    assert [(r.name, r.peak_macs_per_second) for r in machine.roofs] == [
        ("FP32", 4.05e12), ("FP16", 8.1e12)
    ]  # fmt: skip
    assert all(r.bandwidth_bytes_per_second == 30e9 for r in machine.roofs)
    assert (machine.link.latency_seconds, machine.link.bandwidth_bytes_per_second) == (1e-5, 5e9)
    assert machine.capacity.memory_bytes == 20e9
    assert (machine.environment(), machine.notes()) == ({}, ())


def test_a_block_of_the_papers_configuration_reads_the_weights_once_per_720_rows():
    rows = np.asarray([720, 721, 1440, 1441])
    s = scenario(
        MT3000,
        precision__compute="fp32",
        workload__prompt_tokens=rows,
        plan__micro_batch_prefill=1,
        plan__pp_prefill=1,
    )
    moved = terms_of(evaluate(s).prefill_stage)["gate_up_linear"].bytes
    hidden, columns = 5120, 2 * 13824
    blocks = np.asarray([1, 2, 2, 3])
    moves = np.asarray([1, 5, 5, 5])
    expected = 4 * rows * hidden + 2 * blocks * hidden * columns + 4 * moves * rows * columns
    assert moved.tolist() == (40 * expected).tolist()
