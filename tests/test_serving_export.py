"""The exported document: complete, plain JSON, and null where a speed would mislead."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

from explorer.config.files import scenario_from_json
from explorer.serving.advice import ADVISED, single_changes_that_fit
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.report import broken_constraints, number, violation_message
from tests.scenarios import ASCEND, MT3000, PRESETS, model, roomy_scenarios, scenario, scenarios

KINDS = {"published", "measured", "derived", "assumed", "fitted", "override"}


@given(scenarios() | roomy_scenarios())
@settings(max_examples=150, deadline=None)
def test_every_export_is_strict_json_and_reads_back_to_itself(s):
    text = json.dumps(export_document(s), allow_nan=False)
    assert json.dumps(export_document(scenario_from_json(text)), allow_nan=False) == text


@given(scenarios() | roomy_scenarios())
@settings(max_examples=150, deadline=None)
def test_an_evaluation_says_what_the_engine_says(s):
    document, result = export_document(s)["evaluation"], evaluate(s)
    assert document["feasible"] == bool(result.feasible)
    assert document["feasible"] == (document["violations"] == [])
    broken = [c.name for c in result.constraints if not c.kept]
    assert [violation["constraint"] for violation in document["violations"]] == broken
    for violation in document["violations"]:
        assert violation["value"] > violation["limit"]
        assert violation["message"].endswith(".")
    memory = document["memory"]
    for pool in ("prefill", "decode"):
        budget = getattr(result, f"{pool}_memory")
        for row in memory[pool]:
            assert memory[pool][row] == getattr(budget, row)
        parts = ("params_bytes", "kv_bytes", "state_bytes", "overhead_bytes", "imbalance_bytes")
        held = sum(memory[pool][part] for part in parts)
        assert held >= memory[pool]["total_bytes"] * (1 - 1e-12)
    assert document["stages"]["batch"] == result.batch
    speeds = (
        *(document["stages"][f"{pool}_seconds"] for pool in ("prefill", "decode")),
        document["pool"]["objective"],
        document["pool"]["cluster_seconds_per_token"],
        document["pool"]["throughput_tokens_per_second"],
        document["latency"]["ttft_seconds"],
        document["latency"]["total_seconds"],
    )
    if not document["feasible"]:
        assert set(speeds) == {None}
        assert document["stages"]["prefill_terms"] is document["stages"]["decode_terms"] is None
        assert document["latency"]["tpot_seconds"] is None
        assert document["pool"]["bottleneck"] == "capacity"
        return
    assert None not in speeds
    assert speeds[2] == result.objective("eq22")
    assert speeds[3] == result.objective("cluster_seconds_per_token")
    assert speeds[4] == result.objective("throughput")
    assert (document["latency"]["tpot_seconds"] is None) == (s.workload.output_tokens == 1)
    for pool in ("prefill", "decode"):
        terms = document["stages"][f"{pool}_terms"]
        seconds = sum(term["seconds"] for term in terms)
        assert seconds == pytest.approx(document["stages"][f"{pool}_seconds"], rel=1e-12)
        for term in terms:
            assert set(term["kinds"]) <= KINDS


def test_the_worked_example_as_a_document():
    document = export_document(scenario(MT3000))
    evaluation = document["evaluation"]
    assert document["schema"] == "explorer.export/1"
    assert evaluation["schema"] == "explorer.evaluation/1"
    assert evaluation["memory"]["prefill"]["params_bytes"] == 13015864320
    assert evaluation["memory"]["prefill"]["kv_bytes"] == 104857600
    assert evaluation["memory"]["decode"]["kv_bytes"] == 8388608000
    assert evaluation["memory"]["decode"]["limit_bytes"] == 20000000000
    assert evaluation["memory"]["buffer"] == {"kv_bytes": 134217728000, "clusters": 7}
    assert evaluation["communication"]["tp_all_reduce_bytes"] == 64 * 2 * 5120 * 2 * 3
    assert evaluation["stages"]["batch"] == 256
    assert evaluation["stages"]["prefill_micro_batches"] == 32
    assert evaluation["pool"]["clusters"] == 4 * 2 + 4 * 4 + 7
    assert evaluation["pool"]["pools"] == 72 // 31
    assert evaluation["pool"]["idle_clusters"] == 72 - 2 * 31


@pytest.mark.parametrize(
    ("slices", "exported"), [(0, "1"), (1, "1"), (2, "2"), (8, "8"), ("rule", "4")]
)
def test_deploy_writes_slicing_off_as_one(slices, exported):
    deploy = export_document(scenario(ASCEND, plan__slices=slices))["deploy"]
    assert deploy["environment"] == {"QWEN_COMM_OVERLAP_SLICES": exported}
    assert deploy["decode"]["tp"] == 4


@pytest.mark.parametrize("preset", PRESETS)
def test_every_number_comes_with_its_source(preset):
    s = scenario(preset)
    sources = export_document(s)["sources"]
    hardware = {f"hardware.{name}" for name in s.chip_document().quantities}
    assert hardware < set(sources)
    assert any(name.startswith("model.") for name in sources)
    for name, source in sources.items():
        assert set(source) == {"value", "unit", "source", "kind"}, name
        assert source["kind"] in KINDS
    moved = export_document(scenario(preset, hardware__memory_bytes=31e9))["sources"]
    assert moved["hardware.memory_bytes"]["value"] == 31e9
    assert moved["hardware.memory_bytes"]["kind"] == "override"
    assert moved["hardware.memory_bytes"]["source"] == "set in this scenario"
    assert sources["hardware.memory_bytes"]["kind"] == "published"
    assert sources["model.layers"]["value"] == model(s.model).layers


def test_numbers_are_ints_where_whole_and_null_where_not_finite():
    assert number(np.float64(3)) == 3
    assert isinstance(number(np.float64(3)), int)
    assert number(2.5) == 2.5
    assert number(np.float64("nan")) is None
    assert number(np.inf) is None


def test_violations_are_told_as_needed_against_available():
    result = evaluate(
        scenario("mt3000-llama2-70b", plan__pp_prefill=1, plan__tp_decode=1, plan__pp_decode=1)
    )
    messages = {c.name: violation_message(c) for c in broken_constraints(result)}
    assert messages["prefill_memory"].endswith("GB; the limit is 20.0 GB.")
    assert messages["prefill_memory"].startswith("The fullest prefill cluster needs 139 GB")
    late = evaluate(scenario(MT3000, limits__ttft_seconds=0.001))
    (only,) = broken_constraints(late)
    assert violation_message(only).startswith("Time to first token is ")
    shared = evaluate(scenario(ASCEND, plan__dp_prefill=2))
    assert "must equal decode's" in violation_message(broken_constraints(shared)[0])


def test_one_byte_too_much_is_told_with_every_digit():
    memory = evaluate(scenario(MT3000)).prefill_memory
    s = scenario(
        MT3000, hardware__memory_bytes=int(memory.total_bytes) - 1, plan__buffer_clusters=20
    )
    (only,) = (c for c in broken_constraints(evaluate(s)) if c.name == "prefill_memory")
    value = f"{int(memory.total_bytes):,}"
    assert value in violation_message(only)
    assert f"{int(memory.total_bytes) - 1:,}" in violation_message(only)


def test_arrays_cannot_be_exported():
    with pytest.raises(TypeError):
        export_document(scenario(MT3000, plan__dp_prefill=np.asarray([1, 2])))


# Advice


def test_advised_changes_make_the_plan_fit_and_are_the_nearest_that_do():
    s = scenario("mt3000-llama2-70b", plan__pp_prefill=7)
    assert not evaluate(s).feasible
    changes = {change.path: change for change in single_changes_that_fit(s)}
    assert changes["plan.pp_prefill"].value == 8
    for change in changes.values():
        assert change.path in ADVISED
        assert evaluate(s.replacing({change.path: change.value})).feasible
        assert change.label


def test_advice_for_a_pool_that_wants_more_clusters_than_there_are():
    s = scenario(MT3000, workload__clusters_total=30)
    changes = {change.path: change.value for change in single_changes_that_fit(s)}
    assert changes["workload.clusters_total"] == 31
    assert changes["plan.dp_prefill"] == 3


def test_advice_names_legal_tensor_parallelism_only():
    s = scenario("mt3000-llama2-70b", plan__tp_decode=1, workload__clusters_total=500)
    changes = {change.path: change.value for change in single_changes_that_fit(s)}
    assert changes["plan.tp_decode"] in s.model_shape().legal_tp


def test_no_single_change_can_repair_two_broken_rules():
    s = scenario("mt3000-llama2-70b", plan__pp_prefill=1, plan__tp_decode=1, plan__pp_decode=1)
    assert single_changes_that_fit(s) == ()
