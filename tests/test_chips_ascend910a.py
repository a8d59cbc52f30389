"""Ascend 910A against the measurements and closed form of Ascend TP Collective Overlap."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.costs.terms import Bound
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


def test_four_slices_take_the_same_wall_time_at_512_and_1024_rows():
    short, long = (float(prefill(rows, 4).prefill_seconds) for rows in (512, 1024))
    assert short == long
    assert short == pytest.approx(1.187, rel=0.005)


def test_eight_slices_at_512_rows_take_the_serial_path():
    assert prefill(512, 8).prefill_seconds == prefill(512, 1).prefill_seconds


def closed_form(rows, slices):
    host = 0.384 + 1.57e-3 * 128 * slices
    device = (
        0.068
        + 0.8087e-3 * rows
        - 0.101e-3 * (1 - 1 / slices) * rows
        + 0.404e-3 * 128 * (slices - 1)
    )
    return max(host, device)


@given(st.integers(512, 8000), st.sampled_from([1, 2, 3, 4, 5, 8]))
@settings(max_examples=60, deadline=None)
def test_the_wall_is_the_closed_form_race_of_host_and_device(rows, slices):
    if rows // slices < 96:
        slices = 1
    seconds = float(prefill(rows, slices).prefill_seconds)
    assert seconds == pytest.approx(closed_form(rows, slices), rel=1e-4)


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
    for name, column in (("gated_delta", 1), ("full_attention", 2), ("projections", 3)):
        slope = PROFILE[2][column] - PROFILE[0][column]
        assert high[name] - low[name] == pytest.approx(slope, rel=1e-4)
    assert high["norms"] - low["norms"] == pytest.approx(0.0693 - 0.0312, rel=1e-3)
    for rows, delta, *_ in PROFILE:
        assert terms(rows)["gated_delta"] == pytest.approx(delta, rel=0.005)


def test_a_pass_reduces_129_times_and_slicing_adds_128_calls_a_slice():
    stage = {t.name: t for t in prefill(4096, 4).prefill_stage.terms}
    payload = 4096 * 5120 * 2
    assert stage["all_reduce_bytes"].busy_seconds == pytest.approx(129 * payload / 22.7e9)
    assert stage["all_reduce_bytes"].bytes == 129 * payload * 2 * 3 / 4
    assert stage["extra_collectives"].seconds == pytest.approx(128 * 3 * 0.404e-3)
    serial = {t.name: t for t in prefill(4096, 1).prefill_stage.terms}
    assert serial["extra_collectives"].seconds == 0
    assert serial["all_reduce_bytes"].seconds == serial["all_reduce_bytes"].busy_seconds


def test_slicing_hides_no_more_than_what_there_is_to_hide():
    fast = prefill(4096, 32, hardware__overlap_seconds_per_row_layer=1e-3)
    stage = {t.name: t for t in fast.prefill_stage.terms}
    assert stage["projections"].seconds == stage["all_reduce_bytes"].seconds == 0
    assert stage["gated_delta"].seconds > 0
    some = {t.name: t for t in prefill(4096, 2).prefill_stage.terms}
    hidden = sum(
        float(some[name].busy_seconds - some[name].seconds)
        for name in ("projections", "all_reduce_bytes")
    )
    assert hidden == pytest.approx(0.101e-3 * 4096 / 2)


def test_decode_streams_the_ranks_weights_and_issues_129_collectives():
    result = evaluate(scenario(ASCEND, workload__prompt_tokens=512, workload__output_tokens=128))
    stage = {t.name: t for t in result.decode_stage.terms}
    weights = 2 * (26893352960 / 4 - 62080 * 5120)
    assert stage["weight_streaming"].bytes == pytest.approx(weights, rel=1e-4)
    assert stage["weight_streaming"].seconds == pytest.approx(weights / 300e9, rel=1e-4)
    assert stage["weight_streaming"].macs == stage["weight_streaming"].bytes / 2
    assert stage["collectives_fixed"].seconds == pytest.approx(129 * 0.404e-3)
    assert stage["collectives_bytes"].seconds == pytest.approx(129 * 10240 / 22.7e9)
    assert stage["collectives_bytes"].bytes == 129 * 10240 * 1.5
    cache = 16 * ((512 + 64) * 1024 + 2 * 6 * 256 * 2)
    assert stage["kv_cache"].bytes == cache
    assert stage["kv_cache"].seconds == pytest.approx(cache / 1148e9)
    assert stage["kv_cache"].macs == 16 * 2 * 576 * 6 * 256
    state = 48 * 2 * 12 * 128 * 128 * 4
    assert stage["recurrent_state"].bytes == state
    assert stage["recurrent_state"].macs == 48 * 3 * 12 * 128 * 128
    assert stage["recurrent_state"].seconds == pytest.approx(state / 1148e9)
    assert stage["decode_issue"].seconds == pytest.approx(64 * 0.26e-3)
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
    assert terms["all_reduce_bytes"].seconds == terms["extra_collectives"].seconds == 0
    assert float(result.machine.slices()) == 1
    assert result.prefill_seconds == pytest.approx(0.384, rel=1e-9)
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
    assert decode.seconds == pytest.approx(1e-5 + 10240 / 22.7e9)
    assert prefill_.seconds == pytest.approx(1e-5 + 4096 * 10240 / 22.7e9)
    assert (decode.bytes, prefill_.bytes) == (10240, 4096 * 10240)


def test_the_host_issues_for_as_long_whatever_the_rows():
    for rows in (512, 4096):
        host = {t.name: t for t in prefill(rows, 4).prefill_stage.terms}["host_issue_wait"]
        assert host.busy_seconds == pytest.approx(0.384 + 1.57e-3 * 512)
        assert (host.seconds > 0) == (rows == 512)


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
    assert machine.link.bandwidth_bytes_per_second == 22.7e9
    assert machine.capacity.memory_bytes == 32e9
