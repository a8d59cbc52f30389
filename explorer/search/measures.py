"""What plans are traded against each other: throughput, two latencies, and clusters of a pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from explorer.config.errors import refuse
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.search.objectives import THROUGHPUT
from explorer.serving.evaluate import Evaluation

FEWEST, MOST = 2, 4


@dataclass(frozen=True)
class Measure:
    """One figure of a plan, and whether less or more of it is better.

    Attributes:
        name: short name for the command line and for JSON.
        label: what to call it on a page.
        unit: unit of its values.
        direction: whether less or more is better.
        of: gives its values from an evaluation; NaN where there is none.
    """

    name: str
    label: str
    unit: str
    direction: Literal["minimise", "maximise"]
    of: Callable[[Evaluation], Array]

    @property
    def sign(self) -> float:
        """Factor that makes less better."""
        return 1.0 if self.direction == "minimise" else -1.0

    def on(self, unit_name: str) -> Measure:
        """Return it in the words of a chip whose unit of scale is a cluster or a card."""
        return replace(self, label=self.label.replace("clusters or cards", f"{unit_name}s"))


def _feasible(value: Array, evaluation: Evaluation) -> Array:
    return np.where(evaluation.feasible, value, np.nan)


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(
            "throughput",
            "throughput",
            "tokens/s",
            "maximise",
            lambda evaluation: evaluation.objective(THROUGHPUT.name),
        ),
        Measure(
            "ttft",
            "time to first token",
            "s",
            "minimise",
            lambda evaluation: _feasible(evaluation.ttft_seconds, evaluation),
        ),
        Measure(
            "tpot",
            "time per output token",
            "s",
            "minimise",
            lambda evaluation: _feasible(evaluation.tpot_seconds, evaluation),
        ),
        Measure(
            "clusters",
            "clusters or cards of a pool",
            "",
            "minimise",
            lambda evaluation: _feasible(evaluation.clusters, evaluation),
        ),
    )
}


def valueless(names: Sequence[str], scenario: Scenario) -> tuple[Measure, ...]:
    """Return the measures of those names of which no plan of the scenario has a value.

    That is the time per output token, where a request ends with its first one.
    """
    if np.all(np.asarray(scenario.workload.output_tokens) == 1):
        return tuple(MEASURES[name] for name in names if name == "tpot")
    return ()


def measures_named(names: Sequence[str], scenario: Scenario) -> tuple[Measure, ...]:
    """Return the measures of some names, in this order.

    Args:
        names: two to four different names of ``MEASURES``.
        scenario: what is searched around; with a single output token nothing has a time per
            output token.

    Raises:
        InputError: when a name is unknown or given twice, or there are too few or too many.
    """
    accepted = f"expected {FEWEST} to {MOST} of {', '.join(MEASURES)}"
    for name in names:
        if name not in MEASURES:
            raise refuse("pareto", name, accepted)
    if len(set(names)) != len(names):
        raise refuse("pareto", ",".join(names), f"a name is given twice; {accepted}")
    if not FEWEST <= len(names) <= MOST:
        raise refuse("pareto", ",".join(names), accepted)
    if valueless(names, scenario):
        raise refuse("pareto", "tpot", "requests of one output token have no time per output token")
    return tuple(MEASURES[name] for name in names)
