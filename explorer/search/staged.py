"""The staged procedure of THInfer: TP_D, PP_D, batch, buffer, PP_P, then DP_P, one at a time.

It fixes the batch for which Eq. 22 is then minimised, and is offered beside the joint search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from explorer.config.scenario import Scenario
from explorer.config.units import given, significant
from explorer.costs.arrays import Mask
from explorer.search.space import (
    BUFFER,
    DP_PREFILL,
    FIXED_BATCH_PATHS,
    MICRO_BATCH_DECODE,
    MICRO_BATCH_PREFILL,
    PP_DECODE,
    PP_PREFILL,
    TP_DECODE,
    Space,
    Value,
    default_space,
)
from explorer.serving.evaluate import Evaluation, evaluate

TP_TOLERANCE = 0.05
"""How far above the least clusters x T_d per token the chosen TP_D may lie."""


@dataclass(frozen=True)
class TpCandidate:
    """One TP_D with its own least PP_D and largest micro-batch.

    Attributes:
        tp: tensor-parallel degree.
        pp: fewest pipeline stages that fit.
        micro_batch: largest decode micro-batch [requests] that fits with them.
        batch: PP_D x micro-batch [requests].
        cluster_seconds_per_token: TP_D PP_D T_d / (B N).
    """

    tp: int
    pp: int
    micro_batch: int
    batch: int
    cluster_seconds_per_token: float


@dataclass(frozen=True)
class StagedStep:
    """One decision: what was chosen and why, with the figures that decided."""

    what: str
    chosen: Value
    why: str


@dataclass(frozen=True)
class StagedPlan:
    """The plan of the staged procedure.

    Attributes:
        steps: the decisions, in order.
        candidates: the TP_D that were compared, ascending; empty when nothing fits.
        scenario: the plan in its scenario, or None when nothing fits.
        reason: why there is no plan; empty when there is one.
    """

    steps: tuple[StagedStep, ...]
    candidates: tuple[TpCandidate, ...]
    scenario: Scenario | None
    reason: str = ""


def staged_plan(scenario: Scenario, space: Space | None = None) -> StagedPlan:
    """Return the plan that the staged procedure finds.

    TP_D is the smallest within 5 % of the least clusters x T_d per token, each TP_D judged with
    the least PP_D that fits and then the largest micro-batch that fits. "Fits" means that every
    constraint holds with one prefill pipeline of the fewest stages. The prefill micro-batch is
    the scenario's, or the largest smaller one with which anything fits. DP_P is best by Eq. 22.
    With shared placement TP and PP are those of the cards, and there is no buffer and no DP_P.

    Args:
        scenario: gives workload, machine and everything that is not decided.
        space: the values to choose among; by default all of ``default_space``.
    """
    among = space if space is not None else default_space(scenario)
    shared = among.base.plan.placement == "shared"
    for micro_batch in _prefill_micro_batches(among):
        started = among.fixing({MICRO_BATCH_PREFILL: micro_batch})
        if not shared:
            stages = _least_prefill_stages(started)
            if stages is None:
                continue
            dp = min(started.candidates(DP_PREFILL))
            started = started.fixing({PP_PREFILL: stages, DP_PREFILL: dp})
        candidates = _tp_candidates(started)
        if candidates:
            return _plan(among, started, candidates, micro_batch, shared)
    return StagedPlan((), (), None, _reason(among))


def fixed_batch_space(space: Space) -> Space:
    """Return the space with the decode pool and its batch fixed, for which Eq. 22 is meant.

    TP_D, PP_D and the decode micro-batch are the staged procedure's; where that finds nothing,
    the base scenario's.
    """
    found = staged_plan(space.base, space).scenario or space.base
    return space.fixing({path: found.value(path) for path in FIXED_BATCH_PATHS})


def on_the_machine_of(found: Scenario | None, scenario: Scenario, space: Space) -> Scenario:
    """Return a scenario with everything that a search varied beside the plan as it was found.

    The staged procedure decides on plans alone: beside a search of machines it is judged on the
    machine that the search found.
    """
    paths = (path for axis in space.axes for path in axis.paths)
    varied = [path for path in paths if not path.startswith("plan.")]
    if found is None or not varied:
        return scenario
    return scenario.replacing({path: found.value(path) for path in varied})


def best_dp(
    prefill_seconds: float, decode_seconds: float, candidates: tuple[Value, ...], most: float
) -> tuple[Value, ...]:
    """Return the one or two DP_P among which the best by Eq. 22 is.

    Clu_pool max(T_p / DP_P, T_d) falls while DP_P < T_p / T_d and rises beyond, so the best is a
    neighbour of that ratio: its floor or ceiling where these are allowed. Without decode time it
    falls throughout.

    Args:
        prefill_seconds: T_p of one pipeline.
        decode_seconds: T_d.
        candidates: allowed DP_P, ascending.
        most: largest DP_P that the clusters admit.
    """
    allowed = tuple(dp for dp in candidates if dp <= most) or candidates[:1]
    ratio = prefill_seconds / decode_seconds if decode_seconds else math.inf
    below = [dp for dp in allowed if dp <= ratio]
    above = [dp for dp in allowed if dp >= ratio]
    return tuple(dict.fromkeys((*below[-1:], *above[:1])))


def smallest_close(candidates: tuple[TpCandidate, ...]) -> TpCandidate:
    """Return the smallest TP_D within 5 % of the least clusters x T_d per token.

    Args:
        candidates: at least one.
    """
    least = min(candidate.cluster_seconds_per_token for candidate in candidates)
    limit = least * (1 + TP_TOLERANCE)
    close = (c for c in candidates if c.cluster_seconds_per_token <= limit)
    return min(close, key=lambda candidate: candidate.tp)


def _prefill_micro_batches(space: Space) -> Iterator[Value]:
    """Yield the scenario's micro-batch, then the smaller ones of the space, largest first."""
    candidates = space.candidates(MICRO_BATCH_PREFILL)
    own = space.base.value(MICRO_BATCH_PREFILL)
    first = own if space.axis(MICRO_BATCH_PREFILL) is None or own in candidates else None
    if first is not None:
        yield first
    yield from (value for value in reversed(candidates) if value < own)
    if first is None and candidates[0] > own:
        yield candidates[0]


def _least_prefill_stages(space: Space) -> Value | None:
    stages = space.candidates(PP_PREFILL)
    tried = evaluate(space.base.replacing({PP_PREFILL: np.asarray(stages)}))
    # Neither prefill memory nor the time to first token depends on decode.
    kept = np.ones(len(stages), dtype=bool)
    for constraint in tried.constraints:
        if constraint.name in ("context", "prefill_memory", "ttft"):
            kept = kept & constraint.kept
    return stages[int(np.argmax(kept))] if kept.any() else None


def _tp_candidates(space: Space) -> tuple[TpCandidate, ...]:
    tps, pps, micro_batches = (space.candidates(path) for path in FIXED_BATCH_PATHS)
    changes: dict[str, object] = {}
    for position, path in enumerate(FIXED_BATCH_PATHS):
        axis = space.axis(path)
        shape = [1, 1, 1]
        shape[position] = -1
        values = np.asarray(space.candidates(path)).reshape(shape)
        changes |= dict.fromkeys(axis.paths if axis is not None else (path,), values)
    tried = evaluate(space.base.replacing(changes))
    whole = (len(tps), len(pps), len(micro_batches))
    fits: Mask = np.broadcast_to(tried.feasible, whole)
    cost = np.broadcast_to(
        tried.inputs.decode_clusters * tried.decode_seconds / tried.batch_tokens, whole
    )
    result = []
    for i, tp in enumerate(tps):
        if fits[i].any():
            j = int(np.argmax(fits[i].any(axis=1)))
            k = int(np.flatnonzero(fits[i, j])[-1])
            pp, micro_batch = int(pps[j]), int(micro_batches[k])
            result.append(
                TpCandidate(int(tp), pp, micro_batch, pp * micro_batch, float(cost[i, j, k]))
            )
    return tuple(result)


def _plan(
    among: Space,
    started: Space,
    candidates: tuple[TpCandidate, ...],
    micro_batch_prefill: Value,
    shared: bool,
) -> StagedPlan:
    chosen = smallest_close(candidates)
    decode = {TP_DECODE: chosen.tp, PP_DECODE: chosen.pp, MICRO_BATCH_DECODE: chosen.micro_batch}
    settled = started.fixing(decode)
    unit = settled.base.chip_document().unit_name
    figures = ", ".join(
        f"{significant(c.cluster_seconds_per_token)} with TP_D {c.tp}" for c in candidates
    )
    evaluation = evaluate(settled.base)
    steps = [
        StagedStep(
            TP_DECODE,
            chosen.tp,
            f"smallest within {given(100 * TP_TOLERANCE)} % of the least that the decode pool "
            f"spends on an output token, in {unit}-seconds: {figures}",
        ),
        StagedStep(PP_DECODE, chosen.pp, "fewest stages that fit"),
        StagedStep(MICRO_BATCH_DECODE, chosen.micro_batch, "largest micro-batch that fits"),
        StagedStep("batch", chosen.batch, "decode stages times decode micro-batch"),
        StagedStep(MICRO_BATCH_PREFILL, micro_batch_prefill, _prefill_why(among)),
    ]
    scenario = settled.base
    if not shared:
        automatic = isinstance(scenario.plan.buffer_clusters, str)
        why = "holds the cache of one batch" if automatic else "as the scenario sets it"
        steps.insert(4, StagedStep(BUFFER, int(evaluation.buffer_clusters), why))
        stages = scenario.value(PP_PREFILL)
        steps.append(StagedStep(PP_PREFILL, stages, "fewest stages that fit"))
        step, scenario = _with_best_dp(among, scenario, evaluation)
        steps.append(step)
    return StagedPlan(tuple(steps), candidates, scenario)


def _with_best_dp(
    among: Space, scenario: Scenario, evaluation: Evaluation
) -> tuple[StagedStep, Scenario]:
    prefill, decode = float(evaluation.prefill_seconds), float(evaluation.decode_seconds)
    pipeline = float(evaluation.inputs.prefill_clusters)
    others = float(evaluation.clusters_beside_prefill)
    most = math.floor((scenario.workload.clusters_total - others) / pipeline)
    close = best_dp(prefill, decode, among.candidates(DP_PREFILL), most)
    tried = evaluate(scenario.replacing({DP_PREFILL: np.asarray(close)}))
    values = np.atleast_1d(tried.objective("eq22"))
    best = close[int(np.nanargmin(values))]
    figures = ", ".join(
        f"{significant(value)} with DP_P {dp}"
        for dp, value in zip(close, values.tolist(), strict=True)
    )
    ratio = f"{significant(prefill / decode)} times as" if decode else "without bound as"
    why = (
        f"prefill of a batch by one pipeline takes {ratio} long as its decode; what the batch then "
        f"costs (Eq. 22), in {scenario.chip_document().unit_name}-seconds: {figures}"
    )
    return StagedStep(DP_PREFILL, best, why), scenario.replacing({DP_PREFILL: best})


def _prefill_why(space: Space) -> str:
    own = space.base.value(MICRO_BATCH_PREFILL)
    return f"the scenario's {own}, or the largest below it with which anything fits"


def _reason(space: Space) -> str:
    """Name the constraints that the base plan violates, as the first thing to look at."""
    violated = [c.name for c in evaluate(space.base).constraints if not c.kept.all()]
    names = f" (the scenario's own plan violates: {', '.join(violated)})" if violated else ""
    return f"no decode pool fits beside one prefill pipeline{names}"
