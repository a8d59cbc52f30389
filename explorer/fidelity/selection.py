"""Which constants of a chip a calibration fits: as few as the rows determine, or those named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.config.chip import Chip
from explorer.config.quantity import WHOLE_SCALES
from explorer.costs.arrays import Array
from explorer.fidelity.effects import BY_ITSELF, NAMED, SCATTER, Choice, Effects, choose
from explorer.fidelity.intervals import intervals
from explorer.fidelity.solution import Problem, Solution

MOST_ROUNDS = 6
"""Times that the choice of constants is looked at again, at the values found."""
LARGEST_REACH = 0.5
"""Half an interval over the value: above it a constant that nobody named is not fitted."""
BY_ITSELF_KINDS = ("fitted", "assumed")
NAMED_KINDS = (*BY_ITSELF_KINDS, "measured", "derived", "override")


def fittable(chip: Chip, named: bool = False) -> tuple[str, ...]:
    """Return the constants of a chip that can be fitted: by themselves, or when named."""
    kinds = NAMED_KINDS if named else BY_ITSELF_KINDS
    return tuple(
        name
        for name, item in chip.quantities.items()
        if item.kind in kinds and item.scale not in WHOLE_SCALES and item.minimum < item.maximum
    )


@dataclass(frozen=True)
class Search:
    """The choice of constants, and the fit of those chosen.

    Attributes:
        problem: the chip, and the rows that its constants are fitted to.
        named: constants that a person named; empty to choose those that the rows determine.
    """

    problem: Problem
    named: tuple[str, ...]

    def found(self) -> tuple[Choice, Solution]:
        """Return the constants to fit, and their fit.

        Effects are looked at again at the values found: where the slowest of several resources
        sets a time, another constant may count there.
        """
        candidates = self.named or fittable(self.problem.chip)
        late: dict[str, str] = {}
        choice, solution = Choice((), {}), self.problem.solved(())
        for _ in range(MOST_ROUNDS):
            found = self._choice([name for name in candidates if name not in late], solution)
            if found.names != choice.names:
                choice, solution = found, self.problem.solved(found.names)
                continue
            # Only now: what a fit still lacks makes its other constants look undetermined.
            choice, dropped = found, self._undetermined(solution)
            if not dropped:
                break
            late |= dropped
            choice, solution = self._without(choice, late)
        while dropped := self._undetermined(solution):
            late |= dropped
            choice, solution = self._without(choice, late)
        return Choice(choice.names, {**choice.reasons, **late}), solution

    def _without(self, choice: Choice, late: Mapping[str, str]) -> tuple[Choice, Solution]:
        names = tuple(name for name in choice.names if name not in late)
        return Choice(names, choice.reasons), self.problem.solved(names)

    def offered(self, everything: Effects, choice: Choice) -> tuple[str, ...]:
        """Return measured or derived constants that the rows determine beside the fitted ones."""
        known = set(choice.names) | set(choice.reasons)
        others = [name for name in everything.names if name not in known]
        if self.named or not others:
            return ()
        beside = everything.only([*choice.names, *others])
        ranks = [0] * len(choice.names) + [1] * len(others)
        found = choose(beside, ranks, BY_ITSELF, np.full(len(ranks), SCATTER))
        return tuple(name for name in found.names if name in others)

    def _choice(self, candidates: Sequence[str], at: Solution) -> Choice:
        if self.named:
            ranks, rule = list(range(len(candidates))), NAMED
        else:
            kinds = [self.problem.chip.quantities[name].kind for name in candidates]
            ranks, rule = [BY_ITSELF_KINDS.index(kind) for kind in kinds], BY_ITSELF
        effects = self.problem.effects(candidates, at)
        return choose(effects, ranks, rule, _scatter(effects, at))

    def _undetermined(self, solution: Solution) -> dict[str, str]:
        """Return constants that nobody named and that the fit leaves undetermined, and why."""
        if self.named:
            return {}
        found: dict[str, str] = {}
        alike: dict[float, str] = {}
        for name, interval in intervals(solution, None).by_name.items():
            rows = int(solution.effects.seen_of(name).sum())
            if interval.at:
                continue
            if rows < BY_ITSELF.rows_each:
                found[name] = "hardly any row depends on it at the values that fit"
            elif interval.reach is None:
                alike[float(np.linalg.norm(solution.effects.only([name]).matrix))] = name
            elif interval.reach > LARGEST_REACH:
                reach = f"±{100 * interval.reach:.0f} %" if interval.value else "around 0"
                found[name] = f"the rows scatter too much to determine it: {reach}"
        if alike:
            # Without the one of least effect the others may be determined.
            found[alike[min(alike)]] = "the rows cannot tell it apart at the values that fit"
        return found


def _scatter(effects: Effects, at: Solution) -> Array:
    """Return the scatter [constants] of rows around a fit, at most ``SCATTER``.

    A constant that is not fitted yet may be what moves its rows away: the scatter is that around
    the fit with it, to first order. Of rows too few to tell, and before any fit, it is not known.
    """
    known = np.full(len(effects.names), SCATTER)
    for index, name in enumerate(effects.names if at.names else ()):
        members = [*(other for other in at.names if other != name), name]
        beside = effects.only(members)
        rows, group = next(group for group in beside.groups() if len(members) - 1 in group[1])
        degrees = len(rows) - len(group)
        if degrees >= BY_ITSELF.spare:
            matrix = beside.matrix[np.ix_(rows, group)]
            moved = np.linalg.lstsq(matrix, at.residuals[rows])[0]
            left = at.residuals[rows] - matrix @ moved
            known[index] = min(SCATTER, float(np.sqrt(left @ left / degrees)))
    return known
