"""A front where a space is too large to look at: plans chosen by NSGA-II or NSGA-III."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import numpy as np
import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, NSGAIIISampler, NSGAIISampler

from explorer.config.errors import refuse
from explorer.config.numbers import AnyArray
from explorer.search.certificate import Progress, Stopped
from explorer.search.fitting import pipelines_axis, with_columns
from explorer.search.measures import Measure
from explorer.search.pareto import Archive, ParetoFront
from explorer.search.quiet import check_trials, quiet_study, suggested_index
from explorer.search.space import Space
from explorer.search.staged import staged_plan
from explorer.serving.evaluate import Evaluation, evaluate

GENETIC_SAMPLERS = ("nsga2", "nsga3")
POPULATION, SMALLEST_POPULATION = 100, 4


def approximate_front(
    space: Space,
    measures: Sequence[Measure],
    trials: int = 2000,
    seed: int = 0,
    sampler: str = "nsga2",
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> ParetoFront:
    """Return the front of those plans that a multi-objective study tries; others may beat it.

    The plan nearest to the scenario's and the staged procedure's come first. A generation is
    evaluated at once, and each of its plans with every DP_P, which costs next to nothing.

    Args:
        space: the plans.
        measures: what is traded.
        trials: plans to try.
        seed: same seed, same answer.
        sampler: one of ``GENETIC_SAMPLERS``.
        progress: called with trials done and in all, after each generation.
        stopped: asked after each generation; True ends the study, marked incomplete.

    Raises:
        InputError: when trials or sampler are not accepted.
    """
    if sampler not in GENETIC_SAMPLERS:
        raise refuse("sampler", sampler, f"expected {' or '.join(GENETIC_SAMPLERS)}")
    check_trials(trials, seed)
    started = time.perf_counter()
    archive = Archive(tuple(measures))
    population = min(POPULATION, max(trials // 10, SMALLEST_POPULATION))
    study = quiet_study(
        [measure.direction == "minimise" for measure in measures],
        _sampler(sampler, seed, population),
    )
    for plan in _first_plans(space):
        study.enqueue_trial(plan)
    seen: set[tuple[int, ...]] = set()
    counted, done = pipelines_axis(space), 0
    while done < trials:
        count = min(population, trials - done)
        _generation(study, space, archive, seen, count)
        done += count
        if progress is not None:
            progress(done, trials)
        if stopped is not None and stopped():
            break
    return ParetoFront(
        measures=archive.measures,
        space=space,
        points=archive.points(),
        looked_at=len(seen) * (1 if counted is None else len(counted)),
        feasible=archive.feasible,
        exact=False,
        seconds=time.perf_counter() - started,
        complete=done >= trials,
        sampler=sampler,
    )


def _generation(
    study: optuna.Study,
    space: Space,
    archive: Archive,
    seen: set[tuple[int, ...]],
    count: int,
) -> None:
    """Ask for some trials, evaluate all of them at once, and tell what became of each."""
    counted = pipelines_axis(space)
    asked = [study.ask() for _ in range(count)]
    indices = [tuple(suggested_index(trial, axis) for axis in space.axes) for trial in asked]
    columns = [
        axis.array[np.array([chosen[position] for chosen in indices])]
        for position, axis in enumerate(space.axes)
    ]
    evaluation = evaluate(with_columns(space, columns))
    figures = _figures(evaluation, archive.measures, count)
    excess = _excess(evaluation, count)
    for number, trial in enumerate(asked):
        for name, values in excess.items():
            trial.set_constraint(name, float(values[number]))
        study.tell(trial, figures[number].tolist())
    others = [
        tuple(i for i, axis in zip(chosen, space.axes, strict=True) if axis is not counted)
        for chosen in indices
    ]
    fresh = {other: number for number, other in enumerate(others) if other not in seen}
    seen.update(fresh)
    if fresh:
        rows = [column[list(fresh.values()), None] for column in columns]
        kept = [
            axis.array[None, :] if axis is counted else row
            for axis, row in zip(space.axes, rows, strict=True)
        ]
        depth = 1 if counted is None else len(counted)
        archive.add(evaluate(with_columns(space, kept)), kept, (len(fresh), depth))


def _figures(evaluation: Evaluation, measures: Sequence[Measure], count: int) -> AnyArray:
    """Return [count, measures]; where a plan is infeasible its constraints decide, not these."""
    columns = [np.broadcast_to(measure.of(evaluation), (count,)) for measure in measures]
    return np.nan_to_num(np.stack(columns, axis=1), nan=0.0)


def _excess(evaluation: Evaluation, count: int) -> dict[str, AnyArray]:
    """Return by constraint how far each plan is above its limit, in (0, 1]; -1 where it is not."""
    result = {}
    for constraint in evaluation.constraints:
        value, limit = np.broadcast_arrays(constraint.value, constraint.limit)
        over = np.full(value.shape, -1.0)
        np.divide(value - limit, value, out=over, where=~constraint.kept)
        result[constraint.name] = np.broadcast_to(over, (count,))
    return result


def _sampler(name: str, seed: int, population: int) -> BaseSampler:
    kind = NSGAIISampler if name == "nsga2" else NSGAIIISampler
    with warnings.catch_warnings():
        # Optuna marks NSGA-III as experimental, which is of no use to who searches.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return kind(seed=seed, population_size=population)


def _first_plans(space: Space) -> list[dict[str, int]]:
    plans = [plan for plan in (space.base, staged_plan(space.base, space).scenario) if plan]
    names = [axis.name for axis in space.axes]
    return [dict(zip(names, space.indices_of(plan), strict=True)) for plan in plans]
