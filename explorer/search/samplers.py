"""Optuna's samplers by name: which are installed, which suits a space, how each is set up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from optuna.exceptions import ExperimentalWarning
from optuna.samplers import (
    BaseSampler,
    BruteForceSampler,
    CmaEsSampler,
    GPSampler,
    GridSampler,
    NSGAIIISampler,
    NSGAIISampler,
    RandomSampler,
    TPESampler,
)

from explorer.config.errors import refuse
from explorer.search.objectives import Objective
from explorer.search.polish import is_long
from explorer.search.space import Axis

AUTO = "auto"
POPULATION = 50
MOST_TPE_TRIALS = 2000
PENALTY = 1e30


@dataclass(frozen=True)
class Sampler:
    """One of Optuna's samplers.

    Attributes:
        name: what the command line calls it.
        label: what a page calls it.
        needs: package beyond the requirements, empty for none.
        exhaustive: whether it tries every combination once, whatever it finds.
        follows_a_list: whether it would try a plan again that was tried before its turn.
        finite: whether it cannot do with infinite values; what breaks a constraint then tells a
            penalty that grows with the violation.
    """

    name: str
    label: str
    needs: str = ""
    exhaustive: bool = False
    follows_a_list: bool = False
    finite: bool = False

    @property
    def installed(self) -> bool:
        """Whether the package that it needs can be imported."""
        return not self.needs or find_spec(self.needs) is not None


SAMPLERS = {
    sampler.name: sampler
    for sampler in (
        Sampler("tpe", "TPE"),
        Sampler("nsga2", "NSGA-II"),
        Sampler("nsga3", "NSGA-III", finite=True),
        Sampler("random", "random"),
        Sampler("cmaes", "CMA-ES", needs="cmaes", finite=True),
        Sampler("gp", "Gaussian process", needs="torch"),
        Sampler("brute", "brute force", exhaustive=True),
        Sampler("grid", "grid", exhaustive=True, follows_a_list=True),
    )
}


@dataclass(frozen=True)
class Choice:
    """A sampler for a space, and why: it suits the space, or was asked for."""

    sampler: Sampler
    why: str


def installed_samplers() -> tuple[str, ...]:
    """Return the names of the samplers that can be used here."""
    return tuple(name for name, sampler in SAMPLERS.items() if sampler.installed)


def check_sampler(name: str) -> None:
    """Raise InputError where a name is no sampler, or one whose package is not installed."""
    if name == AUTO:
        return
    accepted = f"expected {', '.join((AUTO, *installed_samplers()))}"
    if name not in SAMPLERS:
        raise refuse("sampler", name, accepted)
    if not SAMPLERS[name].installed:
        needs = SAMPLERS[name].needs
        raise refuse("sampler", name, f"needs the package {needs}, not installed here; {accepted}")


def chosen_sampler(name: str, axes: Sequence[Axis], trials: int) -> Choice:
    """Return the sampler of a name, or for ``auto`` the one that suits the space.

    Args:
        name: a checked name.
        axes: those that the sampler has to choose values for.
        trials: how many it has.

    Raises:
        InputError: when it would try every combination and there are more than trials.
    """
    combinations = math.prod(map(len, axes))
    suiting = _automatic(combinations, trials)
    if name in (AUTO, suiting.sampler.name):
        return suiting
    sampler = SAMPLERS[name]
    if sampler.exhaustive and combinations > trials:
        accepted = (
            f"tries every combination and there are {combinations:,}, more than {trials:,} trials; "
            "expected more trials, fewer values, or another sampler"
        )
        raise refuse("sampler", name, accepted)
    return Choice(sampler, "as asked for")


def _automatic(combinations: int, trials: int) -> Choice:
    if combinations <= trials:
        why = f"all {combinations:,} combinations can be tried"
        return Choice(SAMPLERS["brute"], why)
    if trials > MOST_TPE_TRIALS:
        why = f"TPE's own time grows with the square of the trials, beyond {MOST_TPE_TRIALS:,}"
        return Choice(SAMPLERS["nsga2"], why)
    why = f"{combinations:,} combinations, {trials:,} trials: a model of the good ones helps"
    return Choice(SAMPLERS["tpe"], why)


def make_sampler(sampler: Sampler, axes: Sequence[Axis], trials: int, seed: int) -> BaseSampler:
    """Return Optuna's sampler, seeded; ``axes`` name its parameters as ``parameter`` does."""
    population = min(POPULATION, max(trials // 5, 2))
    makers: dict[str, Callable[[], BaseSampler]] = {
        "tpe": lambda: TPESampler(seed=seed),
        "nsga2": lambda: NSGAIISampler(seed=seed, population_size=population),
        "nsga3": lambda: NSGAIIISampler(seed=seed, population_size=population),
        "random": lambda: RandomSampler(seed=seed),
        "cmaes": lambda: _CmaEs(seed=seed, warn_independent_sampling=False),
        "gp": lambda: GPSampler(seed=seed, warn_independent_sampling=False),
        "brute": lambda: _BruteForce(seed=seed),
        "grid": lambda: _Grid({parameter(axis): _choices(axis) for axis in axes}, seed=seed),
    }
    with warnings.catch_warnings():
        # Optuna warns that some of them may change; the requirements hold its version.
        warnings.simplefilter("ignore", ExperimentalWarning)
        return makers[sampler.name]()


def told_value(sampler: Sampler, objective: Objective, value: float, violation: float) -> float:
    """Return what a trial tells its sampler: its value, or where infeasible the worst there is."""
    if not math.isnan(value):
        return value
    worst = PENALTY * (1 + violation) if sampler.finite else math.inf
    return worst if objective.minimised else -worst


def parameter(axis: Axis) -> str:
    """Return the name of an axis as a parameter: by value, or by place in its list."""
    return axis.name if is_long(axis) else f"{axis.name}[]"


def _choices(axis: Axis) -> list[int]:
    if is_long(axis):
        return [int(value) for value in axis.values]
    return list(range(len(axis)))


class _CmaEs(CmaEsSampler):
    """CMA-ES that is told a penalty for what is infeasible, and so need not warn of constraints."""

    def after_trial(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _BruteForce(BruteForceSampler):
    """Brute force in a loop of our own, which ends by itself after the last combination."""

    def after_trial(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


class _Grid(GridSampler):
    """Grid search in a loop of our own, which ends by itself after the last combination."""

    def after_trial(self, *_: Any, **__: Any) -> None:
        """Do nothing."""
