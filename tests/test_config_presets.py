"""Presets and knobs: every number has a source, a range that holds it, and a stable meaning."""

import json

import pytest

from explorer.config.errors import InputError
from explorer.config.jsonio import PRESETS as FOLDER
from explorer.config.knobs import scenario_knobs
from explorer.config.presets import (
    is_preset_reference,
    load_chip,
    load_model,
    load_scenario_preset,
    preset_path,
    scenario_presets,
    versions_of,
)
from explorer.config.quantity import Knob, listed
from explorer.config.scenario import knob_at, parse_scenario, paths_of
from explorer.config.simulation import SIMULATION_WORDS
from tests.scenarios import PRESETS, model, scenario

CHIPS = tuple(versions_of("chips"))
MODEL_IDS = tuple(versions_of("models"))
KINDS = ("published", "measured", "derived", "assumed", "fitted")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/*@*.json")), ids=lambda path: path.stem)
def test_a_file_is_named_by_its_id_and_version(path):
    document = json.loads(path.read_text())
    if path.parent.name == "schemas":
        name, _, version = path.stem.partition("@")
        assert document["$id"] == f"explorer.{name}/{version}"
        return
    assert path.stem == f"{document['id']}@{document['version']}"


@pytest.mark.parametrize("name", CHIPS)
def test_every_chip_number_has_source_kind_unit_and_a_range_that_holds_it(name):
    chip = load_chip(name)
    for quantity_name, quantity in chip.quantities.items():
        knob = chip.knob(quantity_name)
        assert quantity.source.strip(), quantity_name
        assert quantity.kind in KINDS, quantity_name
        assert quantity.unit.strip(), quantity_name
        assert quantity.label.strip(), quantity_name
        assert quantity.raising.endswith("."), quantity_name
        assert knob.problem(quantity.value) is None, quantity_name
        assert knob.problem(quantity.minimum) is None, quantity_name
        assert knob.problem(quantity.maximum) is None, quantity_name
        assert quantity.minimum < quantity.maximum, quantity_name
        if quantity.scale.startswith(("log", "powers")):
            assert quantity.minimum > 0, quantity_name


@pytest.mark.parametrize("name", MODEL_IDS)
def test_every_model_number_has_source_and_kind(name):
    for field, quantity in load_model(name).numbers:
        if quantity is not None:
            assert quantity.source.strip(), field
            assert quantity.kind in KINDS, field
            assert quantity.unit.strip(), field


def test_every_scenario_knob_is_complete_and_is_read_from_its_path():
    for preset in PRESETS:
        s = scenario(preset)
        for path, knob in scenario_knobs().items():
            assert knob.path == path
            assert knob.minimum < knob.maximum
            assert all(text.strip() for text in (knob.label, knob.unit, knob.raising, knob.source))
            s.value(path)
            assert knob_at(s, path) is not None


def test_every_number_of_a_scenario_has_a_knob():
    document = scenario().to_json()
    numbers = {
        f"{section}.{name}"
        for section in ("workload", "plan", "limits", "measured", "simulation")
        for name in document[section]
    }
    assert numbers == {*scenario_knobs(), "plan.placement", "limits.budget", *SIMULATION_WORDS}
    assert set(paths_of(scenario())) >= numbers


@pytest.mark.parametrize("preset", scenario_presets(), ids=lambda preset: preset.id)
def test_every_preset_scenario_parses_and_is_pinned(preset):
    s = parse_scenario(preset.scenario)
    assert (s.versions.chip, s.versions.model) == (
        preset.scenario["versions"]["chip"],
        preset.scenario["versions"]["model"],
    )
    assert preset.scenario["hardware"] == {}
    assert preset.title.strip()
    assert preset.why.strip()


def test_published_numbers_of_the_mt3000():
    quantities = load_chip("mt3000").quantities
    values = {name: quantity.value for name, quantity in quantities.items()}
    assert values["peak_macs_per_second_fp32"] == 4.05e12
    assert values["peak_macs_per_second_fp16"] == 2 * 4.05e12
    assert values["ddr_bandwidth_bytes_per_second"] == 30e9
    assert values["memory_bytes"] == 20e9
    assert (values["sm_bytes"], values["am_bytes"], values["gsm_bytes"]) == (
        64 * 1024, 768 * 1024, 6 * 1024 * 1024
    )  # fmt: skip
    assert values["dsps_per_cluster"] == 24
    assert (values["gemm_block_k"], values["gemm_tile_k"], values["gemm_kernel_rows"]) == (
        2048, 256, 6
    )  # fmt: skip
    assert (values["gemm_tile_n"], values["gemm_kernel_columns_fp32"]) == (256, 128)
    assert (values["gemm_kernel_cycles_per_depth"] * 2, values["gemm_output_buffers"]) == (16, 3)
    assert values["broadcast_cost"] == 0.9
    assumed = (
        "hthreads_create_seconds", "hthreads_launch_seconds", "mpi_latency_seconds",
        "mpi_bandwidth_bytes_per_second", "overhead_bytes", "attention_score_memory_bytes",
    )  # fmt: skip
    for name in assumed:
        assert quantities[name].kind == "assumed"
    fitted = (
        "gemm_mixed_stream_efficiency", "attention_mt_rows", "attention_flash_columns",
        "attention_round_seconds", "attention_score_seconds", "attention_unfused_score_moves",
    )  # fmt: skip
    assert {name for name, q in quantities.items() if q.kind == "fitted"} == set(fitted)


def test_kv_and_state_of_the_hybrid_model():
    shape = model("qwen3.8-27b")
    assert shape.kv_elements_per_token == 16 * 2 * 4 * 256
    assert shape.state_bytes_per_layer == 48 * 128 * 128 * 4
    assert shape.embedding_elements == 248320 * 5120


@pytest.mark.parametrize(
    "reference",
    ["", "x", "mt3000-llama2-13b@0", "mt3000-llama2-13b@99", "../chips/mt3000", "a b",
     "mt3000-llama2-13b@1@1", "mt3000-llama2-13b@1.json", "MT3000-llama2-13b", "\n", "é"],
)  # fmt: skip
def test_an_unknown_preset_is_refused(reference):
    assert not is_preset_reference(reference)
    with pytest.raises(InputError, match="unknown"):
        load_scenario_preset(reference)


def test_a_version_in_the_reference_wins_over_the_argument():
    assert preset_path("chips", "mt3000@1", 9).name == "mt3000@1.json"
    assert preset_path("chips", "mt3000").name == "mt3000@1.json"
    with pytest.raises(InputError, match="unknown version"):
        preset_path("chips", "mt3000", 9)


def knob(**changes):
    values = {
        "path": "a.b", "label": "A", "unit": "s", "minimum": 1, "maximum": 8, "scale": "integers",
        "raising": "x", "source": "y",
    }  # fmt: skip
    return Knob(**{**values, **changes})


def test_a_knob_says_what_it_accepts():
    assert knob().accepted() == "expected a whole number from 1 to 8 s"
    assert knob(scale="log", unit="").accepted() == "expected a number from 1 to 8"
    assert knob(words=("auto",)).accepted().endswith('to 8 s or "auto"')


@pytest.mark.parametrize("scale", ["integers", "log_integers", "powers_of_two", "divisors"])
def test_a_whole_knob_takes_integers_only(scale):
    assert knob(scale=scale).whole
    assert knob(scale=scale).problem(8) is None
    assert knob(scale=scale).problem(8.0) is not None


def test_a_knobs_bounds_are_inclusive():
    real = knob(scale="log", minimum=0.5)
    for value in (0.5, 1, 7.25, 8):
        assert real.problem(value) is None
    for value in (0.4999, 8.0001, float("nan"), float("inf"), True, None, "auto", [1]):
        problem = real.problem(value)
        assert (problem.field, problem.accepted) == ("a.b", real.accepted())
    assert knob(words=("auto",)).problem("auto") is None


def test_long_lists_of_values_are_shortened():
    assert listed((1, 2, 4)) == "1, 2, 4"
    assert listed(tuple(range(24))).count(",") == 23
    assert listed(tuple(range(30))) == "0, 1, 2, 3, 4, 5, ..., 29"
