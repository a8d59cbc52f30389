"""Spaces and typed ranges: sizes, ties, pins, and every refusal."""

from __future__ import annotations

import pytest

from explorer.config.errors import InputError
from explorer.config.presets import load_scenario_preset
from explorer.config.scenario import Scenario, parse_scenario
from explorer.search.space import Axis, default_space, varied_space
from explorer.search.vary import parse_varied, parse_vary
from explorer.serving.evaluate import evaluate


def preset(name: str) -> Scenario:
    return parse_scenario(load_scenario_preset(name).scenario)


@pytest.fixture
def small() -> Scenario:
    return preset("mt3000-llama2-7b")


@pytest.fixture
def ascend() -> Scenario:
    return preset("ascend910a-qwen3.8-27b")


@pytest.mark.parametrize(
    ("name", "size"), [("mt3000-llama2-7b", 39_321_600), ("mt3000-llama2-70b", 286_720_000)]
)
def test_default_space_has_every_plan(name: str, size: int) -> None:
    assert default_space(preset(name)).size == size


def test_default_axes_take_their_ranges_from_model_and_knobs(small: Scenario) -> None:
    space = default_space(small)
    assert space.axis("plan.tp_decode").values == (1, 2, 4, 8, 16, 32)
    assert space.axis("plan.pp_decode").values == tuple(range(1, 33))
    assert space.axis("plan.dp_prefill").values == tuple(range(1, 65))
    assert space.axis("plan.micro_batch_decode").values == tuple(2**k for k in range(10))
    assert space.axis("plan.tp_prefill") is None


def test_plan_and_scenario_agree(small: Scenario) -> None:
    space = default_space(small)
    values = space.values_at([3, 1, 7, 2, 0, 6])
    assert space.plan(values) == {
        "plan.tp_decode": 8,
        "plan.pp_decode": 2,
        "plan.micro_batch_decode": 128,
        "plan.micro_batch_prefill": 4,
        "plan.pp_prefill": 1,
        "plan.dp_prefill": 7,
    }
    scenario = space.scenario(values)
    assert all(scenario.value(path) == value for path, value in space.plan(values).items())
    assert space.indices_of(scenario) == (3, 1, 7, 2, 0, 6)


def test_buffer_is_automatic_unless_pinned(small: Scenario) -> None:
    typed = small.replacing({"plan.buffer_clusters": 5})
    assert default_space(typed).base.plan.buffer_clusters == "auto"
    assert default_space(typed, {"plan.buffer_clusters"}).base.plan.buffer_clusters == 5
    varied = default_space(typed, vary={"plan.buffer_clusters": (1, 2)})
    assert varied.axis("plan.buffer_clusters").values == (1, 2)


def test_pinned_paths_keep_the_scenarios_value(small: Scenario) -> None:
    space = default_space(small, {"plan.pp_decode", "plan.dp_prefill"})
    assert space.size == 39_321_600 // 32 // 64
    assert space.candidates("plan.pp_decode") == (small.plan.pp_decode,)


def test_unknown_pin_is_refused(small: Scenario) -> None:
    with pytest.raises(InputError, match=r"plan\.pp_decod: unknown field"):
        default_space(small, {"plan.pp_decod"})


def test_shared_placement_ties_tp_and_pp(ascend: Scenario) -> None:
    space = default_space(ascend)
    assert [axis.paths for axis in space.axes] == [
        ("plan.tp_decode", "plan.tp_prefill"),
        ("plan.pp_decode", "plan.pp_prefill"),
        ("plan.micro_batch_decode",),
        ("plan.micro_batch_prefill",),
        ("plan.slices",),
    ]
    assert space.axis("plan.slices").values == tuple(range(1, 65))
    typed = ascend.replacing({"plan.dp_prefill": 3})
    assert default_space(typed).base.plan.dp_prefill == 1
    assert default_space(typed, {"plan.dp_prefill"}).base.plan.dp_prefill == 3
    plan = space.scenario(space.values_at([2, 1, 0, 0, 0])).plan
    assert (plan.tp_prefill, plan.tp_decode, plan.pp_prefill, plan.pp_decode) == (4, 4, 2, 2)


def test_slices_are_searched_only_where_times_depend_on_them(
    small: Scenario, ascend: Scenario
) -> None:
    assert default_space(small).axis("plan.slices") is None
    apart = ascend.replacing({"plan.placement": "disaggregated"})
    assert default_space(apart).axis("plan.slices") is not None
    typed = ascend.replacing({"measured.prefill_seconds": 2.0})
    assert default_space(typed).axis("plan.slices") is None


def test_shared_placement_pins_and_varies_tied_paths_together(ascend: Scenario) -> None:
    assert default_space(ascend, {"plan.tp_prefill"}).axis("plan.tp_decode") is None
    space = default_space(ascend, vary={"plan.tp_prefill": (2, 4)})
    assert space.axis("plan.tp_decode").values == (2, 4)
    with pytest.raises(InputError, match="shared placement ties"):
        default_space(ascend, vary={"plan.tp_prefill": (2,), "plan.tp_decode": (4,)})


def test_hardware_can_be_searched_too(small: Scenario) -> None:
    path, values = parse_vary(small, "hardware.ddr_bandwidth_bytes_per_second=15e9:60e9")
    space = default_space(small, vary={path: values})
    assert space.size == 39_321_600 * 9
    assert space.axes[0].paths == (path,)


def test_varied_space_changes_nothing_else(small: Scenario, ascend: Scenario) -> None:
    space = varied_space(small, {"plan.pp_decode": (1, 2), "workload.output_tokens": (8, 16)})
    assert space.size == 4
    assert space.base == small
    tied = varied_space(ascend, {"plan.tp_decode": (2, 4)})
    assert tied.axes[0].paths == ("plan.tp_decode", "plan.tp_prefill")


def test_fixing_a_tied_path_fixes_the_whole_axis(ascend: Scenario) -> None:
    fixed = default_space(ascend).fixing({"plan.tp_decode": 2})
    assert fixed.axis("plan.tp_prefill") is None
    assert (fixed.base.plan.tp_decode, fixed.base.plan.tp_prefill) == (2, 2)


@pytest.mark.parametrize("values", [(), (2, 1), (1, 1)])
def test_an_axis_ascends(values: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        Axis("plan", ("plan.pp_decode",), values)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("plan.pp_decode=1:4", (1, 2, 3, 4)),
        ("plan.pp_decode=1:8:3", (1, 4, 7)),
        ("plan.pp_decode=3:3", (3,)),
        (" plan.pp_decode = 2 : 3 ", (2, 3)),
        ("plan.tp_decode=3:16", (4, 8, 16)),
        ("plan.slices=0:2", (0, 1, 2)),
        ("limits.memory_headroom_fraction=0.1:0.3:0.1", (0.1, 0.2, 0.3)),
        ("hardware.ddr_bandwidth_bytes_per_second=3e10:6e10:1e10", (3e10, 4e10, 5e10, 6e10)),
        ("hardware.usable_memory_fraction=0.5:0.5", (0.5,)),
    ],
)
def test_ranges(small: Scenario, text: str, values: tuple[float, ...]) -> None:
    path, found = parse_vary(small, text)
    assert found == values
    assert path == text.partition("=")[0].strip()
    assert {type(value) for value in found} == {type(values[0])}


def test_a_real_range_without_a_step_has_nine_values_and_its_ends(small: Scenario) -> None:
    _, linear = parse_vary(small, "limits.memory_headroom_fraction=0.1:0.9")
    assert linear == pytest.approx([0.1 * k for k in range(1, 10)])
    _, log = parse_vary(small, "limits.tpot_seconds=0.01:1")
    assert (len(log), log[0], log[-1]) == (9, 0.01, 1.0)
    assert log[4] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("text", "field", "value", "accepted"),
    [
        ("plan.pp_decode=8:1", "plan.pp_decode", "8:1", "empty range"),
        ("plan.pp_decode=1:8:0", "plan.pp_decode", "1:8:0", "step above 0"),
        ("plan.pp_decode=1:8:-1", "plan.pp_decode", "1:8:-1", "step above 0"),
        ("plan.pp_decode=a:b", "plan.pp_decode", "a:b", "lowest:highest"),
        ("plan.pp_decode=1", "plan.pp_decode", "1", "lowest:highest"),
        ("plan.pp_decode=1:2:3:4", "plan.pp_decode", "1:2:3:4", "lowest:highest"),
        ("plan.pp_decode=1.5:2", "plan.pp_decode", "1.5:2", "a whole number from 1 to 32"),
        ("plan.pp_decode=0:8", "plan.pp_decode", "0", "from 1 to 32"),
        ("plan.pp_decode=1:33", "plan.pp_decode", "33", "from 1 to 32"),
        ("plan.pp_decode", "vary", "plan.pp_decode", "path=lowest:highest"),
        ("plan.unknown=1:2", "plan.unknown", "", "unknown field"),
        ("nonsense=1:2", "nonsense", "", "unknown field"),
        ("plan.placement=1:2", "plan.placement", "1:2", "is not a number"),
        ("plan.tp_decode=5:7", "plan.tp_decode", "5:7", "1, 2, 4, 8, 16, 32"),
        ("plan.slices=rule:4", "plan.slices", "rule:4", "a whole number from 0 to 64,"),
        ("limits.tpot_seconds=nan:1", "limits.tpot_seconds", "nan:1", "lowest:highest"),
        ("limits.tpot_seconds=1e999:1", "limits.tpot_seconds", "1e999:1", "finite"),
        ("limits.tpot_seconds=0.1:1:1e-9", "limits.tpot_seconds", "0.1:1:1e-9", "larger step"),
        ("workload.prompt_tokens=1:131072:2", "workload.prompt_tokens", "1:131072:2", "larger"),
    ],
)
def test_refusals_name_field_value_and_what_is_accepted(
    small: Scenario, text: str, field: str, value: str, accepted: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse_vary(small, text)
    problem = caught.value.problems[0]
    assert problem.field == field
    assert problem.value == value
    assert (accepted.rstrip(",") in problem.accepted) and "rule" not in problem.accepted


def test_a_long_range_of_whole_numbers_without_a_step_is_spread(small: Scenario) -> None:
    _, powers = parse_vary(small, "hardware.sm_bytes=32768:262144")
    assert powers == (32768, 65536, 131072, 262144)
    _, between = parse_vary(small, "hardware.sm_bytes=30000:150000")
    assert between == (30000, 32768, 65536, 131072, 150000)
    _, spread = parse_vary(small, "hardware.gsm_bytes=3145728:12582912")
    assert (len(spread), spread[0], spread[4], spread[-1]) == (9, 3145728, 6291456, 12582912)
    assert all(isinstance(value, int) for value in (*powers, *spread))
    _, all_of_them = parse_vary(small, "workload.prompt_tokens=1:10000")
    assert len(all_of_them) == 10000


def test_a_path_varied_twice_is_refused(small: Scenario) -> None:
    with pytest.raises(InputError, match="varied twice"):
        parse_varied(small, ["plan.pp_decode=1:2", "plan.pp_decode=3:4"])
    both = parse_varied(small, ["plan.pp_decode=1:2", "plan.dp_prefill=3:4"])
    assert both == {"plan.pp_decode": (1, 2), "plan.dp_prefill": (3, 4)}


def test_every_accepted_range_evaluates(small: Scenario) -> None:
    for text in ("hardware.usable_memory_fraction=0.4:0.8", "workload.output_tokens=1:64:9"):
        space = varied_space(small, parse_varied(small, [text]))
        for index in range(space.size):
            evaluate(space.scenario(space.values_at([index])))
