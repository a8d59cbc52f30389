"""A search in the background: start it, watch it, stop it."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.certificate import Certificate, certify
from explorer.search.space import Space
from explorer.search.study import SearchResult, SearchSettings, Stopped, TrialReport, search

Progress = Callable[[TrialReport], None]
Search = Callable[[Space, SearchSettings, Progress, Stopped], SearchResult]
State = Literal["waiting", "searching", "certifying", "done", "stopped", "failed"]
FINAL_STATES = ("done", "stopped", "failed")
MOST_POINTS = 200


@dataclass(frozen=True)
class JobStatus:
    """A consistent picture of a job.

    Attributes:
        state: what it is doing; ``stopped`` when it was asked to end early.
        done, total: trials while searching, plans while certifying.
        best_value: best feasible objective so far; NaN without one.
        best: its scenario, or None.
        history: (trial, value or NaN, best so far or NaN), thinned to at most 200 trials.
        result: the finished search, or None.
        certificate: the finished enumeration, or None.
        error: why it failed, one sentence; empty unless it did.
    """

    state: State
    done: int
    total: int
    best_value: float
    best: Scenario | None
    history: tuple[tuple[int, float, float], ...] = ()
    result: SearchResult | None = None
    certificate: Certificate | None = None
    error: str = ""

    @property
    def finished(self) -> bool:
        """Whether nothing will change any more."""
        return self.state in FINAL_STATES


class SearchJob:
    """Runs one search, and then the certificate if asked to, in a daemon thread."""

    def __init__(
        self,
        space: Space,
        settings: SearchSettings,
        certified: bool = False,
        stored: Search | None = None,
    ) -> None:
        """Prepare the job; ``start`` runs it.

        ``stored`` searches in place of ``search``: one that a storage keeps.
        """
        self.space = space
        self.settings = settings
        self.certified = certified
        self._stored = stored
        self._stop = threading.Event()
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
        self._stop.set()

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
            self._set(state="searching")
            found = self._stored or search
            result = found(self.space, self.settings, self._on_trial, self._stop.is_set)
            self._set(result=result, best=result.best, best_value=result.best_value)
            if self.certified and not self._stop.is_set():
                self._set(state="certifying", done=0, total=result.space.size)
                certificate = certify(
                    self.space, self.settings.objective, self._on_block, self._stop.is_set
                )
                self._set(certificate=certificate)
            self._set(state="stopped" if self._ended_early() else "done")
        except InputError as error:
            self._set(state="failed", error=str(error))
        except Exception as error:  # the thread's last resort: whatever it was, it is shown
            self._set(state="failed", error=f"{type(error).__name__}: {error}")

    def _ended_early(self) -> bool:
        status = self._status
        cut_short = status.result is not None and status.result.stopped
        if self.certified:
            return cut_short or status.certificate is None or not status.certificate.complete
        return cut_short

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


def thinned(
    history: list[tuple[int, float, float]], most: int = MOST_POINTS
) -> tuple[tuple[int, float, float], ...]:
    """Return at most ``most`` trials, evenly spread, first and last among them."""
    count = len(history)
    if count <= most:
        return tuple(history)
    return tuple(history[i * (count - 1) // (most - 1)] for i in range(most))
