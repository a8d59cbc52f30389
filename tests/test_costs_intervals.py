"""The engine on intervals encloses what it gives for every scenario inside the box."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.links import preset_scenario
from explorer.config.own_model import with_model
from explorer.config.scenario import Scenario, knob_at
from explorer.costs.arrays import ZERO, scalar
from explorer.costs.intervals import Interval, Uncertain, highest, looked_up, lowest, stand_in
from explorer.serving.evaluate import evaluate
from tests.configs import CONFIGS, imported_config
from tests.scenarios import PRESETS

POINTS = 7
CHECKED = (
    "prefill_seconds",
    "decode_seconds",
    "batch_seconds",
    "ttft_seconds",
    "tpot_seconds",
    "clusters",
    "pools",
    "buffer_clusters",
    "buffer_micro_batches",
    "tp_all_reduce_bytes",
    "total_seconds",
)
WORDS = {
    "kernel.attention": ("mt", "flash", "unfused"),
    "kernel.fusion": ("fused", "separate"),
    "kernel.launch": ("unified", "per_operator", "per_head"),
    "precision.weights": ("fp16", "int8"),
}
PLAN = (
    "plan.pp_decode",
    "plan.pp_prefill",
    "plan.micro_batch_decode",
    "plan.micro_batch_prefill",
    "plan.dp_prefill",
    "plan.slices",
    "plan.buffer_clusters",
    "workload.prompt_tokens",
    "workload.output_tokens",
    "workload.clusters_total",
)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Scenario, dict[str, tuple[float, float]], int]:
    """Draw a scenario, ends of some of its numbers, and a seed for the points between."""
    base = preset_scenario(draw(st.sampled_from(PRESETS)))
    model = draw(st.none() | st.sampled_from(list(CONFIGS)))
    if model is not None:
        base, _ = with_model(base, imported_config(model).document)
    words = {path: draw(st.sampled_from(options)) for path, options in WORDS.items()}
    base = base.replacing(words)
    hardware = [f"hardware.{name}" for name in base.chip_document().quantities]
    paths = draw(st.lists(st.sampled_from([*hardware, *PLAN]), min_size=1, max_size=6, unique=True))
    box = {}
    for path in paths:
        knob = knob_at(base, path)
        now = base.value(path)
        middle = float(now) if isinstance(now, int | float) else 4.0
        least = max(float(knob.minimum), 1.0 if knob.whole else 0.0)
        low = min(max(middle * draw(st.floats(0.3, 1.2)), least), knob.maximum)
        high = min(low * draw(st.sampled_from([1.0, 1.02, 1.5, 4.0])), knob.maximum)
        box[path] = (float(int(low)), float(int(high))) if knob.whole else (low, high)
    if "hardware.measured_tp" in box:
        box["hardware.measured_tp"] = tuple(max(end, 2.0) for end in box["hardware.measured_tp"])
    return base, box, draw(st.integers(0, 2**32 - 1))


def points_in(base: Scenario, box: dict[str, tuple[float, float]], seed: int) -> Scenario:
    """Return the scenario at both ends of the box and at random places inside."""
    random = np.random.default_rng(seed)
    changes: dict[str, object] = {}
    for path, (low, high) in box.items():
        values = random.uniform(low, high, POINTS)
        values[:2] = low, high
        whole = knob_at(base, path).whole
        changes[path] = np.round(values).astype(np.int64) if whole else values
    return base.replacing(changes)


@given(boxes())
@settings(max_examples=150, deadline=None)
def test_every_scenario_of_a_box_is_enclosed(
    drawn: tuple[Scenario, dict[str, tuple[float, float]], int],
) -> None:
    base, box, seed = drawn
    ends = {path: stand_in(scalar(low), scalar(high)) for path, (low, high) in box.items()}
    whole, inside = evaluate(base.unchecked(ends)), evaluate(points_in(base, box, seed))
    pairs = [(getattr(whole, name), getattr(inside, name)) for name in CHECKED]
    for ours, theirs in zip(whole.constraints, inside.constraints, strict=True):
        pairs += [(ours.value, theirs.value), (ours.limit, theirs.limit)]
    for name in ("eq22", "cluster_seconds_per_token", "throughput"):
        pairs.append(tuple(each.unconstrained_objective(name) for each in (whole, inside)))
    for interval, values in pairs:
        known = ~np.isnan(values)
        assert np.all((lowest(interval) <= values) | ~known)
        assert np.all((values <= highest(interval)) | ~known)


@given(boxes())
@settings(max_examples=30, deadline=None)
def test_a_box_of_one_point_gives_the_number_itself(
    drawn: tuple[Scenario, dict[str, tuple[float, float]], int],
) -> None:
    base, box, _ = drawn
    point = {path: (low, low) for path, (low, _) in box.items()}
    ends = {path: stand_in(scalar(low), scalar(low)) for path, (low, _) in box.items()}
    exact = evaluate(points_in(base, point, 0))
    whole = evaluate(base.unchecked(ends))
    for name in ("eq22", "throughput"):
        value = whole.unconstrained_objective(name)
        assert np.all(lowest(value) == exact.unconstrained_objective(name))
        assert np.all(highest(value) == exact.unconstrained_objective(name))


numbers = st.floats(-50, 50).map(lambda value: round(value, 3) + 0.0)


@given(
    st.lists(numbers, min_size=4, max_size=4),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["add", "subtract", "multiply", "divide", "maximum", "minimum"]),
)
def test_operations_enclose(ends: list[float], a: float, b: float, name: str) -> None:
    first, second = sorted(ends[:2]), sorted(ends[2:])
    x = min(max(first[0] + a * (first[1] - first[0]), first[0]), first[1])
    y = min(max(second[0] + b * (second[1] - second[0]), second[0]), second[1])
    operation = getattr(np, name)
    found = operation(Interval(*map(scalar, first)), Interval(*map(scalar, second)))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = operation(scalar(x), scalar(y))
    assert np.isnan(value) or found.lowest <= value <= found.highest


@given(st.floats(0.001, 4), st.floats(1, 3), st.floats(-3, 60), st.floats(0, 30), st.floats(0, 1))
def test_powers_of_positive_numbers_enclose(
    base: float, factor: float, exponent: float, more: float, part: float
) -> None:
    bases = Interval(scalar(base), scalar(base * factor))
    exponents = Interval(scalar(exponent), scalar(exponent + more))
    x, y = base * factor**part, exponent + part * more
    found = bases**exponents
    assert found.lowest <= x**y <= found.highest
    point = 0.5**exponents
    assert point.lowest <= 0.5**y <= point.highest
    unknown = (scalar(0.0) - bases) ** exponents
    assert (unknown.lowest, unknown.highest) == (-np.inf, np.inf)


@given(st.lists(numbers, min_size=4, max_size=4))
def test_comparisons_know_what_is_sure(ends: list[float]) -> None:
    first, second = sorted(ends[:2]), sorted(ends[2:])
    a, b = Interval(*map(scalar, first)), Interval(*map(scalar, second))
    corners = [(x, y) for x in first for y in second]
    for mask, truths in (
        (a < b, [x < y for x, y in corners]),
        (a <= b, [x <= y for x, y in corners]),
        (a > b, [x > y for x, y in corners]),
        (a >= b, [x >= y for x, y in corners]),
    ):
        if isinstance(mask, Uncertain):
            assert (mask.any(), mask.all()) == (True, False)
            assert set(truths) == {True, False}
        else:
            assert set(truths) == {bool(mask)}
    overlap = first[0] <= second[1] and second[0] <= first[1]
    assert bool(np.any(a == b)) == overlap
    assert bool(np.all(a != b)) == (not overlap)


def test_masks_combine_and_select() -> None:
    unknown = Interval(scalar(0.0), scalar(2.0)) > ZERO
    assert isinstance(unknown, Uncertain)
    assert isinstance(~unknown, Uncertain)
    assert not np.any(unknown & np.asarray(False))
    assert np.all(unknown | np.asarray(True))
    chosen = np.where(unknown, scalar(3.0), scalar(5.0))
    assert (chosen.lowest, chosen.highest) == (3.0, 5.0)
    sure = np.where(Interval(scalar(1.0), scalar(2.0)) > ZERO, scalar(3.0), scalar(5.0))
    assert float(sure) == 3.0


def test_a_table_is_looked_up_by_a_range_of_rows() -> None:
    table = np.asarray([[0.0, 9.0], [5.0, 1.0], [2.0, 4.0], [7.0, 7.0]])
    found = looked_up(table, stand_in(np.asarray([1.0, 2.0]), np.asarray([2.0, 2.0])))
    assert found.lowest.tolist() == [[2.0, 1.0], [2.0, 4.0]]
    assert found.highest.tolist() == [[5.0, 4.0], [2.0, 4.0]]
    assert looked_up(table, np.asarray([3, 0])).tolist() == [[7.0, 7.0], [0.0, 9.0]]


def test_what_is_undefined_is_unbounded() -> None:
    nothing = Interval(scalar(0.0), scalar(0.0)) * Interval(scalar(0.0), scalar(np.inf))
    assert (nothing.lowest, nothing.highest) == (0.0, np.inf)
    crossing = scalar(1.0) / Interval(scalar(-1.0), scalar(1.0))
    assert (crossing.lowest, crossing.highest) == (-np.inf, np.inf)
    with pytest.raises(TypeError):
        np.exp(nothing)
    with pytest.raises(TypeError):
        np.cumsum(nothing)
