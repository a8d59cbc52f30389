"""Constraints as data: a value, its limit, and the excess that decides feasibility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from explorer.chips.inputs import Inputs
from explorer.config.budget import parse_budget
from explorer.costs.arrays import ZERO, Array, Mask, scalar, total

CONSTRAINTS = (
    "context",
    "prefill_memory",
    "decode_memory",
    "buffer",
    "clusters",
    "placement",
    "tile",
    "ttft",
    "tpot",
    "budget",
)


@dataclass(frozen=True)
class Constraint:
    """One rule that a plan keeps where ``value <= limit``.

    Attributes:
        name: one of ``CONSTRAINTS``.
        value: what the plan needs, in ``unit``.
        limit: what there is, in ``unit``; infinite where no bound is set.
        unit: unit of both.
        meaning: what the value is, as a noun phrase for messages.
    """

    name: str
    value: Array
    limit: Array
    unit: str
    meaning: str

    @property
    def excess(self) -> Array:
        """Value less limit; at most 0 where the constraint holds."""
        return self.value - self.limit

    @property
    def kept(self) -> Mask:
        """Where the constraint holds."""
        return np.asarray(self.value <= self.limit)


def all_kept(constraints: Sequence[Constraint]) -> Mask:
    """Return where every constraint holds; small masks are combined first."""
    masks = sorted((constraint.kept for constraint in constraints), key=lambda mask: mask.size)
    return reduce(np.logical_and, masks)


def budget_constraint(inputs: Inputs) -> Constraint:
    """Return the weighted cost of the machine, each number in units of the chip's own value."""
    scenario = inputs.scenario
    text, meaning = scenario.limits.budget, "the weighted cost of the machine"
    if text is None:
        return Constraint("budget", ZERO, scalar(np.inf), "", meaning)
    budget, quantities = parse_budget(text), scenario.chip_document().quantities
    parts = [
        term.weight * (inputs.array(f"hardware.{term.name}") / quantities[term.name].value)
        for term in budget.terms
    ]
    return Constraint("budget", total(parts), scalar(budget.limit), "", meaning)
