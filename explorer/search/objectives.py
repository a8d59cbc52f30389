"""What a search can optimise, and how far a value is from the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from explorer.config.errors import refuse
from explorer.config.units import in_words_of
from explorer.costs.arrays import Array

SYMBOLS = (
    "Clu_pool: clusters or cards of a pool; T_p, T_d: seconds that prefill and decode of a batch "
    "take; DP_P: prefill pipelines; B N: output tokens of a batch. Where the same cards do both, "
    "T_p + T_d stands in place of the maximum."
)
"""What the letters of the formulas stand for."""


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
        meaning: what it tells, in words.
        equation: the formula, in the paper's symbols.
    """

    name: str
    label: str
    unit: str
    direction: Literal["minimise", "maximise"]
    fixes_batch: bool
    meaning: str
    equation: str

    def on(self, unit_name: str) -> Objective:
        """Return it in the words of a chip whose unit of scale is a cluster or a card."""
        return replace(
            self,
            label=in_words_of(unit_name, self.label),
            unit=in_words_of(unit_name, self.unit),
            meaning=in_words_of(unit_name, self.meaning),
        )

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
    "What an output token costs: clusters of a pool times the seconds that they take for it. It is "
    "the paper's objective (Eq. 22), counted per token. Clusters that are left over cost nothing.",
    "Clu_pool max(T_p / DP_P, T_d) / (B N)",
)
THROUGHPUT = Objective(
    "throughput",
    "throughput of all clusters",
    "tokens/s",
    "maximise",
    False,
    "Output tokens a second of all pools together. Clusters that are left over are lost.",
    "pools B N / max(T_p / DP_P, T_d)",
)
EQ22 = Objective(
    "eq22",
    "cluster-seconds of a fixed batch",
    "cluster s",
    "minimise",
    True,
    "What a batch costs: clusters of a pool times the seconds that they take for it. It is the "
    "paper's objective as printed (Eq. 22).",
    "Clu_pool max(T_p / DP_P, T_d)",
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
