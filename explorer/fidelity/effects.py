"""Which rows say something of which constants, and which constants they can tell apart.

An effect is d ln(prediction) / d ln(constant): by how many percent a prediction moves when the
constant moves by one. Of measured values only the scatter counts here, so that what is chosen to
be fitted does not depend on where it would end up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.costs.arrays import Array, Mask

Indices: TypeAlias = NDArray[np.intp]

LEAST_EFFECT = 0.01
"""A row says nothing of a constant that it answers to by less than 1 % of the change."""
ALIKE = 0.95
"""Constants whose effects correlate by more are named as hard to tell apart."""
TWIN = 0.9999
"""Constants whose effects correlate by more cannot be told apart at all."""
SCATTER = 0.01
"""Relative scatter of rows that constants are chosen for, as long as no smaller one is known."""


class Pair(NamedTuple):
    """Two constants, and the correlation of their effects (or of their fitted values)."""

    first: str
    second: str
    correlation: float


class Rule(NamedTuple):
    """What a constant needs to be fitted.

    Attributes:
        rows_each: rows for each of the constants that share them.
        spare: rows beyond one for each constant.
        error: largest relative standard error to expect.
        apart: least part of its effects that no other chosen constant has (a sine).
    """

    rows_each: int
    spare: int
    error: float
    apart: float


BY_ITSELF = Rule(2, 2, 0.25, 0.2)
"""For constants that nobody named: few, and each well determined."""
NAMED = Rule(1, 0, 100.0, 0.02)
"""For constants that a person named: whatever can be computed at all."""


@dataclass(frozen=True)
class Effects:
    """Effects of constants [rows, constants]."""

    names: tuple[str, ...]
    matrix: Array

    @property
    def seen(self) -> Mask:
        """Where a row says something of a constant [rows, constants]."""
        seen: Mask = np.abs(self.matrix) >= LEAST_EFFECT
        return seen

    def seen_of(self, name: str) -> Mask:
        """Return which rows say something of one constant [rows]."""
        seen: Mask = self.seen[:, self.names.index(name)]
        return seen

    def only(self, names: Sequence[str]) -> Effects:
        """Return the effects of some constants."""
        chosen = [self.names.index(name) for name in names]
        return Effects(tuple(names), self.matrix[:, chosen])

    def alike(self) -> tuple[Pair, ...]:
        """Return pairs of constants, both seen by some row, whose effects correlate strongly."""
        seen = np.logical_or.reduce(self.seen, axis=0)
        pairs = []
        for i, first in enumerate(self.names):
            for j in range(i + 1, len(self.names)):
                if seen[i] and seen[j]:
                    correlation = _correlation(self.matrix[:, i], self.matrix[:, j])
                    if abs(correlation) >= ALIKE:
                        pairs.append(Pair(first, self.names[j], correlation))
        return tuple(pairs)

    def groups(self) -> tuple[tuple[Indices, Indices], ...]:
        """Return constants that share rows, and those rows, as indices: (rows, constants) each.

        Groups share no row, so that each has a scatter of its own.
        """
        seen = self.seen
        left = list(range(len(self.names)))
        found = []
        while left:
            members = [left.pop(0)]
            rows = seen[:, members[0]]
            while more := [index for index in left if (seen[:, index] & rows).any()]:
                members += more
                left = [index for index in left if index not in more]
                rows = np.logical_or.reduce(seen[:, members], axis=1)
            found.append((np.flatnonzero(rows), np.asarray(sorted(members))))
        return tuple(found)


@dataclass(frozen=True)
class Choice:
    """Constants to fit, and why each of the others is not."""

    names: tuple[str, ...]
    reasons: dict[str, str]


def choose(effects: Effects, ranks: Sequence[int], rule: Rule, scatter: Array) -> Choice:
    """Return the constants that the rows determine, and can tell apart.

    Constants are taken one by one: of the lowest rank left, the one with the largest effects that
    those taken do not have. Of constants that the rows cannot tell apart at all it is the one with
    the largest effects, whatever its rank: the one that stands for all of them.

    Args:
        effects: of all constants that may be fitted.
        ranks: of each constant; lower ones are taken first.
        rule: what a constant needs.
        scatter: relative scatter [constants] of the rows that say something of each.
    """
    taken: list[int] = []
    refused: dict[int, str] = {}
    for rank in sorted(set(ranks)):
        while True:
            own = _own_effects(effects.matrix, taken)
            norms = np.linalg.norm(own, axis=0)
            open_ = [
                index
                for index, its_rank in enumerate(ranks)
                if its_rank == rank and index not in taken and index not in refused
            ]
            if not open_:
                break
            best = max(open_, key=lambda index: norms[index])
            best = _largest_twin(effects.matrix, best, [*taken, *refused])
            reason = _refusal(effects, taken, best, rule, scatter)
            if reason:
                refused[best] = reason
            else:
                taken.append(best)
    names = tuple(effects.names[index] for index in sorted(taken))
    reasons = {effects.names[index]: reason for index, reason in sorted(refused.items())}
    return Choice(names, reasons)


def _largest_twin(matrix: Array, index: int, known: Sequence[int]) -> int:
    """Return the constant of largest effects among those whose effects are all in proportion."""
    norms = np.linalg.norm(matrix, axis=0)
    twins = [
        other
        for other in range(matrix.shape[1])
        if other not in known
        and norms[other] > norms[index] > 0
        and _correlation(matrix[:, index], matrix[:, other]) >= TWIN
    ]
    return max(twins, key=lambda other: norms[other], default=index)


def _refusal(effects: Effects, taken: Sequence[int], index: int, rule: Rule, scatter: Array) -> str:
    """Return why a constant can not be fitted beside those taken, or an empty text."""
    column = effects.matrix[:, index]
    seen_by = int(effects.seen[:, index].sum())
    if not seen_by:
        return "no row depends on it"
    own = float(np.linalg.norm(_own_effects(effects.matrix, taken)[:, index]))
    if own < rule.apart * float(np.linalg.norm(column)):
        alike = max(taken, key=lambda other: abs(_correlation(column, effects.matrix[:, other])))
        correlation = _correlation(column, effects.matrix[:, alike])
        if abs(correlation) < ALIKE:
            return "the rows cannot tell it from the fitted ones together"
        return (
            f"the rows cannot tell it from {effects.names[alike]}: their effects correlate "
            f"by {correlation:.2f}"
        )
    # What the group of the constant would be with it.
    together = effects.only([effects.names[other] for other in (*taken, index)])
    rows, members = next(group for group in together.groups() if len(taken) in group[1])
    needed = max(rule.rows_each * len(members), len(members) + rule.spare)
    if seen_by < rule.rows_each or len(rows) < needed:
        return f"too few rows: {len(rows)} depend on it or share it with others, {needed} needed"
    errors = _unit_errors(together.matrix) * scatter[[*taken, index]]
    if errors.max() > rule.error:
        if errors[-1] > rule.error:
            return f"the rows would give it to ±{100 * errors[-1]:.0f} % only"
        return "with it the rows would no longer determine the other constants"
    return ""


def _unit_errors(matrix: Array) -> Array:
    """Return relative standard errors [constants] to expect for each unit of scatter."""
    errors: Array = np.sqrt(np.diag(np.linalg.pinv(matrix.T @ matrix)))
    return errors


def _own_effects(matrix: Array, taken: Sequence[int]) -> Array:
    """Return the effects [rows, constants] less what those of the taken constants explain."""
    if not taken:
        return matrix
    basis, _ = np.linalg.qr(matrix[:, list(taken)])
    own: Array = matrix - basis @ (basis.T @ matrix)
    return own


def _correlation(first: Array, second: Array) -> float:
    """Return the cosine between two constants' effects: 1 when only their sum is seen."""
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))
