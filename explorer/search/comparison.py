"""Samplers compared on one space: the best so far against trials and against time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.certificate import Certificate
from explorer.search.job import plain_settings
from explorer.search.proof import Proof, ProofSettings, prove_best
from explorer.search.samplers import SAMPLERS, installed_samplers
from explorer.search.space import Space
from explorer.search.study import SearchSettings, TrialReport, search

CLOSE = 0.01
"""Gap below which a sampler counts as having arrived."""

Stopped = Callable[[], bool]


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
        curves: those that have finished, in order.
        running: label of the one at work; empty when none is.
        left_out: samplers that could not run here, with the reason.
        proof: the certified optimum, or a bound of it; None before the end.
        error: why it failed; empty unless it did.
        finished: whether nothing will change any more.
    """

    settings: SearchSettings
    curves: tuple[Curve, ...] = ()
    running: str = ""
    left_out: tuple[str, ...] = ()
    proof: Proof | None = None
    error: str = ""
    finished: bool = False

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
    progress: Callable[[Comparison], None] | None = None,
    stopped: Stopped | None = None,
) -> Comparison:
    """Return how every sampler that can run here does, and a study of the sampler alone.

    All have the same trials and the same seed.

    Args:
        space: the plans.
        settings: objective, trials and seed.
        proof: how to prove the floor at the end.
        known: a proof of the same space and objective, in place of a new one.
        progress: called before and after each study.
        stopped: asked after each trial; True ends the comparison where it is.
    """
    state = Comparison(settings)
    over = stopped or (lambda: False)
    tell = progress or (lambda _: None)
    plain = plain_settings(replace(settings, sampler="auto"))
    studies = [replace(settings, sampler=name, plain=False) for name in installed_samplers()]
    for study in [*studies, plain]:
        if over():
            break
        tell(replace(state, running=_label(study)))
        try:
            curve = _curve(space, study, over)
        except InputError as error:
            # Those that try everything refuse a large space; the others run on.
            state = replace(state, left_out=(*state.left_out, str(error)))
            continue
        state = replace(state, curves=(*state.curves, curve))
        tell(state)
    if known is None and not over():
        tell(replace(state, running="the proof"))
        known = prove_best(space, settings.objective, proof or ProofSettings(), stopped=over)
    return replace(state, proof=known, finished=True)


class ComparisonJob:
    """Runs one comparison in a daemon thread."""

    def __init__(
        self,
        space: Space,
        settings: SearchSettings,
        proof: ProofSettings | None = None,
        known: Proof | None = None,
    ) -> None:
        """Prepare the job, as ``compare`` takes it; ``start`` runs it."""
        self.space = space
        self.settings = settings
        self._proof, self._known = proof, known
        self._stop = threading.Event()
        self._status = Comparison(settings)
        self._thread = threading.Thread(target=self._run, name="comparison", daemon=True)

    def start(self) -> ComparisonJob:
        """Start the thread and return the job; to be called once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask the job to end; returns at once."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the thread, at most ``seconds``; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def status(self) -> Comparison:
        """Return what is known now."""
        return self._status

    def _run(self) -> None:
        try:
            self._status = compare(
                self.space, self.settings, self._proof, self._known, self._show, self._stop.is_set
            )
        except Exception as error:  # the thread's last resort: whatever it was, it is shown
            message = f"{type(error).__name__}: {error}"
            self._status = replace(self._status, running="", error=message, finished=True)

    def _show(self, comparison: Comparison) -> None:
        self._status = comparison


def _curve(space: Space, settings: SearchSettings, stopped: Stopped) -> Curve:
    started = time.perf_counter()
    points: list[Point] = []

    def on_trial(report: TrialReport) -> None:
        last = points[-1] if points else None
        ends = report.number + 1 == report.trials
        improved = last is None or report.best_value != last.best
        if not math.isnan(report.best_value) and (improved or ends):
            seconds = time.perf_counter() - started
            points.append(Point(report.number + 1, seconds, report.best_value))

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


def _leader(state: Comparison) -> Scenario | None:
    """Return the best plan that any sampler found."""
    objective, best = state.settings.objective, None
    for curve in state.curves:
        if best is None or objective.better(curve.best_value, best.best_value):
            best = curve
    return None if best is None else best.best


def _label(settings: SearchSettings) -> str:
    return Curve(settings.sampler, settings.plain, (), 0, 0, None, math.nan, (), False).label
