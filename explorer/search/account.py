"""Which trials of a shared study count: exactly one complete trial for each of its slots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from optuna.trial import FrozenTrial, TrialState

RETRIED = "failed_trial"
"""Where Optuna's retry keeps the number of the trial that it repeats, the first of them."""


@dataclass(frozen=True)
class Account:
    """The slots of a study, as its trials tell.

    A study of ``total`` trials has as many slots. Each of its first ``total`` trials, retries left
    out, opens one; a retry stands in the slot of the trial it repeats. An attempt counts where
    all earlier ones in its slot have failed, so at most one in a slot is ever completed, whoever
    looks and whenever: numbers are given in order, and a failed trial stays failed.

    Attributes:
        total: trials asked for.
        slots: attempts in order, by the number of the first.
    """

    total: int
    slots: dict[int, list[FrozenTrial]]

    @cached_property
    def complete(self) -> list[FrozenTrial]:
        """The trial that completed each slot, in the order of the slots."""
        attempts = (trial for slot in self.slots.values() for trial in slot)
        return [trial for trial in attempts if trial.state == TrialState.COMPLETE]

    @cached_property
    def unfinished(self) -> list[FrozenTrial]:
        """Trials that count and are waiting or running."""
        attempts = (trial for slot in self.slots.values() for trial in slot)
        return [t for t in attempts if not t.state.is_finished() and self.counts(t)]

    @cached_property
    def lost(self) -> list[FrozenTrial]:
        """The last attempt of each slot in which all have failed."""
        return [slot[-1] for slot in self.slots.values() if all(map(_has_failed, slot))]

    def counts(self, trial: FrozenTrial) -> bool:
        """Return whether a trial may be completed."""
        slot = self.slots.get(first_attempt(trial))
        return slot is not None and all(
            _has_failed(other) for other in slot if other.number < trial.number
        )


def account_of(trials: Sequence[FrozenTrial], total: int) -> Account:
    """Return the account of a study of ``total`` trials from all that it holds."""
    slots: dict[int, list[FrozenTrial]] = {}
    for trial in sorted(trials, key=lambda trial: trial.number):
        first = first_attempt(trial)
        if first in slots:
            slots[first].append(trial)
        elif first == trial.number and len(slots) < total:
            slots[first] = [trial]
    return Account(total, slots)


def first_attempt(trial: FrozenTrial) -> int:
    """Return the number of the trial that this one repeats, its own when it repeats none."""
    number: int = trial.system_attrs.get(RETRIED, trial.number)
    return number


class Seen:
    """Since when trials have been seen in some state, by the clock of the one who looks.

    Clocks of other machines may be wrong; how long something has stood still before one's own
    eyes may not.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start having seen nothing."""
        self._clock = clock
        self._since: dict[int, float] = {}

    def longer_than(self, seconds: float, numbers: Iterable[int]) -> set[int]:
        """Return those of ``numbers`` seen in every call for so long; others are forgotten."""
        now = self._clock()
        seen = {number: self._since.get(number, now) for number in numbers}
        self._since = seen
        return {number for number, since in seen.items() if now - since >= seconds}


def _has_failed(trial: FrozenTrial) -> bool:
    return trial.state in (TrialState.FAIL, TrialState.PRUNED)
