"""Measured serving throughput: the paper's ladder A0 to A4, and runs whose plan is not given."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.fidelity.conditions import Conditions, NotModelledError
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.prediction import (
    Prediction,
    naive_decode_seconds,
    naive_prefill_seconds,
)
from explorer.fidelity.scenarios import OnChip
from explorer.search.certificate import certify
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import (
    DP_PREFILL,
    PP_DECODE,
    PP_PREFILL,
    TP_DECODE,
    Space,
    default_space,
)
from explorer.serving.evaluate import Evaluation, evaluate

CLUSTERS_PER_PROCESSOR = 4
"""An MT-3000 processor has four clusters."""
STAGES = ("A0", "A1", "A2", "A3-1", "A3-2", "A4")
COMPILED, WITHOUT_TP = "A0", "A3-1"
LAUNCHES = {"A1": "per_head", "A2": "unified"}
"""The paper does not define A1; launching each attention head as a thread group of its own, where
A2 launches one unified kernel, is a reading of its section on unified scheduling."""
ONE_AT_A_TIME = tuple(LAUNCHES)
SHARED_STAGES = ("A3-1", "A3-2")
SYSTEMS = ("thinfer",)
PER_CLUSTER = {TP_DECODE, PP_DECODE, PP_PREFILL, DP_PREFILL}


@dataclass(frozen=True)
class ServingCase:
    """What is served on how many clusters; ``placement`` empty keeps the preset's."""

    chip: str
    model: str
    prompt: int
    output: int
    clusters: int
    placement: str = ""
    with_tp: bool = True

    def scenario(self, on: OnChip | None = None) -> Scenario:
        """Return the scenario of a chip, else of the preset, with this workload.

        Raises:
            InputError: when there is no such preset, or a value is not accepted.
        """
        placement = {"plan.placement": self.placement} if self.placement else {}
        return (
            (on or OnChip(self.chip))
            .scenario(self.model)
            .replacing(
                {
                    "workload.prompt_tokens": self.prompt,
                    "workload.output_tokens": self.output,
                    "workload.max_context_tokens": self.prompt + self.output,
                    "workload.clusters_total": self.clusters,
                    **placement,
                }
            )
        )


@dataclass(frozen=True)
class BestPlan:
    """The plan of highest throughput, and how many plans that was proved over."""

    scenario: Scenario
    plans: int


def serving_throughput(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict output tokens a second of ``clusters`` serving ``prompt`` and ``output`` tokens.

    ``stage`` names a step of the paper's ablation; without it the best plan is taken, prefill and
    decode in pools apart (on a chip whose preset shares its cards, shared). Only a preset as it
    stands is searched over.
    """
    if not row.model:
        raise NotModelledError("the row names no model")
    conditions.word("system", SYSTEMS, SYSTEMS[0])
    stage = conditions.word("stage", STAGES) if conditions.has("stage") else ""
    if stage == COMPILED:
        raise NotModelledError(f"{COMPILED} runs operators made by a compiler: no kernel model")
    prompt, output = conditions.whole("prompt"), conditions.whole("output")
    case = ServingCase(row.chip, row.model, prompt, output, _clusters(conditions))
    if stage in ONE_AT_A_TIME:
        return _one_at_a_time(case, LAUNCHES[stage], on)
    if not on.is_preset:
        raise NotModelledError("the plan is not given: no chip but a preset is searched over")
    if stage in SHARED_STAGES:
        case = replace(case, placement="shared", with_tp=stage != WITHOUT_TP)
    found = best_plan(case)
    evaluation = evaluate(found.scenario)
    naive = evaluate(_naive_scenario(evaluation))
    return Prediction(
        evaluation.objective("throughput"),
        naive.objective("throughput"),
        f"plan not given; best of {found.plans:,} plans: {_plan_text(evaluation)}",
        bool(evaluation.machine.notes()),
        naive_is_bound=False,
        searched=True,
    )


@lru_cache(maxsize=256)
def best_plan(case: ServingCase) -> BestPlan:
    """Return the plan of highest throughput, found by evaluating every plan.

    No pool has more clusters than there are, so degrees above their number are left out, and so
    are DP_P x PP_P above it: nothing feasible is lost.

    Raises:
        NotModelledError: when no plan is feasible.
    """
    whole = default_space(case.scenario())
    axes = []
    for axis in whole.axes:
        most = case.clusters if set(axis.paths) & PER_CLUSTER else None
        if TP_DECODE in axis.paths and not case.with_tp:
            most = 1
        kept = tuple(value for value in axis.values if most is None or value <= most)
        axes.append(replace(axis, values=kept))
    parts = [certify(space, THROUGHPUT) for space in _parts(Space(whole.base, tuple(axes)), case)]
    best = max(parts, key=lambda part: -math.inf if math.isnan(part.optimum) else part.optimum)
    if best.scenario is None:
        excluded = Counter[str]()
        for part in parts:
            excluded.update(part.excluded)
        name = excluded.most_common(1)[0][0].replace("_", " ")
        raise NotModelledError(f"no plan fits {case.clusters} clusters; most often broken: {name}")
    return BestPlan(best.scenario, sum(part.enumerated for part in parts))


def _parts(space: Space, case: ServingCase) -> Iterator[Space]:
    """Yield parts of a space that hold every plan with DP_P x PP_P within the clusters.

    DP_P is cut into runs that double; PP_P of a run ends where its least DP_P leaves no cluster.
    """
    dps, pps = space.axis(DP_PREFILL), space.axis(PP_PREFILL)
    if dps is None or pps is None:
        yield space
        return
    least = 1
    while least <= max(dps.values):
        run = tuple(dp for dp in dps.values if least <= dp < 2 * least)
        stages = tuple(pp for pp in pps.values if pp * least <= case.clusters)
        if run and stages:
            cut = {dps.name: replace(dps, values=run), pps.name: replace(pps, values=stages)}
            yield replace(space, axes=tuple(cut.get(axis.name, axis) for axis in space.axes))
        least *= 2


def _one_at_a_time(case: ServingCase, launch: str, on: OnChip) -> Prediction[Array]:
    """Predict replicas of the fewest clusters that hold the model, each with one request.

    A replica is a pipeline whose stages work one after the other.
    """
    shared = replace(case, placement="shared")
    stages = np.arange(1, min(on.layers(case.model), case.clusters) + 1)
    one = {"plan.tp_prefill": 1, "plan.tp_decode": 1, "plan.dp_prefill": 1}
    one |= {"plan.micro_batch_prefill": 1, "plan.micro_batch_decode": 1}
    # Which copies fit follows from sizes alone, not from how fast the chip is.
    sizes = shared.scenario(OnChip(on.chip))
    tried = evaluate(sizes.replacing({**one, PP_PREFILL: stages, PP_DECODE: stages}))
    fits = np.broadcast_to(tried.feasible, stages.shape)
    if not fits.any():
        raise NotModelledError(f"{case.clusters} clusters do not hold one copy of the model")
    pp = int(stages[int(np.argmax(fits))])
    plan = {**one, PP_PREFILL: pp, PP_DECODE: pp, "kernel.launch": launch}
    evaluation = evaluate(shared.scenario(on).replacing(plan))
    replicas = case.clusters // pp
    passes = pp * (
        naive_prefill_seconds(evaluation) + (case.output - 1) * naive_decode_seconds(evaluation)
    )
    tokens = replicas * case.output
    return Prediction(
        tokens / evaluation.total_seconds,
        tokens / passes,
        f"{replicas} replicas of {pp}, one request each, launch {launch.replace('_', ' ')}",
        bool(evaluation.machine.notes()),
    )


def _clusters(conditions: Conditions) -> int:
    if conditions.has("clusters"):
        conditions.used.add("processors")
        return conditions.whole("clusters")
    if conditions.has("processors"):
        return CLUSTERS_PER_PROCESSOR * conditions.whole("processors")
    raise NotModelledError("the condition clusters (or processors) is missing")


def _naive_scenario(evaluation: Evaluation) -> Scenario:
    """Return the plan with its stage times by plain roofline."""
    prefill = evaluation.prefill_passes * naive_prefill_seconds(evaluation)
    decode = evaluation.decode_passes * naive_decode_seconds(evaluation)
    changes: dict[str, object] = {"measured.prefill_seconds": float(prefill)}
    if float(decode) > 0:
        changes["measured.decode_seconds"] = float(decode)
    return evaluation.inputs.scenario.replacing(changes)


def _plan_text(evaluation: Evaluation) -> str:
    plan = evaluation.inputs.scenario.plan
    shared = plan.placement == "shared"
    text = f"TP {plan.tp_decode}, PP {plan.pp_decode}, micro-batch {plan.micro_batch_decode}"
    prefill = f"prefill micro-batch {plan.micro_batch_prefill}"
    if not shared:
        prefill += f", PP {plan.pp_prefill}, DP {plan.dp_prefill}"
    pools = f"{float(evaluation.pools):.0f} pools of {float(evaluation.clusters):.0f}"
    return f"{'shared' if shared else 'pools apart'}, decode {text}, {prefill}, {pools}"
