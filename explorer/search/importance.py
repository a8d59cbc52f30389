"""Which choices of a plan matter: exact shares of variance, or PED-ANOVA of random trials."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.samplers import RandomSampler
from optuna.trial import TrialState

from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import FittingBlock, fitting_blocks, with_columns
from explorer.search.objectives import Objective
from explorer.search.quiet import check_trials, quiet_study, suggested_index
from explorer.search.space import Axis, Space, Values
from explorer.serving.evaluate import evaluate

CLOSE = 0.05
"""A value is close to the optimum when the best plan with it loses at most this fraction."""

BATCH, FEWEST_TRIALS = 500, 20
ROUNDING = 1e-24


@dataclass(frozen=True)
class AxisImportance:
    """How much one choice matters.

    Attributes:
        axis: the choice.
        share: part of the variance that it explains alone, 0 to 1; of a sampled study, PED-ANOVA's
            importance, which adds up to 1 over the axes.
        best: best objective with each of its values, all else chosen freely; NaN where nothing
            fits. Empty for a sampled study.
        close: its values with which the best plan is within 5 % of the optimum.
    """

    axis: Axis
    share: float
    best: tuple[float, ...] = ()
    close: Values = ()


@dataclass(frozen=True)
class Importance:
    """How much each choice of a plan matters for an objective.

    Attributes:
        objective: what is optimised.
        axes: the choices, the most important first.
        feasible: plans that the shares are over.
        looked_at: plans that were looked at.
        optimum: best objective among them; NaN without any.
        exact: True for shares over all feasible plans; False for PED-ANOVA over random trials.
        seconds: time taken.
        complete: False when stopped early.
    """

    objective: Objective
    axes: tuple[AxisImportance, ...]
    feasible: int
    looked_at: int
    optimum: float
    exact: bool
    seconds: float
    complete: bool = True


def importance(
    space: Space,
    objective: Objective,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Importance:
    """Return first-order shares of the variance of log(objective) over all feasible plans.

    The share of an axis is Var(E[f | its value]) / Var(f), each feasible plan counting once
    (functional ANOVA main effects). Feasible plans fill no box, so that choices depend on each
    other: the shares of two need not add up to what both explain. The logarithm makes a factor
    count alike wherever it occurs, and for cost and speed.

    Args:
        space: the plans.
        objective: what is optimised.
        progress: called with plans done and plans in all, after each block.
        stopped: asked after each block; True ends the enumeration, marked incomplete.
    """
    started = time.perf_counter()
    sums = _Sums(space, objective)
    complete = True
    for block in fitting_blocks(space):
        sums.add(block)
        if progress is not None:
            progress(block.covered, space.size)
        if stopped is not None and stopped() and block.covered < space.size:
            complete = False
            break
    return Importance(
        objective=objective,
        axes=tuple(sorted(sums.axes(), key=lambda item: -item.share)),
        feasible=sums.count,
        looked_at=space.size,
        optimum=sums.optimum,
        exact=True,
        seconds=time.perf_counter() - started,
        complete=complete,
    )


def sampled_importance(
    space: Space,
    objective: Objective,
    trials: int = 2000,
    seed: int = 0,
    stopped: Stopped | None = None,
) -> Importance:
    """Return PED-ANOVA's importance of each axis from random plans of a space.

    Args:
        space: the plans; for spaces too large to enumerate.
        objective: what is optimised.
        trials: plans to try; feasible ones count.
        seed: same seed, same answer.
        stopped: asked after each batch of trials; True ends the study, marked incomplete.

    Raises:
        InputError: when trials or seed are not accepted.
    """
    check_trials(trials, seed)
    started = time.perf_counter()
    study = quiet_study([objective.minimised], RandomSampler(seed=seed))
    found: list[float] = []
    done = 0
    while done < trials and not (done and stopped is not None and stopped()):
        count = min(BATCH, trials - done)
        found += _tried(study, space, objective, count)
        done += count
    shares = study_importance(study) if len(found) >= FEWEST_TRIALS else {}
    axes = [AxisImportance(axis, shares.get(axis.name, 0.0)) for axis in space.axes]
    return Importance(
        objective=objective,
        axes=tuple(sorted(axes, key=lambda item: -item.share)),
        feasible=len(found),
        looked_at=done,
        optimum=objective.best_of(np.array(found)) if found else math.nan,
        exact=False,
        seconds=time.perf_counter() - started,
        complete=done >= trials,
    )


def study_importance(study: optuna.Study) -> dict[str, float]:
    """Return PED-ANOVA's importance of each parameter of a study with one objective.

    What tells the best tenth of its trials from all of them; adds up to 1.
    """
    return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))


def _tried(study: optuna.Study, space: Space, objective: Objective, count: int) -> list[float]:
    """Run some trials at once; return the objectives of the feasible ones."""
    asked = [study.ask() for _ in range(count)]
    columns = [axis.array[[suggested_index(trial, axis) for trial in asked]] for axis in space.axes]
    evaluation = evaluate(with_columns(space, columns))
    values = np.broadcast_to(evaluation.objective(objective.name), (count,)).tolist()
    for trial, value in zip(asked, values, strict=True):
        if math.isnan(value):
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, value)
    return [value for value in values if not math.isnan(value)]


class _Sums:
    """Counts, sums and optima over feasible plans, by value of each axis."""

    def __init__(self, space: Space, objective: Objective) -> None:
        self.space = space
        self.objective = objective
        self.count = 0
        self.optimum = math.nan
        self._centre = self._sum = self._squares = 0.0
        self._counts = [np.zeros(len(axis)) for axis in space.axes]
        self._sums = [np.zeros(len(axis)) for axis in space.axes]
        self._best = [np.full(len(axis), np.nan) for axis in space.axes]

    def add(self, block: FittingBlock) -> None:
        """Count the feasible plans of a block."""
        found = evaluate(block.scenario).objective(self.objective.name)
        found = np.broadcast_to(found, block.shape)
        places = np.nonzero(~np.isnan(found))
        values = found[places]
        if not values.size:
            return
        logs = np.log(values)
        if not self.count:
            # Squares about a value near the mean keep their digits.
            self._centre = float(logs.mean())
        logs -= self._centre
        self.count += values.size
        self._sum += float(logs.sum())
        self._squares += float((logs**2).sum())
        best = self.objective.best_of(values)
        if self.objective.better(best, self.optimum):
            self.optimum = best
        for position, (axis, column) in enumerate(zip(self.space.axes, block.columns, strict=True)):
            along = places[int(np.argmax(column.shape))]
            index = np.searchsorted(axis.array, column.reshape(-1))
            at = index[along] if column.size > 1 else np.full(values.shape, index[0])
            self._counts[position] += np.bincount(at, minlength=len(axis))
            self._sums[position] += np.bincount(at, logs, minlength=len(axis))
            better = np.fmin if self.objective.minimised else np.fmax
            better.at(self._best[position], at, values)

    def axes(self) -> list[AxisImportance]:
        """Return the importance of each axis."""
        total = self._squares - self._sum**2 / self.count if self.count else 0.0
        result = []
        for axis, counts, sums, best in zip(
            self.space.axes, self._counts, self._sums, self._best, strict=True
        ):
            some = counts > 0
            between = float((sums[some] ** 2 / counts[some]).sum())
            explained = between - self._sum**2 / self.count if self.count else 0.0
            share = min(max(explained / total, 0.0), 1.0) if total > self._least() else 0.0
            close = tuple(
                value
                for value, figure in zip(axis.values, best.tolist(), strict=True)
                if self.objective.gap(figure, self.optimum) <= CLOSE
            )
            result.append(AxisImportance(axis, share, tuple(best.tolist()), close))
        return result

    def _least(self) -> float:
        """Return the sum of squares below which all values are one, but for rounding."""
        return ROUNDING * max(self.count, 1)
