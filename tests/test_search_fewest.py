"""The fewest clusters for a throughput, against every count of clusters."""

from __future__ import annotations

import math

import pytest

from explorer.config.links import preset_scenario
from explorer.config.scenario import Scenario
from explorer.search.best_plan import best_plan
from explorer.search.fewest import CLUSTERS, fewest_clusters
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import default_space
from explorer.search.stopping import EndedError
from explorer.ui.fewest import fewest_sentence

MT3000, ASCEND = "mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"


def best_on(scenario: Scenario, clusters: int) -> float:
    there = scenario.replacing({CLUSTERS: clusters})
    return best_plan(default_space(there), THROUGHPUT).value


@pytest.mark.parametrize(("preset", "present"), [(MT3000, 4), (MT3000, 40), (ASCEND, 4)])
def test_every_count_below_the_fewest_falls_short(preset: str, present: int) -> None:
    scenario = preset_scenario(preset).replacing({CLUSTERS: present})
    target = 1.6 * best_on(preset_scenario(preset).replacing({CLUSTERS: 10}), 10)
    found = fewest_clusters(scenario, target)
    assert found.clusters is not None
    every = [best_on(scenario, count) for count in range(1, found.clusters + 1)]
    assert not any(value >= target for value in every[:-1])
    assert every[-1] == found.best.value >= target
    assert found.below is not None
    assert found.below.value == every[-2] or math.isnan(every[-2])
    put = scenario.replacing({CLUSTERS: found.clusters, **(found.best.plan or {})})
    assert found.best.scenario == put.replacing({"plan.buffer_clusters": "auto"})


def test_a_target_below_what_the_smallest_pool_gives_needs_that_pool_alone() -> None:
    scenario = preset_scenario(MT3000)
    found = fewest_clusters(scenario, 1e-3)
    assert found.clusters is not None
    assert math.isnan(best_on(scenario, found.clusters - 1))
    assert "No plan fits" in fewest_sentence(found, 1e-3, "cluster")


def test_a_target_that_no_accepted_count_reaches_is_said_with_what_the_most_give() -> None:
    scenario = preset_scenario(MT3000)
    found = fewest_clusters(scenario, 1e12)
    assert (found.clusters, found.below) == (None, None)
    assert found.best.value == best_on(scenario, 100_000)
    assert fewest_sentence(found, 1e12, "cluster").startswith("**Not even 100,000 clusters")


def test_a_stopped_search_ends_and_each_count_is_told_once() -> None:
    scenario, told = preset_scenario(MT3000), list[int]()
    fewest_clusters(scenario, 2000.0, lambda done, _total: told.append(done))
    assert told == list(range(1, len(told) + 1))
    with pytest.raises(EndedError):
        fewest_clusters(scenario, 2000.0, None, lambda: True)
