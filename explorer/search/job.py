"""A search in the background: start it, watch it, stop it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.bound import Bound, BoundReport
from explorer.search.certificate import Certificate
from explorer.search.nearest import Nearest, nearest_plan
from explorer.search.proof import (
    Proof,
    ProofSettings,
    best_known,
    better_plan,
    enumerates,
    prove_best,
)
from explorer.search.samplers import AUTO, SAMPLERS
from explorer.search.space import Space
from explorer.search.stopping import Stopping
from explorer.search.study import SearchResult, SearchSettings, Stopped, TrialReport, search
from explorer.search.turns import TURNS

Progress = Callable[[TrialReport], None]
Search = Callable[[Space, SearchSettings, Progress, Stopped], SearchResult]
State = Literal[
    "waiting", "searching", "certifying", "bounding", "comparing", "done", "stopped", "failed"
]
FINAL_STATES = ("done", "stopped", "failed")
MOST_POINTS = 200


@dataclass(frozen=True)
class JobStatus:
    """A consistent picture of a job.

    Attributes:
        state: what it is doing; ``stopped`` when it was asked to end early.
        done, total: trials while searching and comparing, plans while certifying.
        ahead: while it waits for its turn, how many must end before it.
        best_value: best feasible objective so far, of the study or of the proof; NaN without one.
        best: its scenario, or None.
        history: (trial, value or NaN, best so far or NaN), thinned to at most 200 trials.
        result: the finished search, or None.
        proof: the finished enumeration or bound, or None.
        report: what is known while bounding, or None.
        plain: what the sampler alone reached with as many trials, or None.
        nearest: where no plan was feasible, the nearest one that is; None otherwise.
        error: why it failed, one sentence; empty unless it did.
    """

    state: State
    done: int
    total: int
    best_value: float
    best: Scenario | None
    history: tuple[tuple[int, float, float], ...] = ()
    result: SearchResult | None = None
    proof: Proof | None = None
    report: BoundReport | None = None
    plain: SearchResult | None = None
    nearest: Nearest | None = None
    ahead: int = 0
    error: str = ""

    @property
    def certificate(self) -> Certificate | None:
        """The finished enumeration, or None."""
        return self.proof if isinstance(self.proof, Certificate) else None

    @property
    def bound(self) -> Bound | None:
        """The finished bound of a space too large to enumerate, or None."""
        return self.proof if isinstance(self.proof, Bound) else None

    @property
    def finished(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL_STATES


class SearchJob:
    """Runs one search, then its proof and the plain study if asked to, when its turn has come.

    In a daemon thread.
    """

    def __init__(
        self,
        space: Space,
        settings: SearchSettings,
        certified: bool = False,
        stored: Search | None = None,
        proof: ProofSettings | None = None,
        plain: bool = False,
        abandoned: Stopped | None = None,
    ) -> None:
        """Prepare the job; ``start`` runs it.

        Args:
            space: the plans.
            settings: how to search.
            certified: whether to prove how good the best plan is.
            stored: searches in place of ``search``: one that a storage keeps.
            proof: how to prove; by default as ``ProofSettings`` does.
            plain: whether to find out afterwards what the sampler alone would have reached.
            abandoned: asked now and then, beside ``stop``: whether nobody waits for it any more.
        """
        self.space = space
        self.settings = settings
        self.certified = certified
        self._stored = stored
        self.proof_settings = proof or ProofSettings()
        self._plain = plain
        self._stopped = Stopping(abandoned)
        self._lock = threading.Lock()
        self._status = JobStatus("waiting", 0, settings.trials, math.nan, None)
        self._history: list[tuple[int, float, float]] = []
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)

    def start(self) -> SearchJob:
        """Start the thread and return the job; to be called once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ask the job to end; returns at once, the thread ends after its trial or block."""
        self._stopped.tell()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the thread, at most ``seconds``; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def status(self) -> JobStatus:
        """Return what is known now."""
        with self._lock:
            return replace(self._status, history=thinned(self._history))

    def _run(self) -> None:
        try:
            with TURNS.turn(self._stopped, lambda ahead: self._set(ahead=ahead)):
                if not self._stopped():
                    self._work()
            self._set(state="stopped" if self._ended_early() else "done")
        except InputError as error:
            self._set(state="failed", error=str(error))
        except Exception as error:  # the thread's last resort: whatever it was, it is shown
            self._set(state="failed", error=f"{type(error).__name__}: {error}")

    def _work(self) -> None:
        self._set(state="searching", ahead=0)
        found = self._stored or search
        result = found(self.space, self.settings, self._on_trial, self._stopped)
        self._set(result=result, best=result.best, best_value=result.best_value)
        if self.certified and not self._stopped():
            self._prove(result)
        if self._status.best is None and not self._stopped():
            self._set(nearest=nearest_plan(self.space.base))
        elif self._plain and not self._stopped():
            self._compare()

    def _prove(self, result: SearchResult) -> None:
        objective = self.settings.objective
        whole = enumerates(self.space, objective, self.proof_settings)
        doing = "certifying" if whole else "bounding"
        self._set(state=doing, done=0, total=result.space.size)
        proof = prove_best(
            self.space,
            objective,
            self.proof_settings,
            start=result.best,
            on_block=self._on_block,
            on_cell=lambda report: self._set(report=report),
            stopped=self._stopped,
        )
        self._set(proof=proof, report=None)
        better = better_plan(proof, result.best_value)
        if better is not None:
            self._set(best=better, best_value=best_known(proof)[1])

    def _compare(self) -> None:
        settings = plain_settings(self.settings)
        self._set(state="comparing", done=0, total=settings.trials)
        plain = search(
            self.space,
            settings,
            lambda report: self._set(done=report.number + 1),
            self._stopped,
        )
        self._set(plain=plain)

    def _ended_early(self) -> bool:
        status = self._status
        cut_short = status.result is None or status.result.stopped
        if self.certified:
            cut_short = cut_short or status.proof is None
        if status.certificate is not None:
            cut_short = cut_short or not status.certificate.complete
        plain = status.plain
        unplain = self._plain and status.best is not None and (plain is None or plain.stopped)
        return cut_short or unplain

    def _on_trial(self, report: TrialReport) -> None:
        with self._lock:
            self._history.append((report.number, report.value, report.best_value))
            self._status = replace(
                self._status,
                done=report.number + 1,
                best=report.best,
                best_value=report.best_value,
            )

    def _on_block(self, done: int, total: int) -> None:
        self._set(done=done, total=total)

    def _set(self, **changes: object) -> None:
        with self._lock:
            self._status = replace(self._status, **changes)  # type: ignore[arg-type]


def plain_settings(settings: SearchSettings) -> SearchSettings:
    """Return the settings of a study that leaves the sampler alone with all axes.

    A sampler that tries every combination has no such study: TPE stands in for it.
    """
    exhaustive = settings.sampler != AUTO and SAMPLERS[settings.sampler].exhaustive
    sampler = "tpe" if exhaustive or settings.sampler == AUTO else settings.sampler
    return replace(settings, sampler=sampler, plain=True)


def thinned(
    history: list[tuple[int, float, float]], most: int = MOST_POINTS
) -> tuple[tuple[int, float, float], ...]:
    """Return at most ``most`` trials, evenly spread, first and last among them."""
    count = len(history)
    if count <= most:
        return tuple(history)
    return tuple(history[i * (count - 1) // (most - 1)] for i in range(most))
