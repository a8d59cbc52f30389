"""The service in time: against the steady state, an independent model, and what is conserved."""

import itertools
import math

import numpy as np
import pytest

from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.serving.cache_ledger import CacheLedger
from explorer.serving.evaluate import evaluate
from explorer.serving.service_times import ServiceTimes
from explorer.serving.simulation import simulate
from explorer.serving.simulation_plan import SimulationPlan, misfits
from explorer.serving.simulation_results import Detail
from explorer.serving.steady_state import steady_batch_seconds
from explorer.serving.trace import Trace
from tests.pipeline_model import Model, numbers_of
from tests.scenarios import ASCEND, MT3000, random_plans, scenario

SATURATED = {"simulation.arrivals": "saturated"}
ROOMY = {
    "hardware.memory_bytes": 1e13,
    "workload.clusters_total": 100_000,
    "workload.max_context_tokens": 2048,
    "plan.buffer_clusters": 2000,
}
MOST_REQUESTS = 5_000
COLUMNS = ("request", "prefill_seconds", "first_token_seconds", "decode_seconds", "end_seconds")


def run(changes, preset=MT3000, **options):
    return simulate(preset_scenario(preset).replacing(changes), **options)


def rows_of(s, trace=None):
    """Return a run and its requests, one array a column, by number."""
    blocks = []
    result = simulate(s, trace, reader=blocks.append)
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in COLUMNS}
    order = np.argsort(columns["request"], kind="stable")
    return result, {name: values[order] for name, values in columns.items()}


def random_trace(random, requests, rate):
    gaps = random.exponential(1 / rate, requests)
    gaps[0] = 0.0
    prompts, outputs = random.integers(1, 1000, requests), random.integers(1, 60, requests)
    return Trace("trace", np.cumsum(gaps), prompts, outputs)


def feasible_plans(preset, seed, count):
    """Return random plans that fit and whose steady state does not take long to reach."""
    base = preset_scenario(preset).replacing({**SATURATED, "workload.clusters_total": 20_000})
    drawn = random_plans(base, 4000, seed)
    del drawn["workload.clusters_total"]
    every = base
    for path, values in drawn.items():
        every = every.unchecked({path: values})
    found = []
    for index in np.flatnonzero(evaluate(every).feasible):
        s = base.replacing({path: values[index].item() for path, values in drawn.items()})
        if SimulationPlan(s, evaluate(s), None).requests <= MOST_REQUESTS:
            found.append(s)
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} plans fit")


# The steady state -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "seed"),
    [(MT3000, 11), ("mt3000-llama2-70b", 12), (ASCEND, 13), ("mt3000-llama2-7b", 14)],
)
def test_saturated_throughput_is_the_steady_state_for_random_plans(preset, seed):
    for s in feasible_plans(preset, seed, 15):
        speed, e = simulate(s).speed, evaluate(s)
        plan, stage = s.plan, float(e.prefill_stage.seconds)
        n = math.ceil(plan.pp_decode * plan.micro_batch_decode / plan.micro_batch_prefill)
        decode = (s.workload.output_tokens - 1) * plan.pp_decode * float(e.decode_stage.seconds)
        filled = (n + plan.pp_prefill - 1) * stage
        if plan.placement == "shared":
            steady = eq21 = filled + decode
        else:
            steady = max(n * stage / plan.dp_prefill, decode)
            eq21 = max(filled / plan.dp_prefill, decode)
        tokens = plan.pp_decode * plan.micro_batch_decode * s.workload.output_tokens
        pools = s.workload.clusters_total // int(e.clusters)
        assert speed.tokens_per_second == pytest.approx(pools * tokens / steady, rel=0.01)
        assert speed.closed_form_tokens_per_second == pytest.approx(pools * tokens / steady)
        assert abs(speed.closed_form_gap) < 0.01
        assert speed.eq21_gap == pytest.approx(eq21 / steady - 1, abs=0.02 * eq21 / steady)


def test_steady_state_takes_no_longer_than_equation_21():
    for preset in (MT3000, ASCEND):
        base = preset_scenario(preset)
        plans = random_plans(base, 200, 5)
        for path, values in plans.items():
            base = base.unchecked({path: values})
        e = evaluate(base)
        assert (steady_batch_seconds(e) <= e.batch_seconds * (1 + 1e-12)).all()


@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_one_request_takes_what_evaluate_says_of_an_idle_pool(preset):
    changes = {"simulation.requests": 1, "simulation.arrivals": "constant"}
    s = preset_scenario(preset).replacing(changes)
    result, e = simulate(s), evaluate(s)
    assert result.ttft.p50 == pytest.approx(float(e.ttft_seconds), rel=1e-12)
    assert result.tpot.p50 == pytest.approx(float(e.tpot_seconds), rel=1e-9)
    assert result.end_to_end.p50 == pytest.approx(float(e.total_seconds), rel=1e-9)
    assert result.seconds == result.end_to_end.largest


def test_one_output_token_is_there_when_its_prefill_is():
    s = scenario(workload__output_tokens=1, simulation__requests=1)
    result = simulate(s)
    assert result.tpot.count == 0
    assert math.isnan(result.tpot.p50)
    assert result.end_to_end.p50 == result.ttft.p50


# Against an independent model -------------------------------------------------------------------


def random_case(seed):
    random = np.random.default_rng(seed)
    s = preset_scenario(MT3000).replacing(
        {
            **ROOMY,
            "plan.dp_prefill": int(random.integers(1, 5)),
            "plan.pp_prefill": int(random.integers(1, 5)),
            "plan.pp_decode": int(random.integers(1, 5)),
            "plan.micro_batch_prefill": int(random.integers(1, 7)),
            "plan.micro_batch_decode": int(random.integers(1, 7)),
            "simulation.policy": str(random.choice(["bounded", "unbounded", "no_buffer"])),
            "simulation.buffer_micro_batches": int(random.integers(1, 4)),
            "simulation.waiting_seconds": float(random.choice([0.001, 0.5, 3, 20])),
            "simulation.unfilled": str(random.choice(["as_full", "by_size"])),
            "simulation.grouping": str(random.choice(["arrival_order", "by_length"])),
        }
    )
    pools = int(random.integers(1, 4))
    s = s.replacing({"workload.clusters_total": pools * int(evaluate(s).clusters)})
    # Lengths differ, so that no two things happen at one moment whose order nothing decides.
    return s, pools, random_trace(random, 80, 10 ** random.uniform(-1, 2))


@pytest.mark.parametrize("seed", range(40))
def test_every_request_is_where_an_independent_model_has_it(seed):
    s, pools, trace = random_case(seed)
    times = ServiceTimes(evaluate(s))
    numbers = numbers_of(s, pools)
    columns = (trace.arrival_seconds, trace.prompt_tokens, trace.output_tokens)
    requests = list(zip(*(column.tolist() for column in columns), strict=True))
    model = Model(numbers, requests, times.prefill, times.decode)
    result, found = rows_of(s, trace)
    for name, attribute in (
        ("prefill_seconds", "prefill"),
        ("first_token_seconds", "first"),
        ("decode_seconds", "start"),
        ("end_seconds", "end"),
    ):
        expected = [getattr(request, attribute) for request in model.requests]
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-9, err_msg=name)
    assert result.requests == 80
    if numbers.places:
        assert model.most_ahead <= numbers.places


def shared_ends(s, trace, times):
    """Return ends of requests on one group of cards, stage by stage and round by round."""
    plan, ends = s.plan, {}
    requests = list(
        zip(
            trace.arrival_seconds.tolist(),
            trace.prompt_tokens.tolist(),
            trace.output_tokens.tolist(),
            range(trace.arrival_seconds.size),
            strict=True,
        )
    )
    free, batch = 0.0, plan.pp_decode * plan.micro_batch_decode
    while requests:
        deadline = max(free, requests[0][0] + s.simulation.waiting_seconds)
        taken = [request for request in requests if request[0] <= deadline][:batch]
        requests = requests[len(taken) :]
        full = len(taken) == batch or not requests
        start = max(free, taken[-1][0]) if full else deadline
        # Rows: micro-batches; columns: when each stage is left, with nothing between stages.
        left = [[start] * (plan.pp_prefill + 2)]
        for first in range(0, len(taken), plan.micro_batch_prefill):
            group = taken[first : first + plan.micro_batch_prefill]
            seconds, _ = times.prefill(len(group), max(request[1] for request in group))
            before, row = left[-1], [left[-1][1]]
            for stage in range(1, plan.pp_prefill + 1):
                done = row[-1] + seconds
                row.append(max(done, before[stage + 1]) if stage < plan.pp_prefill else done)
            left.append([*row, row[-1]])
            for request in group:
                ends[request[3]] = row[-1]
        clock = left[-1][plan.pp_prefill]
        groups = []
        for first in range(0, len(taken), plan.micro_batch_decode):
            group = taken[first : first + plan.micro_batch_decode]
            longest = max(request[2] for request in group)
            prompt = max(request[1] for request in group)
            if longest > 1:
                groups.append([longest - 1, times.decode(len(group), prompt, longest), group])
        step = 0
        while any(group[0] > step for group in groups):
            clock += plan.pp_decode * max(group[1] for group in groups if group[0] > step)
            step += 1
            for group in groups:
                ends.update((request[3], clock) for request in group[2] if request[2] - 1 == step)
        free = clock
    return [ends[number] for number in range(len(ends))]


@pytest.mark.parametrize("seed", range(12))
def test_cards_that_are_shared_prefill_a_batch_and_then_decode_it(seed):
    random = np.random.default_rng(seed)
    stages = int(random.integers(1, 4))
    s = preset_scenario(ASCEND).replacing(
        {
            "hardware.memory_bytes": 1e13,
            "workload.clusters_total": 4 * stages,
            "plan.pp_prefill": stages,
            "plan.pp_decode": stages,
            "plan.micro_batch_prefill": int(random.integers(1, 5)),
            "plan.micro_batch_decode": int(random.integers(1, 5)),
            "simulation.waiting_seconds": float(random.choice([0.01, 2, 30])),
            "simulation.unfilled": str(random.choice(["as_full", "by_size"])),
        }
    )
    trace = random_trace(random, 60, 10 ** random.uniform(-2, 1))
    result, found = rows_of(s, trace)
    expected = shared_ends(s, trace, ServiceTimes(evaluate(s)))
    np.testing.assert_allclose(found["end_seconds"], expected, rtol=1e-9)
    assert result.buffer is None
    assert result.caches[0].place == "cards"


def test_micro_batches_go_round_the_decode_ring_as_through_its_stages():
    """The clock of rounds against every step on every stage, within one round."""
    random = np.random.default_rng(3)
    stages, steps = 4, 50
    for _ in range(20):
        seconds = random.uniform(0.5, 2.0, stages).tolist()
        left = [0.0] * stages
        ends = dict.fromkeys(range(stages), 0.0)
        for _ in range(steps):
            for work in range(stages):
                for stage in range(stages):
                    ends[work] = left[stage] = max(ends[work], left[stage]) + seconds[work]
        pace = stages * max(seconds)
        for end in ends.values():
            assert steps * pace - pace <= end <= steps * pace + pace


# What is conserved ------------------------------------------------------------------------------


CONSERVED = [
    {},
    {"simulation.policy": "unbounded", "simulation.rate_requests_per_second": 12.0},
    {"simulation.policy": "no_buffer"},
    {**SATURATED, "simulation.buffer_micro_batches": 1},
    {"simulation.arrivals": "bursts", "simulation.burst_requests": 300},
    {"simulation.arrivals": "constant", "plan.micro_batch_prefill": 5},
]


@pytest.mark.parametrize("changes", CONSERVED)
@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_bytes_admitted_are_released_or_resident_at_every_instant(preset, changes, monkeypatch):
    noted = []
    move = CacheLedger._move

    def checked(self, seconds, **changes):
        move(self, seconds, **changes)
        held = (self.prefill, self.buffer, self.decode)
        assert min(held) >= 0
        assert self.admitted == self.released + sum(held)
        noted.append(seconds)

    monkeypatch.setattr(CacheLedger, "_move", checked)
    result = run({"simulation.requests": 2000, **changes}, preset)
    assert len(noted) > 100
    occupancy = result.occupancy
    np.testing.assert_allclose(
        occupancy.admitted_bytes, occupancy.released_bytes + occupancy.resident_bytes
    )
    assert occupancy.resident_bytes[-1] == 0
    assert (np.diff(occupancy.seconds) > 0).all()
    assert occupancy.seconds.size <= Detail().occupancy_points


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4])
def test_prefill_never_runs_ahead_by_more_than_the_buffer_takes(micro_batches):
    """What is prefilled and not yet decoded, from the rows alone."""
    changes = {"simulation.buffer_micro_batches": micro_batches, "simulation.requests": 3000}
    for arrivals in ("saturated", "bursts"):
        s = scenario(simulation__arrivals=arrivals, workload__clusters_total=31)
        s = s.replacing(changes)
        result, rows = rows_of(s)
        tail = float(evaluate(s).kv_transfer_tail_seconds)
        taken, pulled = rows["first_token_seconds"] - tail, rows["decode_seconds"]
        # A decode that starts with the last of its transfer was pulled when that began.
        pulled = np.where(np.isclose(pulled, rows["first_token_seconds"]), taken, pulled)
        moments = np.round(np.concatenate([taken, pulled]), 6)
        # At one moment what is pulled leaves first: the buffer takes what it made room for.
        order = np.lexsort((np.repeat([1, 0], taken.size), moments))
        ahead = np.cumsum(np.repeat([1, -1], taken.size)[order])
        assert result.buffer.peak_micro_batches <= micro_batches
        assert result.buffer.capacity_micro_batches == micro_batches
        assert ahead.max() <= micro_batches * 64


def test_backpressure_pauses_prefill_and_no_bound_does_not():
    bounded = run(SATURATED).buffer
    unbounded = run({**SATURATED, "simulation.policy": "unbounded"}).buffer
    assert bounded.paused_seconds > 0
    assert bounded.peak_bytes <= bounded.limit_bytes
    assert bounded.out_of_memory_seconds is None
    assert unbounded.paused_seconds == 0
    assert unbounded.peak_bytes > unbounded.limit_bytes


def test_without_a_bound_the_buffer_grows_at_the_rate_of_the_closed_form():
    s = scenario(MT3000, simulation__arrivals="saturated", simulation__policy="unbounded")
    result, e = simulate(s, detail=Detail(occupancy_points=400)), evaluate(s)
    batch, lines = float(e.batch), s.plan.dp_prefill
    made = batch / float(e.prefill_micro_batches * e.prefill_stage.seconds / lines)
    growth = (made - batch / float(e.decode_seconds)) * float(e.request_cache_bytes)
    assert growth > 0
    occupancy = result.occupancy
    last_prefill = np.flatnonzero(occupancy.prefill_bytes > 0)[-1]
    middle = slice(last_prefill // 4, last_prefill - 2)
    seconds, held = occupancy.seconds[middle], occupancy.buffer_bytes[middle]
    slope, _ = np.polyfit(seconds, held, 1)
    assert slope == pytest.approx(growth, rel=0.01)
    line = np.polyval(np.polyfit(seconds, held, 1), seconds)
    assert np.abs(held - line).max() < 1.5 * 64 * float(e.request_cache_bytes)
    moment = result.buffer.out_of_memory_seconds
    assert moment == pytest.approx(float(e.limit_bytes * e.buffer_clusters) / growth, rel=0.15)
    assert result.out_of_memory
    assert not result.holds


def test_where_prefill_is_the_slower_nothing_piles_up():
    s = scenario(plan__dp_prefill=1, simulation__arrivals="saturated")
    s = s.replacing({"simulation.policy": "unbounded"})
    assert simulate(s).buffer.peak_micro_batches <= 1


def test_a_buffer_of_one_micro_batch_never_deadlocks():
    random = np.random.default_rng(2)
    for _ in range(40):
        sizes = random.integers(1, 9, 5).tolist()
        changes = {
            **ROOMY,
            "plan.micro_batch_prefill": sizes[0],
            "plan.micro_batch_decode": sizes[1],
            "plan.pp_decode": sizes[2],
            "plan.dp_prefill": sizes[3],
            "plan.pp_prefill": sizes[4],
            "simulation.arrivals": str(random.choice(["saturated", "poisson", "bursts"])),
            "simulation.buffer_micro_batches": 1,
            "simulation.requests": 137,
        }
        s = preset_scenario(MT3000).replacing(changes)
        s = s.replacing({"workload.clusters_total": 2 * int(evaluate(s).clusters)})
        result = simulate(s)
        assert result.requests == 137
        assert result.occupancy.resident_bytes[-1] == 0
        assert result.buffer.peak_micro_batches <= 1


@pytest.mark.parametrize("changes", CONSERVED)
@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_littles_law_holds_at_the_observed_rate(preset, changes):
    result = run({"simulation.requests": 3000, **changes}, preset)
    held = result.observed_rate * result.end_to_end.mean
    assert result.mean_in_system == pytest.approx(held, rel=1e-6)
    assert result.observed_rate == pytest.approx(result.requests / result.seconds)


def test_littles_law_holds_for_requests_of_unequal_length():
    s = scenario(workload__max_context_tokens=2048, plan__micro_batch_decode=16)
    result = simulate(s, random_trace(np.random.default_rng(5), 1500, 3.0))
    held = result.observed_rate * result.end_to_end.mean
    assert result.mean_in_system == pytest.approx(held, rel=1e-6)


def test_littles_law_holds_for_the_buffer_alone():
    """Requests in the buffer over time, against how long each of them waited there."""
    s = scenario(
        simulation__requests=4000,
        simulation__waiting_seconds=5.0,
        workload__clusters_total=31,
    )
    result, e = simulate(s), evaluate(s)
    buffer = next(use for use in result.caches if use.place == "buffer")
    mean = buffer.mean_bytes / float(e.request_cache_bytes)
    waited = result.waiting.buffer.total_seconds / result.requests
    assert mean == pytest.approx(result.observed_rate * waited, rel=0.01)


def test_stages_are_busy_for_the_work_they_were_given():
    result = run({**SATURATED, "simulation.policy": "bounded"})
    s = preset_scenario(MT3000)
    e, launched = evaluate(s), result.requests / s.plan.micro_batch_prefill
    prefill = [stage for stage in result.stages if stage.pool == "prefill"]
    assert len(prefill) == s.plan.dp_prefill * s.plan.pp_prefill
    busy = sum(stage.busy_fraction for stage in prefill) * result.seconds
    work = launched * s.plan.pp_prefill * float(e.prefill_stage.seconds)
    assert busy == pytest.approx(work, rel=1e-9)
    decode = [stage for stage in result.stages if stage.pool == "decode"]
    steps = result.requests / s.plan.micro_batch_decode * (s.workload.output_tokens - 1)
    assert len(decode) == s.plan.pp_decode
    assert decode[0].busy_fraction * result.seconds == pytest.approx(
        steps * float(e.decode_stage.seconds), rel=1e-9
    )
    for stage in result.stages:
        shares = (stage.busy_fraction, stage.blocked_fraction, stage.idle_fraction)
        assert min(shares) >= 0
        assert sum(shares) == pytest.approx(1)


# Order and chance -------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_result_and_another_does_not():
    s = scenario(simulation__requests=1500, simulation__seed=7)
    first, second = rows_of(s), rows_of(s)
    assert first[0].ttft == second[0].ttft
    for name in COLUMNS:
        np.testing.assert_array_equal(first[1][name], second[1][name])
    other = rows_of(s.replacing({"simulation.seed": 8}))
    assert (first[1]["end_seconds"] != other[1]["end_seconds"]).any()


def test_more_buffer_never_slows_a_saturated_plan():
    for changes in ({}, {"plan.dp_prefill": 3}, {"plan.micro_batch_prefill": 48}):
        rates = [
            run({**SATURATED, **changes, "simulation.buffer_micro_batches": held}).speed
            for held in (1, 2, 4)
        ]
        tokens = [speed.tokens_per_second for speed in rates]
        assert all(b >= a * 0.999 for a, b in itertools.pairwise(tokens))
    without = run({**SATURATED, "simulation.policy": "no_buffer"}).speed.tokens_per_second
    assert without < tokens[0]


def test_a_higher_rate_never_shortens_the_time_in_the_system():
    """Above the steady state waiting grows as fast as the closed form says."""
    found = [
        run({"simulation.rate_requests_per_second": rate, "simulation.requests": 6000})
        for rate in (7.0, 8.5, 9.5, 12.0)
    ]
    times = [result.end_to_end.mean for result in found]
    assert times == sorted(times)
    assert [result.keeps_up for result in found] == [True, False, False, False]
    for result in found[1:]:
        assert result.backlog_growth == pytest.approx(result.speed.load - 1, rel=0.1)


def test_sorting_by_length_wastes_less_padding():
    random = np.random.default_rng(0)
    s = preset_scenario(MT3000).replacing({**ROOMY, "plan.micro_batch_decode": 8})
    s = s.replacing({"workload.clusters_total": int(evaluate(s).clusters)})
    trace = random_trace(random, 2000, 1e6)
    sorted_ = s.replacing({"simulation.grouping": "by_length"})
    busy = [
        next(stage for stage in simulate(one, trace).stages if stage.pool == "prefill")
        for one in (s, sorted_)
    ]
    seconds = [simulate(one, trace).seconds for one in (s, sorted_)]
    work = [stage.busy_fraction * time for stage, time in zip(busy, seconds, strict=True)]
    assert work[1] < 0.9 * work[0]


def test_unfilled_micro_batches_may_cost_by_their_size():
    changes = {"simulation.requests": 1}
    full = run(changes)
    own = run({**changes, "simulation.unfilled": "by_size"})
    alone = evaluate(scenario(plan__micro_batch_prefill=1))
    assert own.ttft.p50 == pytest.approx(float(alone.ttft_seconds), rel=1e-12)
    assert own.ttft.p50 < full.ttft.p50


def test_pools_share_one_queue():
    """Two pools serve twice the rate of one, and never worse than each alone."""
    rate = 3.0
    one = run({"workload.clusters_total": 31, "simulation.rate_requests_per_second": rate})
    two = run({"workload.clusters_total": 62, "simulation.rate_requests_per_second": 2 * rate})
    assert (one.pools, two.pools) == (1, 2)
    assert two.speed.requests_per_second == pytest.approx(2 * rate, rel=0.05)
    assert two.ttft.p99 <= one.ttft.p99 * 1.05


# Service times ----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", [MT3000, "mt3000-llama2-70b", ASCEND])
def test_service_times_are_what_evaluate_says_of_these_lengths(preset):
    s = preset_scenario(preset).replacing({"simulation.unfilled": "by_size"})
    random = np.random.default_rng(1)
    times = ServiceTimes(evaluate(s))
    for _ in range(12):
        prompt, output = int(random.integers(1, 5000)), int(random.integers(2, 900))
        size = int(random.integers(1, 9))
        e = evaluate(
            s.unchecked(
                {
                    "workload.prompt_tokens": prompt,
                    "workload.output_tokens": output,
                    "plan.micro_batch_prefill": size,
                    "plan.micro_batch_decode": size,
                }
            )
        )
        stage, tail = times.prefill(size, prompt)
        assert stage == pytest.approx(float(e.prefill_stage.seconds), rel=1e-12)
        assert tail == pytest.approx(float(e.kv_transfer_tail_seconds), rel=1e-12)
        step = times.decode(size, prompt, output)
        assert step == pytest.approx(float(e.decode_stage.seconds), rel=1e-12)


def test_measured_times_replace_the_models():
    measured = {"measured.prefill_seconds": 350.0, "measured.decode_seconds": 40.0}
    speed = run({**SATURATED, **measured}).speed
    stage = 350.0 / 33
    assert speed.tokens_per_second == pytest.approx(2 * 256 * 128 / max(8 * stage, 40.0), rel=0.01)


# Pictures and refusals --------------------------------------------------------------------------


def test_the_gantt_is_consistent():
    detail = Detail(micro_batches=60, gantt_start_seconds=200.0)
    result = run({**SATURATED, "simulation.buffer_micro_batches": 1}, detail=detail)
    assert {span.kind for span in result.spans} == {"prefill", "blocked", "decode"}
    rows = {}
    for span in result.spans:
        assert span.end_seconds > span.start_seconds >= 200
        rows.setdefault((span.pool, span.pipeline, span.stage), []).append(span)
    for pool in ("prefill", "decode"):
        shown = {span.micro_batch for span in result.spans if span.pool == pool}
        assert len(shown) == detail.micro_batches
    for spans in rows.values():
        for before, after in itertools.pairwise(sorted(spans, key=lambda s: s.start_seconds)):
            assert after.start_seconds >= before.end_seconds - 1e-9
    assert run(SATURATED, detail=Detail(micro_batches=0)).spans == ()


def test_histograms_count_every_request():
    waiting = run({"simulation.requests": 2500}).waiting
    for histogram in (waiting.queue, waiting.blocked, waiting.buffer):
        assert histogram.counts.sum() == 2500
        assert histogram.edges_seconds.size == histogram.counts.size + 1


def test_what_does_not_fit_is_refused_by_name():
    s = scenario(workload__clusters_total=4)
    assert [constraint.name for constraint in misfits(s)] == ["clusters"]
    with pytest.raises(InputError, match="does not fit"):
        simulate(s)


def test_a_plan_without_buffer_clusters_fits_only_without_a_buffer():
    s = scenario(plan__buffer_clusters=0)
    assert [constraint.name for constraint in misfits(s)] == ["buffer"]
    without = s.replacing({"simulation.policy": "no_buffer", **SATURATED})
    assert misfits(without) == ()
    assert simulate(without).speed.closed_form_tokens_per_second > 0


def test_goodput_counts_what_keeps_both_limits():
    s = scenario(simulation__requests=3000)
    free = simulate(s)
    assert free.goodput.attained_fraction == 1
    middle = {"limits.ttft_seconds": free.ttft.p50, "limits.tpot_seconds": free.tpot.p50}
    found = simulate(s.replacing(middle)).goodput
    assert found.ttft_fraction == pytest.approx(0.5, abs=0.02)
    assert found.tpot_fraction == pytest.approx(0.5, abs=0.02)
    assert found.attained_fraction <= min(found.ttft_fraction, found.tpot_fraction)
    assert found.attained_fraction >= found.ttft_fraction + found.tpot_fraction - 1
    assert not found.attained
    assert simulate(s.replacing(SATURATED)).goodput is None
