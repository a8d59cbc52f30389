"""Searching a space with Optuna: ask, evaluate, report every constraint, tell."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import optuna
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from explorer.config.scenario import Scenario
from explorer.search.climb import climb
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, Objective
from explorer.search.polish import is_long, next_neighbour
from explorer.search.quiet import announcing_nothing, check_trials
from explorer.search.samplers import (
    AUTO,
    SAMPLERS,
    Choice,
    check_sampler,
    chosen_sampler,
    make_sampler,
    parameter,
    told_value,
)
from explorer.search.space import DP_PREFILL, MICRO_BATCH_PREFILL, PP_PREFILL, Axis, Space
from explorer.search.staged import fixed_batch_space, staged_plan
from explorer.search.trials import Judge, Outcome
from explorer.serving.constraints import CONSTRAINTS

POLISH_FROM = 0.4
"""Part of the trials after which untried neighbours of the best plans come first."""

LARGEST_SOLVED_MESH = 60_000
"""Plans that one trial may evaluate at once to solve the prefill pool."""

Stopped = Callable[[], bool]


@dataclass(frozen=True)
class SearchSettings:
    """How to search.

    Attributes:
        objective: what to optimise.
        trials: plans to try; repeats, first plans and the polish count.
        seed: same seed, same answer.
        sampler: one of ``SAMPLERS``, or ``auto`` for the one that suits the space.
        plain: True leaves the sampler alone with all axes: no first plans, no solved prefill
            pool, no polish.
    """

    objective: Objective = CLUSTER_SECONDS_PER_TOKEN
    trials: int = 300
    seed: int = 0
    sampler: str = AUTO
    plain: bool = False

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        check_trials(self.trials, self.seed)

    @property
    def begins_with_plans(self) -> bool:
        """Whether the first plans come before the sampler's proposals, in settled settings."""
        return not (self.plain or SAMPLERS[self.sampler].follows_a_list)

    @property
    def guided(self) -> bool:
        """Whether neighbours of the best come before the sampler's proposals."""
        return not (self.plain or SAMPLERS[self.sampler].exhaustive)


@dataclass(frozen=True)
class TrialReport:
    """What a search says after each trial; ``best`` is None until a plan was feasible."""

    number: int
    trials: int
    value: float
    best_value: float
    best: Scenario | None


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        best: scenario of the best feasible plan, or None.
        best_value: its objective; NaN without one.
        objective: what was optimised.
        space: the plans searched (for ``eq22`` those of the fixed batch).
        trials: trials run.
        feasible_trials: those whose plan keeps every constraint.
        distinct_plans: distinct plans among them, a solved axis not counted.
        seconds: time taken.
        excluded: trials whose plan violates each constraint.
        history: (trial number, value or NaN, best so far or NaN) for each trial.
        solved_exactly: names of axes whose best value was computed for each trial, not searched.
        stopped: whether it ended before its trials were used up.
        sampler: what proposed the plans, and why.
    """

    best: Scenario | None
    best_value: float
    objective: Objective
    space: Space
    trials: int
    feasible_trials: int
    distinct_plans: int
    seconds: float
    excluded: dict[str, int]
    history: tuple[tuple[int, float, float], ...]
    solved_exactly: tuple[str, ...]
    stopped: bool
    sampler: Choice


def search(
    space: Space,
    settings: SearchSettings,
    progress: Callable[[TrialReport], None] | None = None,
    stopped: Stopped | None = None,
) -> SearchResult:
    """Return the best plan that a study finds among the plans of a space.

    With pools apart, the prefill pool (its micro-batch, PP_P and DP_P, where they are searched) is
    solved within each trial by evaluating all its values at once; the result says so. The first
    trials are the plan nearest to the scenario's own and the staged procedure's; in the later
    ones untried neighbours of the best plans come before the sampler's proposals.

    Args:
        space: the plans; for ``eq22`` its decode pool and batch are fixed first.
        settings: objective, trials, seed, sampler.
        progress: called after each trial.
        stopped: asked after each trial; True ends the search.
    """
    started = time.perf_counter()
    objective = settings.objective
    chosen = fixed_batch_space(space) if objective.fixes_batch else space
    judge = Judge(chosen, objective, () if settings.plain else solvable_axes(chosen))
    settings, choice = settled(settings, judge.axes)
    study = new_study(settings, judge.axes)
    queue = deque(first_plans(judge) if settings.begins_with_plans else ())
    tally = Tally(objective)
    for number in range(settings.trials):
        planned = queue.popleft() if queue else None
        if planned is None:
            planned = polished_plan(judge, settings, number)
        if planned is not None:
            study.enqueue_trial(parameters_of(judge.axes, planned))
        trial = study.ask()
        indices = tuple(suggested_index(trial, axis) for axis in judge.axes)
        outcome = judge.outcome(indices)
        for name, excess in outcome.excess.items():
            trial.set_constraint(name, excess)
        study.tell(trial, told_value(choice.sampler, objective, outcome.value, outcome.violation))
        tally.add(indices, outcome)
        if progress is not None:
            best = judge.scenario(tally.leader[1]) if tally.found else None
            progress(TrialReport(number, settings.trials, outcome.value, tally.best_value, best))
        if stopped is not None and stopped():
            break
    return SearchResult(
        best=judge.scenario(tally.leader[1]) if tally.found else None,
        best_value=tally.best_value,
        objective=objective,
        space=chosen,
        trials=len(tally.history),
        feasible_trials=tally.feasible,
        distinct_plans=judge.distinct,
        seconds=time.perf_counter() - started,
        excluded=tally.excluded,
        history=tuple(tally.history),
        solved_exactly=tuple(axis.name for axis in judge.solved),
        stopped=len(tally.history) < settings.trials,
        sampler=choice,
    )


def settled(settings: SearchSettings, axes: tuple[Axis, ...]) -> tuple[SearchSettings, Choice]:
    """Return the settings with the sampler that suits the axes, and no more trials than it needs.

    Raises:
        InputError: when the sampler would try every combination and there are more than trials.
    """
    choice = chosen_sampler(settings.sampler, axes, settings.trials)
    trials = settings.trials
    if choice.sampler.exhaustive:
        trials = min(trials, prod(map(len, axes)))
    return replace(settings, sampler=choice.sampler.name, trials=trials), choice


@dataclass
class Tally:
    """What a search has seen so far; the leader is the least violating plan until one fits."""

    objective: Objective
    feasible: int = 0
    excluded: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONSTRAINTS, 0))
    history: list[tuple[int, float, float]] = field(default_factory=list)
    _leader: tuple[tuple[int, ...], Outcome] | None = None

    @property
    def leader(self) -> tuple[tuple[int, ...], Outcome]:
        """Indices and outcome of the best plan so far."""
        if self._leader is None:
            raise LookupError("no trial has been run")
        return self._leader

    @property
    def found(self) -> bool:
        """Whether a plan was feasible."""
        return self._leader is not None and self._leader[1].feasible

    @property
    def best_value(self) -> float:
        """Best objective of a feasible plan, NaN without one."""
        return self.leader[1].value if self.found else math.nan

    def add(self, indices: tuple[int, ...], outcome: Outcome) -> None:
        """Count a trial."""
        self.feasible += outcome.feasible
        for name in outcome.violated:
            self.excluded[name] += 1
        if self._leader is None or self._beats(outcome, self._leader[1]):
            self._leader = (indices, outcome)
        self.history.append((len(self.history), outcome.value, self.best_value))

    def _beats(self, outcome: Outcome, other: Outcome) -> bool:
        if outcome.feasible or other.feasible:
            return self.objective.better(outcome.value, other.value)
        return outcome.violation < other.violation


def new_study(
    settings: SearchSettings,
    axes: tuple[Axis, ...],
    storage: BaseStorage | None = None,
    name: str | None = None,
) -> optuna.Study:
    """Return a new study of settled settings, in memory unless a storage is given.

    Raises:
        DuplicatedStudyError: when the storage holds a study of that name.
    """
    minimised = settings.objective.minimised
    direction = StudyDirection.MINIMIZE if minimised else StudyDirection.MAXIMIZE
    with announcing_nothing():
        return optuna.create_study(
            storage=storage,
            study_name=name,
            direction=direction,
            sampler=sampler_of(settings, axes),
        )


def sampler_of(settings: SearchSettings, axes: tuple[Axis, ...]) -> BaseSampler:
    """Return a fresh sampler of settled settings with their seed."""
    return make_sampler(SAMPLERS[settings.sampler], axes, settings.trials, settings.seed)


def polished_plan(judge: Judge, settings: SearchSettings, number: int) -> tuple[int, ...] | None:
    """Return the plan that comes before the sampler's proposal for a trial, or None.

    From ``POLISH_FROM`` of the trials on: first what a climb from the best plan reaches, then
    untried neighbours of the best ones.
    """
    first = math.ceil(POLISH_FROM * settings.trials)
    if not settings.guided or number < first:
        return None
    ranked = judge.ranked()
    if number == first and ranked:
        values, _ = climb(judge.space, judge.objective, judge.outcome(ranked[0]).values)
        reached = judge.indices_of(values)
        if not judge.knows(reached):
            return reached
    return next_neighbour(judge)


def solvable_axes(space: Space) -> tuple[Axis, ...]:
    """Return the axes of the prefill pool, fewer when their mesh would be too large."""
    if space.base.plan.placement != "disaggregated":
        return ()
    solved: tuple[Axis, ...] = ()
    for path in (DP_PREFILL, PP_PREFILL, MICRO_BATCH_PREFILL):
        axis = space.axis(path)
        if axis is not None and len(axis) * prod(map(len, solved)) <= LARGEST_SOLVED_MESH:
            solved = (axis, *solved)
    return solved


def first_plans(judge: Judge) -> list[tuple[int, ...]]:
    """Return what is tried first: the plan nearest to the scenario's own, and the staged one."""
    own = judge.space.base
    plans = [scenario for scenario in (own, staged_plan(own, judge.space).scenario) if scenario]
    indices = (
        tuple(axis.nearest(plan.value(axis.paths[0])) for axis in judge.axes) for plan in plans
    )
    return list(dict.fromkeys(indices))


def suggested_index(trial: optuna.Trial, axis: Axis) -> int:
    """Return the index that a trial proposes on an axis: by value, or by place in its list."""
    lowest, highest = _bounds(axis)
    return trial.suggest_int(parameter(axis), lowest, highest, log=is_long(axis)) - lowest


def parameters_of(axes: tuple[Axis, ...], indices: tuple[int, ...]) -> dict[str, int]:
    """Return the parameters that make ``suggested_index`` propose ``indices``."""
    pairs = zip(axes, indices, strict=True)
    return {parameter(axis): _bounds(axis)[0] + index for axis, index in pairs}


def indices_in(axes: tuple[Axis, ...], parameters: Mapping[str, object]) -> tuple[int, ...] | None:
    """Return the indices that parameters stand for, None where they are no plan of the space."""
    indices = []
    for axis in axes:
        value, (lowest, highest) = parameters.get(parameter(axis)), _bounds(axis)
        if not isinstance(value, int) or not lowest <= value <= highest:
            return None
        indices.append(value - lowest)
    return tuple(indices)


def _bounds(axis: Axis) -> tuple[int, int]:
    if is_long(axis):
        return int(axis.values[0]), int(axis.values[-1])
    return 0, len(axis) - 1
