"""A time is a sum of terms: what each operator adds to the critical path, and what binds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache

import numpy as np

from explorer.costs.arrays import ZERO, Array, Codes, choose, total


class Bound(IntEnum):
    """The resource that sets a term's time; arrays hold the integer code."""

    COMPUTE = 0
    WEIGHTS = 1
    KV_CACHE = 2
    ACTIVATIONS = 3
    LAUNCH = 4
    COLLECTIVE = 5
    HOST = 6
    LINK = 7
    MEASURED = 8
    PIPELINE_FILL = 9
    INSTRUCTION_ISSUE = 10
    ROUNDS = 11

    @property
    def label(self) -> str:
        """Name for JSON and for people, such as ``kv_cache``."""
        return self.name.lower()


@lru_cache(maxsize=32)
def code(bound: Bound) -> Codes:
    """Return the 0-d code array of one bound; nobody writes into it."""
    result: Codes = np.asarray(int(bound), dtype=np.int64)
    result.flags.writeable = False
    return result


@dataclass(frozen=True)
class Term:
    """One operator's share of a time.

    Attributes:
        name: operator, such as ``qkv_linear``.
        seconds: exposed time on the critical path; terms add up to the total.
        busy_seconds: what the resource worked, which need not add up.
        bytes: bytes moved over the resource that the term uses.
        macs: multiply-accumulates done.
        bound_by: codes of ``Bound``.
        kinds: kinds of the sources that the time rests on (``published``, ``assumed``, ...).
    """

    name: str
    seconds: Array
    busy_seconds: Array
    bytes: Array = field(default_factory=lambda: ZERO)
    macs: Array = field(default_factory=lambda: ZERO)
    bound_by: Codes = field(default_factory=lambda: code(Bound.COMPUTE))
    kinds: frozenset[str] = frozenset()

    def times(self, count: Array) -> Term:
        """Return the term repeated ``count`` times."""
        return Term(
            self.name,
            self.seconds * count,
            self.busy_seconds * count,
            self.bytes * count,
            self.macs * count,
            self.bound_by,
            self.kinds,
        )


def fixed_term(name: str, seconds: Array, bound: Bound, kinds: frozenset[str]) -> Term:
    """Return a term that neither moves bytes nor computes."""
    return Term(name, seconds, seconds, bound_by=code(bound), kinds=kinds)


@dataclass(frozen=True)
class Stage:
    """One pass of one pipeline stage: its terms, in program order."""

    terms: tuple[Term, ...]

    @property
    def seconds(self) -> Array:
        """Time of the pass [s], the sum of its terms."""
        return total([term.seconds for term in self.terms])

    def times(self, count: Array) -> Stage:
        """Return ``count`` passes."""
        return Stage(tuple(term.times(count) for term in self.terms))

    def seconds_by_bound(self) -> dict[Bound, Array]:
        """Return exposed seconds for every bound that occurs, broadcast over all terms."""
        result: dict[Bound, Array] = {}
        for term in self.terms:
            for bound in Bound:
                mine = term.bound_by == int(bound)
                if mine.any():
                    share = np.where(mine, term.seconds, 0.0)
                    result[bound] = result.get(bound, ZERO) + share
        return result

    def dominant_bound(self) -> Codes:
        """Return the code of the bound that owns most of the time."""
        shares = self.seconds_by_bound()
        bounds = list(shares)
        stacked = np.stack(np.broadcast_arrays(*shares.values()))
        codes: Codes = np.asarray([int(bound) for bound in bounds], dtype=np.int64)
        return np.asarray(codes[stacked.argmax(axis=0)])


def merged(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return terms with those of one name added up, in order of first appearance.

    The bound of a merged term is that of its longer part.
    """
    result: dict[str, Term] = {}
    for term in terms:
        known = result.get(term.name)
        if known is None:
            result[term.name] = term
            continue
        result[term.name] = Term(
            term.name,
            known.seconds + term.seconds,
            known.busy_seconds + term.busy_seconds,
            known.bytes + term.bytes,
            known.macs + term.macs,
            np.where(known.seconds >= term.seconds, known.bound_by, term.bound_by),
            known.kinds | term.kinds,
        )
    return tuple(result.values())


def slowest(stages: Sequence[Stage]) -> Stage:
    """Return the stage that takes longest, chosen element by element.

    All stages must have the same term names in the same order.
    """
    if len(stages) == 1:
        return stages[0]
    winner = slowest_index(stages)
    return Stage(
        tuple(_chosen(winner, group) for group in zip(*(s.terms for s in stages), strict=True))
    )


def slowest_index(stages: Sequence[Stage]) -> Codes:
    """Return which of some stages takes longest, element by element."""
    seconds = np.stack(np.broadcast_arrays(*(stage.seconds for stage in stages)))
    return np.asarray(seconds.argmax(axis=0))


def _chosen(winner: Codes, group: tuple[Term, ...]) -> Term:
    return Term(
        group[0].name,
        choose(winner, [term.seconds for term in group]),
        choose(winner, [term.busy_seconds for term in group]),
        choose(winner, [term.bytes for term in group]),
        choose(winner, [term.macs for term in group]),
        choose(winner, [term.bound_by for term in group]),
        frozenset().union(*(term.kinds for term in group)),
    )
