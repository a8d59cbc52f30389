"""A search that a storage keeps: any process may begin it, join it, watch it or go on with it."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from explorer.config.errors import InputError, refuse
from explorer.search.account import Account, Seen, account_of, first_attempt
from explorer.search.heartbeat import Heartbeat
from explorer.search.samplers import Choice, told_value
from explorer.search.space import Space
from explorer.search.staged import fixed_batch_space
from explorer.search.storage import Storage
from explorer.search.study import (
    SearchResult,
    SearchSettings,
    Stopped,
    Tally,
    TrialReport,
    indices_in,
    parameters_of,
    polished_plan,
    settled,
    solvable_axes,
    suggested_index,
)
from explorer.search.trials import Judge, Outcome

ATTRIBUTE = "explorer"
"""User attribute of a study that holds its definition, and of a trial that holds its plan."""

POLL_SECONDS = 0.2

Progress = Callable[[TrialReport], None]


class SharedSearch:
    """What one process knows of a stored search, and does for it.

    The storage is the only truth: which trials count is read from it (``account_of``), and so is
    what is known of each plan, so that nothing is lost with a process. A trial whose process died
    is queued again with the same parameters; one that comes back from the dead finds its trial
    failed and is not counted.
    """

    def __init__(
        self,
        storage: Storage,
        study: optuna.Study,
        space: Space,
        settings: SearchSettings,
        choice: Choice | None = None,
    ) -> None:
        """Prepare; ``run`` works, ``refresh`` reads.

        ``settings`` are settled; ``choice`` says why they have their sampler.
        """
        self.storage = storage
        self.name = study.study_name
        self.space, self.settings = space, settings
        self.judge = judge_of(space, settings)
        self.choice = choice or settled(settings, self.judge.axes)[1]
        self.account = Account(settings.trials, {})
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._study = study
        self._learnt: dict[int, tuple[tuple[int, ...], Outcome]] = {}
        self._tally = Tally(settings.objective)
        self._running, self._lost = Seen(), Seen()
        self._beats = Heartbeat(storage)
        self._retried_at = -math.inf

    @property
    def done(self) -> int:
        """Trials that are complete."""
        return len(self._learnt)

    def run(
        self,
        progress: Progress | None = None,
        stopped: Stopped | None = None,
        waiting: Callable[[int], None] | None = None,
    ) -> SearchResult:
        """Take part until every trial is complete; return what all have found together.

        Args:
            progress: called after each trial, of whatever process.
            stopped: asked before each trial; True ends this process's part.
            waiting: called while there is nothing left but other processes' trials, with their
                number.

        Raises:
            InputError: when the storage is lost.
        """
        started = time.perf_counter()
        with self._beats:
            while True:
                for report in self.refresh():
                    if progress is not None:
                        progress(report)
                if self.done == self.settings.trials or (stopped is not None and stopped()):
                    break
                self._recover()
                if self._something_to_do():
                    self._run_one()
                else:
                    if waiting is not None:
                        waiting(len(self.account.unfinished))
                    time.sleep(POLL_SECONDS)
        return self.result(time.perf_counter() - started)

    def refresh(self) -> list[TrialReport]:
        """Read the storage; return one report for each trial completed since the last time.

        Raises:
            InputError: when the storage is lost, or a trial is none of this space.
        """
        with self.storage.errors():
            trials = self._study.get_trials(deepcopy=False)
        self.account = account_of(trials, self.settings.trials)
        self.judge.pending = frozenset(self._plans_of(self.account.unfinished))
        return [
            self._learn(trial)
            for trial in self.account.complete
            if trial.number not in self._learnt
        ]

    def result(self, seconds: float = 0.0) -> SearchResult:
        """Return what the complete trials have found, in the order in which they were begun."""
        tally, plans = Tally(self.settings.objective), set()
        for trial in self.account.complete:
            indices, outcome = self._learnt[trial.number]
            tally.add(indices, outcome)
            plans.add(indices)
        return SearchResult(
            best=self.judge.scenario(tally.leader[1]) if tally.found else None,
            best_value=tally.best_value,
            objective=self.settings.objective,
            space=self.judge.space,
            trials=len(tally.history),
            feasible_trials=tally.feasible,
            distinct_plans=len(plans),
            seconds=seconds,
            excluded=tally.excluded,
            history=tuple(tally.history),
            solved_exactly=tuple(axis.name for axis in self.judge.solved),
            stopped=len(tally.history) < self.settings.trials,
            sampler=self.choice,
        )

    @property
    def running(self) -> int:
        """Trials that run now, somewhere."""
        return sum(trial.state == TrialState.RUNNING for trial in self.account.unfinished)

    @property
    def workers(self) -> Counter[str]:
        """How many of the complete trials each worker evaluated."""
        return Counter(str(_record(trial).get("worker")) for trial in self.account.complete)

    def _learn(self, trial: FrozenTrial) -> TrialReport:
        indices, outcome = self._recorded(trial)
        self.judge.learn(indices, outcome)
        self._learnt[trial.number] = indices, outcome
        self._tally.add(indices, outcome)
        tally = self._tally
        best = self.judge.scenario(tally.leader[1]) if tally.found else None
        number = len(tally.history) - 1
        return TrialReport(number, self.settings.trials, outcome.value, tally.best_value, best)

    def _recorded(self, trial: FrozenTrial) -> tuple[tuple[int, ...], Outcome]:
        indices = indices_in(self.judge.axes, trial.params)
        values, axes = _record(trial).get("plan"), self.judge.space.axes
        if (
            indices is None
            or not isinstance(values, list)
            or len(values) != len(axes)
            or not all(value in axis.values for value, axis in zip(values, axes, strict=True))
        ):
            problem = f"its trial {trial.number} holds no plan; expected another name"
            raise refuse("study", self.name, problem)
        excess = trial.constraints
        value = trial.value
        if value is None or excess or not math.isfinite(value):
            value = math.nan
        return indices, Outcome(tuple(values), value, excess)

    def _plans_of(self, trials: Iterable[FrozenTrial]) -> Iterable[tuple[int, ...]]:
        for trial in trials:
            parameters = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
            indices = indices_in(self.judge.axes, parameters)
            if indices is not None:
                yield indices

    def _something_to_do(self) -> bool:
        return len(self.account.slots) < self.settings.trials or self._queued()

    def _queued(self) -> bool:
        return any(trial.state == TrialState.WAITING for trial in self.account.unfinished)

    def _recover(self) -> None:
        """Queue again what was lost with its worker."""
        storage, now = self.storage, time.monotonic()
        with storage.errors():
            if now - self._retried_at >= storage.heartbeat_seconds:
                self._retried_at = now
                storage.retry_lost(self._study)
            running = {
                t.number: t for t in self.account.unfinished if t.state == TrialState.RUNNING
            }
            lost = {trial.number: trial for trial in self.account.lost}
            for number in sorted(self._running.longer_than(storage.patience_seconds, running)):
                self._fail_and_retry(running[number])
            # Whoever found these failed died before they were queued again.
            for number in sorted(self._lost.longer_than(storage.heartbeat_seconds, lost)):
                storage.retry(self._study, lost[number])

    def _fail_and_retry(self, trial: FrozenTrial) -> None:
        if _finished(self._study, trial.number, TrialState.FAIL):
            self.storage.retry(self._study, trial)

    def _run_one(self) -> None:
        with self.storage.errors():
            if not self._queued():
                planned = self._planned()
                if planned is not None:
                    self._study.enqueue_trial(parameters_of(self.judge.axes, planned))
            trial = self.storage.ask(self._study)
            self._beats.of(trial)
            try:
                self._evaluate(trial)
            except UpdateFinishedTrialError:
                # Others took this process for dead; the retry of its trial counts, not this.
                return
            except BaseException as error:
                self._hand_back(trial, error)
                raise
            finally:
                self._beats.of(None)

    def _planned(self) -> tuple[int, ...] | None:
        """Return the plan that comes before the sampler's proposal, as ``search`` has it."""
        return polished_plan(self.judge, self.settings, len(self.account.slots))

    def _evaluate(self, trial: optuna.Trial) -> None:
        frozen = trial._cached_frozen_trial
        first = first_attempt(frozen)
        if first != trial.number or trial.number >= self.settings.trials:
            trials = self._study.get_trials(deepcopy=False)
            if not account_of(trials, self.settings.trials).counts(frozen):
                _finished(self._study, trial.number, TrialState.FAIL)
                return
        indices = tuple(suggested_index(trial, axis) for axis in self.judge.axes)
        outcome = self.judge.outcome(indices)
        for name in outcome.violated:
            if name not in frozen.constraints:
                # Those kept are not told: each would be two more questions to a database.
                trial.set_constraint(name, outcome.excess[name])
        record = {"worker": self.worker, "plan": list(outcome.values)}
        trial.set_user_attr(ATTRIBUTE, record)
        value = told_value(
            self.choice.sampler, self.settings.objective, outcome.value, outcome.violation
        )
        _finished(self._study, trial.number, TrialState.COMPLETE, value)

    def _hand_back(self, trial: optuna.Trial, why: BaseException) -> None:
        """Queue a trial again that was cut short, if the storage is not what cut it."""
        if isinstance(why, StorageInternalError | OSError | InputError):
            return
        with contextlib.suppress(StorageInternalError, OSError, InputError):
            self._fail_and_retry(self._study.get_trials(deepcopy=False)[trial.number])


def judge_of(space: Space, settings: SearchSettings) -> Judge:
    """Return the judge of a search's plans, its batch fixed where the objective wants it."""
    chosen = fixed_batch_space(space) if settings.objective.fixes_batch else space
    return Judge(chosen, settings.objective, () if settings.plain else solvable_axes(chosen))


def _record(trial: FrozenTrial) -> dict[str, Any]:
    found = trial.user_attrs.get(ATTRIBUTE)
    return found if isinstance(found, dict) else {}


def _finished(
    study: optuna.Study, number: int, state: TrialState, value: float | None = None
) -> bool:
    """End a running trial; return False where another process has done so before."""
    try:
        study.tell(number, value, state)
    except UpdateFinishedTrialError:
        return False
    except ValueError:
        # Optuna's word for a trial that is not running any more; any other is a fault.
        if study.get_trials(deepcopy=False)[number].state == TrialState.RUNNING:
            raise
        return False
    return True
