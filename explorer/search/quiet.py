"""Optuna studies that announce nothing on stderr, and what numbers they take."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import optuna
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection

from explorer.config.errors import refuse
from explorer.search.space import Axis

_create_lock = threading.Lock()
MOST_TRIALS = 100_000
LARGEST_SEED = 2**32 - 1


def quiet_study(minimised: Sequence[bool], sampler: BaseSampler) -> optuna.Study:
    """Return a new study with one objective for each direction."""
    directions = [
        StudyDirection.MINIMIZE if less else StudyDirection.MAXIMIZE for less in minimised
    ]
    with announcing_nothing():
        return optuna.create_study(directions=directions, sampler=sampler)


@contextmanager
def announcing_nothing() -> Iterator[None]:
    """Keep Optuna from announcing on stderr what is created meanwhile, one thread at a time."""
    with _create_lock:
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            yield
        finally:
            optuna.logging.set_verbosity(level)


def check_trials(trials: int, seed: int) -> None:
    """Refuse a number of trials or a seed that no study takes; raises InputError."""
    if not 1 <= trials <= MOST_TRIALS:
        raise refuse("trials", trials, f"expected a whole number from 1 to {MOST_TRIALS}")
    if not 0 <= seed <= LARGEST_SEED:
        raise refuse("seed", seed, f"expected a whole number from 0 to {LARGEST_SEED}")


def suggested_index(trial: optuna.Trial, axis: Axis) -> int:
    """Return the place in an axis's values that a trial proposes."""
    return trial.suggest_int(axis.name, 0, len(axis) - 1)
