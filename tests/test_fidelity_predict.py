"""Predictions of single measurements: the app's own models, and a reason where they have none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from explorer.chips.ascend910a_synced import PHASES
from explorer.config.links import preset_scenario
from explorer.fidelity.measurements import DIMENSIONS, Measurement, shipped_measurements
from explorer.fidelity.predict import predict
from explorer.fidelity.serving import ServingCase, best_plan
from explorer.search.certificate import certify
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate

MT, ASCEND, QWEN = "mt3000", "ascend910a", "qwen3.8-27b"


def row(quantity: str, conditions: str, chip: str = MT, model: str = "") -> Measurement:
    unit = "s" if DIMENSIONS.get(quantity) == "time" else "tok/s"
    pairs = (part.split("=") for part in conditions.split(";") if part)
    return Measurement("x", chip, model, quantity, dict(pairs), 1.0, unit, "", "f")


def value(*arguments: str) -> float:
    outcome = predict(row(*arguments))
    assert outcome.prediction is not None, outcome.reason
    return outcome.prediction.value


def reason(*arguments: str) -> str:
    outcome = predict(row(*arguments))
    assert outcome.prediction is None
    assert outcome.reason
    assert outcome.reason.isprintable()
    return outcome.reason


def ascend(quantity: str, conditions: str) -> tuple[str, str, str, str]:
    return quantity, conditions, ASCEND, QWEN


def test_every_published_row_is_predicted_or_has_a_reason() -> None:
    for item in shipped_measurements():
        outcome = predict(item)
        assert (outcome.prediction is None) == bool(outcome.reason)
        if outcome.prediction is not None:
            assert outcome.prediction.value > 0
            assert outcome.prediction.naive >= 0


def test_prefill_and_decode_are_those_of_the_app() -> None:
    scenario = preset_scenario("ascend910a-qwen3.8-27b").replacing(
        {"workload.prompt_tokens": 3000, "plan.slices": 2}
    )
    evaluation = evaluate(scenario)
    told = value(*ascend("prefill_throughput", "tp=4;rows=3000;slices=2"))
    assert told == pytest.approx(3000 / float(evaluation.prefill_seconds), rel=1e-12)
    step = value(*ascend("decode_step_time", "tp=4;rows=1;context=3063"))
    assert step == pytest.approx(float(evaluation.decode_stage.seconds), rel=1e-6)
    rate = value(*ascend("decode_throughput", "tp=4;rows=1;context=3063"))
    assert rate == pytest.approx(1 / step, rel=1e-12)


@pytest.mark.parametrize(("rows", "slices"), [(512, 1), (1024, 1), (2048, 2), (4096, 4)])
def test_the_rule_is_the_forced_count_that_it_picks(rows: int, slices: int) -> None:
    conditions = f"tp=4;rows={rows};slices="
    rule = value(*ascend("prefill_throughput", conditions + "rule"))
    assert rule == value(*ascend("prefill_throughput", conditions + str(slices)))


def test_fewer_layers_take_less_time_and_more_requests_more() -> None:
    steps = [
        value(*ascend("decode_step_time", f"tp=4;rows=1;context=512;layers={n}"))
        for n in (16, 32, 48, 64)
    ]
    assert steps == sorted(steps)
    differences = [b - a for a, b in pairwise(steps)]
    assert differences == pytest.approx([differences[0]] * 3, rel=1e-9)
    batches = [
        value(*ascend("decode_step_time", f"tp=4;rows={n};context=512")) for n in (1, 2, 4, 8)
    ]
    assert batches == sorted(batches)


@pytest.mark.parametrize(
    ("conditions", "beyond"),
    [
        ("rows=1;context=128", False),
        ("rows=8;context=512", True),
        ("rows=1;context=512;layers=16", True),
    ],
)
def test_decode_beyond_what_was_measured_is_flagged(conditions: str, beyond: bool) -> None:
    outcome = predict(row(*ascend("decode_step_time", f"tp=4;{conditions}")))
    assert outcome.prediction is not None
    assert outcome.prediction.extrapolated == beyond


@pytest.mark.parametrize("layers", [16, 32, 48, 64])
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("context", [64, 512, 4096])
def test_decode_of_any_depth_batch_and_context_is_predicted(
    layers: int, rows: int, context: int
) -> None:
    """Weights once a step, everything else as often as it occurs; rates are rows over the step."""
    conditions = f"tp=4;rows={rows};layers={layers};context={context}"
    step = value(*ascend("decode_step_time", conditions))
    assert value(*ascend("decode_throughput", conditions)) == pytest.approx(rows / step)
    linear, full = 3 * layers // 4, layers // 4
    mlp = 8704 * 5120 + 5120 * 4352
    mixers = {
        "linear": (2560 + 1536 + 24) * 5120 + 5120 * 1536,
        "full": (3072 + 256 + 256) * 5120 + 5120 * 1536,
    }
    weights = linear * (mlp + mixers["linear"]) + full * (mlp + mixers["full"]) + 62080 * 5120
    kv = full * rows * ((context + 1) * 1024 + 2 * 6 * 256 * 2) / 1148e9
    state = linear * rows * 2 * 12 * 128 * 128 * 4 / 1148e9
    reduces = 2 * layers + 1
    wire = reduces * rows * 5120 * 2 / 22.73e9
    per_row = linear * 10.33464e-6 + full * 4.10574e-6 + layers * (0.17888e-6 + 0.339962e-6)
    expected = (
        2 * weights / 300e9 + reduces * 0.404e-3 + wire + layers * 0.231074e-3
        + kv + state + rows * per_row
    )  # fmt: skip
    assert step == pytest.approx(expected, rel=1e-6)


def test_a_batch_and_a_world_go_by_either_name() -> None:
    by_rows = value(*ascend("decode_step_time", "tp=4;rows=4;context=512"))
    for conditions in ("tp=4;batch=4;context=512", "world=4;requests=4;context=512"):
        assert value(*ascend("decode_step_time", conditions)) == by_rows
    both = ascend("decode_step_time", "tp=4;rows=4;batch=8;context=512")
    assert reason(*both) == "rows=4 and batch=8 contradict each other"
    assert value(*ascend("decode_step_time", "tp=4;rows=4;batch=4;context=512")) == by_rows
    world = value("all_reduce_time", "world=4;bytes=10240;where=standalone", ASCEND)
    assert value("all_reduce_time", "tp=4;bytes=10240;where=standalone", ASCEND) == world


@pytest.mark.parametrize(("rows", "slices"), [(512, "1"), (1105, "4"), (4096, "rule")])
def test_phases_of_a_running_pass_are_the_work_of_the_timeline(rows: int, slices: str) -> None:
    conditions = f"tp=4;rows={rows};slices={slices};device_synced=no"

    def phase(name: str) -> float:
        return value(*ascend("phase_time", f"{conditions};phase={name}"))

    rate = value(*ascend("prefill_throughput", f"tp=4;rows={rows};slices={slices}"))
    assert phase("wall") == pytest.approx(rows / rate)
    assert phase("stack") < phase("wall")
    assert phase("gated_delta") == pytest.approx(48 * rows * 10.33464e-6, rel=1e-6)
    # The recurrence does not overlap and is the same kernel in either pass.
    synced = value(*ascend("phase_time", f"tp=4;rows={rows};phase=gated_delta"))
    assert phase("gated_delta") == pytest.approx(synced)
    count = {"1": 1, "4": 4, "rule": 4}[slices]
    wire = 129 * rows * 5120 * 2 / 22.73e9
    assert phase("tp_all_reduce") == pytest.approx((128 * count + 1) * 0.404e-3 + wire)
    names = ("gated_delta", "full_attention", "projections", "norms", "other")
    if count == 1 and rows > 1000:
        listed = sum(map(phase, (*names, "tp_all_reduce")))
        assert listed <= phase("stack") * (1 + 1e-9)
    outcome = predict(row("phase_time", f"{conditions};phase=norms", ASCEND, QWEN))
    assert outcome.prediction is not None
    assert outcome.prediction.extrapolated
    assert (
        outcome.prediction.basis == "as it runs: what the device works on the phase, hidden or not"
    )


def test_phases_add_up_to_no_more_than_the_stack() -> None:
    def phase(name: str) -> float:
        return value(*ascend("phase_time", f"tp=4;rows=2223;phase={name}"))

    parts = ("gated_delta", "full_attention", "projections", "norms")
    assert sum(map(phase, parts)) < phase("stack") <= phase("wall")


def test_a_synced_pass_is_the_profiles_wall_and_slower_than_the_overlapped_one() -> None:
    conditions = "tp=4;rows=2223;slices=1"
    raced = value(*ascend("prefill_throughput", conditions))
    synced = value(*ascend("prefill_throughput", conditions + ";device_synced=yes"))
    wall = value(*ascend("phase_time", "tp=4;rows=2223;phase=wall"))
    assert synced == pytest.approx(2223 / wall, rel=1e-12)
    # The excess of every synced wall over the overlapped serial one: 0.27 to 0.29 s.
    assert wall - 2223 / raced == pytest.approx(0.28, abs=0.02)


def test_ablations_leave_groups_of_the_recurrence_out() -> None:
    def recurrence(ablated: str) -> float:
        return value(*ascend("ablation_gated_delta", f"tp=4;rows=3000;ablated={ablated}"))

    whole, both = recurrence("none"), recurrence("both")
    parts = whole - recurrence("broadcast_rows"), whole - recurrence("rank1_update")
    assert sum(parts) == pytest.approx(whole - both)
    pass_with, pass_without = (
        value(*ascend("prefill_throughput", f"tp=4;rows=3000;slices=1;ablated={word}"))
        for word in ("none", "both")
    )
    # The device is later than the host here, so the wall falls by what the recurrence does.
    assert 3000 / pass_with - 3000 / pass_without == pytest.approx(whole - both, rel=0.02)


def test_the_phases_and_what_the_table_leaves_out_add_up_to_the_stack() -> None:
    def phase(name: str) -> float:
        return value(*ascend("phase_time", f"tp=4;rows=2223;phase={name}"))

    assert sum(map(phase, PHASES)) == pytest.approx(phase("stack"), rel=1e-12)
    assert phase("wall") - phase("stack") == pytest.approx(0.0249 + 2.1e-6 * 2223, rel=0.01)


@pytest.mark.parametrize("where", ["engine", "standalone"])
def test_an_all_reduce_grows_with_its_bytes(where: str) -> None:
    times = [
        value("all_reduce_time", f"world=4;bytes={size};where={where}", ASCEND)
        for size in (10_240, 10_240_000, 102_400_000)
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("k", [1024, 4096, 11008, 4100])
@pytest.mark.parametrize("m", [1, 7, 64, 150, 1000, 8192])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_products_never_beat_the_roofline(dtype: str, m: int, k: int) -> None:
    # A broadcast of X is published as 0.9 of a DMA: that much may be faster than the bandwidth.
    for n in (100, 256, 4096, 32000):
        outcome = predict(row("gemm_latency", f"dtype={dtype};m={m};k={k};n={n}"))
        assert outcome.prediction is not None
        assert outcome.prediction.value >= 0.9 * outcome.prediction.naive


def test_attention_by_head_and_batch_is_linear() -> None:
    one = value("attention_latency", "method=mt;batch=1;heads=32;head_dim=128;seq=1500")
    four = value("attention_latency", "method=mt;batch=4;heads=32;head_dim=128;seq=1500")
    assert four == pytest.approx(4 * one)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("latency_of_love", ""), "unknown quantity latency_of_love; known: gemm_latency"),
        (("gemm_latency", "dtype=fp16;m=2;k=2"), "the condition n is missing"),
        (("gemm_latency", "dtype=fp16;m=0;k=2;n=2"), "m=0 is not a whole number above 0"),
        (("gemm_latency", "dtype=fp16;m=1.5;k=2;n=2"), "m=1.5 is not a whole number"),
        (("gemm_latency", "dtype=fp8;m=1;k=2;n=2"), "dtype=fp8 is not modelled"),
        (("gemm_latency", "dtype=fp16;m=1;k=2;n=2;clusters=4"), "clusters=4"),
        (("gemm_latency", "dtype=fp16;m=1;k=2;n=2", ASCEND), "for the MT-3000 only"),
        (("gemm_latency", "dtype=fp16;m=1;k=2;n=2", "tpu"), "unknown preset"),
        (("gemm_latency", "dtype=fp16;m=1;k=2;n=2", "../mt3000"), "unknown preset"),
        (("attention_latency", "method=ring;heads=1;head_dim=1;seq=9"), "method=ring"),
        (
            ("attention_latency", "method=mt;heads=1;head_dim=1;seq=9;causal=yes"),
            "causal=yes is not modelled",
        ),
        (("attention_latency", "method=mt;heads=1;head_dim=99999;seq=9"), "do not fit AM"),
        (("prefill_throughput", "tp=4;rows=512"), "names no model"),
        (("prefill_throughput", "tp=4;rows=512", ASCEND, "gpt-5"), "unknown preset"),
        (ascend("prefill_throughput", "tp=3;rows=512"), "does not divide the heads"),
        (ascend("prefill_throughput", "tp=1;rows=512"), "does not fit"),
        (ascend("prefill_throughput", "tp=4;rows=999999"), "workload.prompt_tokens"),
        (ascend("prefill_throughput", "tp=4;rows=512;slices=many"), "slices=many"),
        (ascend("prefill_throughput", "tp=4;rows=512;ablated=all"), "ablated=all"),
        (ascend("ablation_gated_delta", "tp=4;rows=512;ablated=q"), "ablated=q"),
        (ascend("phase_time", "tp=4;rows=512;phase=moon"), "phase=moon is not modelled"),
        (
            ascend("phase_time", "tp=4;rows=4096;slices=4;phase=wall;device_synced=yes"),
            "a device-synced pass was profiled serially only",
        ),
        (ascend("decode_step_time", "tp=4;rows=1;context=9;layers=65"), "layers=65"),
        (ascend("decode_step_time", "tp=4;rows=1"), "the condition context is missing"),
        (("all_reduce_time", "world=4;bytes=4"), "only the Ascend"),
        (("serving_throughput", "clusters=4;prompt=9;output=9"), "names no model"),
        (
            ("serving_throughput", "stage=A0;clusters=12;prompt=9;output=9", MT, "llama2-7b"),
            "made by a compiler",
        ),
        (
            ("serving_throughput", "system=other;clusters=12;prompt=9;output=9", MT, "llama2-7b"),
            "system=other is not modelled",
        ),
        (
            ("serving_throughput", "stage=A2;clusters=1;prompt=9;output=9", MT, "llama2-70b"),
            "do not hold one copy",
        ),
        (
            ("serving_throughput", "clusters=2;prompt=9;output=9", MT, "llama2-70b"),
            "no plan fits 2 clusters",
        ),
        (("serving_throughput", "prompt=9;output=9", MT, "llama2-7b"), "clusters (or processors)"),
    ],
)
def test_what_cannot_be_predicted_says_why(arguments: tuple[str, ...], words: str) -> None:
    assert words in reason(*arguments)


def test_conditions_that_played_no_part_are_named() -> None:
    outcome = predict(row("gemm_latency", "dtype=fp16;m=64;k=64;n=64;weather=fine"))
    assert outcome.prediction is not None
    assert outcome.note == "conditions not used: weather"


def test_the_best_plan_is_that_of_the_whole_space() -> None:
    case = ServingCase(MT, "llama2-7b", 512, 128, 6)
    scenario = case.scenario()
    pinned = frozenset({"plan.micro_batch_prefill"})
    whole = certify(default_space(scenario, pinned), THROUGHPUT)
    found = best_plan(case)
    best = float(evaluate(found.scenario).objective("throughput"))
    # The part's search also chooses the prefill micro-batch.
    assert best >= whole.optimum
    kept = replace(case, placement="shared", with_tp=False)
    assert best_plan(kept).scenario.plan.tp_decode == 1


def test_processors_are_four_clusters() -> None:
    arguments = ("serving_throughput", "{};prompt=64;output=8", MT, "llama2-7b")
    by_processor = value(arguments[0], arguments[1].format("processors=2"), *arguments[2:])
    assert by_processor == value(arguments[0], arguments[1].format("clusters=8"), *arguments[2:])


def test_launching_head_by_head_costs_time() -> None:
    conditions = "stage={};clusters=12;prompt=512;output=128"
    slow, fast = (
        value("serving_throughput", conditions.format(stage), MT, "llama2-7b")
        for stage in ("A1", "A2")
    )
    assert slow < fast
