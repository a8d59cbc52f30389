"""What raising one thing must never do: monotonicity and limits of the whole engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario, scenarios

FASTER = {
    "mt3000": (
        "ddr_bandwidth_bytes_per_second", "peak_macs_per_second_fp32", "peak_macs_per_second_fp16",
        "mpi_bandwidth_bytes_per_second",
    ),
    "ascend910a": (
        "hbm_bandwidth_bytes_per_second", "weight_stream_bytes_per_second",
        "peak_macs_per_second_fp16", "link_bandwidth_bytes_per_second",
    ),
    "generic": (
        "memory_bandwidth_bytes_per_second", "peak_macs_per_second_fp32",
        "peak_macs_per_second_fp16", "link_bandwidth_bytes_per_second",
        "achievable_peak_fraction", "achievable_bandwidth_fraction",
    ),
}  # fmt: skip
SLOWER = {
    "mt3000": (
        "hthreads_create_seconds", "hthreads_launch_seconds", "mpi_latency_seconds",
    ),
    "ascend910a": (
        "link_latency_seconds", "recurrence_broadcast_rows_seconds_per_row_layer",
        "recurrence_rank1_update_seconds_per_row_layer", "recurrence_rest_seconds_per_row_layer",
        "recurrence_time_factor", "full_attention_seconds_per_pair_layer",
        "outside_seconds_per_row", "outside_fixed_seconds",
        "full_attention_seconds_per_row_layer", "projection_seconds_per_row_layer",
        "norm_seconds_per_row_layer", "other_seconds_per_row_layer",
        "host_issue_seconds_per_layer", "host_issue_seconds_per_collective",
        "device_fixed_seconds_per_layer", "collective_fixed_seconds",
        "decode_fixed_seconds_per_layer",
    ),
    "generic": ("link_latency_seconds", "operator_launch_seconds"),
}  # fmt: skip
TIMES = ("prefill_seconds", "decode_seconds", "ttft_seconds", "total_seconds", "batch_seconds")
SLACK = 1 + 1e-12


def steps(s, name):
    """Return rising values of a chip number over its whole range, as the knob takes them."""
    knob = s.chip_document().knob(name)
    low = max(float(knob.minimum), float(knob.maximum) * 1e-12)
    values = np.geomspace(low, float(knob.maximum), 24)
    return np.unique(values.astype(np.int64)) if knob.whole else values


def rising(values):
    values = np.broadcast_to(values, np.shape(values) or (1,))
    return bool(np.all(values[1:] * SLACK >= values[:-1]))


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_more_bandwidth_peak_or_memory_is_never_slower(s):
    for name in FASTER[s.chip_document().family]:
        result = evaluate(s.replacing({f"hardware.{name}": steps(s, name)}))
        for time in TIMES:
            assert rising(np.atleast_1d(getattr(result, time))[::-1]), (name, time)


@given(
    st.sampled_from(["mt", "flash", "unfused"]),
    st.sampled_from(["fp32", "fp16"]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 144),
)
@settings(max_examples=20, deadline=None)
def test_larger_scratchpads_are_never_slower_at_whole_rounds(method, compute, tp, micro_batch):
    """Rounds of the DSPs are whole, so a larger tile may pad more of rows that it does not divide.

    Here 24 x 6 x 2520 rows are whole rounds of every tile up to 60 rows a DSP, the most that two
    of the memories leave when the third grows; for Flash, whose block also follows SM, GSM and AM
    are raised alone. Below the `tile` limit times mean nothing.
    """
    s = scenario(
        MT3000, kernel__attention=method, precision__compute=compute,
        workload__prompt_tokens=4536, plan__micro_batch_prefill=80,
        plan__micro_batch_decode=micro_batch, plan__tp_prefill=tp, plan__tp_decode=tp,
    )  # fmt: skip
    for name in ("sm_bytes", "am_bytes", "gsm_bytes")[method == "flash" :]:
        result = evaluate(s.replacing({f"hardware.{name}": steps(s, name)}))
        tile = next(c for c in result.constraints if c.name == "tile")
        assert tile.kept.any()
        assert list(tile.kept) == sorted(tile.kept)
        for time in TIMES:
            values = np.broadcast_to(getattr(result, time), tile.kept.shape)[tile.kept]
            assert rising(values[::-1]), (name, time)


@given(scenarios())
@settings(max_examples=30, deadline=None)
def test_longer_latencies_and_slower_operators_are_never_faster(s):
    for name in SLOWER[s.chip_document().family]:
        result = evaluate(s.replacing({f"hardware.{name}": steps(s, name)}))
        for time in TIMES:
            assert rising(getattr(result, time)), (name, time)


@given(scenarios(), st.sampled_from([0, 1, 2, 4]))
@settings(max_examples=60, deadline=None)
def test_a_longer_prompt_is_never_faster(s, slices):
    """Slices fixed and long enough to run: the rule itself may gain by slicing a longer prompt."""
    prompts = np.unique(np.geomspace(400, 131072, 60).astype(np.int64))
    result = evaluate(s.replacing({"workload.prompt_tokens": prompts, "plan.slices": slices}))
    for time in TIMES:
        assert rising(getattr(result, time)), time


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_more_output_is_never_faster(s):
    outputs = np.arange(1, 400, 7)
    result = evaluate(s.replacing({"workload.output_tokens": outputs}))
    for time in TIMES:
        assert rising(getattr(result, time)), time


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_more_memory_never_removes_a_plan_and_never_costs_throughput(s):
    memory = steps(s, "memory_bytes")
    result = evaluate(s.replacing({"hardware.memory_bytes": memory}))
    feasible = np.broadcast_to(result.feasible, memory.shape)
    assert list(feasible) == sorted(feasible)
    throughput = np.broadcast_to(result.objective("throughput"), memory.shape)[feasible]
    assert np.all(np.diff(throughput) >= 0)


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_more_clusters_never_deliver_less_and_idle_ones_never_make_a_pool(s):
    clusters = np.arange(1, 3000, 13)
    result = evaluate(s.replacing({"workload.clusters_total": clusters}))
    assert np.all(np.diff(result.pools) >= 0)
    assert np.all((result.idle_clusters >= 0) & (result.idle_clusters < result.clusters))
    throughput = np.nan_to_num(np.broadcast_to(result.objective("throughput"), clusters.shape))
    assert np.all(np.diff(throughput) >= 0)


@given(scenarios())
@settings(max_examples=60, deadline=None)
def test_one_request_is_never_faster_than_its_share_of_a_pipeline(s):
    """m micro-batches through p stages take m + p - 1 stage times, not m, and not p times less."""
    result = evaluate(s.replacing({"plan.micro_batch_decode": 1, "plan.pp_decode": 1}))
    stage = float(result.prefill_stage.seconds)
    assert result.prefill_seconds == pytest.approx(s.plan.pp_prefill * stage)


@given(scenarios())
@settings(max_examples=200, deadline=None)
def test_every_valid_plan_has_finite_times_and_names_its_bottleneck(s):
    result = evaluate(s)
    for time in TIMES:
        assert np.isfinite(getattr(result, time))
        assert getattr(result, time) >= 0
    assert result.prefill_seconds > 0
    assert np.isnan(result.tpot_seconds) == (s.workload.output_tokens == 1)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("end", ["minimum", "maximum"])
def test_every_chip_number_at_either_end_gives_finite_times(preset, end):
    s = scenario(preset)
    chip = s.chip_document()
    for name in chip.quantities:
        result = evaluate(s.replacing({f"hardware.{name}": getattr(chip.knob(name), end)}))
        assert np.isfinite(result.batch_seconds), name
    ends = {f"hardware.{name}": getattr(chip.knob(name), end) for name in chip.quantities}
    assert np.isfinite(evaluate(s.replacing(ends)).batch_seconds)


def test_unlimited_bandwidth_leaves_compute_and_launches():
    s = scenario(
        MT3000,
        hardware__ddr_bandwidth_bytes_per_second=1e13,
        hardware__mpi_bandwidth_bytes_per_second=1e13,
        hardware__gemm_kernel_ramp_cycles=1,
        hardware__attention_round_seconds=0,
        hardware__attention_score_seconds=0,
        workload__prompt_tokens=576,
        plan__micro_batch_prefill=5,
        plan__pp_prefill=1,
    )
    # 2880 rows are two whole rounds of 1440, 576 one of 24 x 24: nothing is padded but the head.
    stage = evaluate(s).prefill_stage
    macs = sum(float(term.macs) for term in stage.terms)
    assert stage.seconds == pytest.approx(macs / 8.1e12, rel=0.01)


def test_unlimited_compute_leaves_the_bytes_of_decode():
    s = scenario(MT3000, hardware__peak_macs_per_second_fp16=1e18)
    stage = evaluate(s).decode_stage
    fixed = ("all_reduce", "layer_launch", "pass_launch", "stage_hand_over")
    moved = sum(float(t.bytes) for t in stage.terms if t.name not in fixed)
    seconds = sum(float(t.seconds) for t in stage.terms if t.name not in fixed)
    assert seconds == pytest.approx(moved / 30e9, rel=1e-12)


def test_the_rule_never_loses_to_serial_at_the_measured_lengths():
    rows = np.asarray([512, 1024, 2048, 4096, 8192])
    s = scenario(ASCEND, workload__prompt_tokens=rows)
    ruled = evaluate(s).prefill_seconds
    serial = evaluate(s.replacing({"plan.slices": 1})).prefill_seconds
    assert np.all(ruled <= serial)
