"""From what a run counted to its results."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.config.units import human
from explorer.costs.memory import MemoryBudget
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.gantt import Gantt
from explorer.serving.notes import plan_notes
from explorer.serving.pool import Pool
from explorer.serving.shared_pool import SharedPool
from explorer.serving.simulation_plan import SimulationPlan
from explorer.serving.simulation_results import (
    BufferUse,
    CacheUse,
    Detail,
    Goodput,
    Simulation,
    Speed,
    StageUse,
    Waiting,
)
from explorer.serving.steady_state import (
    eq21_tokens_per_second,
    steady_requests_per_second,
    steady_tokens_per_second,
)
from explorer.serving.tally import Tally

AnyPools = Sequence[Pool | SharedPool]


def summarised(
    plan: SimulationPlan,
    pools: AnyPools,
    tally: Tally,
    mean_in_system: float,
    gantt: Gantt,
    detail: Detail,
) -> Simulation:
    """Return the results of a finished run."""
    seconds = tally.last_seconds
    closed = _at_mean_lengths(plan, tally)
    keeps_up = plan.saturated or not (_overloaded(plan) or tally.trend.grows())
    speed = _speed(plan, tally, closed, keeps_up)
    caches = _caches(plan, pools, seconds)
    return Simulation(
        requests=tally.requests,
        pools=int(plan.evaluation.pools),
        simulated_pools=plan.pools,
        seconds=seconds,
        speed=speed,
        ttft=tally.ttft.quantiles(),
        tpot=tally.tpot.quantiles(),
        end_to_end=tally.end_to_end.quantiles(),
        waiting=Waiting(
            tally.queue.histogram(detail.histogram_bins),
            tally.blocked.histogram(detail.histogram_bins),
            tally.buffer.histogram(detail.histogram_bins),
        ),
        goodput=None if plan.saturated else _goodput(plan, tally, speed, closed),
        stages=_stages(pools[0], seconds),
        caches=caches,
        buffer=_buffer(plan, pools, seconds),
        mean_in_system=mean_in_system,
        backlog_growth=tally.trend.growth(),
        keeps_up=keeps_up,
        notes=_notes(plan, caches, tally, closed),
        spans=tuple(sorted(gantt.spans, key=lambda span: (span.start_seconds, span.stage))),
        occupancy=pools[0].ledger.occupancy(float(plan.evaluation.request_cache_bytes)),
    )


def _speed(plan: SimulationPlan, tally: Tally, closed: Evaluation, keeps_up: bool) -> Speed:
    whole = tally.last_seconds
    # A service that keeps up delivers what arrives: over a part of the run that is luck.
    settled = tally.rates() if plan.saturated or not keeps_up else tally.curve.whole_rates()
    measured = settled or (
        (tally.output_tokens / whole, tally.requests / whole) if whole > 0 else (0.0, 0.0)
    )
    pools = int(plan.evaluation.pools) / plan.pools
    return Speed(
        tokens_per_second=pools * measured[0],
        requests_per_second=pools * measured[1],
        closed_form_tokens_per_second=float(steady_tokens_per_second(closed)),
        eq21_tokens_per_second=float(eq21_tokens_per_second(closed)),
        offered_requests_per_second=tally.offered_rate,
        capacity_requests_per_second=float(steady_requests_per_second(closed)),
    )


def _overloaded(plan: SimulationPlan) -> bool:
    """Return whether as much is asked for as the steady state serves, whatever a run shows."""
    if plan.trace is not None or plan.scenario.simulation.unfilled == "by_size":
        return False
    return plan.rate >= float(steady_requests_per_second(plan.evaluation))


def _at_mean_lengths(plan: SimulationPlan, tally: Tally) -> Evaluation:
    if plan.trace is None or not tally.requests:
        return plan.evaluation
    prompt, output = _mean_lengths(tally)
    means = {"workload.prompt_tokens": prompt, "workload.output_tokens": output}
    return evaluate(plan.scenario.unchecked(means))


def _mean_lengths(tally: Tally) -> tuple[int, int]:
    """Return the mean prompt and output in whole tokens, at least 1."""
    sums = (tally.prompt_tokens, tally.output_tokens)
    prompt, output = (max(round(tokens / tally.requests), 1) for tokens in sums)
    return prompt, output


def _goodput(plan: SimulationPlan, tally: Tally, speed: Speed, closed: Evaluation) -> Goodput:
    limits = plan.scenario.limits
    tokens = tally.kept_tokens / tally.output_tokens
    return Goodput(
        ttft_limit_seconds=None if limits.ttft_seconds is None else float(limits.ttft_seconds),
        tpot_limit_seconds=None if limits.tpot_seconds is None else float(limits.tpot_seconds),
        idle_ttft_seconds=float(closed.ttft_seconds),
        idle_tpot_seconds=float(closed.tpot_seconds),
        attained_fraction=tally.kept / tally.requests,
        ttft_fraction=tally.kept_ttft / tally.requests,
        tpot_fraction=tally.kept_tpot / tally.requests,
        target_fraction=float(plan.scenario.simulation.attained_fraction),
        requests_per_second=speed.requests_per_second * tally.kept / tally.requests,
        tokens_per_second=speed.tokens_per_second * tokens,
    )


def _stages(pool: Pool | SharedPool, seconds: float) -> tuple[StageUse, ...]:
    if isinstance(pool, SharedPool):
        busy = (pool.line.busy_seconds + pool.ring.busy_seconds) / seconds
        return tuple(
            StageUse("cards", 1, stage, busy, 0.0) for stage in range(1, pool.ring.stages + 1)
        )
    prefill = tuple(
        StageUse("prefill", number, stage, line.busy_seconds / seconds, blocked / seconds)
        for number, line in enumerate(pool.lines, 1)
        for stage, blocked in enumerate(line.blocked_seconds, 1)
    )
    decode = pool.ring.busy_seconds / seconds
    return prefill + tuple(
        StageUse("decode", 1, stage, decode, 0.0) for stage in range(1, pool.ring.stages + 1)
    )


def _caches(plan: SimulationPlan, pools: AnyPools, seconds: float) -> tuple[CacheUse, ...]:
    e, chosen = plan.evaluation, plan.scenario.plan
    one = float(e.request_cache_bytes)
    # KV heads replicated over TP take more than a request's cache: room is in whole caches.
    decode_held = float(e.decode_memory.kv_bytes + e.decode_memory.state_bytes)
    decode_room = _room(e.decode_memory) / decode_held * float(e.batch) * one
    peaks = [max(pool.ledger.peaks[place] for pool in pools) * one for place in range(3)]
    areas = pools[0].ledger.areas
    means = [area / seconds * one for area in areas]
    if e.inputs.shared:
        held = max(peaks[0], peaks[2])
        return (CacheUse("cards", held, means[0] + means[2], decode_room),)
    prefill_room = _room(e.prefill_memory) * int(chosen.tp_prefill) * int(chosen.pp_prefill)
    rooms = (
        prefill_room * int(chosen.dp_prefill),
        float(e.buffer_clusters * e.limit_bytes),
        decode_room,
    )
    places = ("prefill", "buffer", "decode")
    return tuple(CacheUse(*values) for values in zip(places, peaks, means, rooms, strict=True))


def _room(budget: MemoryBudget) -> float:
    return float(budget.limit_bytes - budget.params_bytes - budget.overhead_bytes)


def _buffer(plan: SimulationPlan, pools: AnyPools, seconds: float) -> BufferUse | None:
    if plan.evaluation.inputs.shared:
        return None
    e = plan.evaluation
    peak = max(pool.ledger.peaks[1] for pool in pools)
    lines = [line for pool in pools if isinstance(pool, Pool) for line in pool.lines]
    paused = sum(line.blocked_seconds[-1] for line in lines) / len(lines)
    overflow = min(pool.ledger.overflow_seconds for pool in pools)
    return BufferUse(
        capacity_micro_batches=plan.buffer_micro_batches,
        peak_micro_batches=peak / int(plan.scenario.plan.micro_batch_decode),
        peak_bytes=peak * float(e.request_cache_bytes),
        limit_bytes=float(e.buffer_clusters * e.limit_bytes),
        paused_seconds=paused,
        paused_fraction=paused / seconds,
        out_of_memory_seconds=overflow if math.isfinite(overflow) else None,
    )


def _notes(
    plan: SimulationPlan, caches: tuple[CacheUse, ...], tally: Tally, closed: Evaluation
) -> tuple[str, ...]:
    """Return what a reader must know to read the numbers right."""
    notes = list(plan_notes(closed))
    if plan.scenario.simulation.unfilled == "by_size":
        # What is not full is then not priced as full.
        notes = [*closed.machine.notes(), *closed.machine.remarks()]
    if not plan.saturated and tally.arrivals_seconds < float(closed.batch_seconds):
        notes.append(
            f"The requests arrive within {human(tally.arrivals_seconds, 's')}, and a batch takes "
            f"{human(float(closed.batch_seconds), 's')}: too short a time to show whether a queue "
            "grows."
        )
    trace, measured = plan.trace, plan.scenario.measured
    if trace is not None:
        prompt, output = _mean_lengths(tally)
        lengths = f"{prompt:,} prompt and {output:,} output tokens"
        notes.append(f"The closed form is at the trace's mean lengths: {lengths}.")
        if trace.unused_columns:
            notes.append(f"Columns not used: {', '.join(trace.unused_columns)}.")
    if measured.prefill_seconds is not None or measured.decode_seconds is not None:
        notes.append("Measured times hold for every micro-batch, whatever its size and lengths.")
    if plan.evaluation.inputs.shared:
        if plan.scenario.simulation.policy != "bounded":
            notes.append("The same cards prefill and then decode: without a buffer no policy acts.")
        return tuple(notes)
    notes += _buffer_notes(plan)
    prefill = caches[0]
    if prefill.peak_bytes > prefill.limit_bytes:
        needed, room = human(prefill.peak_bytes, "B"), human(prefill.limit_bytes, "B")
        notes.append(
            f"Micro-batches in prefill need up to {needed} for whole caches, and its clusters have "
            f"room for {room}: what waits for the buffer cannot all stay there, as Eq. 13 counts "
            "one layer's cache."
        )
    return tuple(notes)


def _buffer_notes(plan: SimulationPlan) -> list[str]:
    chosen, clusters = plan.scenario.simulation, float(plan.evaluation.buffer_clusters)
    if chosen.policy == "no_buffer" and clusters > 0:
        idle = human(clusters, "clusters")
        return [
            f"Without a buffer, its {idle} a pool stand idle; plan.buffer_clusters=0 frees them."
        ]
    asked = chosen.buffer_micro_batches
    if chosen.policy == "bounded" and not isinstance(asked, str):
        held = int(plan.buffer_micro_batches)
        if held < asked:
            return [
                f"The buffer's clusters hold {held} micro-batches, fewer than the {asked} asked."
            ]
    return []
