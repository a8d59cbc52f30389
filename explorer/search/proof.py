"""How good the best plan is, proved: by evaluating every plan, or by bounds of too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from explorer.config.errors import refuse
from explorer.config.scenario import Scenario
from explorer.search.bound import SECONDS, Bound, BoundReport, prove
from explorer.search.certificate import Certificate, certify
from explorer.search.objectives import Objective
from explorer.search.space import Space
from explorer.search.staged import fixed_batch_space

LARGEST_ENUMERATED = 1_000_000_000
"""Plans up to which a space is enumerated; beyond, its optimum is bounded."""
MOST_ENUMERATED = 10**12
MOST_SECONDS = 86_400.0

Proof: TypeAlias = Certificate | Bound


@dataclass(frozen=True)
class ProofSettings:
    """How to prove.

    Attributes:
        enumerate_up_to: plans up to which every one is evaluated.
        bound_seconds: how long the bounds of a larger space are tightened.
    """

    enumerate_up_to: int = LARGEST_ENUMERATED
    bound_seconds: float = SECONDS

    def __post_init__(self) -> None:
        if not 0 <= self.enumerate_up_to <= MOST_ENUMERATED:
            accepted = f"expected a whole number from 0 to {MOST_ENUMERATED:,}"
            raise refuse("enumerate-up-to", self.enumerate_up_to, accepted)
        if not 0 <= self.bound_seconds <= MOST_SECONDS:
            accepted = f"expected seconds from 0 to {MOST_SECONDS:,.0f}"
            raise refuse("bound-seconds", self.bound_seconds, accepted)


def plans_to_prove(space: Space, objective: Objective) -> int:
    """Return how many plans a proof is about: for ``eq22`` those of the fixed batch."""
    return (fixed_batch_space(space) if objective.fixes_batch else space).size


def enumerates(space: Space, objective: Objective, settings: ProofSettings) -> bool:
    """Return whether a proof evaluates every plan."""
    return plans_to_prove(space, objective) <= settings.enumerate_up_to


def prove_best(
    space: Space,
    objective: Objective,
    settings: ProofSettings,
    start: Scenario | None = None,
    on_block: Callable[[int, int], None] | None = None,
    on_cell: Callable[[BoundReport], None] | None = None,
    stopped: Callable[[], bool] | None = None,
    compared: Scenario | None = None,
) -> Proof:
    """Return a certificate of a space, or a bound of one that is too large to enumerate.

    Args:
        space: the plans.
        objective: what to optimise.
        settings: when to enumerate, how long to bound.
        start: the best plan known, a first one for the bound to beat.
        on_block: called with plans done and in all while enumerating.
        on_cell: called with what is known while bounding.
        stopped: asked often; True ends the proof where it is.
        compared: a scenario to rank, where every plan is evaluated.
    """
    if enumerates(space, objective, settings):
        return certify(space, objective, on_block, stopped, compared)
    seconds = settings.bound_seconds
    return prove(space, objective, start, seconds, progress=on_cell, stopped=stopped)


def best_known(proof: Proof) -> tuple[Scenario | None, float]:
    """Return the best plan that a proof met, and its objective; None and NaN without one."""
    if isinstance(proof, Certificate):
        return proof.scenario, proof.optimum
    return proof.best, proof.best_value


def better_plan(proof: Proof | None, value: float) -> Scenario | None:
    """Return a plan that a proof met and that beats a value, or None."""
    if proof is None:
        return None
    scenario, found = best_known(proof)
    return scenario if proof.objective.better(found, value) else None
