"""Levers scanned together against each lever tried alone, over its own values."""

import numpy as np
import pytest

from explorer.config.scenario import knob_at
from explorer.config.stacked import stacked
from explorer.serving.levers import (
    changes_of,
    distance,
    lever_knob,
    lever_limits,
    lever_now,
    lever_paths,
    scan,
    within_limits,
)
from explorer.serving.targets import CLUSTERS, NO_EFFECT, PHASES, rate_of, solve
from tests.scenarios import ASCEND, GENERIC, MT3000, scenario

SEVERAL_STAGES = {
    "plan__tp_prefill": 2,
    "plan__tp_decode": 2,
    "plan__pp_prefill": 2,
    "plan__pp_decode": 2,
    "plan__slices": 4,
}
CASES = {
    "rule of slices": (ASCEND, {"workload__prompt_tokens": 4433}),
    "several stages": (ASCEND, SEVERAL_STAGES),
    "free mechanism": (ASCEND, {"hardware__device_fixed_seconds_per_layer": 0.0}),
    "group of times": (MT3000, {}),
    "numbers for words": (MT3000, {"plan__buffer_clusters": 7, "plan__slices": 3}),
    "limits": (MT3000, {"limits__ttft_seconds": 100.0, "limits__tpot_seconds": 3.0}),
    "other chip": (GENERIC, {}),
}


def alone(s, phase, path, values):
    """Return the rate of each value of one lever, zero where the plan does not fit."""
    found = rate_of(s.unchecked(changes_of(s, path, values)), phase)
    return np.nan_to_num(np.broadcast_to(found, values.shape), nan=0.0)


def grid(s, path):
    """Return a lever's own values and its range; no values for what is no lever."""
    now = lever_now(s, path)
    bounded = within_limits(lever_knob(s, path), lever_limits(s).get(path, ()), now)
    return scan(s, bounded.knob, now), bounded


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("case", CASES)
def test_levers_scanned_together_are_those_found_alone(case, phase):
    preset, changes = CASES[case]
    s = scenario(preset, **changes)
    solution = solve(s, phase, 1.4 * float(rate_of(s, phase)), pairs=False)
    found = {lever.path: lever for lever in solution.levers}
    assert len(found) == len(solution.levers) > 0
    paths = (*lever_paths(s), CLUSTERS) if phase == "service" else lever_paths(s)
    assert set(found) <= set(paths)
    for path in paths:
        values, bounded = grid(s, path)
        rates = alone(s, phase, path, values)
        lever = found.get(path)
        if lever is None:
            assert rates.max(initial=0.0) <= solution.rate * (1 + NO_EFFECT), path
            continue
        away = distance(lever.now, values)
        best = rates >= rates.max() * (1 - NO_EFFECT)
        assert lever.best == values[best][away[best].argmin()]
        assert lever.best_rate == rates[values == lever.best]
        assert lever.limit == bounded.limit_at(lever.best)
        reaching = np.flatnonzero(rates >= solution.target)
        assert (lever.needed is None) == (reaching.size == 0)
        if reaching.size:
            index = int(reaching[away[reaching].argmin()])
            assert_nearest(s, phase, solution, lever, values, index)
    ordered = [(lever.needed is None, lever.times or np.inf) for lever in solution.alone]
    assert ordered == sorted(ordered)
    rest = [lever.best_rate for lever in solution.not_alone]
    assert rest == sorted(rest, reverse=True)


def assert_nearest(s, phase, solution, lever, values, index):
    """Assert that a lever needs what reaches the target first, from its neighbour in the scan."""
    knob, end = lever_knob(s, lever.path), values[index]
    if isinstance(lever.now, str) or knob.scale in ("powers_of_two", "divisors"):
        assert lever.needed == end
        return
    before = values[index + (1 if end < lever.now else -1)]
    if knob.whole:
        between = np.arange(before, end, 1 if end > before else -1)[1:]
        rates = alone(s, phase, lever.path, np.append(between, end))
        assert lever.needed == np.append(between, end)[(rates >= solution.target).argmax()]
        return
    assert min(before, end) <= lever.needed <= max(before, end)
    nearer = lever.needed - (end - before) * 1e-9
    rates = alone(s, phase, lever.path, np.array([nearer, lever.needed]))
    assert rates[0] < solution.target <= rates[1]


def test_arrays_stand_one_after_the_other_and_whole_numbers_stay_whole():
    s, values = scenario(), np.array([1e10, 2e10, 3e10])
    bandwidth, clusters = "hardware.ddr_bandwidth_bytes_per_second", "workload.clusters_total"
    found = stacked(s, [{bandwidth: values}, {clusters: 80, bandwidth: values[:2]}, {}])
    own = float(s.value(bandwidth))
    assert found.value(bandwidth).tolist() == [*values, *values[:2], own]
    assert found.value(clusters).tolist() == [*[s.value(clusters)] * 3, 80, 80, s.value(clusters)]
    assert found.value(clusters).dtype == np.int64
    assert knob_at(s, clusters).whole
