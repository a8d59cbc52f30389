"""What a search can optimise, and how far a value is from the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from explorer.config.errors import refuse
from explorer.costs.arrays import Array


@dataclass(frozen=True)
class Objective:
    """One figure to optimise.

    Attributes:
        name: a name that ``Evaluation.objective`` knows.
        label: what to call it on a page.
        unit: unit of its values.
        direction: whether less or more is better.
        fixes_batch: whether it is meant for a given batch only, as Eq. 22 is: searched jointly
            over micro-batches it would choose the smallest batch.
        equation: where it comes from.
    """

    name: str
    label: str
    unit: str
    direction: Literal["minimise", "maximise"]
    fixes_batch: bool
    equation: str

    @property
    def minimised(self) -> bool:
        """Whether less is better."""
        return self.direction == "minimise"

    def better(self, value: float, other: float) -> bool:
        """Return whether ``value`` beats ``other``; a number beats NaN, NaN beats nothing."""
        if math.isnan(value) or math.isnan(other):
            return math.isnan(other) and not math.isnan(value)
        return value < other if self.minimised else value > other

    def best_of(self, values: Array) -> float:
        """Return the best of some values, NaN when none is a number."""
        if np.isnan(values).all():
            return math.nan
        return float(np.nanmin(values) if self.minimised else np.nanmax(values))

    def score(self, value: float) -> float:
        """Return a value as a number of which less is better: itself, or its inverse [s/token]."""
        return value if self.minimised else (1 / value if value else math.inf)

    def value(self, score: float) -> float:
        """Return the value of a score."""
        return self.score(score)

    def gap(self, value: float, optimum: float) -> float:
        """Return |value - optimum| / |optimum| where ``value`` is worse, else 0.

        NaN when either is not finite; infinite for a worse value than an optimum of zero.
        """
        if not (math.isfinite(value) and math.isfinite(optimum)):
            return math.nan
        if not self.better(optimum, value):
            return 0.0
        return abs(value - optimum) / abs(optimum) if optimum else math.inf


CLUSTER_SECONDS_PER_TOKEN = Objective(
    "cluster_seconds_per_token",
    "cluster-seconds per token",
    "cluster s/token",
    "minimise",
    False,
    "Clu_pool max(T_p / DP_P, T_d) / (B N), Eq. 22 per token",
)
THROUGHPUT = Objective(
    "throughput",
    "throughput of all clusters",
    "tokens/s",
    "maximise",
    False,
    "pools B N / max(T_p / DP_P, T_d)",
)
EQ22 = Objective(
    "eq22",
    "cluster-seconds of a fixed batch",
    "cluster s",
    "minimise",
    True,
    "Clu_pool max(T_p / DP_P, T_d), Eq. 22 as printed",
)
OBJECTIVES = {
    objective.name: objective for objective in (CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT, EQ22)
}


def objective_named(name: str) -> Objective:
    """Return the objective of a name.

    Raises:
        InputError: when there is none.
    """
    if name not in OBJECTIVES:
        raise refuse("objective", name, f"expected {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]
