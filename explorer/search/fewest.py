"""The fewest clusters on which some plan reaches a throughput, exactly."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from explorer.config.scenario import Scenario, knob_at, unknown_field
from explorer.search.best_plan import BestPlan, best_plan
from explorer.search.certificate import Progress, Stopped
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import Space, default_space
from explorer.search.stopping import EndedError

CLUSTERS = "workload.clusters_total"
GROWTH = 2


@dataclass(frozen=True)
class Fewest:
    """The fewest clusters for a throughput.

    Attributes:
        clusters: how many; None where the most that are accepted do not reach it.
        best: the best plan on them, or on the most that are accepted.
        below: the best plan on one fewer, which does not reach it; None where there are no fewer.
    """

    clusters: int | None
    best: BestPlan
    below: BestPlan | None


def fewest_clusters(
    scenario: Scenario,
    target: float,
    progress: Progress | None = None,
    stopped: Stopped | None = None,
) -> Fewest:
    """Return the fewest clusters on which the best plan's throughput is at least ``target``.

    More clusters are never slower at the best plan: every plan that fits still does, with as many
    whole pools or more. So it is enough to double them until they do, and to halve what is left.

    Args:
        scenario: all but its plan and its clusters holds.
        target: output tokens of all pools a second.
        progress: called with the counts of clusters tried, and 0 for how many there will be.
        stopped: asked before each count; True ends the search.

    Raises:
        EndedError: when stopped.
    """
    knob = knob_at(scenario, CLUSTERS)
    if knob is None:
        raise unknown_field(scenario, CLUSTERS)
    least, most = int(knob.minimum), int(knob.maximum)
    space = default_space(scenario)
    found: dict[int, BestPlan] = {}

    def reaches(clusters: int) -> bool:
        if clusters not in found:
            if stopped is not None and stopped():
                raise EndedError
            there = Space(space.base.replacing({CLUSTERS: clusters}), space.axes)
            found[clusters] = best_plan(there, THROUGHPUT)
            if progress is not None:
                progress(len(found), 0)
        return found[clusters].value >= target

    low, high = least, min(max(int(scenario.value(CLUSTERS)), least), most)
    while not reaches(high):
        if high == most:
            return Fewest(None, found[most], None)
        low, high = high + 1, min(GROWTH * high, most)
    clusters = bisect_left(range(high), True, low, high, key=reaches)
    reaches(clusters)
    below = clusters - 1
    if below >= least:
        reaches(below)
    return Fewest(clusters, found[clusters], found.get(below))
