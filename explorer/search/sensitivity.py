"""How the answer follows each slider: of the plan as it is, and of the best plan in its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.config.scenario import Scenario
from explorer.config.stacked import stacked
from explorer.search.best_plan import best_plan
from explorer.search.certificate import Progress, Stopped
from explorer.search.objectives import Objective
from explorer.search.sliders import Setting, Slider, sliders
from explorer.search.space import Space, Value
from explorer.serving.evaluate import evaluate

UNEVEN = 0.05
"""Difference of both one-sided elasticities from which a slope counts as uneven."""

ENDS = ("low", "high")
"""Names of the values that a slider is moved to for its effect, not for its slope."""

FLAT, STEEP = 1e-3, 1e-2
"""Elasticity below which the answer does not move here, and change above which it did further."""


@dataclass(frozen=True)
class Outcome:
    """The answer with a slider moved.

    Attributes:
        setting: where the slider stands.
        value: objective; NaN where no plan fits.
        broken: constraints that the plan breaks there; empty where it fits or was searched.
        plan: the best plan there by path; None for the plan as it is.
    """

    setting: Setting
    value: float
    broken: tuple[str, ...] = ()
    plan: dict[str, Value] | None = None


@dataclass(frozen=True)
class Effect:
    """What one slider does to the answer.

    Attributes:
        slider: the slider.
        now: the answer at its present value; NaN where no plan fits.
        low, high, below, above: the answer where the slider is moved to; None where it is not.
    """

    slider: Slider
    now: float
    low: Outcome | None = None
    high: Outcome | None = None
    below: Outcome | None = None
    above: Outcome | None = None

    def change(self, outcome: Outcome | None) -> float:
        """Return the relative change of the answer; NaN where either does not fit."""
        return math.nan if outcome is None else outcome.value / self.now - 1

    @property
    def elasticity(self) -> float:
        """Central d log(answer) / d log(value); NaN where one side is missing or does not fit."""
        if self.below is None or self.above is None:
            return math.nan
        return _slope(self.below, self.above)

    @property
    def elasticity_down(self) -> float:
        """One-sided towards less."""
        return math.nan if self.below is None else _slope(self.below, self._present)

    @property
    def elasticity_up(self) -> float:
        """One-sided towards more."""
        return math.nan if self.above is None else _slope(self._present, self.above)

    @property
    def span(self) -> float:
        """Largest |log change| at low and high; 0 where neither changes or fits."""
        changes = [self.change(outcome) for outcome in (self.low, self.high)]
        known = [abs(math.log1p(change)) for change in changes if change > -1]
        return max(known, default=0.0)

    @property
    def stairs(self) -> bool:
        """Whether the answer moves in steps here, so that a slope says little.

        Either side has another slope, or it is flat here and moves further away.
        """
        down, up = self.elasticity_down, self.elasticity_up
        if math.isnan(down) or math.isnan(up):
            return False
        return abs(up - down) > UNEVEN or (abs(up) + abs(down) < FLAT and self.span > STEEP)

    @property
    def unfit(self) -> bool:
        """Whether no plan fits at one of the ends."""
        ends = (self.low, self.high)
        return any(outcome is not None and math.isnan(outcome.value) for outcome in ends)

    @property
    def _present(self) -> Outcome:
        return Outcome(self.slider.now, self.now)


@dataclass(frozen=True)
class Sensitivity:
    """The effect of every slider on an objective.

    Attributes:
        objective: what the answer is of.
        now: the answer as the sliders stand; NaN where no plan fits.
        effects: the sliders, those with the largest effect first.
        follows: whether the plan is the best one at each value.
        plan: the plan by path where it follows and fits, at the present values.
        complete: False when stopped early; the sliders not reached are left out.
    """

    objective: Objective
    now: float
    effects: tuple[Effect, ...]
    follows: bool
    plan: dict[str, Value] | None = None
    complete: bool = True

    def effect(self, path: str) -> Effect | None:
        """Return the effect of one slider, or None."""
        return next((effect for effect in self.effects if effect.slider.path == path), None)

    @property
    def moving(self) -> tuple[Effect, ...]:
        """Effects of sliders that change the answer or whether a plan fits."""
        return tuple(e for e in self.effects if e.span > FLAT or e.unfit or abs(_zero(e)) > FLAT)


def sensitivity(scenario: Scenario, objective: Objective) -> Sensitivity:
    """Return the effect of every slider on the plan as it is.

    All numbers are one broadcast evaluation; each other format is one more.
    """
    moved = sliders(scenario)
    now = _outcome_of(scenario, objective, "")
    changes = [(s, name, value) for s in moved for name, value in s.values.items()]
    found = _moved_numbers(scenario, objective, changes)
    for slider, name, value in changes:
        if isinstance(value, str):
            changed = scenario.replacing({slider.path: value})
            found[slider.path, name] = _outcome_of(changed, objective, value)
    return Sensitivity(objective, now.value, _ordered(moved, now.value, found), follows=False)


def hardware_sensitivity(scenario: Scenario, objective: Objective) -> Sensitivity:
    """Return what half and double of each number of the machine do to the plan as it is.

    The part of ``sensitivity`` that finds the strongest lever: a fifth of its time.
    """
    moved = [slider for slider in sliders(scenario) if slider.path.startswith("hardware.")]
    changes = [
        (slider, name, value)
        for slider in moved
        for name, value in slider.values.items()
        if name in ENDS
    ]
    now = _outcome_of(scenario, objective, "")
    found = _moved_numbers(scenario, objective, changes)
    return Sensitivity(objective, now.value, _ordered(moved, now.value, found), follows=False)


def strongest(found: Sensitivity) -> tuple[Effect, Outcome] | None:
    """Return the number of the machine, and the end, that improves the answer most; or None."""
    objective = found.objective
    better = [
        (effect, outcome)
        for effect in found.effects
        if effect.slider.path.startswith("hardware.")
        for outcome in (effect.low, effect.high)
        if outcome is not None and objective.better(outcome.value, found.now)
    ]
    return max(better, key=lambda pair: abs(math.log1p(pair[0].change(pair[1]))), default=None)


def followed_sensitivity(
    space: Space,
    objective: Objective,
    moved: Sequence[Slider] | None = None,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Sensitivity:
    """Return the effect of every slider when the plan follows: the best one at each value.

    Args:
        space: the plans, around the scenario whose sliders are moved.
        objective: what is optimised; not one that fixes the batch.
        moved: the sliders to move; all by default.
        progress: called with optimisations done and in all.
        stopped: asked after each optimisation; True ends the rest, marked incomplete.
    """
    chosen = sliders(space.base) if moved is None else tuple(moved)
    present = best_plan(space, objective)
    changes = [(s, name, value) for s in chosen for name, value in s.values.items()]
    found: dict[tuple[str, str], Outcome] = {}
    done = 0
    for slider, name, value in changes:
        if stopped is not None and stopped():
            break
        there = Space(space.base.replacing({slider.path: value}), space.axes)
        best = best_plan(there, objective, present.values)
        found[slider.path, name] = Outcome(value, best.value, plan=best.plan)
        done += 1
        if progress is not None:
            progress(done, len(changes))
    reached = {path for path, _ in found}
    kept = [s for s in chosen if s.path in reached or not s.values]
    return Sensitivity(
        objective=objective,
        now=present.value,
        effects=_ordered(kept, present.value, found),
        follows=True,
        plan=present.plan,
        complete=done == len(changes),
    )


def _moved_numbers(
    scenario: Scenario, objective: Objective, changes: Sequence[tuple[Slider, str, Setting]]
) -> dict[tuple[str, str], Outcome]:
    """Return the outcome of each change of a number, by path and name of the end; words are left.

    One broadcast evaluation.
    """
    numbers = [(s, name, value) for s, name, value in changes if not isinstance(value, str)]
    outcomes = _outcomes(scenario, objective, [(s.path, value) for s, _, value in numbers])
    return {(s.path, name): out for (s, name, _), out in zip(numbers, outcomes, strict=True)}


def _outcomes(
    scenario: Scenario, objective: Objective, changes: Sequence[tuple[str, Value]]
) -> list[Outcome]:
    if not changes:
        return []
    evaluation = evaluate(stacked(scenario, [{path: value} for path, value in changes]))
    count = (len(changes),)
    values = np.broadcast_to(evaluation.objective(objective.name), count)
    kept = {c.name: np.broadcast_to(c.kept, count) for c in evaluation.constraints}
    return [
        Outcome(
            value,
            float(values[i]),
            tuple(name for name, mask in kept.items() if not mask[i]),
        )
        for i, (_, value) in enumerate(changes)
    ]


def _outcome_of(scenario: Scenario, objective: Objective, setting: Setting) -> Outcome:
    evaluation = evaluate(scenario)
    broken = tuple(c.name for c in evaluation.constraints if not c.kept.all())
    return Outcome(setting, float(evaluation.objective(objective.name)), broken)


def _ordered(
    moved: Sequence[Slider], now: float, found: Mapping[tuple[str, str], Outcome]
) -> tuple[Effect, ...]:
    effects = [
        Effect(
            s, now, **{name: found[s.path, name] for name in s.values if (s.path, name) in found}
        )
        for s in moved
    ]
    return tuple(sorted(effects, key=lambda effect: (-effect.span, not effect.unfit)))


def _slope(first: Outcome, second: Outcome) -> float:
    numbers = (first.setting, second.setting)
    if any(isinstance(n, str) or n <= 0 for n in numbers) or not first.value * second.value > 0:
        return math.nan
    run = math.log(float(numbers[1])) - math.log(float(numbers[0]))
    return (math.log(second.value) - math.log(first.value)) / run


def _zero(effect: Effect) -> float:
    return 0.0 if math.isnan(effect.elasticity) else effect.elasticity
