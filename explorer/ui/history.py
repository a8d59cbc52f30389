"""The last changes of a session's scenario, to take back and to do again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.config.scenario import Scenario
from explorer.serving.comparison import NOT_THERE, different_inputs

MOST_STEPS = 50
NAMED = 2
"""Changed numbers that a step is described by; of more it gives the count."""


@dataclass(frozen=True)
class Standing:
    """A scenario, and the preset with version that it is compared with."""

    scenario: Scenario
    preset: str


@dataclass(frozen=True)
class Step:
    """One change: what stood before it, and what it did in words."""

    before: Standing
    words: str


@dataclass(frozen=True)
class History:
    """Steps that can be taken back, and those that were, the latest at the end of both."""

    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()

    def changed(self, before: Standing, after: Standing) -> History:
        """Return the history after a change, which ends what could be done again.

        At most ``MOST_STEPS`` steps are kept. A change of nothing is no step.
        """
        if before == after:
            return self
        step = Step(before, change_words(before, after))
        return History((*self.past, step)[-MOST_STEPS:])

    def undone(self, now: Standing) -> tuple[History, Standing]:
        """Return the history without its last step, and what stood before it."""
        *past, last = self.past
        again = replace(last, before=now)
        return History(tuple(past), (*self.future, again)), last.before

    def redone(self, now: Standing) -> tuple[History, Standing]:
        """Return the history with the step that was last taken back, and what it led to."""
        *future, last = self.future
        back = replace(last, before=now)
        return History((*self.past, back), tuple(future)), last.before


def change_words(before: Standing, after: Standing) -> str:
    """Return what a change did: ``Prompt length 512 tokens → 1,024 tokens``."""
    rows = different_inputs([before.scenario, after.scenario])
    both = [row for row in rows if NOT_THERE not in row.values]
    machine = next((row for row in both if row.path in ("chip", "model")), None)
    if machine is not None:
        return f"{machine.label} {machine.values[0]} → {machine.values[1]}"
    if not both:
        return "the preset to compare with" if not rows else f"{len(rows)} numbers"
    named = [f"{row.label or row.path} {row.values[0]} → {row.values[1]}" for row in both[:NAMED]]
    more = f", and {len(rows) - len(named)} more" if len(rows) > len(named) else ""
    return ", ".join(named) + more
