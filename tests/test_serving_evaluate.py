"""Pools, objectives and latency against THInfer Eqs 16, 17 and 20-22, recomputed by hand."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.costs.terms import Bound
from explorer.serving.evaluate import OBJECTIVES, bottleneck_name, evaluate
from tests.scenarios import (
    ASCEND,
    MT3000,
    PRESETS,
    random_plans,
    roomy_scenarios,
    scenario,
    scenarios,
)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_feasible_and_their_objectives_are_equations_21_and_22(preset):
    s = scenario(preset)
    result, plan = evaluate(s), s.plan
    assert result.feasible
    tokens = plan.pp_decode * plan.micro_batch_decode * s.workload.output_tokens
    t_p, t_d = float(result.prefill_seconds), float(result.decode_seconds)
    shared = plan.placement == "shared"
    seconds = t_p + t_d if shared else max(t_p / plan.dp_prefill, t_d)
    clusters = plan.tp_decode * plan.pp_decode
    if not shared:
        clusters += plan.dp_prefill * plan.pp_prefill + int(result.buffer_clusters)
    assert result.objective("eq22") == pytest.approx(clusters * seconds)
    per_token = result.objective("cluster_seconds_per_token")
    assert per_token == pytest.approx(clusters * seconds / tokens)
    pools = s.workload.clusters_total // clusters
    assert result.objective("throughput") == pytest.approx(pools * tokens / seconds)


@given(roomy_scenarios())
@settings(max_examples=60, deadline=None)
def test_roomy_plans_mostly_fit(s):
    """What guards the tests that look at feasible plans only."""
    broken = {c.name for c in evaluate(s).constraints if not c.kept}
    assert broken <= {"decode_memory", "prefill_memory", "buffer", "clusters"}


@given(scenarios() | roomy_scenarios())
@settings(max_examples=200, deadline=None)
def test_batch_pipeline_and_pools_follow_their_definitions(s):
    result, plan, work = evaluate(s), s.plan, s.workload
    batch = plan.pp_decode * plan.micro_batch_decode
    n = -(-batch // plan.micro_batch_prefill)
    assert result.batch == batch
    assert result.prefill_micro_batches == n
    t_p = (n + plan.pp_prefill - 1) * float(result.prefill_stage.seconds)
    t_d = (work.output_tokens - 1) * plan.pp_decode * float(result.decode_stage.seconds)
    assert result.prefill_seconds == pytest.approx(t_p, rel=1e-12)
    assert result.decode_seconds == pytest.approx(t_d, rel=1e-12)
    decode = plan.tp_decode * plan.pp_decode
    if plan.placement == "shared":
        clusters, seconds, buffer = decode, t_p + t_d, 0
    else:
        buffer = plan.buffer_clusters
        if buffer == "auto":
            buffer = math.ceil(float(result.buffer_kv_bytes) / float(result.limit_bytes))
        clusters = plan.dp_prefill * plan.pp_prefill * plan.tp_prefill + decode + buffer
        seconds = max(t_p / plan.dp_prefill, t_d)
    pools = work.clusters_total // clusters
    assert (result.buffer_clusters, result.clusters, result.pools) == (buffer, clusters, pools)
    assert result.idle_clusters == work.clusters_total - pools * clusters
    assert result.batch_seconds == pytest.approx(seconds, rel=1e-12)
    if result.feasible:
        tokens = batch * work.output_tokens
        assert result.objective("eq22") == pytest.approx(clusters * seconds, rel=1e-12)
        per_token = result.objective("cluster_seconds_per_token")
        assert per_token == pytest.approx(clusters * seconds / tokens, rel=1e-12)
        assert result.objective("throughput") == pytest.approx(pools * tokens / seconds, rel=1e-12)
    else:
        assert all(np.isnan(result.objective(name)) for name in OBJECTIVES)


@given(scenarios())
@settings(max_examples=150, deadline=None)
def test_latency_follows_its_definitions(s):
    result, plan, work = evaluate(s), s.plan, s.workload
    stage = float(result.prefill_stage.seconds)
    tail = 0.0
    if plan.placement == "disaggregated":
        shape, kv = s.model_shape(), {"fp32": 4, "fp16": 2, "int8": 1}[s.precision.kv]
        link = result.machine.link
        payload = {
            "full_attention": work.prompt_tokens
            * 2
            * max(shape.kv_heads / plan.tp_prefill, 1)
            * shape.head_dim
            * kv,
            "linear_attention": shape.state_bytes_per_layer / plan.tp_prefill,
        }
        message = float(link.latency_seconds) + plan.micro_batch_prefill * max(
            payload[kind] for kind in shape.kinds
        ) / float(link.bandwidth_bytes_per_second)
        layers = -(-shape.layers // plan.pp_prefill)
        tail = message + min(message, stage / layers)
    ttft = plan.pp_prefill * stage + tail
    assert result.ttft_seconds == pytest.approx(ttft, rel=1e-12)
    if work.output_tokens == 1:
        assert np.isnan(result.tpot_seconds)
        assert result.decode_seconds == 0
        assert result.total_seconds == result.ttft_seconds
    else:
        tpot = plan.pp_decode * float(result.decode_stage.seconds)
        assert result.tpot_seconds == pytest.approx(tpot, rel=1e-12)
        assert result.total_seconds == pytest.approx(
            ttft + (work.output_tokens - 1) * tpot, rel=1e-12
        )


@given(scenarios())
@settings(max_examples=200, deadline=None)
def test_times_are_the_sum_of_their_terms(s):
    result = evaluate(s)
    for terms, seconds in (
        (result.prefill_terms(), result.prefill_seconds),
        (result.decode_terms(), result.decode_seconds),
    ):
        assert sum(float(term.seconds) for term in terms) == pytest.approx(
            float(seconds), rel=1e-12
        )
        assert all(term.seconds >= 0 for term in terms)


def test_filling_the_pipeline_is_a_term_of_its_own():
    result = evaluate(scenario(MT3000, plan__pp_prefill=5))
    fill = {term.name: term for term in result.prefill_terms()}["pipeline_fill"]
    assert fill.seconds == pytest.approx(4 * float(result.prefill_stage.seconds))
    assert fill.bound_by == Bound.PIPELINE_FILL


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_group_bytes_of_a_decode_all_reduce_are_equation_17(s):
    hidden, size = s.model_shape().hidden_size, {"fp32": 4, "fp16": 2}[s.precision.compute]
    expected = s.plan.micro_batch_decode * 2 * hidden * size * (s.plan.tp_decode - 1)
    assert evaluate(s).tp_all_reduce_bytes == expected


def test_decode_works_at_mean_context():
    """N tokens on a prompt S see S + N / 2 tokens on average."""
    long = evaluate(scenario(MT3000, workload__prompt_tokens=512, workload__output_tokens=128))
    same = evaluate(scenario(MT3000, workload__prompt_tokens=570, workload__output_tokens=12))
    assert long.decode_stage.seconds == same.decode_stage.seconds


# Buffer


@pytest.mark.parametrize(
    ("preset", "cache"),
    [
        (MT3000, 640 * 819200),
        ("mt3000-llama2-70b", 640 * 327680),
        ("mt3000-llama2-7b", 640 * 524288),
    ],
)
def test_automatic_buffer_holds_one_batch_at_maximum_context(preset, cache):
    result = evaluate(scenario(preset))
    batch = int(result.batch)
    assert result.buffer_kv_bytes == batch * cache
    assert result.buffer_clusters == -(-batch * cache // 20_000_000_000)


def test_a_buffer_of_whole_clusters_is_taken_as_it_is_and_must_hold_one_micro_batch():
    cache = 640 * 819200
    for clusters in (0, 1, 2, 3):
        result = evaluate(scenario(MT3000, plan__buffer_clusters=clusters))
        assert result.buffer_clusters == clusters
        holds = 64 * cache <= clusters * 20e9
        names = [c.name for c in result.constraints if not c.kept]
        assert names == ([] if holds else ["buffer"])
        assert result.buffer_micro_batches == min(clusters * 20e9 // (64 * cache), 4)


def test_a_buffer_of_exactly_one_micro_batch_is_enough():
    cache = 64 * 640 * 819200
    exact = scenario(MT3000, plan__buffer_clusters=2, hardware__memory_bytes=cache / 2)
    (constraint,) = (c for c in evaluate(exact).constraints if c.name == "buffer")
    assert constraint.kept
    assert constraint.excess == 0
    less = exact.replacing({"hardware.memory_bytes": cache / 2 - 1})
    (constraint,) = (c for c in evaluate(less).constraints if c.name == "buffer")
    assert constraint.excess == 2


def test_a_hybrid_models_buffer_also_holds_its_recurrent_state():
    s = scenario(MT3000, model="qwen3.8-27b", workload__max_context_tokens=1000)
    cache = 1000 * 2 * 4 * 256 * 16 * 2 + 48 * 48 * 128 * 128 * 4
    assert evaluate(s).request_cache_bytes == cache


# Placement


def test_shared_placement_has_no_buffer_no_transfer_and_adds_both_times():
    result = evaluate(scenario(ASCEND))
    assert (result.buffer_clusters, result.buffer_kv_bytes) == (0, 0)
    assert result.kv_transfer_tail_seconds == 0
    assert result.batch_seconds == result.prefill_seconds + result.decode_seconds
    assert result.clusters == 4
    assert result.objective("eq22") == 4 * result.batch_seconds
    assert result.ttft_seconds == result.prefill_seconds


def test_shared_placement_needs_one_plan_for_both_phases():
    def broken(**changes):
        result = evaluate(scenario(ASCEND, workload__clusters_total=64, **changes))
        return {c.name: float(c.value) for c in result.constraints if not c.kept}

    assert broken() == {}
    assert broken(plan__tp_prefill=2) == {"placement": 1}
    assert broken(plan__pp_prefill=2) == {"placement": 1}
    assert broken(plan__dp_prefill=2) == {"placement": 1}
    assert broken(plan__tp_prefill=2, plan__pp_prefill=2, plan__dp_prefill=2) == {"placement": 3}


def test_shared_prefill_keeps_the_caches_of_the_whole_batch():
    s = scenario(ASCEND, plan__micro_batch_decode=8, plan__micro_batch_prefill=2)
    result = evaluate(s)
    assert result.prefill_memory.kv_bytes == result.decode_memory.kv_bytes
    assert result.prefill_memory.total_bytes == result.decode_memory.total_bytes


# Precision


def work_of(terms, skip=()):
    return {t.name: (float(t.macs), float(t.bytes)) for t in terms if t.name not in skip}


@pytest.mark.parametrize("preset", PRESETS)
def test_kv_precision_moves_the_cache_and_nothing_else(preset):
    half, byte = (evaluate(scenario(preset, precision__kv=kv)) for kv in ("fp16", "int8"))
    for memory in ("prefill_memory", "decode_memory"):
        wide, narrow = getattr(half, memory), getattr(byte, memory)
        assert narrow.kv_bytes == wide.kv_bytes / 2
        for row in ("params_bytes", "state_bytes", "overhead_bytes", "limit_bytes"):
            assert getattr(narrow, row) == getattr(wide, row)
        assert wide.total_bytes - narrow.total_bytes == narrow.kv_bytes
    assert work_of(half.prefill_stage.terms) == work_of(byte.prefill_stage.terms)
    skip = ("attention", "kv_cache")
    assert work_of(half.decode_stage.terms, skip) == work_of(byte.decode_stage.terms, skip)


def test_kv_at_eight_bits_reads_half_the_cache_in_decode():
    shape = scenario(MT3000).model_shape()
    vectors = 64 * 10 * 2 * shape.hidden_size / 4 * 2

    def cached(kv):
        terms = evaluate(scenario(MT3000, precision__kv=kv)).decode_stage.terms
        return float({t.name: t for t in terms}["attention"].bytes) - vectors

    assert cached("int8") == cached("fp16") / 2
    # Bytes read and bytes budgeted are one figure: 40 / 4 layers, 64 requests, 576 of 640 tokens.
    memory = evaluate(scenario(MT3000)).decode_memory
    assert cached("fp16") == memory.kv_bytes / 4 * 576 / 640


def test_kv_at_eight_bits_doubles_the_tokens_that_fit():
    def most_tokens(kv):
        contexts = np.arange(640, 8192)
        s = scenario(
            MT3000, precision__kv=kv, workload__max_context_tokens=contexts,
            workload__clusters_total=5000,
        )  # fmt: skip
        memory = evaluate(s).decode_memory
        free = float(memory.limit_bytes) - float((memory.total_bytes - memory.kv_bytes)[0])
        most = contexts[memory.excess_bytes <= 0].max()
        return most, free

    half, free = most_tokens("fp16")
    byte, same = most_tokens("int8")
    per_token = 64 * 4 * 819200 / 16
    assert free == same
    assert half == free // per_token
    assert byte == free // (per_token / 2)
    assert byte in (2 * half, 2 * half + 1)


@pytest.mark.parametrize("preset", PRESETS)
def test_weight_precision_leaves_the_cache_alone(preset):
    half, byte = (evaluate(scenario(preset, precision__weights=w)) for w in ("fp16", "int8"))
    for memory in ("prefill_memory", "decode_memory"):
        wide, narrow = getattr(half, memory), getattr(byte, memory)
        assert narrow.params_bytes == wide.params_bytes / 2
        for row in ("kv_bytes", "state_bytes", "overhead_bytes"):
            assert getattr(narrow, row) == getattr(wide, row)
    assert half.request_cache_bytes == byte.request_cache_bytes


def test_storage_precision_never_changes_macs_or_peaks():
    def macs(**changes):
        result = evaluate(scenario(MT3000, **changes))
        stages = (result.prefill_stage, result.decode_stage)
        return [float(t.macs) for stage in stages for t in stage.terms]

    assert macs() == macs(precision__weights="int8", precision__kv="int8")
    assert macs() == macs(precision__compute="fp32")


# Capacity and limits


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("pool", ["prefill", "decode"])
def test_exactly_at_capacity_fits_and_one_byte_over_does_not(preset, pool):
    s = scenario(
        preset, plan__buffer_clusters=99, workload__clusters_total=5000,
        hardware__usable_memory_fraction=1.0,
    )  # fmt: skip
    memory = getattr(evaluate(s), f"{pool}_memory")
    needed = int(memory.total_bytes)
    assert needed == memory.total_bytes

    def kept(capacity):
        result = evaluate(s.replacing({"hardware.memory_bytes": capacity}))
        return {c.name: bool(c.kept) for c in result.constraints}[f"{pool}_memory"]

    assert kept(needed)
    assert not kept(needed - 1)
    assert kept(needed + 1)


def test_what_does_not_fit_has_no_speed():
    s = scenario("mt3000-llama2-70b", plan__pp_prefill=1, plan__tp_decode=1, plan__pp_decode=1)
    result = evaluate(s)
    assert not result.feasible
    assert {c.name for c in result.constraints if not c.kept} == {
        "prefill_memory", "decode_memory"
    }  # fmt: skip
    assert all(np.isnan(result.objective(name)) for name in OBJECTIVES)
    assert bottleneck_name(int(result.bottleneck)) == "capacity"


@pytest.mark.parametrize("name", ["ttft", "tpot"])
def test_latency_limits_are_inclusive(name):
    value = float(getattr(evaluate(scenario(MT3000)), f"{name}_seconds"))

    def kept(limit):
        result = evaluate(scenario(MT3000, **{f"limits.{name}_seconds": limit}))
        return bool(result.feasible), [c.name for c in result.constraints if not c.kept]

    assert kept(value) == (True, [])
    assert kept(math.nextafter(value, 0)) == (False, [name])
    assert kept(2 * value) == (True, [])


def test_no_time_between_tokens_keeps_any_limit_on_it():
    s = scenario(MT3000, workload__output_tokens=1, limits__tpot_seconds=0.0001)
    assert evaluate(s).feasible


def test_context_and_clusters_are_constraints_with_inclusive_limits():
    assert evaluate(scenario(MT3000, workload__max_context_tokens=640)).feasible
    short = evaluate(scenario(MT3000, workload__max_context_tokens=639))
    assert [(c.name, c.excess) for c in short.constraints if not c.kept] == [("context", 1)]
    needed = int(evaluate(scenario(MT3000)).clusters)
    assert evaluate(scenario(MT3000, workload__clusters_total=needed)).pools == 1
    few = evaluate(scenario(MT3000, workload__clusters_total=needed - 1))
    assert few.pools == 0
    assert [c.name for c in few.constraints if not c.kept] == ["clusters"]


def test_constraints_are_always_the_same_ones_in_the_same_order():
    names = (
        "context", "prefill_memory", "decode_memory", "buffer", "clusters", "placement", "tile",
        "ttft", "tpot", "budget",
    )  # fmt: skip
    for preset in PRESETS:
        assert tuple(c.name for c in evaluate(scenario(preset)).constraints) == names


# Measured times and bottleneck


def test_typed_times_replace_the_modelled_ones():
    s = scenario(MT3000, measured__prefill_seconds=12.5, measured__decode_seconds=3.25)
    result = evaluate(s)
    assert result.prefill_seconds == pytest.approx(12.5, rel=1e-15)
    assert result.decode_seconds == pytest.approx(3.25, rel=1e-15)
    assert result.batch_seconds == pytest.approx(max(12.5 / 4, 3.25))
    assert bottleneck_name(int(result.bottleneck)) == "decode:measured"
    assert result.prefill_stage.seconds == pytest.approx(12.5 / (32 + 1))


def test_a_typed_decode_time_is_nothing_for_one_output_token():
    s = scenario(MT3000, workload__output_tokens=1, measured__decode_seconds=3.0)
    assert evaluate(s).decode_seconds == 0


@pytest.mark.parametrize(("prefill", "decode", "pool"), [(8, 1, "prefill"), (1, 8, "decode")])
def test_bottleneck_is_the_pool_that_takes_longer(prefill, decode, pool):
    s = scenario(
        MT3000,
        measured__prefill_seconds=prefill,
        measured__decode_seconds=decode,
        plan__dp_prefill=1,
    )
    assert bottleneck_name(int(evaluate(s).bottleneck)) == f"{pool}:measured"


def test_bottleneck_weighs_prefill_by_its_pipelines():
    times = {"measured.prefill_seconds": 6.0, "measured.decode_seconds": 4.0}
    one = evaluate(scenario(MT3000, plan__dp_prefill=1, **times))
    two = evaluate(scenario(MT3000, plan__dp_prefill=2, **times))
    assert bottleneck_name(int(one.bottleneck)) == "prefill:measured"
    assert bottleneck_name(int(two.bottleneck)) == "decode:measured"


def test_bottlenecks_are_named():
    assert bottleneck_name(200) == "capacity"
    assert bottleneck_name(int(Bound.HOST)) == "prefill:host"
    assert bottleneck_name(100 + int(Bound.WEIGHTS)) == "decode:weights"
    assert bottleneck_name(100) == "decode:compute"
    result = evaluate(scenario(ASCEND, workload__prompt_tokens=512, workload__output_tokens=1))
    assert bottleneck_name(int(result.bottleneck)) == "prefill:instruction_issue"


# Best number of prefill pipelines


@given(
    st.floats(0.01, 50), st.floats(0.01, 50), st.integers(1, 8),
    st.sampled_from(["eq22", "cluster_seconds_per_token"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_best_prefill_pipelines_are_the_floor_or_ceiling_of_the_ratio(t_p, t_d, pp, objective):
    assume(t_p / t_d <= 60)
    pipelines = np.arange(1, 65)
    s = scenario(
        MT3000,
        measured__prefill_seconds=t_p,
        measured__decode_seconds=t_d,
        plan__dp_prefill=pipelines,
        plan__pp_prefill=pp + 1,
        workload__clusters_total=5000,
    )
    values = evaluate(s).objective(objective)
    ratio = t_p / t_d
    close = {max(math.floor(ratio), 1), max(math.ceil(ratio), 1)}
    best = min(values[dp - 1] for dp in close)
    assert best == pytest.approx(np.nanmin(values), rel=1e-12)


# Arrays


def flattened(result, count):
    values = {
        **{name: result.objective(name) for name in OBJECTIVES},
        "prefill_total": result.prefill_memory.total_bytes,
        "prefill_params": result.prefill_memory.params_bytes,
        "prefill_kv": result.prefill_memory.kv_bytes,
        "decode_total": result.decode_memory.total_bytes,
        "decode_kv": result.decode_memory.kv_bytes,
        "decode_state": result.decode_memory.state_bytes,
        "buffer_kv": result.buffer_kv_bytes,
        "buffer_clusters": result.buffer_clusters,
        "all_reduce": result.tp_all_reduce_bytes,
        "batch": result.batch,
        "micro_batches": result.prefill_micro_batches,
        "prefill": result.prefill_seconds,
        "decode": result.decode_seconds,
        "ttft": result.ttft_seconds,
        "tpot": result.tpot_seconds,
        "total": result.total_seconds,
        "clusters": result.clusters,
        "pools": result.pools,
        "idle": result.idle_clusters,
        "feasible": result.feasible,
        "bottleneck": result.bottleneck,
        **{c.name: c.excess for c in result.constraints},
    }
    return {name: np.broadcast_to(value, (count,)) for name, value in values.items()}


@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_a_hundred_thousand_plans_at_once_equal_each_plan_alone(preset):
    count, alone = 100_000, 1000
    base = scenario(preset, limits__ttft_seconds=60.0, limits__tpot_seconds=1.0)
    plans = random_plans(base, count, seed=20261)
    together = flattened(evaluate(base.replacing(plans)), count)
    feasible = np.flatnonzero(together["feasible"])
    assert feasible.size > 100
    random = np.random.default_rng(7)
    chosen = np.concatenate([random.choice(feasible, alone // 2), random.choice(count, alone // 2)])
    exact = ("feasible", "bottleneck", "clusters", "pools", "batch", "buffer_clusters")
    for index in chosen:
        one = base.replacing({path: int(values[index]) for path, values in plans.items()})
        single = flattened(evaluate(one), 1)
        for name, values in single.items():
            if name in exact:
                assert values[0] == together[name][index], (name, one.plan)
            else:
                np.testing.assert_allclose(
                    together[name][index], values[0], rtol=1e-12, err_msg=name
                )


def test_results_keep_the_shape_of_what_they_depend_on():
    s = scenario(
        MT3000,
        plan__tp_decode=np.asarray([1, 2, 4]).reshape(3, 1, 1),
        plan__pp_prefill=np.asarray([2, 4]).reshape(1, 2, 1),
        plan__dp_prefill=np.asarray([1, 2, 3, 4]),
    )
    result = evaluate(s)
    assert result.decode_stage.seconds.shape == (3, 1, 1)
    assert result.prefill_memory.total_bytes.shape == (1, 2, 1)
    assert result.objective("eq22").shape == (3, 2, 4)


def test_unknown_objectives_are_an_error():
    with pytest.raises(KeyError):
        evaluate(scenario()).objective("speed")


def test_a_transfer_longer_than_a_layers_compute_shows_its_second_hop_for_that_layer_only():
    s = scenario(MT3000, measured__prefill_seconds=0.033)
    result = evaluate(s)
    # 32 + 1 stage times of 1 ms, 20 layers a stage; 8 prompts of 512 tokens leave 20480 B each.
    message = 1e-5 + 8 * 512 * 20480 / 5e9
    assert result.prefill_stage.seconds == pytest.approx(1e-3)
    assert result.kv_transfer_tail_seconds == pytest.approx(message + 1e-3 / 20)
    assert result.ttft_seconds == pytest.approx(2 * 1e-3 + message + 1e-3 / 20)
    slow = evaluate(s.replacing({"measured.prefill_seconds": 330.0}))
    assert slow.kv_transfer_tail_seconds == pytest.approx(2 * message)
