"""Which trials of a shared study count: one complete trial a slot, whatever the workers do."""

from __future__ import annotations

import datetime

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from explorer.search.account import RETRIED, Seen, account_of, first_attempt

COMPLETE, FAIL = TrialState.COMPLETE, TrialState.FAIL
RUNNING, WAITING = TrialState.RUNNING, TrialState.WAITING


def trial(number: int, state: TrialState, repeats: int | None = None) -> FrozenTrial:
    return FrozenTrial(
        number=number,
        state=state,
        value=1.0 if state == COMPLETE else None,
        datetime_start=datetime.datetime(2026, 1, 1),
        datetime_complete=datetime.datetime(2026, 1, 1) if state.is_finished() else None,
        params={},
        distributions={},
        user_attrs={},
        system_attrs={} if repeats is None else {RETRIED: repeats},
        intermediate_values={},
        trial_id=number,
    )


def test_the_first_trials_open_the_slots_and_further_ones_do_not_count() -> None:
    trials = [trial(0, COMPLETE), trial(1, RUNNING), trial(2, WAITING), trial(3, COMPLETE)]
    account = account_of(trials, 3)
    assert [t.number for t in account.complete] == [0]
    assert [t.number for t in account.unfinished] == [1, 2]
    assert not account.counts(trials[3])


def test_a_retry_counts_once_all_before_it_have_failed() -> None:
    first, retry, again = trial(0, FAIL), trial(2, RUNNING, 0), trial(3, WAITING, 0)
    account = account_of([first, trial(1, COMPLETE), retry, again], 2)
    assert account.counts(retry)
    assert not account.counts(again)
    assert [t.number for t in account.unfinished] == [2]
    assert account.lost == []
    assert [t.number for t in account_of([first, trial(1, COMPLETE)], 2).lost] == [0]


def test_a_failed_trial_keeps_its_slot() -> None:
    """Or else a new trial could take it before the retry is queued."""
    account = account_of([trial(0, FAIL), trial(1, COMPLETE), trial(2, RUNNING)], 2)
    assert list(account.slots) == [0, 1]
    assert not account.counts(trial(2, RUNNING))


def test_the_retry_is_known_as_optuna_marks_it() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        retry = RetryHeartbeatStaleTrialCallback()
    for _ in range(2):
        asked = study.ask()
        asked.suggest_int("x", 0, 100)
        study.tell(asked, state=FAIL)
        retry(study, study.trials[asked.number])
    trials = study.get_trials()
    assert [first_attempt(t) for t in trials] == [0, 0, 0]
    with pytest.warns(optuna.exceptions.ExperimentalWarning):
        marked = [RetryHeartbeatStaleTrialCallback.retried_trial_number(t) for t in trials]
    assert marked == [None, 0, 0]
    assert len({t.params["x"] for t in trials}) == 1


class Workers:
    """Any interleaving of workers that die, stall and repair, on the rules a storage keeps.

    A number is given with a trial, a waiting trial is taken by one worker, and a finished trial
    never changes: nothing else is relied on.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.trials: list[FrozenTrial] = []
        self.taken: list[int] = []

    def add(self, state: TrialState, repeats: int | None = None) -> None:
        self.trials.append(trial(len(self.trials), state, repeats))

    def set(self, number: int, state: TrialState) -> None:
        if not self.trials[number].state.is_finished():
            self.trials[number] = trial(
                number, state, self.trials[number].system_attrs.get(RETRIED)
            )

    def numbers(self, state: TrialState) -> list[int]:
        return [t.number for t in self.trials if t.state == state]

    def step(self, action: int, choice: int) -> None:
        running, waiting = self.numbers(RUNNING), self.numbers(WAITING)
        if action == 0:
            self.add(RUNNING)
        elif action == 1:
            self.add(WAITING)
        elif action == 2 and waiting:
            self.set(waiting[choice % len(waiting)], RUNNING)
        elif action in (3, 4) and running:
            # A worker asks whether its trial counts; it may tell the answer much later.
            number = running[choice % len(running)]
            if account_of(self.trials, self.total).counts(self.trials[number]):
                self.taken.append(number)
            else:
                self.set(number, FAIL)
        elif action in (5, 6) and self.taken:
            self.set(self.taken.pop(choice % len(self.taken)), COMPLETE)
        elif action == 7 and running:
            self.set(running[choice % len(running)], FAIL)
        elif action == 8:
            lost = account_of(self.trials, self.total).lost
            for lost_trial in lost[: 1 + choice % 2]:
                self.add(WAITING, first_attempt(lost_trial))

    def finish(self) -> None:
        while len(account_of(self.trials, self.total).complete) < self.total:
            for action in (0, 8, 2, 3, 5):
                self.step(action, 0)


@settings(deadline=None, max_examples=300)
@given(
    total=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 7)), max_size=80),
)
def test_whatever_the_workers_do_each_slot_is_completed_once(
    total: int, steps: list[tuple[int, int]]
) -> None:
    workers = Workers(total)
    for action, choice in steps:
        workers.step(action, choice)
        complete = [t for t in workers.trials if t.state == COMPLETE]
        assert account_of(workers.trials, total).complete == sorted(complete, key=first_attempt)
    workers.finish()
    complete = workers.numbers(COMPLETE)
    assert len(complete) == total
    assert len({first_attempt(workers.trials[number]) for number in complete}) == total


def test_seen_by_ones_own_clock_and_without_interruption() -> None:
    now = [0.0]
    seen = Seen(lambda: now[0])
    assert seen.longer_than(5, [1, 2]) == set()
    now[0] = 4.0
    assert seen.longer_than(5, [2]) == set()
    now[0] = 5.0
    assert seen.longer_than(5, [1, 2]) == {2}
    assert seen.longer_than(0, [3]) == {3}
