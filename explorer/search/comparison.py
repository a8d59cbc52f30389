"""Samplers compared on one space: the best so far against trials and against time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.certificate import Certificate, Progress, Stopped
from explorer.search.job import plain_settings
from explorer.search.proof import Proof, ProofSettings, prove_best
from explorer.search.samplers import AUTO, SAMPLERS, installed_samplers
from explorer.search.space import Space
from explorer.search.study import SearchSettings, TrialReport, search

CLOSE = 0.01
"""Gap below which a sampler counts as having arrived."""


@dataclass(frozen=True)
class Point:
    """The best value after a trial: its number from 1, and seconds from the start."""

    trial: int
    seconds: float
    best: float


@dataclass(frozen=True)
class Curve:
    """How one sampler did.

    Attributes:
        sampler: its name.
        plain: whether it had all axes to itself: no first plans, none solved, no neighbours.
        points: after the first feasible trial, each improvement, and the last trial.
        trials: trials run.
        distinct_plans: distinct plans among them.
        best: scenario of the best feasible plan, or None.
        best_value: its objective; NaN without one.
        solved_exactly: names of the axes that each trial solved.
        stopped: whether it was ended early.
    """

    sampler: str
    plain: bool
    points: tuple[Point, ...]
    trials: int
    distinct_plans: int
    best: Scenario | None
    best_value: float
    solved_exactly: tuple[str, ...]
    stopped: bool

    @property
    def label(self) -> str:
        """What to call it."""
        name = SAMPLERS[self.sampler].label
        return f"{name} alone" if self.plain else name

    @property
    def seconds(self) -> float:
        """Time of all trials."""
        return self.points[-1].seconds if self.points else math.nan


@dataclass(frozen=True)
class Comparison:
    """What is known of a comparison.

    Attributes:
        settings: trials, seed and objective of all.
        curves: one for each sampler, and the last for the sampler alone.
        left_out: why others could not run here, one sentence each.
        proof: the certified optimum, or a bound of it; None where it was ended early.
    """

    settings: SearchSettings
    curves: tuple[Curve, ...]
    left_out: tuple[str, ...]
    proof: Proof | None

    @property
    def floor(self) -> float:
        """The optimum, or the bound that no plan is better than; NaN where neither is known."""
        if isinstance(self.proof, Certificate):
            return self.proof.optimum if self.proof.complete else math.nan
        return math.nan if self.proof is None else self.proof.bound

    def gap(self, curve: Curve) -> float:
        """Return how far a curve ended from the floor, as a fraction of it."""
        return self.settings.objective.gap(curve.best_value, self.floor)

    def arrival(self, curve: Curve) -> Point | None:
        """Return when a curve came within 1 % of the floor; None where it never did."""
        for point in curve.points:
            if self.settings.objective.gap(point.best, self.floor) <= CLOSE:
                return point
        return None


def compare(
    space: Space,
    settings: SearchSettings,
    proof: ProofSettings | None = None,
    known: Proof | None = None,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Comparison:
    """Return how every sampler that can run here does, and a study of the sampler alone.

    All have the same trials and the same seed.

    Args:
        space: the plans.
        settings: objective, trials and seed.
        proof: how to prove the floor at the end.
        known: a proof of the same space and objective, in place of a new one.
        progress: called with trials done and trials in all.
        stopped: asked after each trial; True ends the comparison where it is.
    """
    over = stopped or (lambda: False)
    studies = [replace(settings, sampler=name, plain=False) for name in installed_samplers()]
    studies.append(plain_settings(replace(settings, sampler=AUTO)))
    curves: list[Curve] = []
    left_out: list[str] = []
    total = settings.trials * len(studies)
    for position, study in enumerate(studies):
        if over():
            break

        def on_trial(number: int, before: int = position * settings.trials) -> None:
            if progress is not None:
                progress(before + number, total)

        try:
            curves.append(_curve(space, study, on_trial, over))
        except InputError as error:
            # Those that try everything refuse a large space; the others run on.
            left_out.append(str(error))
    if known is None and not over():
        how = proof or ProofSettings()
        known = prove_best(space, settings.objective, how, _leader(settings, curves), stopped=over)
    return Comparison(settings, tuple(curves), tuple(left_out), known)


def _curve(
    space: Space, settings: SearchSettings, tell: Callable[[int], None], stopped: Stopped
) -> Curve:
    started = time.perf_counter()
    points: list[Point] = []

    def on_trial(report: TrialReport) -> None:
        last = points[-1] if points else None
        ends = report.number + 1 == report.trials
        improved = last is None or report.best_value != last.best
        if not math.isnan(report.best_value) and (improved or ends):
            seconds = time.perf_counter() - started
            points.append(Point(report.number + 1, seconds, report.best_value))
        tell(report.number + 1)

    found = search(space, settings, on_trial, stopped)
    return Curve(
        found.sampler.sampler.name,
        settings.plain,
        tuple(points),
        found.trials,
        found.distinct_plans,
        found.best,
        found.best_value,
        found.solved_exactly,
        found.stopped,
    )


def _leader(settings: SearchSettings, curves: Sequence[Curve]) -> Scenario | None:
    """Return the best plan that any sampler found."""
    best: Curve | None = None
    for curve in curves:
        if best is None or settings.objective.better(curve.best_value, best.best_value):
            best = curve
    return None if best is None else best.best
