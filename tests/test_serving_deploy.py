"""What to set on the real engine: ranks and layers that cover everything once."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings

from explorer.serving.deploy import stage_layers
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, GENERIC, MT3000, scenario, scenarios


def deploy(s):
    return export_document(s)["deploy"]


def test_the_worked_example():
    found = deploy(scenario(MT3000))
    assert found["prefill"] == {"tp": 1, "pp": 2, "dp": 4, "micro_batch": 8}
    assert found["decode"] == {"tp": 4, "pp": 4, "micro_batch": 64}
    assert (found["buffer_clusters"], found["pools"], found["environment"]) == (7, 2, {})
    assert found["buffer_bytes"] == 256 * 640 * 819200
    assert found["layers"]["prefill"] == [[0, 19], [20, 39]]
    assert found["ranks"] == [
        {"group": "prefill", "first_rank": 0, "ranks": 8},
        {"group": "buffer", "first_rank": 8, "ranks": 7},
        {"group": "decode", "first_rank": 15, "ranks": 16},
    ]


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_ranks_and_layers_cover_a_pool_once(s):
    document = export_document(s)
    found, pool = document["deploy"], document["evaluation"]["pool"]
    groups = found["ranks"]
    assert groups[0]["first_rank"] == 0
    for group, following in pairwise(groups):
        assert group["first_rank"] + group["ranks"] == following["first_rank"]
    assert groups[-1]["first_rank"] + groups[-1]["ranks"] == pool["clusters"]
    for name in ("prefill", "decode"):
        spans = found["layers"][name]
        assert len(spans) == found[name]["pp"]
        layers = [layer for first, last in spans for layer in range(first, last + 1)]
        assert layers == list(range(s.model_shape().layers))


def test_uneven_stages_spare_the_last():
    assert stage_layers(32, 5) == [[0, 6], [7, 13], [14, 19], [20, 25], [26, 31]]
    assert stage_layers(3, 3) == [[0, 0], [1, 1], [2, 2]]


def test_the_mt3000s_tiles_by_the_papers_names():
    """Eq. 8's configuration: Mg = 720, Kg = 2048, M2 = 30, K2 = N2 = 256, M1 = 6, N1 = 128."""
    kernels = deploy(scenario(MT3000, precision__compute="fp32"))["kernels"]
    assert kernels["gemm"] == {
        "M_g": 720, "K_g": 2048, "M_2": 30, "K_2": 256, "N_2": 256, "M_1": 6, "N_1": 128
    }  # fmt: skip
    assert kernels["attention"]["method"] == "mt"
    assert (kernels["fusion"], kernels["launch"]) == ("fused", "unified")
    flash = deploy(scenario(MT3000, kernel__attention="flash"))["kernels"]["attention"]
    assert flash["M_c"] == scenario(MT3000).value("hardware.attention_flash_columns")


def test_the_buffers_transfer_is_told_for_pools_apart_only():
    apart = deploy(scenario(MT3000))["notes"]
    shared = deploy(
        scenario(MT3000, plan__placement="shared", plan__tp_prefill=4, plan__pp_prefill=4)
    )["notes"]
    assert len(apart) == len(shared) + 1
    assert not any("buffer" in note for note in shared)


def test_any_engine_has_limits_of_these():
    found = deploy(scenario(GENERIC, limits__memory_headroom_fraction=0.1))
    memory = found["limits"].pop("memory_fraction")
    assert found["limits"] == {
        "requests_a_decode_step": 64, "requests_in_flight": 64, "requests_a_prefill_pass": 4,
        "tokens_a_prefill_pass": 8192, "tokens_a_request": 4096,
    }  # fmt: skip
    assert math.isclose(memory, 0.9 * 0.9)
    assert found["ranks"] == [{"group": "prefill and decode", "first_rank": 0, "ranks": 8}]


@pytest.mark.parametrize("preset", [MT3000, ASCEND, GENERIC])
def test_every_chip_has_a_recipe(preset):
    found = deploy(scenario(preset))
    assert {"limits", "kernels", "launch"} & set(found)
