"""Random small spaces of plans and machines, and their optimum from a list of all plans."""

from __future__ import annotations

import math

import numpy as np

from explorer.config.links import preset_scenario
from explorer.config.quantity import Knob
from explorer.config.scenario import Scenario, knob_at, legal_values
from explorer.search.objectives import OBJECTIVES, Objective
from explorer.search.space import Space, Values, varied_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import PRESETS

PLAN = (
    "plan.tp_decode",
    "plan.pp_decode",
    "plan.micro_batch_decode",
    "plan.micro_batch_prefill",
    "plan.pp_prefill",
    "plan.dp_prefill",
    "plan.buffer_clusters",
    "plan.slices",
)
MOST_PLANS = 4000


def random_space(seed: int) -> tuple[Space, Objective]:
    """Return a space of at most 4000 plans and an objective; most have feasible plans."""
    random = np.random.default_rng(seed)
    scenario = preset_scenario(str(random.choice(PRESETS)))
    changes: dict[str, object] = {
        "workload.clusters_total": int(random.choice([24, 72, 500, 5000])),
        "workload.output_tokens": int(random.choice([1, 16, 128])),
    }
    if random.random() < 0.2:
        changes["limits.ttft_seconds"] = float(10 ** random.uniform(1, 3))
    if random.random() < 0.2:
        changes["limits.tpot_seconds"] = float(10 ** random.uniform(-1, 1.5))
    if random.random() < 0.1:
        changes["measured.prefill_seconds"] = float(10 ** random.uniform(0, 2))
    scenario = scenario.replacing(changes)
    shared = scenario.plan.placement == "shared"
    plan = [
        path for path in PLAN if not shared or path not in ("plan.pp_prefill", PLAN[5], PLAN[6])
    ]
    hardware = [f"hardware.{name}" for name in scenario.chip_document().quantities]
    chosen = [
        *random.choice(plan, random.integers(2, 5), replace=False),
        *random.choice(hardware, random.integers(0, 4), replace=False),
    ]
    if random.random() < 0.1:
        chosen.append("workload.prompt_tokens")
    vary: dict[str, Values] = {}
    for path in map(str, chosen):
        values = random_values(scenario, path, random)
        if math.prod(map(len, vary.values())) * len(values) <= MOST_PLANS:
            vary[path] = values
    return varied_space(scenario, vary), OBJECTIVES[str(random.choice(list(OBJECTIVES)))]


def random_values(scenario: Scenario, path: str, random: np.random.Generator) -> Values:
    """Return one to eight values of a knob, near the scenario's own for hardware."""
    knob, legal = knob_at(scenario, path), legal_values(scenario, path)
    assert knob is not None
    count = int(random.integers(1, 9))
    if legal:
        picked = random.choice(legal, min(count, len(legal)), replace=False)
    elif path.startswith("hardware."):
        now = float(scenario.value(path))
        spread = now * np.exp(random.uniform(-0.7, 1, count)) if now else np.zeros(1)
        picked = np.clip(spread, knob.minimum, knob.maximum)
    else:
        most = min(knob.maximum, 600)
        picked = np.exp(random.uniform(np.log(max(knob.minimum, 1)), np.log(most), count))
    return tuple(sorted({_value(knob, value) for value in picked}))


def _value(knob: Knob, value: float) -> float | int:
    if not knob.whole:
        return float(value)
    return int(min(max(round(float(value)), math.ceil(knob.minimum)), knob.maximum))


def every_plan(space: Space) -> Scenario:
    """Return the scenario that lists all plans of a space along one dimension, in order."""
    lists = np.meshgrid(*(axis.array for axis in space.axes), indexing="ij")
    changes: dict[str, object] = {}
    for axis, values in zip(space.axes, lists, strict=True):
        changes |= dict.fromkeys(axis.paths, values.ravel())
    return space.base.replacing(changes)


def optimum(space: Space, objective: Objective) -> float:
    """Return the best feasible value of a space; NaN without one."""
    values = evaluate(every_plan(space)).objective(objective.name)
    return objective.best_of(np.atleast_1d(values))
