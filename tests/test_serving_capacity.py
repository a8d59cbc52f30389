"""The largest rate that holds, and the fewest clusters for one, against trying everything."""

import math

import pytest

from explorer.config.errors import InputError
from explorer.serving.capacity import largest_rate, least_clusters
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation import simulate
from explorer.serving.steady_state import steady_requests_per_second
from tests.scenarios import ASCEND, MT3000, scenario

RATE = "simulation.rate_requests_per_second"
SMALL = {"simulation.requests": 1500, "plan.micro_batch_decode": 16, "plan.pp_decode": 2}


def small(preset=MT3000, **limits):
    changes = {f"limits.{name}": value for name, value in limits.items()}
    return scenario(preset).replacing({**(SMALL if preset == MT3000 else {}), **changes})


def holds(s, rate):
    return simulate(s.replacing({RATE: rate})).holds


@pytest.mark.parametrize(
    ("preset", "limits"),
    [
        (MT3000, {}),
        (MT3000, {"ttft_seconds": 14.0, "tpot_seconds": 0.4}),
        (ASCEND, {"ttft_seconds": 15.0}),
    ],
)
def test_the_largest_rate_holds_and_a_little_more_does_not(preset, limits):
    s = small(preset, **limits).replacing({"simulation.requests": 1500})
    found = largest_rate(s)
    rate, fails = found.rate_requests_per_second, found.fails_requests_per_second
    assert holds(s, rate)
    assert not holds(s, fails)
    assert rate < fails <= rate * 1.05
    assert found.simulation.holds
    capacity = float(steady_requests_per_second(evaluate(s)))
    assert found.capacity_requests_per_second == capacity
    assert rate <= capacity
    assert [probe.holds for probe in found.probes].count(True) >= 1


def test_tighter_limits_never_allow_more():
    rates = [
        largest_rate(small(ttft_seconds=limit)).rate_requests_per_second or 0.0
        for limit in (13.0, 13.6, 20.0, 60.0)
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_where_no_rate_holds_it_says_so():
    found = largest_rate(small(ttft_seconds=12.6))
    assert found.rate_requests_per_second is None
    assert found.simulation is None
    assert not any(probe.holds for probe in found.probes)


def test_the_least_clusters_are_those_of_trying_every_number_of_pools():
    rate, s = 4.0, small(ttft_seconds=16.0)
    found = least_clusters(s, rate)
    best = math.inf
    for dp in (1, 2, 3, 4, 5):
        plan = s.replacing({"plan.dp_prefill": dp, RATE: rate})
        clusters = int(evaluate(plan).clusters)
        for pools in range(1, 16):
            if pools * clusters >= best:
                break
            if simulate(plan.replacing({"workload.clusters_total": pools * clusters})).holds:
                best = pools * clusters
    assert found.best.clusters == best
    assert found.best.clusters == found.best.pools * found.best.clusters_per_pool
    assert found.scenario.workload.clusters_total == best
    assert found.scenario.plan.dp_prefill == found.best.dp_prefill
    assert found.simulation.holds


def test_bounds_on_clusters_are_bounds():
    s = small()
    found = least_clusters(s, 6.0)
    for choice in found.choices:
        plan = s.replacing({"plan.dp_prefill": choice.dp_prefill})
        one = float(
            steady_requests_per_second(
                evaluate(plan.replacing({"workload.clusters_total": choice.clusters_per_pool}))
            )
        )
        assert one * choice.least_pools >= 6.0 > one * (choice.least_pools - 1)
        assert choice.pools is None or choice.pools >= choice.least_pools


def test_shared_cards_need_whole_groups():
    found = least_clusters(small(ASCEND).replacing({"simulation.requests": 1000}), 0.2)
    assert found.best.clusters == 4 * found.best.pools
    assert found.best.dp_prefill == 1
    assert found.best.pools >= math.ceil(0.2 * 17.27)


def test_more_is_asked_than_any_number_of_pools_keeps():
    found = least_clusters(small(ttft_seconds=12.6), 1.0)
    assert found.best is None
    assert found.scenario is None
    assert found.probes


def test_saturated_arrivals_have_no_rate():
    s = small().replacing({"simulation.arrivals": "saturated"})
    for search in (largest_rate, lambda one: least_clusters(one, 1.0)):
        with pytest.raises(InputError, match=r"simulation.arrivals = saturated: has no rate"):
            search(s)


def test_a_plan_that_fits_nowhere_is_refused():
    s = scenario(workload__max_context_tokens=100)
    with pytest.raises(InputError, match="does not fit"):
        largest_rate(s)
    with pytest.raises(InputError, match="fits with no number of prefill pipelines"):
        least_clusters(s, 1.0)


def test_progress_is_told_before_each_run():
    said = []
    found = largest_rate(small(), said.append)
    assert len(said) == len(found.probes)
    assert all("requests/s on 4 pools" in line for line in said)
