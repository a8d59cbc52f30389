"""Ascend 910A against the measurements and closed form of Ascend TP Collective Overlap."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.terms import Bound
from explorer.costs.timeline import LANES
from explorer.fidelity.scenarios import with_layers
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, scenario, scenarios

# Ascend TP Collective Overlap section 3: rows, slices, prefill tokens/s.
SWEEP = [
    (512, 1, 875.8), (512, 4, 431.4), (512, 8, 879.6),
    (1024, 1, 1138.77), (1024, 2, 1140.13), (1024, 4, 862.41),
    (2048, 1, 1195.12), (2048, 2, 1238.58), (2048, 4, 1185.81),
    (4096, 1, 1205.2), (4096, 4, 1265.2),
]  # fmt: skip
# Section 4: prompt, slices chosen, prefill tokens/s, decode tokens/s, new tokens.
RULE = [
    (512, 1, 878.8, 8.73, 128), (1024, 1, 1134.5, 8.96, 8),
    (2048, 2, 1238.3, 9.11, 8), (4096, 4, 1261.6, 8.91, 32),
]  # fmt: skip
BEFORE = [(512, 9.21, 128), (4096, 9.55, 32)]


def prefill(rows, slices="rule", **changes):
    return evaluate(scenario(ASCEND, workload__prompt_tokens=rows, plan__slices=slices, **changes))


@pytest.mark.parametrize(("rows", "slices", "measured"), SWEEP)
def test_prefill_is_within_one_and_a_half_percent_of_the_sweep(rows, slices, measured):
    predicted = rows / float(prefill(rows, slices).prefill_seconds)
    assert predicted == pytest.approx(measured, rel=0.015)


@pytest.mark.parametrize(("rows", "slices", "measured", "decode", "new"), RULE)
def test_the_rule_is_within_one_and_a_half_percent_of_its_verification(
    rows, slices, measured, decode, new
):
    result = prefill(rows)
    assert float(result.machine.slices()) == slices
    assert rows / float(result.prefill_seconds) == pytest.approx(measured, rel=0.015)


def test_decode_is_within_five_percent_of_the_reported_steps_on_average():
    rows = [(prompt, decode, new) for prompt, _, _, decode, new in RULE] + BEFORE
    errors = []
    for prompt, measured, new in rows:
        s = scenario(ASCEND, workload__prompt_tokens=prompt, workload__output_tokens=new)
        errors.append(abs(1 / float(evaluate(s).tpot_seconds) - measured) / measured)
    assert len(errors) == 6
    assert np.mean(errors) < 0.05


def test_four_slices_take_nearly_the_same_wall_time_at_512_and_1024_rows():
    """Both are bound by host issue: 512 more rows only lengthen what follows the last issue."""
    short, long = (float(prefill(rows, 4).prefill_seconds) for rows in (512, 1024))
    assert short == pytest.approx(long, abs=0.002)
    assert short == pytest.approx(1.187, rel=0.005)


def test_the_sweep_is_right_to_half_a_percent_on_average():
    errors = [abs(r / float(prefill(r, s).prefill_seconds) / tps - 1) for r, s, tps in SWEEP]
    errors += [abs(r / float(prefill(r).prefill_seconds) / tps - 1) for r, _, tps, *_ in RULE]
    errors += [
        abs(r / float(prefill(r, 4).prefill_seconds) / tps - 1)
        for r, tps in ((512, 428.1), (4096, 1265.3))
    ]
    assert len(errors) == 17
    assert max(errors) < 0.011
    assert np.mean(errors) < 0.005


def test_eight_slices_at_512_rows_take_the_serial_path():
    assert prefill(512, 8).prefill_seconds == prefill(512, 1).prefill_seconds


SIZES = {
    "linear": (2560 + 1536 + 24, 1536, 8704, 4352),
    "full": (3072 + 2 * 256, 1536, 8704, 4352),
}
"""Columns of in, out, gate_up and down a rank, each times 5120 (per-rank shapes at TP=4)."""


def device_chain(rows, slices):
    """The chain on the device written out: every layer, its two sites at g, k, b."""
    row = 115.625e-6 * rows / (5120 * (48 * sum(SIZES["linear"]) + 16 * sum(SIZES["full"])))
    fixed, wire = 0.404e-3, rows * 10240 / 22.73e9
    total = rows * 2.10337e-6 + 0.0248758 + fixed + wire
    for kind, count in (("linear", 48), ("full", 16)):
        columns = SIZES[kind]
        mixer = (
            rows * 10.33463e-6 if kind == "linear" else rows * 4.10574e-6 + rows**2 * 3.99059e-10
        )
        layer = mixer + rows * (1.7888e-7 + 3.39962e-7) + 0.359793e-3
        layer += row * 5120 * (columns[0] + columns[2])
        for out in (columns[1], columns[3]):
            g, b = row * 5120 * out / slices, wire / slices
            layer += g + fixed + b + (slices - 1) * max(g, fixed, b)
        total += count * layer
    return total


@given(st.integers(512, 8000), st.sampled_from([1, 2, 3, 4, 5, 8]))
@settings(max_examples=60, deadline=None)
def test_the_wall_is_the_later_of_the_device_chain_and_host_issue(rows, slices):
    if rows // slices < 96:
        slices = 1
    stage = prefill(rows, slices).prefill_stage
    host = {t.name: t for t in stage.terms}["host_issue_wait"]
    device = float(stage.seconds - host.seconds)
    assert device == pytest.approx(device_chain(rows, slices), rel=1e-4)
    issued = 64 * 5.50778e-3 * (1 + 2 / 6 / 64) + (128 * slices + 1) * 1.58058e-3
    assert host.busy_seconds == pytest.approx(issued, rel=1e-5)
    # After the last issue come the last site's end and the head, at most a layer and 24.9 ms.
    assert max(device, issued) <= float(stage.seconds) <= max(device, issued) + 0.025 + device / 64


@given(
    st.integers(1, 6000),
    st.integers(0, 9),
    st.integers(1, 40),
    st.sampled_from([1, 2, 4]),
    st.dictionaries(
        st.sampled_from(
            [
                "host_issue_seconds_per_layer",
                "host_issue_seconds_per_collective",
                "device_fixed_seconds_per_layer",
                "collective_fixed_seconds",
                "projection_seconds_per_row_layer",
                "link_bandwidth_bytes_per_second",
                "recurrence_time_factor",
            ]
        ),
        st.floats(-1.5, 1.5),
    ),
)
@settings(max_examples=80, deadline=None)
def test_the_replay_is_the_closed_form_on_any_machine(rows, slices, layers, pp, powers):
    base = with_layers(("ascend910a", "qwen3.8-27b"), max(layers, pp))
    known = base.chip_document().quantities
    hardware = {
        f"hardware.{name}": min(known[name].value * 10**power, known[name].maximum)
        for name, power in powers.items()
    }
    tp = {"plan.tp_prefill": 4, "plan.tp_decode": 4, "plan.pp_prefill": pp, "plan.pp_decode": pp}
    s = base.replacing(
        {"workload.prompt_tokens": rows, "plan.slices": slices, "workload.clusters_total": 64,
         **tp, **hardware}
    )  # fmt: skip
    result = evaluate(s)
    for share in result.prefill_shares:
        one = result.machine.prefill_pass(share)
        events = one.replay()
        stage = {t.name: float(t.seconds) for t in one.stage().terms}
        wall = sum(stage.values()) - stage["stage_hand_over"]
        assert events.seconds == pytest.approx(wall, rel=1e-9)
        last = max(event.end for event in one.replay(-1, layers + 1).events)
        assert last == pytest.approx(events.seconds)


def test_a_window_of_the_replay_is_that_part_of_the_whole():
    one = evaluate(scenario(ASCEND, plan__slices=4))
    passes = one.machine.prefill_pass(one.prefill_shares[0])
    whole, window = passes.replay(), passes.replay(3, 5)
    assert window.seconds == whole.seconds
    assert window.events == tuple(e for e in whole.events if 3 <= e.layer < 5)
    by_lane = {lane: [e for e in whole.events if e.lane == lane] for lane in LANES}
    for events in by_lane.values():
        assert all(a.end <= b.start + 1e-12 for a, b in pairwise(events))
    links = [e for e in window.events if e.lane == "link" and e.what == "mlp.down"]
    assert [e.slice for e in links] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {e.what for e in window.events if e.layer == 3} >= {"full.out", "full_attention"}


def test_one_slice_overlaps_nothing():
    one = evaluate(scenario(ASCEND, plan__slices=1))
    events = one.machine.prefill_pass(one.prefill_shares[0]).replay().events
    device = [e for e in events if e.lane != "host"]
    assert all(a.end <= b.start + 1e-12 for a, b in pairwise(device))


@given(st.integers(96, 8000), st.sampled_from([1, 2, 4]), st.integers(1, 63))
@settings(max_examples=30, deadline=None)
def test_more_layers_take_longer(rows, slices, layers):
    fewer, more = (
        float(
            evaluate(
                with_layers(("ascend910a", "qwen3.8-27b"), n).replacing(
                    {"workload.prompt_tokens": rows, "plan.slices": slices, "plan.tp_prefill": 4}
                )
            ).prefill_stage.seconds
        )
        for n in (layers, layers + 1)
    )
    assert more > fewer


def test_slices_broadcast_as_single_evaluations_do():
    counts = np.arange(1, 65)
    swept = np.broadcast_to(prefill(8000, counts).prefill_stage.seconds, counts.shape)
    alone = [float(prefill(8000, int(s)).prefill_stage.seconds) for s in counts]
    assert swept == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize(
    ("word", "left"),
    [
        ("whole", 2.2023),
        ("without_broadcast_rows", 1.4105),
        ("without_rank1_update", 1.6252),
        ("without_both", 0.8424),
    ],
)
def test_ablations_are_within_a_percent(word, left):
    result = prefill(4433, 1, kernel__recurrence=word)
    term = {t.name: t for t in result.prefill_stage.terms}["gated_delta"]
    assert term.seconds == pytest.approx(left, rel=0.003)
    groups = result.machine.numbers.recurrence_groups(word)
    assert float(term.seconds) == pytest.approx(48 * 4433 * sum(map(float, groups.values())))


@pytest.mark.parametrize("fields", [{"recurrence_time_factor": 0.41}])
def test_cube_operations_give_what_the_report_expects(fields):
    """Section 5.5: 0.9 s of recurrence, about 1700 tokens/s by the device-synced wall."""
    hardware = {f"hardware.{name}": value for name, value in fields.items()}
    result = evaluate(scenario(ASCEND, workload__prompt_tokens=4433).replacing(hardware))
    profile = result.machine.synced_profile(result.prefill_shares[0])
    assert profile.phases["gated_delta"] == pytest.approx(0.9, rel=0.01)
    assert 4433 / float(profile.wall_seconds) == pytest.approx(1690, rel=0.01)


@pytest.mark.parametrize("layers", [16, 32, 48, 64])
def test_decode_steps_follow_layers_and_rows(layers):
    base = with_layers(("ascend910a", "qwen3.8-27b"), layers)
    step = {
        rows: float(
            evaluate(
                base.replacing(
                    {"plan.tp_decode": 4, "plan.tp_prefill": 4, "plan.micro_batch_decode": rows,
                     "workload.prompt_tokens": 1023, "workload.output_tokens": 2}
                )
            ).decode_stage.seconds
        )
        for rows in (1, 8)
    }  # fmt: skip
    assert step[1] == pytest.approx(2.5e-3 + layers * 1.685e-3, rel=0.01)
    assert step[8] - step[1] == pytest.approx(layers * 7 * 11.6e-6, rel=0.1)


# Section 5.2, one device-synced profile: rows, gated delta, full attention, projections, norms.
PROFILE = [
    (1105, 0.5493, 0.1359, 0.1623, 0.0312),
    (2223, 1.1005, 0.2331, 0.3243, 0.0507),
    (4433, 2.2009, 0.4722, 0.5471, 0.0693),
]


def test_phases_follow_the_slopes_of_the_profile():
    def terms(rows):
        return {t.name: float(t.busy_seconds) for t in prefill(rows, 1).prefill_stage.terms}

    low, high = terms(1105), terms(4433)
    for name, column in (("full_attention", 2), ("projections", 3)):
        slope = PROFILE[2][column] - PROFILE[0][column]
        assert high[name] - low[name] == pytest.approx(slope, rel=1e-4)
    assert high["norms"] - low["norms"] == pytest.approx(0.0693 - 0.0312, rel=1e-3)
    for rows, delta, *_ in PROFILE:
        assert terms(rows)["gated_delta"] == pytest.approx(delta, rel=0.005)


def test_a_pass_reduces_129_times_and_slicing_adds_128_calls_a_slice():
    stage = {t.name: t for t in prefill(4096, 4).prefill_stage.terms}
    payload = 4096 * 5120 * 2
    assert stage["all_reduce_bytes"].busy_seconds == pytest.approx(129 * payload / 22.73e9)
    assert stage["all_reduce_bytes"].bytes == 129 * payload * 2 * 3 / 4
    assert stage["collectives_fixed"].busy_seconds == pytest.approx((128 * 4 + 1) * 0.404e-3)
    serial = {t.name: t for t in prefill(4096, 1).prefill_stage.terms}
    assert serial["collectives_fixed"].seconds == pytest.approx(129 * 0.404e-3)
    for name in ("all_reduce_bytes", "projections"):
        assert serial[name].seconds == pytest.approx(float(serial[name].busy_seconds))


@pytest.mark.parametrize(("rows", "megabytes"), [(1105, 11.32), (2223, 22.76), (4433, 45.39)])
def test_payloads_are_those_of_the_report(rows, megabytes):
    result = prefill(rows, 1)
    work = result.machine.work(result.prefill_shares[0], np.float64(4))
    assert float(work.payload_bytes(np.float64(rows))) / 1e6 == pytest.approx(megabytes, abs=5e-3)
    assert float(work.all_reduces) == 129


@pytest.mark.parametrize("slices", [2, 4, 8])
def test_what_slicing_hides_is_byte_term_and_product(slices):
    """Paced by the fixed term a site hides all but one slice of its product and of its bytes."""
    stage = {t.name: t for t in prefill(800 * slices, slices).prefill_stage.terms}
    assert stage["collectives_fixed"].seconds == pytest.approx(
        float(stage["collectives_fixed"].busy_seconds), rel=0.5
    )
    exposed, worked = (
        float(getattr(stage["all_reduce_bytes"], what)) for what in ("seconds", "busy_seconds")
    )
    assert exposed == pytest.approx(worked * (128 / slices + 1) / 129)
    assert 0 < stage["projections"].seconds < stage["projections"].busy_seconds


def test_the_slowest_stage_of_a_site_is_exposed_in_every_slice():
    slow = prefill(4096, 4, hardware__link_bandwidth_bytes_per_second=1e9)
    stage = {t.name: t for t in slow.prefill_stage.terms}
    assert stage["all_reduce_bytes"].seconds == pytest.approx(
        float(stage["all_reduce_bytes"].busy_seconds)
    )
    assert stage["collectives_fixed"].seconds == pytest.approx(129 * 0.404e-3)


def test_decode_streams_the_ranks_weights_and_issues_129_collectives():
    result = evaluate(scenario(ASCEND, workload__prompt_tokens=512, workload__output_tokens=128))
    stage = {t.name: t for t in result.decode_stage.terms}
    weights = 2 * (26893352960 / 4 - 62080 * 5120)
    head = 2 * 62080 * 5120
    assert stage["output_head"].bytes == head
    assert stage["weight_streaming"].bytes == pytest.approx(weights - head, rel=1e-4)
    for name in ("weight_streaming", "output_head"):
        assert stage[name].seconds == pytest.approx(float(stage[name].bytes) / 300e9)
        assert stage[name].macs == stage[name].bytes / 2
    assert stage["collectives_fixed"].seconds == pytest.approx(129 * 0.404e-3)
    assert stage["collectives_bytes"].seconds == pytest.approx(129 * 10240 / 22.73e9)
    assert stage["collectives_bytes"].bytes == 129 * 10240 * 1.5
    cache = 16 * ((512 + 64) * 1024 + 2 * 6 * 256 * 2)
    assert stage["kv_cache"].bytes == cache
    assert stage["kv_cache"].seconds == pytest.approx(cache / 1148e9)
    assert stage["kv_cache"].macs == 16 * 2 * 576 * 6 * 256
    state = 48 * 2 * 12 * 128 * 128 * 4
    assert stage["recurrent_state"].bytes == state
    assert stage["recurrent_state"].macs == 48 * 3 * 12 * 128 * 128
    assert stage["recurrent_state"].seconds == pytest.approx(state / 1148e9)
    assert stage["decode_issue"].seconds == pytest.approx(64 * 0.231074e-3)
    assert stage["gated_delta"].seconds == pytest.approx(48 * 10.33463e-6)
    assert stage["full_attention"].seconds == pytest.approx(16 * 4.10574e-6)
    assert stage["norms"].seconds == pytest.approx(64 * 1.7888e-7)
    assert stage["other_operators"].seconds == pytest.approx(64 * 3.39962e-7)
    assert stage["stage_hand_over"].seconds == 0


def test_a_decode_step_of_three_requests_streams_weights_once_and_the_rest_three_times():
    def terms(requests):
        stage = evaluate(scenario(ASCEND, plan__micro_batch_decode=requests)).decode_stage
        return {t.name: (float(t.bytes), float(t.macs)) for t in stage.terms}

    one, three = terms(1), terms(3)
    for name in ("kv_cache", "recurrent_state", "collectives_bytes"):
        assert three[name] == tuple(3 * value for value in one[name])
    assert three["weight_streaming"] == (one["weight_streaming"][0], 3 * one["weight_streaming"][1])


def test_a_prefill_pass_of_two_requests_holds_two_states_and_twice_the_rows():
    def terms(requests):
        stage = evaluate(scenario(ASCEND, plan__micro_batch_prefill=requests)).prefill_stage
        return {t.name: t for t in stage.terms}

    one, two = terms(1), terms(2)
    for name in ("gated_delta", "full_attention"):
        assert two[name].bytes == 2 * one[name].bytes
        assert two[name].macs == 2 * one[name].macs
    for name in ("gated_delta", "full_attention", "projections", "all_reduce_bytes", "norms"):
        assert two[name].busy_seconds == pytest.approx(2 * float(one[name].busy_seconds))


def test_many_requests_make_decode_compute_bound():
    s = scenario(ASCEND, plan__micro_batch_decode=512, hardware__peak_macs_per_second_fp16=1e13)
    term = {t.name: t for t in evaluate(s).decode_stage.terms}["weight_streaming"]
    assert term.seconds == pytest.approx(float(term.macs) / 1e13)
    assert term.macs == 512 * term.bytes / 2


@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 8000))
@settings(max_examples=30, deadline=None)
def test_split_phases_scale_with_the_cards_and_the_rest_does_not(tp, rows):
    def terms(cards):
        result = prefill(rows, 1, plan__tp_prefill=cards, plan__tp_decode=cards)
        return {t.name: float(t.busy_seconds) for t in result.prefill_stage.terms}

    at, measured = terms(tp), terms(4)
    for name in ("gated_delta", "full_attention", "projections"):
        assert at[name] * tp == pytest.approx(4 * measured[name])
    for name in ("norms", "other_operators", "device_fixed"):
        assert at[name] == measured[name]
    ring = ((tp - 1) / tp) / (3 / 4)
    assert at["all_reduce_bytes"] == pytest.approx(measured["all_reduce_bytes"] * ring)


def test_one_card_issues_no_collectives():
    single = {"plan.tp_prefill": 1, "plan.tp_decode": 1}
    result = prefill(64, "rule", **single)
    terms = {t.name: t for t in result.prefill_stage.terms}
    assert terms["all_reduce_bytes"].seconds == terms["collectives_fixed"].seconds == 0
    assert float(result.machine.slices()) == 1
    assert terms["host_issue_wait"].busy_seconds == pytest.approx(5.50778e-3 * (64 + 2 / 6))
    decode = {t.name: t for t in result.decode_stage.terms}
    assert decode["collectives_fixed"].seconds == decode["collectives_bytes"].seconds == 0


def test_prefill_counts_the_work_of_every_phase():
    terms = {t.name: t for t in prefill(1024, 1).prefill_stage.terms}
    rank = 26893352960 / 4 - 62080 * 5120
    assert terms["projections"].macs == pytest.approx(1024 * rank, rel=1e-4)
    assert terms["projections"].bytes == pytest.approx(2 * rank + 64 * 1024 * 5120 * 2, rel=1e-4)
    assert terms["gated_delta"].macs == 48 * 3 * 1024 * 12 * 128 * 128
    assert terms["gated_delta"].bytes == 48 * 2 * 12 * 128 * 128 * 4
    assert terms["full_attention"].macs == 16 * 2 * 1024 * 1024 * 6 * 256
    # Q and O of six heads, K and V of the one KV head that they share, each crossing once.
    assert terms["full_attention"].bytes == 16 * 1024 * (2 * 6 + 2 * 1) * 256 * 2


def test_pipeline_stages_hand_the_hidden_state_over():
    s = scenario(ASCEND, plan__pp_prefill=2, plan__pp_decode=2, workload__clusters_total=8)
    result = evaluate(s)
    decode = {t.name: t for t in result.decode_stage.terms}["stage_hand_over"]
    prefill_ = {t.name: t for t in result.prefill_stage.terms}["stage_hand_over"]
    assert decode.seconds == pytest.approx(1e-5 + 10240 / 22.73e9)
    assert prefill_.seconds == pytest.approx(1e-5 + 4096 * 10240 / 22.73e9)
    assert (decode.bytes, prefill_.bytes) == (10240, 4096 * 10240)


def test_the_host_issues_for_as_long_whatever_the_rows():
    for rows in (512, 4096):
        host = {t.name: t for t in prefill(rows, 4).prefill_stage.terms}["host_issue_wait"]
        assert host.busy_seconds == pytest.approx(5.50778e-3 * (64 + 2 / 6) + 1.58058e-3 * 513)
        # Even a pass bound by the device waits for its first operator to be issued.
        assert (host.seconds > 1e-3) == (rows == 512)


def test_waiting_for_the_host_binds_short_prompts_only():
    short, long = prefill(512, 4).prefill_stage, prefill(4096, 4).prefill_stage
    assert short.dominant_bound() == Bound.HOST
    assert long.dominant_bound() == Bound.INSTRUCTION_ISSUE


@given(scenarios((ASCEND,)))
@settings(max_examples=80, deadline=None)
def test_no_term_is_negative_and_none_exceeds_what_the_resource_worked(s):
    result = evaluate(s)
    for stage in (result.prefill_stage, result.decode_stage):
        for term in stage.terms:
            assert 0 <= term.seconds <= term.busy_seconds


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"workload.prompt_tokens": 511}, "512"),
        ({"workload.prompt_tokens": 4434}, "4433"),
        ({"plan.micro_batch_decode": 2}, "1 request"),
        ({"plan.tp_prefill": 2, "plan.tp_decode": 2}, "4 cards"),
        ({"plan.tp_prefill": 2}, "4 cards"),
        ({"plan.tp_decode": 8}, "4 cards"),
    ],
)
def test_notes_tell_where_a_plan_leaves_the_measurements(changes, word):
    for rows in (512, 4433):
        assert prefill(rows).machine.notes() == ()
    (note,) = evaluate(scenario(ASCEND, **changes)).machine.notes()
    assert word in note


@pytest.mark.parametrize(
    ("slices", "ceiling", "exported"),
    [("rule", 4, "4"), ("rule", 8, "8"), ("rule", 0, "1"), (0, 4, "1"), (1, 4, "1"), (6, 4, "6")],
)
def test_the_engine_setting_writes_off_as_one(slices, ceiling, exported):
    s = scenario(ASCEND, plan__slices=slices, plan__max_slices=ceiling)
    assert evaluate(s).machine.environment() == {"QWEN_COMM_OVERLAP_SLICES": exported}


def test_roofs_and_link_are_the_documents_numbers():
    machine = evaluate(scenario(ASCEND)).machine
    peak = 30 * 16**3 * 0.9e9
    assert [r.peak_macs_per_second for r in machine.roofs] == [peak, peak]
    assert [r.bandwidth_bytes_per_second for r in machine.roofs] == [1148e9, 300e9]
    assert machine.link.bandwidth_bytes_per_second == 22.73e9
    assert machine.capacity.memory_bytes == 32e9


def test_routes_to_the_price_of_an_all_reduce_are_kept_apart():
    prices = {p.route: p for p in prefill(2223, 1).machine.collective_prices}
    assert [float(p.fixed_seconds) for p in prices.values()] == [1.848e-3, 1.6e-3, 0.404e-3]
    assert prices["engine"].seconds == pytest.approx(2850e-6, rel=1e-3)
    single = prefill(2223, 1, plan__tp_prefill=1, plan__tp_decode=1).machine
    assert [float(p.seconds) for p in single.collective_prices] == [0, 0, 0]


def test_the_deployment_has_one_launch_line_a_rank():
    s = scenario(ASCEND, workload__prompt_tokens=2048, workload__output_tokens=8)
    told = evaluate(s).machine.deployment()
    assert (told["tp_world"], len(told["launch"])) == (4, 4)
    for rank, line in enumerate(told["launch"]):
        assert f"--tp-world 4 --tp-rank {rank} --device {rank} " in line
        assert "QWEN_COMM_OVERLAP_SLICES=4 " in line
        assert "--token-ids-file ids_2048.txt --max-new-tokens 8 " in line
        assert line.endswith("--nccl-id-path hccl_p2048_s2.id")
    assert told["slice_rule"] == {
        "max_slices": 4,
        "min_rows_per_slice": 1024,
        "serial_below_rows_per_slice": 96,
        "slices": 2,
    }
    code = told["prepare"][1].split('"')[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(done.stdout.split(",")) == 2048
    assert len(told["notes"]) == 2
    assert "instead of 2" in told["notes"][1]
    batch = scenario(ASCEND, plan__micro_batch_decode=2, plan__pp_decode=2, plan__pp_prefill=2)
    assert len(evaluate(batch).machine.deployment()["notes"]) == 3
