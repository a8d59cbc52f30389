"""Scenarios, chips and models from strangers: one clear sentence, or the right thing."""

import copy
import json
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.files import scenario_from_json
from explorer.config.scenario import legal_values, parse_scenario
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, MT3000, PRESETS, model, scenario

BASE = scenario(MT3000).to_json()


def changed(path, value, base=None):
    document = copy.deepcopy(base or BASE)
    part = document
    *parents, last = path.split(".")
    for parent in parents:
        part = part[parent]
    part[last] = value
    return document


def with_own(chip=None, shape=None):
    """Return the base scenario with whole chip and model documents in it."""
    s = scenario(MT3000)
    document = copy.deepcopy(BASE)
    document["chip"] = s.chip_document().model_dump(mode="json", by_alias=True)
    document["model"] = s.model_document().model_dump(mode="json", by_alias=True)
    for name, value in (chip or {}).items():
        document["chip"]["quantities"][name].update(value)
    for name, value in (shape or {}).items():
        number = {"value": value, "unit": "x", "source": "test", "kind": "assumed"}
        document["model"]["numbers"][name] = number
    return document


def refused(document):
    with pytest.raises(InputError) as caught:
        export_document(parse_scenario(document))
    message = str(caught.value)
    assert message.isprintable()
    return message


HUGE = 10**400
NOT_A_COUNT = [0, -1, True, False, "4", [4], {"a": 1}, None, 1.0, 2.5, 1e300, 10**9, HUGE]
NOT_A_NUMBER = [-1.0, True, "4", "nan", [4], {"a": 1}, None, 1e300, HUGE]
COUNTS = (
    "workload.prompt_tokens", "workload.output_tokens", "workload.max_context_tokens",
    "workload.clusters_total", "plan.tp_prefill", "plan.pp_prefill", "plan.dp_prefill",
    "plan.micro_batch_prefill", "plan.tp_decode", "plan.pp_decode", "plan.micro_batch_decode",
    "plan.min_rows_per_slice",
)  # fmt: skip


@pytest.mark.parametrize("value", NOT_A_COUNT, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("path", COUNTS)
def test_counts_refuse_all_but_whole_numbers_in_range(path, value):
    message = refused(changed(path, value))
    assert path in message
    assert "expected" in message


@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", ["ddr_bandwidth_bytes_per_second", "memory_bytes", "sm_bytes"])
def test_hardware_refuses_what_is_not_a_number_in_range(name, value):
    assert f"hardware.{name}" in refused(changed(f"hardware.{name}", value))


@pytest.mark.parametrize("value", [0, 0.0, -0.0, float("nan"), float("inf"), -float("inf")])
def test_zero_and_not_finite_bandwidth_is_refused(value):
    assert "ddr_bandwidth" in refused(changed("hardware.ddr_bandwidth_bytes_per_second", value))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("plan.buffer_clusters", "all", '"auto"'),
        ("plan.buffer_clusters", -1, '"auto"'),
        ("plan.buffer_clusters", 1.5, '"auto"'),
        ("plan.slices", "auto", '"rule"'),
        ("plan.slices", 65, '"rule"'),
        ("plan.placement", "apart", "'disaggregated' or 'shared'"),
        ("precision.compute", "int8", "'fp32' or 'fp16'"),
        ("precision.kv", "fp8", "'fp32', 'fp16' or 'int8'"),
        ("limits.ttft_seconds", 0, "expected a number from 0.001"),
        ("limits.memory_headroom_fraction", 1, "to 0.95"),
        ("measured.decode_seconds", -1, "expected a number from 1e-09"),
        ("name", "", "at least 1 character"),
        ("name", "x" * 201, "at most 200 characters"),
        ("name", "a\nb", "control characters"),
        ("name", "a\x1b[2J", "control characters"),
        ("name", "a\u202egnp", "invisible"),
        ("name", "a\u200bb", "invisible"),
        ("name", "\ufeffa", "invisible"),
        ("name", "a\u2028b", "invisible"),
        ("name", 5, "valid string"),
        ("chip", "mt4000", "unknown preset"),
        ("chip", "mt3000@9", "unknown version; available: 1"),
        ("chip", "../mt3000", "unknown preset"),
        ("chip", 5, "expected a preset id or a whole document"),
        ("model", None, "expected a preset id or a whole document"),
        ("model", [], "expected a preset id or a whole document"),
        ("versions.chip", 2, "chip = mt3000@2: unknown version"),
        ("versions.chip", 0, "greater than or equal to 1"),
        ("versions.model", True, "valid integer"),
        ("versions.model", "1", "valid integer"),
        ("plan", None, "plan"),
        ("plan", [], "plan"),
        ("workload", 3, "workload"),
        ("hardware", [], "hardware"),
        ("schema", "explorer.scenario/2", "a newer explorer wrote this"),
        ("schema", "explorer.chip/1", 'expected "explorer.scenario/1"'),
        ("schema", 7, 'expected "explorer.scenario/1"'),
    ],
)
def test_wrong_values_are_named_with_what_would_be_accepted(path, value, named):
    message = refused(changed(path, value))
    assert path.split(".")[-1] in message
    assert named in message


@pytest.mark.parametrize(
    "path", ["plan.tp", "bandwidth", "hardware.bandwidth", "kernels", "plan.a\nb", "\x1b[2J"]
)
def test_unknown_fields_are_refused_by_name(path):
    message = refused(changed(path, 1))
    assert "unknown field" in message


def test_unknown_fields_name_their_neighbours():
    with pytest.raises(InputError, match=r"plan\.tp_decode"):
        scenario().replacing({"plan.tp": 4})
    with pytest.raises(InputError, match="plan, kernel, simulation, workload"):
        scenario().replacing({"plans.tp": 4})


@pytest.mark.parametrize("field", ["name", "chip", "model", "precision", "workload", "plan"])
def test_a_missing_field_is_named(field):
    document = {key: value for key, value in BASE.items() if key != field}
    assert f"{field}: this field is required" in refused(document)


@pytest.mark.parametrize("value", [None, 5, "x", [], True])
def test_a_scenario_is_an_object(value):
    assert "expected a JSON object" in refused(value)


# Parallelism that does not divide

LEGAL = {
    "llama2-7b": (1, 2, 4, 8, 16, 32),
    "llama2-13b": (1, 2, 4, 8),
    "llama-30b": (1, 2, 4),
    "llama2-70b": (1, 2, 4, 8, 16, 32, 64),
    "qwen3.8-27b": (1, 2, 4, 8),
}


@pytest.mark.parametrize("name", LEGAL)
def test_legal_tensor_parallelism_divides_every_split(name):
    shape = model(name)
    heads = [shape.query_heads, shape.ffn_width]
    if "linear_attention" in shape.kinds:
        heads += [shape.linear_key_heads, shape.linear_value_heads]
    brute = tuple(
        tp
        for tp in range(1, shape.query_heads + 1)
        if all(size % tp == 0 for size in heads)
        and (shape.kv_heads % tp == 0 or tp % shape.kv_heads == 0)
    )
    assert shape.legal_tp == brute == LEGAL[name]


@pytest.mark.parametrize(
    ("preset", "tp"), [("mt3000-llama2-7b", 3), ("mt3000-llama2-7b", 64), ("mt3000-llama2-70b", 5)]
)
@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_tensor_parallelism_that_does_not_divide_lists_what_does(preset, tp, pool):
    base = scenario(preset)
    message = refused(changed(f"plan.tp_{pool}", tp, base.to_json()))
    assert f"plan.tp_{pool} = {tp}" in message
    assert ", ".join(map(str, base.model_shape().legal_tp)) in message
    assert legal_values(base, f"plan.tp_{pool}") == base.model_shape().legal_tp
    assert legal_values(base, "plan.pp_decode") == ()


def test_one_illegal_element_of_an_array_is_refused():
    with pytest.raises(InputError, match="does not divide"):
        scenario(plan__tp_decode=np.asarray([1, 2, 3]))
    with pytest.raises(InputError, match=r"plan\.dp_prefill"):
        scenario(plan__dp_prefill=np.asarray([1, 0]))
    with pytest.raises(InputError, match=r"plan\.dp_prefill"):
        scenario(plan__dp_prefill=np.asarray([1.5]))
    with pytest.raises(InputError, match=r"plan\.dp_prefill"):
        scenario(plan__dp_prefill=np.asarray([], dtype=int))
    with pytest.raises(InputError, match="memory_bytes"):
        scenario(hardware__memory_bytes=np.asarray([2e10, np.nan]))


@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_no_more_stages_than_layers(pool):
    assert evaluate(scenario("mt3000-llama2-7b", **{f"plan.pp_{pool}": 32})).batch > 0
    message = refused(changed(f"plan.pp_{pool}", 33, scenario("mt3000-llama2-7b").to_json()))
    assert "from 1 to 32" in message
    assert "Llama-2 7B has that many layers" in message


def test_arithmetic_that_the_chip_lacks_is_refused_but_storage_is_not():
    document = changed("precision.compute", "fp32", scenario(ASCEND).to_json())
    message = refused(document)
    assert "Ascend 910A has no fp32 arithmetic" in message
    assert "expected fp16" in message
    assert scenario(ASCEND, precision__weights="fp32", precision__kv="int8").precision.kv == "int8"


# A chip and a model of one's own


def test_documents_of_ones_own_give_what_the_preset_gives():
    own = export_document(parse_scenario(with_own()))
    preset = export_document(parse_scenario(BASE))
    assert own["evaluation"] == preset["evaluation"]
    assert own["sources"] == preset["sources"]


@pytest.mark.parametrize("value", [0, -1, 1e31, 1e308, HUGE, True, "5", None, [], float("nan")])
@pytest.mark.parametrize(
    "name", ["ddr_bandwidth_bytes_per_second", "memory_bytes", "dsps_per_cluster"]
)
def test_a_chip_of_ones_own_has_numbers_within_their_own_range(name, value):
    assert name in refused(with_own(chip={name: {"value": value}}))


@pytest.mark.parametrize(
    "name",
    [
        "ddr_bandwidth_bytes_per_second", "memory_bytes", "usable_memory_fraction", "sm_bytes",
        "gsm_bytes", "dsps_per_cluster", "mpi_bandwidth_bytes_per_second", "gemm_block_k",
        "gemm_tile_k", "gemm_tile_n", "gemm_kernel_rows", "gemm_kernel_columns_fp16",
        "gemm_kernel_cycles_per_depth", "gemm_mixed_stream_efficiency", "broadcast_cost",
        "attention_mt_rows", "attention_flash_columns", "attention_flash_rows",
        "attention_score_memory_bytes",
        "peak_macs_per_second_fp16",
    ],
)  # fmt: skip
def test_a_chip_that_allows_zero_where_it_divides_is_refused(name):
    message = refused(with_own(chip={name: {"value": 0, "minimum": 0}}))
    assert name in message
    assert "above 0" in message


def test_times_and_overhead_may_be_zero():
    zero = {"value": 0, "minimum": 0}
    names = ("hthreads_create_seconds", "hthreads_launch_seconds", "mpi_latency_seconds")
    document = with_own(chip={**dict.fromkeys(names, zero), "overhead_bytes": zero})
    assert export_document(parse_scenario(document))["evaluation"]["feasible"]


def test_a_group_measured_on_one_card_is_refused():
    s = scenario(ASCEND)
    document = s.to_json()
    document["chip"] = s.chip_document().model_dump(mode="json", by_alias=True)
    document["chip"]["quantities"]["measured_tp"].update(value=1, minimum=1)
    assert "measured_tp" in refused(document)


def test_a_chip_without_a_number_that_its_family_needs_is_refused():
    document = with_own()
    del document["chip"]["quantities"]["gsm_bytes"]
    assert "also needs gsm_bytes" in refused(document)


@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ({"layers": 0}, "layers"),
        ({"layers": 1025}, "layers"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"query_heads": 0}, "query_heads"),
        ({"kv_heads": 0}, "kv_heads"),
        ({"kv_heads": 7}, "kv_heads"),
        ({"head_dim": -1}, "head_dim"),
        ({"ffn_width": 10**8}, "ffn_width"),
        ({"vocabulary_size": 1.5}, "vocabulary_size"),
        ({"mlp_matrices": 4}, "mlp_matrices"),
        ({"embedding_tables": 0}, "embedding_tables"),
        ({"hidden_size": HUGE}, "hidden_size"),
    ],
)
def test_a_model_of_ones_own_has_usable_sizes(shape, named):
    assert named in refused(with_own(shape=shape))


@pytest.mark.parametrize(
    "pattern", [[], ["sparse"], ["linear_attention"], "full_attention", [None]]
)
def test_a_model_of_ones_own_has_a_pattern_that_can_be_computed(pattern):
    document = with_own()
    document["model"]["layer_pattern"] = pattern
    assert "model" in refused(document)


def test_the_largest_model_of_ones_own_opens_quickly():
    big = {"query_heads": 10**7, "kv_heads": 10**7, "ffn_width": 10**7, "hidden_size": 10**7}
    shape = parse_scenario(with_own(shape=big)).model_shape()
    assert shape.legal_tp[:4] == (1, 2, 4, 5)
    assert len(shape.legal_tp) == 64


def test_a_pattern_repeats_until_all_layers_have_a_kind():
    shape = model("qwen3.8-27b")
    assert shape.layer_kinds[:5] == (
        "linear_attention", "linear_attention", "linear_attention", "full_attention",
        "linear_attention",
    )  # fmt: skip
    assert (shape.layers_of("linear_attention"), shape.layers_of("full_attention")) == (48, 16)


# Fuzz

JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([10**9, 10**18, HUGE, -HUGE, 1e-300, 1e30, 1e300]),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["auto", "rule", "fp16", "int8", "shared", "mt3000", "llama2-7b", "nan"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


def paths(value, prefix=()):
    yield prefix
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*prefix, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*prefix, index))


def mutated(data, document):
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted(paths(document), key=repr)))
        if not path:
            continue
        part = document
        for key in path[:-1]:
            part = part[key]
        action = data.draw(st.sampled_from(["replace", "replace", "delete", "add"]))
        if action == "delete":
            del part[path[-1]]
        elif action == "add" and isinstance(part, dict):
            part[data.draw(st.text(max_size=5))] = data.draw(JUNK)
        else:
            part[path[-1]] = data.draw(JUNK)
    return document


FUZZED = {
    "mt3000": BASE,
    "ascend": scenario(ASCEND).to_json(),
    "own": with_own(),
    "limits": scenario(MT3000, limits__ttft_seconds=5.0, measured__decode_seconds=2.0).to_json(),
}


@pytest.mark.parametrize("name", FUZZED)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_mutation_of_a_scenario_is_evaluated_or_refused_in_one_line(name, data):
    document = mutated(data, FUZZED[name])
    text = json.dumps(document)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            exported = export_document(scenario_from_json(text))
        except InputError as error:
            assert str(error).isprintable()
            assert error.problems
            return
    again = json.dumps(exported, allow_nan=False)
    assert export_document(scenario_from_json(again)) == exported


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_binary_garbage_is_refused_in_one_line(content):
    with pytest.raises(InputError) as caught:
        scenario_from_json(content)
    assert str(caught.value).isprintable()


# Words of the messages


def test_values_are_shown_short_printable_and_never_fail():
    assert shown("a\nb\x1b[0m") == "a?b?[0m"
    assert shown("x" * 100) == "x" * 57 + "..."
    assert shown("x" * 60) == "x" * 60
    assert "too large" in shown(10**5000)
    nested = []
    for _ in range(200_000):
        nested = [nested]
    assert "too large" in shown(nested)
    while nested:
        nested = nested.pop()


def test_a_problem_is_one_sentence():
    assert Problem("a.b", "5", "expected 4").sentence() == "a.b = 5: expected 4"
    assert Problem("", "", "expected 4").sentence() == "input: expected 4"
    assert Problem("a\n", "\r", "x\x07").sentence() == "a? = ?: x?"
    error = InputError([Problem("a", "1", "x"), Problem("b", "", "y")])
    assert str(error) == "a = 1: x; b: y"
    assert refuse("a", 1, "x").problems == (Problem("a", "1", "x"),)


# Values and copies


def test_values_are_read_by_path_and_fall_back_to_the_chip():
    s = scenario(plan__tp_decode=8, hardware__memory_bytes=25e9)
    assert s.value("plan.tp_decode") == 8
    assert s.value("hardware.memory_bytes") == 25e9
    assert s.value("hardware.gsm_bytes") == 6291456
    for path in ("hardware.nothing", "plan.nothing", "nothing", "name.x", "plan"):
        with pytest.raises(InputError, match="unknown field"):
            s.value(path)


def test_replacing_leaves_the_original_alone():
    s = scenario()
    t = s.replacing({"plan.tp_decode": 8, "hardware.memory_bytes": 3e10})
    assert (s.plan.tp_decode, t.plan.tp_decode) == (4, 8)
    assert s.hardware == {}


def test_another_model_is_checked_with_the_plan_it_meets():
    with pytest.raises(InputError, match="does not divide"):
        scenario(MT3000, plan__tp_decode=20).replacing({"model": "llama2-7b"})
    with pytest.raises(InputError, match="unknown preset"):
        scenario().replacing({"model": "llama3"})
    with pytest.raises(InputError, match="1 to 200 characters"):
        scenario().replacing({"name": ""})
    with pytest.raises(InputError, match="control characters"):
        scenario().replacing({"name": "\ud800"})
    with pytest.raises(InputError, match=r"sm_bytes.*unknown field"):
        scenario(hardware__sm_bytes=1024).replacing({"chip": "ascend910a"})


def test_scenarios_pin_the_versions_they_mean():
    document = {key: value for key, value in BASE.items() if key != "versions"}
    assert parse_scenario(document).versions.chip == 1
    named = parse_scenario({**document, "chip": "mt3000@1"})
    assert (named.chip, named.versions.chip) == ("mt3000", 1)


def test_a_scenario_with_arrays_has_no_json_form():
    with pytest.raises(TypeError, match="arrays"):
        scenario(plan__dp_prefill=np.asarray([1, 2])).to_json()
    with pytest.raises(TypeError, match="arrays"):
        scenario(hardware__memory_bytes=np.asarray([1e10])).to_json()


@pytest.mark.parametrize("preset", PRESETS)
def test_scenarios_survive_json(preset):
    s = scenario(preset)
    assert parse_scenario(json.loads(json.dumps(s.to_json()))) == s
