"""Laws that relate one scenario to another, on random scenarios of every chip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from explorer.config.links import preset_scenario
from explorer.config.own_model import with_model
from explorer.config.scenario import Scenario, knob_at
from explorer.search.best_plan import best_plan
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.space import default_space
from explorer.serving.evaluate import Evaluation, evaluate
from tests.fuzz import examples, many_scenarios, one_scenario, worded
from tests.scenarios import ASCEND, GENERIC, MT3000, PRESETS

MORE_IS_BETTER = {
    MT3000: (
        "ddr_bandwidth_bytes_per_second", "mpi_bandwidth_bytes_per_second", "memory_bytes",
        "peak_macs_per_second_fp16", "peak_macs_per_second_fp32",
    ),
    ASCEND: (
        "hbm_bandwidth_bytes_per_second", "weight_stream_bytes_per_second",
        "link_bandwidth_bytes_per_second", "memory_bytes", "peak_macs_per_second_fp16",
    ),
    GENERIC: (
        "memory_bandwidth_bytes_per_second", "link_bandwidth_bytes_per_second", "memory_bytes",
        "peak_macs_per_second_fp16", "peak_macs_per_second_fp32",
    ),
}  # fmt: skip
LESS_IS_BETTER = {
    MT3000: ("hthreads_launch_seconds", "mpi_latency_seconds", "overhead_bytes"),
    ASCEND: ("collective_fixed_seconds", "host_issue_seconds_per_layer", "link_latency_seconds"),
    GENERIC: ("operator_launch_seconds", "link_latency_seconds", "overhead_bytes"),
}
ROUNDING = 1e-9


@st.composite
def workloads(draw: st.DrawFn, preset: str) -> Scenario:
    """Draw a preset with another workload and other words; most have plans that fit."""
    base = draw(worded([preset]))
    prompt, output = draw(st.integers(16, 4096)), draw(st.integers(1, 512))
    return base.replacing(
        {
            "workload.prompt_tokens": prompt,
            "workload.output_tokens": output,
            "workload.max_context_tokens": prompt + output,
            "workload.clusters_total": draw(st.sampled_from([4, 24, 72, 500])),
            "plan.placement": draw(st.sampled_from(["shared", "disaggregated"])),
        }
    )


@pytest.mark.parametrize("preset", [MT3000, ASCEND, GENERIC])
@given(data=st.data())
@examples(25)
def test_a_better_machine_is_never_slower_at_its_best_plan(
    preset: str, data: st.DataObject
) -> None:
    """Exact optima over the whole default space, before and after.

    With the plan fixed this holds for these numbers too; scratchpads are left out, for the
    paper's tile is fixed and a larger scratchpad moves where its rounds end.
    """
    s = data.draw(workloads(preset))
    more = [(name, data.draw(st.floats(1.01, 4))) for name in MORE_IS_BETTER[preset]]
    less = [(name, data.draw(st.floats(0.25, 0.99))) for name in LESS_IS_BETTER[preset]]
    name, factor = data.draw(st.sampled_from([*more, *less]))
    path = f"hardware.{name}"
    knob = knob_at(s, path)
    assert knob is not None
    value = min(max(float(s.value(path)) * factor, knob.minimum), knob.maximum)
    objective = data.draw(st.sampled_from([THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN]))
    before = best_plan(default_space(s), objective).value
    after = best_plan(default_space(s.replacing({path: value})), objective).value
    if np.isnan(before):
        return
    assert not np.isnan(after)
    assert objective.gap(after, before) <= ROUNDING


@given(one_scenario(), st.integers(2, 50))
@examples(150)
def test_pools_scale_linearly(s: Scenario, times: int) -> None:
    clusters = int(evaluate(s).clusters)
    assume(clusters * times <= 100_000)
    one = evaluate(s.replacing({"workload.clusters_total": clusters}))
    many = evaluate(s.replacing({"workload.clusters_total": clusters * times}))
    assert float(many.pools) == times * float(one.pools)
    expected = times * one.objective("throughput")
    assert many.objective("throughput") == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert many.batch_seconds == one.batch_seconds


@given(one_scenario())
@examples(150)
def test_one_rank_sends_nothing_so_that_no_link_matters(s: Scenario) -> None:
    """TP = 1 in one stage of shared placement is the machine without a network."""
    alone = s.replacing(
        {
            "plan.placement": "shared",
            "plan.tp_prefill": 1, "plan.tp_decode": 1, "plan.pp_prefill": 1, "plan.pp_decode": 1,
        }
    )  # fmt: skip
    links = {
        path: value
        for name in alone.chip_document().quantities
        if name.startswith(("mpi_", "link_"))
        for path, value in [(f"hardware.{name}", alone.value(f"hardware.{name}"))]
    }
    slower = alone.unchecked(
        {
            path: np.asarray(value * (1e-3 if path.endswith("per_second") else 1e3) + 1e-9)
            for path, value in links.items()
        }
    )
    assert links
    first, second = evaluate(alone), evaluate(slower)
    assert second.prefill_seconds == first.prefill_seconds
    assert second.decode_seconds == first.decode_seconds


RATES, TIMES = ("B/s", "MAC/s"), ("s",)


@given(one_scenario(), st.sampled_from([0.125, 0.5, 4.0, 64.0]))
@examples(200)
def test_a_clock_of_other_seconds_changes_no_result_but_its_unit(s: Scenario, unit: float) -> None:
    """All rates divided and all times multiplied by one power of two: exactly as much slower."""
    quantities = s.chip_document().quantities
    changes: dict[str, Any] = {}
    for name, quantity in quantities.items():
        value = s.value(f"hardware.{name}")
        if quantity.unit in RATES:
            changes[f"hardware.{name}"] = np.asarray(value / unit)
        elif quantity.unit in TIMES:
            changes[f"hardware.{name}"] = np.asarray(value * unit)
    for path in ("measured.prefill_seconds", "measured.decode_seconds"):
        if s.value(path) is not None:
            changes[path] = np.asarray(s.value(path) * unit)
    before, after = evaluate(s), evaluate(s.unchecked(changes))
    for name in ("prefill_seconds", "decode_seconds", "batch_seconds", "ttft_seconds"):
        was, now = float(getattr(before, name)), float(getattr(after, name))
        assert now == pytest.approx(unit * was, rel=1e-12), name
    assert after.decode_memory.total_bytes == before.decode_memory.total_bytes


@pytest.mark.parametrize("preset", PRESETS)
@given(data=st.data())
@examples(20)
def test_layers_cost_alike_so_that_twice_the_layers_take_twice_their_time(
    preset: str, data: st.DataObject
) -> None:
    """Time less what is outside the layers: from L to 2 L layers as much as from 2 L to 3 L."""
    s = data.draw(worded([preset]))
    changed = {
        "plan.pp_prefill": 1,
        "plan.pp_decode": 1,
        "workload.prompt_tokens": data.draw(st.integers(1, 4096)),
        "plan.micro_batch_decode": data.draw(st.sampled_from([1, 8, 64])),
    }
    base = s.replacing(changed)
    layers = 4 * data.draw(st.integers(2, 16))
    one, two, three = (deeper(base, times * layers) for times in (1, 2, 3))
    for name in ("prefill_stage", "decode_stage"):
        seconds = [float(getattr(found, name).seconds) for found in (one, two, three)]
        first, second = seconds[1] - seconds[0], seconds[2] - seconds[1]
        assert second == pytest.approx(first, rel=1e-9, abs=1e-12 * seconds[2]), name
        assert 0 < first <= seconds[0] * (1 + 1e-9), name


def deeper(s: Scenario, layers: int) -> Evaluation:
    """Evaluate a scenario with a model of the same shape and another number of layers."""
    document = s.model_document()
    count = document.numbers.layers.model_copy(update={"value": layers})
    numbers = document.numbers.model_copy(update={"layers": count})
    update = {"id": "deeper", "name": "Deeper", "numbers": numbers}
    changed, _ = with_model(s, document.model_copy(update=update))
    return evaluate(changed)


@given(many_scenarios(128), st.integers(0, 2**32))
@examples(40)
def test_permuted_inputs_give_permuted_outputs(s: Scenario, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(128)
    arrays = {
        path: s.value(path)[order] for path in _paths(s) if isinstance(s.value(path), np.ndarray)
    }
    before, after = evaluate(s), evaluate(s.unchecked(arrays))
    for name in ("throughput", "eq22"):
        was = np.broadcast_to(before.unconstrained_objective(name), (128,))
        now = np.broadcast_to(after.unconstrained_objective(name), (128,))
        assert (now == was[order]).all() or np.array_equal(now, was[order], equal_nan=True)


def _paths(s: Scenario) -> list[str]:
    hardware = [f"hardware.{name}" for name in s.chip_document().quantities]
    sections = ("workload", "plan", "limits", "measured")
    return hardware + [
        f"{section}.{name}" for section in sections for name in vars(getattr(s, section))
    ]


def test_small_spaces_by_brute_force_agree_with_the_best_plan_of_the_laws() -> None:
    """What the first law stands on, once more against a plain enumeration."""
    s = preset_scenario(MT3000).replacing({"workload.clusters_total": 24})
    pinned = ("plan.micro_batch_prefill", "plan.micro_batch_decode", "plan.pp_prefill")
    space = default_space(s, pinned)
    mesh = np.meshgrid(*(axis.array for axis in space.axes), indexing="ij")
    arrays = {
        path: values for axis, values in zip(space.axes, mesh, strict=True) for path in axis.paths
    }
    every = evaluate(space.base.unchecked(arrays)).objective("throughput")
    assert best_plan(space, THROUGHPUT).value == np.nanmax(every)
