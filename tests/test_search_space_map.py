"""The map of two sliders against single evaluations, and its picture."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest

from explorer.config.errors import InputError
from explorer.config.scenario import knob_at
from explorer.costs.terms import Bound
from explorer.plots.space_map import (
    HATCHES,
    MISFIT,
    REASON_WORDS,
    hatching,
    map_figure,
    outline,
    region_codes,
    region_name,
    regions,
    sentences,
)
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.space import Space, varied_space
from explorer.search.space_map import (
    FITS,
    SEVERAL,
    SpaceMap,
    followed_map,
    map_axis,
    map_space,
    mappable_paths,
)
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import CAPACITY_CODE, evaluate
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario

SEVEN_B = "mt3000-llama2-7b"
BANDWIDTH, MEMORY = "hardware.ddr_bandwidth_bytes_per_second", "hardware.memory_bytes"
BATCH, PIPELINE = "plan.micro_batch_decode", "plan.pp_prefill"


def cells(found: SpaceMap):
    return itertools.product(enumerate(found.y.values), enumerate(found.x.values))


@pytest.mark.parametrize(
    ("preset", "x", "y"),
    [
        (MT3000, BANDWIDTH, BATCH),
        (MT3000, MEMORY, PIPELINE),
        (MT3000, "workload.prompt_tokens", "plan.tp_decode"),
        (ASCEND, "workload.prompt_tokens", BATCH),
        (ASCEND, "plan.tp_decode", "plan.pp_decode"),
    ],
)
def test_each_cell_is_a_single_evaluation(preset: str, x: str, y: str) -> None:
    base = scenario(preset)
    found = map_space(base, THROUGHPUT, x, y, cells=6)
    assert found.values.shape == (len(found.y.values), len(found.x.values))
    ties = {"plan.tp_decode": "plan.tp_prefill", "plan.pp_decode": "plan.pp_prefill"}
    for (row, up), (column, along) in cells(found):
        changes = {x: along, y: up}
        if base.plan.placement == "shared":
            changes |= {ties[path]: value for path, value in [*changes.items()] if path in ties}
        one = evaluate(base.replacing(changes))
        value = float(one.objective("throughput"))
        assert found.values[row, column] == pytest.approx(value, rel=1e-12, nan_ok=True)
        assert found.limits[row, column] == int(one.bottleneck)
        reason = int(found.reasons[row, column])
        assert (reason == FITS) == bool(one.feasible) == (not math.isnan(value))
        if reason != FITS:
            factors = {c.name: float(c.value / c.limit) for c in one.constraints if not c.kept}
            assert CONSTRAINTS[reason] == max(factors, key=factors.__getitem__)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_slider_can_be_an_axis_and_holds_the_present_value(preset: str) -> None:
    base = scenario(preset)
    for path in mappable_paths(base):
        axis = map_axis(base, path)
        knob, now = knob_at(base, path), base.value(path)
        assert list(axis.values) == sorted(set(axis.values))
        assert 2 <= len(axis.values) <= 65
        assert all(knob.problem(value) is None for value in axis.values)
        assert axis.now is None if isinstance(now, str) else axis.values[axis.now] == now


def test_axes_reach_a_sixteenth_to_sixteen_times_or_the_whole_range() -> None:
    base = scenario(MT3000)
    bandwidth = map_axis(base, BANDWIDTH).values
    assert (bandwidth[0], bandwidth[-1]) == pytest.approx((30e9 / 16, 30e9 * 16))
    assert map_axis(base, "plan.tp_decode").values == (1, 2, 4, 8)
    assert map_axis(base, PIPELINE).values == tuple(range(1, 41))
    odd = map_axis(scenario(MT3000, plan__micro_batch_decode=24), BATCH)
    assert odd.values == (1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 512)
    assert odd.now == 5


@pytest.mark.parametrize("path", ["plan.nothing", "name", "kernel.attention"])
def test_what_is_no_number_or_twice_the_same_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        map_axis(scenario(MT3000), path)
    with pytest.raises(InputError, match="two different sliders"):
        map_space(scenario(MT3000), THROUGHPUT, BATCH, BATCH)


def test_a_plan_that_does_not_fit_can_be_mapped_to_where_it_does() -> None:
    found = map_space(scenario(MT3000, plan__pp_prefill=1), THROUGHPUT, MEMORY, PIPELINE)
    assert math.isnan(found.values[found.y.now, found.x.now])
    assert CONSTRAINTS[found.reasons[found.y.now, found.x.now]] == "prefill_memory"
    assert (found.reasons == FITS).any()


@pytest.mark.parametrize(
    ("preset", "x", "y"), [(SEVEN_B, BANDWIDTH, MEMORY), (ASCEND, "workload.prompt_tokens", BATCH)]
)
def test_each_cell_of_a_followed_map_is_certified(preset: str, x: str, y: str) -> None:
    vary = {"plan.tp_decode": (1, 4), BATCH: (1, 64), "plan.dp_prefill": (1, 3)}
    if preset == ASCEND:
        vary = {"plan.tp_decode": (2, 4), BATCH: (1, 4), "plan.slices": (1, 4)}
    space = varied_space(scenario(preset), vary)
    seen: list[tuple[int, int]] = []
    found = followed_map(
        space, THROUGHPUT, x, y, 4, progress=lambda done, total: seen.append((done, total))
    )
    kept = tuple(axis for axis in space.axes if not {x, y} & set(axis.paths))
    for (row, up), (column, along) in cells(found):
        there = Space(space.base.replacing({x: along, y: up}), kept)
        proved = certify(there, THROUGHPUT)
        assert found.values[row, column] == pytest.approx(proved.optimum, rel=1e-12, nan_ok=True)
        if proved.scenario is None:
            assert found.limits[row, column] == CAPACITY_CODE
            always = [n for n, count in proved.excluded.items() if count == proved.enumerated]
            reason = int(found.reasons[row, column])
            assert (CONSTRAINTS[reason] if reason >= 0 else None) == (
                min(always, key=CONSTRAINTS.index) if always else None
            )
        else:
            assert found.limits[row, column] == int(evaluate(proved.scenario).bottleneck)
            assert found.reasons[row, column] == FITS
    assert found.follows
    assert seen[-1] == (found.values.size, found.values.size)


def test_a_stopped_map_keeps_what_it_has() -> None:
    space = varied_space(scenario(SEVEN_B), {"plan.dp_prefill": (1, 2, 3)})
    found = followed_map(space, THROUGHPUT, BANDWIDTH, MEMORY, 4, stopped=lambda: True)
    assert not found.complete
    assert np.count_nonzero(~np.isnan(found.values)) <= 1
    assert (found.reasons.reshape(-1)[1:] == SEVERAL).all()


def test_regions_cover_the_map_and_have_words() -> None:
    found = map_space(scenario(MT3000), THROUGHPUT, BANDWIDTH, BATCH)
    every = regions(found)
    assert sum(region.cells for region in every) == found.values.size
    codes = region_codes(found)
    for region in every:
        assert codes[region.at[1], region.at[0]] == region.code
        assert region.cells == np.count_nonzero(codes == region.code)
    names = {region.name for region in every}
    assert {"decode: weights", "prefill: arithmetic", "decode memory"} <= names
    assert region_name(100 + int(Bound.HOST)) == "decode: host issue"
    assert region_name(MISFIT) == "no plan fits"
    assert set(REASON_WORDS) == set(CONSTRAINTS)


def strokes(path: str) -> list[tuple[float, ...]]:
    """Return x, y, x, y of each stroke of a path that holds nothing else."""
    found = re.findall(r"M(-?[\d.]+),(-?[\d.]+)L(-?[\d.]+),(-?[\d.]+)", path)
    assert "".join("M{},{}L{},{}".format(*stroke) for stroke in found) == path
    return [tuple(map(float, stroke)) for stroke in found]


def test_outlines_stand_between_cells_that_differ() -> None:
    edges = strokes(outline(np.array([[1, 1, 2], [1, 3, 2]])))
    assert len(edges) == 4
    assert set(edges) == {
        (1.5, -0.5, 1.5, 0.5),
        (0.5, 0.5, 0.5, 1.5),
        (1.5, 0.5, 1.5, 1.5),
        (0.5, 0.5, 1.5, 0.5),
    }
    assert outline(np.ones((3, 3))) == ""


@pytest.mark.parametrize("shape", HATCHES)
def test_strokes_stay_inside_their_cells(shape: str) -> None:
    drawn = strokes(hatching([(2, 5)], shape))
    assert len(drawn) == (2 if shape == "x" else 1)
    for x0, y0, x1, y1 in drawn:
        assert max(abs(x0 - 5), abs(x1 - 5), abs(y0 - 2), abs(y1 - 2)) == 0.5
        assert (x0, y0) != (x1, y1)


@pytest.mark.parametrize("objective", [THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN], ids=lambda o: o.name)
def test_the_picture_has_few_elements_and_says_what_each_cell_holds(objective) -> None:
    base = scenario(MT3000)
    found = map_space(base, objective, MEMORY, PIPELINE)
    figure = map_figure(found)
    assert figure.data[0].type == "heatmap"
    # One path for each reason and two for the outlines.
    reasons = {r for r in found.reasons.reshape(-1).tolist() if r != FITS}
    assert len(figure.layout.shapes) == len(reasons) + 2
    assert figure.data[0].reversescale == objective.minimised
    texts = sentences(found)
    assert texts[found.y.now][found.x.now].startswith("Memory a cluster 20.0 GB, Prefill pipeline")
    assert "limited by" in texts[found.y.now][found.x.now]
    row, column = np.argwhere(found.reasons != FITS)[0]
    assert "does not fit" in texts[row][column]
    assert figure.data[0].z[row][column] is None
    hatched = [trace.name for trace in figure.data if (trace.name or "").startswith("does not fit")]
    assert len(hatched) == len(reasons) == len(set(hatched))


def test_a_map_on_which_nothing_fits_is_drawn() -> None:
    base = scenario(MT3000, limits__tpot_seconds=1e-4)
    found = map_space(base, THROUGHPUT, BANDWIDTH, BATCH, cells=5)
    assert np.isnan(found.values).all()
    assert map_figure(found).data[0].showscale is False
    automatic = map_space(scenario(MT3000), THROUGHPUT, "plan.buffer_clusters", BATCH)
    assert automatic.x.now is None
    assert all(trace.name != "the sliders" for trace in map_figure(automatic).data)
