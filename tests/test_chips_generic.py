"""The generic chip against a plain recomputation, its datasheets, and its limits."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.chips.inputs import Inputs
from explorer.chips.registry import FAMILIES, check_numbers
from explorer.config.chip import Chip
from explorer.config.errors import InputError
from explorer.config.jsonio import validated
from explorer.config.presets import load_chip
from explorer.costs.terms import Bound
from explorer.serving.evaluate import evaluate
from tests.scenarios import GENERIC, MODELS, MT3000, scenario, scenarios

GENERIC_CHIPS = ("a100-80gb-sxm", "h100-sxm")
OPERATORS_PER_FULL_LAYER, OPERATORS_PER_LINEAR_LAYER, OPERATORS_OF_THE_HEAD = 9, 8, 2


class Plain:
    """Times of one pass, operator by operator, with scalars and loops."""

    def __init__(self, s):
        self.s, self.model = s, s.model_shape()
        size = {"fp32": 4, "fp16": 2, "int8": 1}
        self.act = size[s.precision.compute]
        self.weight, self.kv = size[s.precision.weights], size[s.precision.kv]
        peak = self.number(f"peak_macs_per_second_{s.precision.compute}")
        self.peak = peak * self.number("achievable_peak_fraction")
        self.bandwidth = self.number("memory_bandwidth_bytes_per_second") * self.number(
            "achievable_bandwidth_fraction"
        )
        self.launch = self.number("operator_launch_seconds")

    def number(self, name):
        return float(self.s.value(f"hardware.{name}"))

    def roof(self, macs, moved):
        return self.launch + max(macs / self.peak, moved / self.bandwidth)

    def product(self, rows, k, n):
        return self.roof(rows * k * n, k * n * self.weight + rows * (k + n) * self.act)

    def norm(self, rows):
        return self.roof(0, 4 * rows * self.model.hidden_size * self.act)

    def reduce(self, rows, tp):
        payload = rows * self.model.hidden_size * self.act
        wire = payload / self.number("link_bandwidth_bytes_per_second")
        return sum(self.number("link_latency_seconds") + wire / tp for _step in range(2 * (tp - 1)))

    def layer(self, kind, requests, rows, tp, context, decodes):
        m = self.model
        hidden, d = m.hidden_size, m.head_dim
        width = m.ffn_width / tp
        heads, kv_heads = m.query_heads / tp, max(m.kv_heads / tp, 1)
        seconds = self.norm(rows) + self.norm(rows)
        if kind == "full_attention":
            columns = heads * d * m.query_projection_factor + 2 * kv_heads * d
            seconds += self.product(rows, hidden, columns)
            seconds += self.roof(0, 2 * rows * (heads + kv_heads) * d * self.act)
            queries = 2 * rows * heads * d * self.act
            if decodes:
                cache = requests * context * 2 * kv_heads * d * self.kv
                seconds += self.roof(2 * requests * context * heads * d, queries + cache)
            else:
                fresh = rows * 2 * kv_heads * d * self.act
                seconds += self.roof(2 * requests * context**2 * heads * d, queries + fresh)
            seconds += self.product(rows, heads * d, hidden)
        else:
            key, value = (h * m.linear_head_dim for h in (m.linear_key_heads, m.linear_value_heads))
            columns = (2 * key + 2 * value + 2 * m.linear_value_heads) / tp
            seconds += self.product(rows, hidden, columns)
            state = m.linear_value_heads * m.linear_head_dim**2 / tp
            moved = 2 * requests * state * 4 + rows * (columns + value / tp) * self.act
            seconds += self.roof(3 * rows * state, moved)
            seconds += self.product(rows, value / tp, hidden)
        seconds += self.product(rows, hidden, (m.mlp_matrices - 1) * width)
        seconds += self.roof(0, rows * m.mlp_matrices * width * self.act)
        seconds += self.product(rows, width, hidden)
        return seconds + 2 * self.reduce(rows, tp)

    def stage(self, layers, head, decodes):
        plan, work = self.s.plan, self.s.workload
        if decodes:
            requests, tp, pp = plan.micro_batch_decode, plan.tp_decode, plan.pp_decode
            rows, context = requests, work.prompt_tokens + work.output_tokens / 2
        else:
            requests, tp, pp = plan.micro_batch_prefill, plan.tp_prefill, plan.pp_prefill
            rows, context = requests * work.prompt_tokens, work.prompt_tokens
        seconds = sum(self.layer(k, requests, rows, tp, context, decodes) for k in layers)
        if head:
            seconds += self.norm(requests)
            seconds += self.product(
                requests, self.model.hidden_size, self.model.vocabulary_size / tp
            )
        if pp > 1:
            payload = rows * self.model.hidden_size * self.act
            seconds += self.number("link_latency_seconds")
            seconds += payload / self.number("link_bandwidth_bytes_per_second")
        return seconds

    def slowest(self, pp, decodes):
        kinds, count = self.model.layer_kinds, len(self.model.layer_kinds)
        short, longer = divmod(count, pp)
        sizes = [short + 1] * longer + [short] * (pp - longer)
        starts = [sum(sizes[:i]) for i in range(pp)]
        return max(
            self.stage(kinds[start : start + size], start + size == count, decodes)
            for start, size in zip(starts, sizes, strict=True)
        )


@given(scenarios((GENERIC,)), st.sampled_from(MODELS))
@settings(max_examples=80, deadline=None)
def test_a_pass_is_the_sum_of_its_operators_launches_and_all_reduces(s, name):
    plan = dict.fromkeys(("plan.tp_prefill", "plan.tp_decode"), 2)
    stages = dict.fromkeys(("plan.pp_prefill", "plan.pp_decode"), min(s.plan.pp_decode, 32))
    s = s.replacing({"model": name, **plan, **stages, "plan.placement": "shared"})
    plain, result = Plain(s), evaluate(s)
    for pool, decodes in (("prefill", False), ("decode", True)):
        expected = plain.slowest(getattr(s.plan, f"pp_{pool}"), decodes)
        assert float(getattr(result, f"{pool}_stage").seconds) == pytest.approx(expected, rel=1e-9)


@given(scenarios((GENERIC,)))
@settings(max_examples=60, deadline=None)
def test_any_scenario_and_placement_agrees_with_the_plain_recomputation(s):
    """The link's stall belongs to pools apart, not to the chip."""
    plain, result = Plain(s), evaluate(s)
    for pool, decodes in (("prefill", False), ("decode", True)):
        expected = plain.slowest(getattr(s.plan, f"pp_{pool}"), decodes)
        terms = getattr(result, f"{pool}_stage").terms
        found = sum(float(t.seconds) for t in terms if t.name != "kv_transfer_stall")
        assert found == pytest.approx(expected, rel=1e-9)


# By hand


def test_decode_of_one_request_streams_the_weights():
    """70B of fp16 over 8 cards at 80 % of 2039 GB/s, and nothing else free."""
    free = {"operator_launch_seconds": 1e-9, "link_latency_seconds": 1e-8}
    s = scenario(
        GENERIC, plan__micro_batch_decode=1, workload__prompt_tokens=1, workload__output_tokens=2,
        **{f"hardware__{name}": value for name, value in free.items()},
        hardware__link_bandwidth_bytes_per_second=1e13,
    )  # fmt: skip
    shape = s.model_shape()
    streamed = 2 * (shape.parameters - shape.embedding_elements) / 8
    seconds = float(evaluate(s).decode_stage.seconds)
    assert seconds == pytest.approx(streamed / (0.8 * 2039e9), rel=0.01)


def test_prefill_of_a_long_batch_is_arithmetic_at_the_achievable_peak():
    s = scenario(GENERIC, hardware__link_bandwidth_bytes_per_second=1e13)
    shape, rows = s.model_shape(), 4 * 2048
    products = rows * sum(
        shape.layer_weight_elements[kind] - 2 * shape.hidden_size for kind in shape.layer_kinds
    )
    attention = shape.layers * 2 * 4 * 2048**2 * shape.query_heads * shape.head_dim
    least = (products + attention) / 8 / (0.7 * 156e12)
    terms = {t.name: t for t in evaluate(s).prefill_stage.terms}
    names = ("qkv_linear", "attention", "output_linear", "gate_up_linear", "down_linear")
    assert all(int(terms[name].bound_by) == Bound.COMPUTE for name in names)
    assert sum(float(terms[name].seconds) for name in names) == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_all_reduces_are_rings(tp):
    s = scenario(GENERIC, plan__tp_prefill=tp, plan__tp_decode=tp)
    terms = {t.name: float(t.seconds) for t in evaluate(s).decode_stage.terms}
    step = 2e-6 + 64 * 8192 * 2 / tp / 300e9
    assert terms["all_reduce"] == pytest.approx(80 * 2 * 2 * (tp - 1) * step, abs=1e-18)


def test_every_operator_is_launched_once():
    for name, layer_count in (("llama2-70b", 80 * OPERATORS_PER_FULL_LAYER),
                              ("qwen3.8-27b", 16 * OPERATORS_PER_FULL_LAYER
                               + 48 * OPERATORS_PER_LINEAR_LAYER)):  # fmt: skip
        s = scenario(GENERIC, model=name)
        for stage in (evaluate(s).prefill_stage, evaluate(s).decode_stage):
            (launch,) = (t for t in stage.terms if t.name == "operator_launch")
            count = layer_count + OPERATORS_OF_THE_HEAD
            assert float(launch.seconds) == pytest.approx(4e-6 * count)
            assert int(launch.bound_by) == Bound.LAUNCH


def test_grouped_queries_read_fewer_keys():
    s = scenario(GENERIC, plan__tp_decode=8)
    (attention,) = (t for t in evaluate(s).decode_stage.terms if t.name == "attention")
    context = 2048 + 128
    assert float(attention.bytes) == 80 * 64 * (context * 327680 / 80 / 8 + 2 * 8192 / 8 * 2)


def test_kv_precision_changes_decode_only():
    half, byte = scenario(GENERIC), scenario(GENERIC, precision__kv="int8")
    assert float(evaluate(half).prefill_seconds) == float(evaluate(byte).prefill_seconds)
    assert float(evaluate(half).decode_seconds) > float(evaluate(byte).decode_seconds)


def test_another_accelerator_runs_the_same_plan():
    """Every resource of an H100 is larger, none by more than 3.44 times (its FP32 peak)."""
    a100 = scenario(GENERIC)
    h100 = a100.with_chip("h100-sxm")
    ratio = float(evaluate(h100).objective("throughput") / evaluate(a100).objective("throughput"))
    assert 1 < ratio < 494.75 / 156


def test_arrays_of_chip_numbers_give_what_single_values_give():
    names = ("peak_macs_per_second_fp16", "memory_bandwidth_bytes_per_second",
             "achievable_peak_fraction", "operator_launch_seconds")  # fmt: skip
    base = scenario(GENERIC)
    for name in names:
        knob = base.chip_document().knob(name)
        values = np.geomspace(knob.minimum, knob.maximum, 5)
        swept = evaluate(base.replacing({f"hardware.{name}": values}))
        for index, value in enumerate(values):
            single = evaluate(base.replacing({f"hardware.{name}": float(value)}))
            for pool in ("prefill", "decode"):
                found = np.broadcast_to(getattr(swept, f"{pool}_seconds"), values.shape)[index]
                assert found == float(getattr(single, f"{pool}_seconds"))


# Datasheets


@pytest.mark.parametrize(
    ("name", "tflops", "gbytes", "nvlink"), [(GENERIC_CHIPS[0], 312, 2039, 600),
                                             (GENERIC_CHIPS[1], 1979 / 2, 3350, 900)],
)  # fmt: skip
def test_presets_hold_the_datasheet_in_macs_and_one_way(name, tflops, gbytes, nvlink):
    numbers = {key: item.value for key, item in load_chip(name).quantities.items()}
    assert numbers["peak_macs_per_second_fp16"] == tflops * 1e12 / 2
    assert numbers["memory_bandwidth_bytes_per_second"] == gbytes * 1e9
    assert numbers["link_bandwidth_bytes_per_second"] == nvlink * 1e9 / 2
    assert numbers["memory_bytes"] == 80e9


@pytest.mark.parametrize("name", GENERIC_CHIPS)
def test_what_no_datasheet_says_is_assumed(name):
    kinds = {key: item.kind for key, item in load_chip(name).quantities.items()}
    assumed = {key for key, kind in kinds.items() if kind == "assumed"}
    assert assumed == {
        "achievable_peak_fraction", "achievable_bandwidth_fraction", "usable_memory_fraction",
        "overhead_bytes", "link_latency_seconds", "operator_launch_seconds",
    }  # fmt: skip


def test_that_nothing_was_measured_is_noted_until_somebody_measures():
    s = scenario(GENERIC)
    assert "No measurement of the A100" in evaluate(s).machine.notes()[0]
    document = s.chip_document().model_dump(by_alias=True)
    for name in ("achievable_peak_fraction", "achievable_bandwidth_fraction"):
        document["quantities"][name]["kind"] = "fitted"
    assert evaluate(s.with_chip(validated(document, Chip))).machine.notes() == ()


def test_roofs_are_the_published_ones_and_what_is_achievable():
    roofs = {roof.name: roof for roof in evaluate(scenario(GENERIC)).machine.roofs}
    assert list(roofs) == ["FP32", "FP16", "FP16, achievable"]
    assert float(roofs["FP16"].peak_macs_per_second) == 156e12
    assert float(roofs["FP16, achievable"].peak_macs_per_second) == pytest.approx(0.7 * 156e12)
    achievable = float(roofs["FP16, achievable"].bandwidth_bytes_per_second)
    assert achievable == pytest.approx(0.8 * 2039e9)
    fp32 = evaluate(scenario(GENERIC, precision__compute="fp32")).machine.roofs
    assert fp32[-1].name == "FP32, achievable"


def test_no_operator_lies_above_its_roof():
    result = evaluate(scenario(GENERIC))
    *_, roof = result.machine.roofs
    for stage in (result.prefill_stage, result.decode_stage):
        for term in stage.terms:
            if term.macs > 0:
                limit = min(
                    float(roof.peak_macs_per_second),
                    float(roof.bandwidth_bytes_per_second * term.macs / term.bytes),
                )
                assert float(term.macs / term.busy_seconds) <= limit * (1 + 1e-12)


# Documents


def changed(**changes):
    document = copy.deepcopy(load_chip(GENERIC_CHIPS[0]).model_dump(by_alias=True))
    document["id"] = "mine"
    for name, change in changes.items():
        if change is None:
            del document["quantities"][name]
        else:
            document["quantities"][name].update(change)
    return validated(document, Chip)


@pytest.mark.parametrize("name", FAMILIES["generic"].needed)
def test_a_missing_number_is_named(name):
    chip = changed(**{name: None})
    for use in (check_numbers, scenario(GENERIC).with_chip):
        with pytest.raises(InputError, match=f"also needs {name}"):
            evaluate(use(chip))


def test_one_peak_is_enough_and_none_is_not():
    half = changed(peak_macs_per_second_fp32=None)
    check_numbers(half)
    assert half.compute_precisions == ("fp16",)
    s = scenario(GENERIC).with_chip(half)
    assert float(evaluate(s).objective("throughput")) > 0
    assert [roof.name for roof in evaluate(s).machine.roofs] == ["FP16", "FP16, achievable"]
    with pytest.raises(InputError, match="has no fp32 arithmetic"):
        scenario(GENERIC, precision__compute="fp32").with_chip(half)
    none = changed(peak_macs_per_second_fp32=None, peak_macs_per_second_fp16=None)
    with pytest.raises(InputError, match="also needs peak_macs_per_second_fp32 or"):
        check_numbers(none)
    with pytest.raises(InputError):
        FAMILIES["generic"].machine(
            Inputs(scenario(GENERIC).model_copy(update={"chip": none, "hardware": {}}))
        )


@pytest.mark.parametrize(
    "name",
    ["peak_macs_per_second_fp16", "memory_bandwidth_bytes_per_second", "memory_bytes",
     "link_bandwidth_bytes_per_second", "achievable_peak_fraction",
     "achievable_bandwidth_fraction", "usable_memory_fraction"],
)  # fmt: skip
def test_zero_where_it_divides_is_refused(name):
    s = scenario(GENERIC).with_chip(changed(**{name: {"value": 0, "minimum": 0}}))
    with pytest.raises(InputError, match=rf"{name} = 0.*above 0"):
        evaluate(s)


def test_free_launches_links_and_overhead_are_accepted():
    zero = {"value": 0, "minimum": 0}
    names = ("operator_launch_seconds", "link_latency_seconds", "overhead_bytes")
    s = scenario(GENERIC).with_chip(changed(**dict.fromkeys(names, zero)))
    assert math.isfinite(float(evaluate(s).objective("throughput")))


@pytest.mark.parametrize(
    "name",
    ["achievable_peak_fraction", "achievable_bandwidth_fraction", "usable_memory_fraction"],
)
def test_more_than_all_is_refused(name):
    s = scenario(GENERIC).with_chip(changed(**{name: {"value": 1.5, "maximum": 2}}))
    with pytest.raises(InputError, match=rf"{name} = 1\.5: expected a fraction"):
        evaluate(s)


def test_a_number_that_no_model_reads_is_refused():
    chip = load_chip("mt3000")
    extra = {**chip.quantities, "sm_byte": chip.quantities["sm_bytes"]}
    with pytest.raises(InputError, match="sm_byte: the mt3000 model reads no such number"):
        check_numbers(chip.model_copy(update={"quantities": extra}))


@pytest.mark.parametrize("name", ["mt3000", "ascend910a", *GENERIC_CHIPS])
def test_presets_hold_exactly_what_their_model_reads(name):
    check_numbers(load_chip(name))


def test_a_change_of_chip_leaves_the_old_ones_numbers_behind():
    s = scenario(MT3000, hardware__memory_bytes=31e9).with_chip("a100-80gb-sxm")
    assert s.hardware == {}
    assert s.name == "A100 80GB SXM · Llama-2 13B"
    assert s.value("hardware.memory_bytes") == 80e9
    assert s.versions.chip == 1
