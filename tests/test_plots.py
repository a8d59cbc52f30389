"""Figures show the numbers of the evaluation, and nothing else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from explorer.chips.inputs import Inputs
from explorer.chips.mt3000 import Mt3000
from explorer.config.links import preset_scenario
from explorer.config.presets import scenario_presets
from explorer.costs.buffering import Interval
from explorer.costs.terms import Bound
from explorer.costs.tiling import best_single_level_tile
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.breakdown import breakdown_data, breakdown_figure
from explorer.plots.buffering import Gantt, gantt_figure
from explorer.plots.coinciding import coinciding, coinciding_sentence
from explorer.plots.compare import TimeBar, time_figure
from explorer.plots.halves import halves_figure, measured_pairs, pairs, speed_ups
from explorer.plots.memory import memory_bars, memory_figure
from explorer.plots.pipeline import pipeline_figure
from explorer.plots.roofline import roofline_data, roofline_figure
from explorer.plots.search import search_figure, search_trace
from explorer.plots.slices import slice_sweep, slices_figure
from explorer.serving.evaluate import evaluate
from explorer.serving.timeline import Timeline, pipeline_timeline

PRESETS = [preset.id for preset in scenario_presets()]
MT3000 = [name for name in PRESETS if name.startswith("mt3000")]
TILE = best_single_level_tile(65536, 786432, 4)


@pytest.mark.parametrize("preset", PRESETS)
def test_memory_bars_add_up_to_the_budget(preset: str) -> None:
    evaluation = evaluate(preset_scenario(preset))
    bars = {bar.name: bar for bar in memory_bars(evaluation, None)}
    unit = evaluation.inputs.scenario.chip_document().unit_name
    decode = bars[unit if evaluation.inputs.shared else f"decode {unit}"]
    assert decode.total_bytes == pytest.approx(float(evaluation.decode_memory.total_bytes))
    assert decode.limit_bytes == float(evaluation.limit_bytes)
    if not evaluation.inputs.shared:
        prefill = bars[f"prefill {unit}"]
        assert prefill.total_bytes == pytest.approx(float(evaluation.prefill_memory.total_bytes))


def test_a_tile_fills_its_scratchpads() -> None:
    bars = {bar.name: bar for bar in memory_bars(evaluate(preset_scenario(MT3000[0])), TILE)}
    assert bars["tile in SM"].total_bytes == bars["tile in SM"].limit_bytes == 65536
    assert bars["tile in AM"].total_bytes == bars["tile in AM"].limit_bytes == 786432


@pytest.mark.parametrize("preset", PRESETS)
def test_shares_of_the_breakdown_add_up(preset: str) -> None:
    parts = breakdown_data(evaluate(preset_scenario(preset)))
    for pool in ("prefill pass", "decode step"):
        assert sum(part.share for part in parts if part.pool == pool) == pytest.approx(1)


def timeline_of(preset: str, **plan: int) -> tuple[Timeline, float, float, float]:
    scenario = preset_scenario(preset).replacing({f"plan.{k}": v for k, v in plan.items()})
    evaluation = evaluate(scenario)
    return (
        pipeline_timeline(evaluation),
        float(evaluation.prefill_seconds),
        float(evaluation.decode_seconds),
        float(evaluation.batch_seconds),
    )


@pytest.mark.parametrize("preset", MT3000)
@pytest.mark.parametrize("micro_batch_prefill", [1, 8])
def test_bars_of_a_batch_last_as_long_as_its_times(preset: str, micro_batch_prefill: int) -> None:
    timeline, prefill, decode, interval = timeline_of(
        preset, micro_batch_prefill=micro_batch_prefill
    )
    first = [span for span in timeline.spans if span.batch == 0]
    working = [span for span in first if span.row.startswith("prefill")]
    assert min(span.start_seconds for span in working) == 0
    assert max(span.end_seconds for span in working) == pytest.approx(prefill)
    stage = [span for span in first if span.row == "decode, stage 1"]
    assert stage[0].end_seconds - stage[0].start_seconds == pytest.approx(decode)
    second = next(s for s in timeline.spans if s.batch == 1 and s.row == "decode, stage 1")
    assert second.start_seconds - stage[0].start_seconds == pytest.approx(interval)
    assert timeline.interval_seconds == interval


@pytest.mark.parametrize("preset", PRESETS)
def test_no_row_works_on_two_things_at_once(preset: str) -> None:
    timeline, _, _, interval = timeline_of(preset)
    for row in timeline.rows:
        if row == "buffer":
            continue
        spans = sorted(
            (span for span in timeline.spans if span.row == row), key=lambda s: s.start_seconds
        )
        for earlier, later in pairwise(spans):
            assert later.start_seconds >= earlier.end_seconds - 1e-9 * interval


@pytest.mark.parametrize("preset", MT3000)
def test_no_operator_is_above_the_roof(preset: str) -> None:
    data = roofline_data(evaluate(preset_scenario(preset)), TILE)
    roof = data.roofs[1]
    slope = roof.macs_per_second[0] / roof.intensities[0]
    assert data.points
    for point in data.points:
        assert point.macs_per_second <= roof.macs_per_second[-1] * (1 + 1e-9)
        assert point.macs_per_second <= slope * point.intensity * (1 + 1e-9)
    assert data.tile is not None
    assert data.tile.macs_per_second == pytest.approx(443.08e9, rel=1e-4)


@pytest.mark.parametrize(("rows", "best"), [(512, 1), (1024, 1), (2048, 2), (4096, 4)])
def test_the_slice_sweep_finds_the_best_count(rows: int, best: int) -> None:
    scenario = preset_scenario("ascend910a-qwen3.8-27b")
    sweep = slice_sweep(scenario.replacing({"workload.prompt_tokens": rows}))
    assert sweep.best.slices == best
    assert sweep.rows == rows
    for point in sweep.points:
        # What follows the last issue (the last layer's end, the head) comes after the host.
        wall, later = (
            rows / point.rows_per_second,
            max(point.host_seconds, point.device_seconds),
        )
        assert later <= wall * (1 + 1e-9)
        assert wall - later < 0.04


def test_infeasible_trials_are_not_drawn() -> None:
    nan = float("nan")
    trace = search_trace(((0, nan, nan), (1, 3.0, 3.0), (2, nan, 3.0), (3, 2.0, 2.0)), 1.5)
    assert trace.trials == (2, 3, 4)
    assert trace.best == (3.0, 3.0, 2.0)
    assert len(search_figure(trace, "time", "s").data) == 3


@pytest.mark.parametrize("preset", PRESETS)
def test_every_figure_stays_light(preset: str) -> None:
    scenario = preset_scenario(preset)
    evaluation = evaluate(scenario)
    tile = TILE if preset in MT3000 else None
    figures = [
        memory_figure(memory_bars(evaluation, tile)),
        pipeline_figure(pipeline_timeline(evaluation)),
        breakdown_figure(breakdown_data(evaluation)),
        roofline_figure(roofline_data(evaluation, tile)),
    ]
    if scenario.chip == "ascend910a":
        figures.append(slices_figure(slice_sweep(scenario)))
    for figure in figures:
        marks = sum(len(trace.x) if trace.x is not None else 0 for trace in figure.data)
        assert 0 < marks <= 200


def test_the_speed_up_of_fp16_is_that_of_its_two_times() -> None:
    machine = Mt3000.of(Inputs(preset_scenario("mt3000-llama2-7b")))
    clusters = (machine.cluster_at("fp32", 4), machine.cluster_at("fp16", 2))
    tiles = (machine.tile(clusters[0]), machine.tile(clusters[1]))
    shapes = measured_pairs(shipped_measurements())
    found = pairs(shapes, clusters, tiles)
    assert len(found) == 18
    assert shapes[4096, 4096, 4096] == pytest.approx(27.76 / 12.52)
    errors = [abs(pair.speed_up / pair.measured_speed_up - 1) for pair in found]
    assert sum(errors) / len(errors) <= 0.08
    lines, circles = split(halves_figure(found).data)
    assert [line.name for line in lines] == ["M = 1,024", "M = 4,096", "M = 8,192"]
    assert [circle.name for circle in circles] == [f"measured, {line.name}" for line in lines]
    assert [circle.marker.color for circle in circles] == [line.line.color for line in lines]
    assert coinciding(speed_ups(found)) == (("M = 4,096", "M = 8,192"),)


def split(traces: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return lines and marks."""
    return (
        [trace for trace in traces if trace.mode == "lines"],
        [trace for trace in traces if trace.mode == "markers"],
    )


def test_lines_coincide_when_nobody_can_tell_them_apart() -> None:
    lines = {"a": (0.0, 100.0), "b": (0.0, 50.0), "c": (0.9, 99.1), "d": (1.2, 100.0)}
    assert coinciding(lines) == (("a", "c"),)
    assert coinciding_sentence(lines) == " Lines that lie on each other: a and c."
    assert coinciding_sentence({"a": (0.0, 1.0), "b": (0.0, 2.0)}) == ""
    assert coinciding({}) == ()


def test_a_resource_has_one_entry_in_the_legend_of_times() -> None:
    bars = (
        TimeBar("a", "prefill", {Bound.COLLECTIVE: 1.0, Bound.COMPUTE: 2.0}),
        TimeBar("b", "prefill", {Bound.LINK: 1.0, Bound.COMPUTE: 2.0}),
    )
    figure = time_figure(bars)
    entries = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert sorted(entries) == ["communication", "compute"]
    assert {trace.legendgroup for trace in figure.data} == set(entries)


def test_the_loops_chart_has_a_legend_of_its_resources_and_of_its_hatching() -> None:
    bars = tuple(
        Interval(what, block, 0, float(block), block + 1.0)
        for block in (0, 1)
        for what in ("load_x", "load_w", "compute", "store")
    )
    figure = gantt_figure(Gantt(bars, 0))
    entries = [trace.name for trace in figure.data if trace.showlegend is not False]
    assert entries == [
        "memory: activations", "memory: weights", "compute", "hatched: every second block"
    ]  # fmt: skip


@pytest.mark.parametrize("preset", ["a100-llama2-70b", "mt3000-llama2-13b"])
def test_the_memory_chart_has_room_for_legend_axis_and_bars(preset: str) -> None:
    bars = memory_bars(evaluate(preset_scenario(preset)), None)
    height = memory_figure(bars).layout.height
    assert height - 44 * len(bars) >= 130
