"""How much a plan carries: the largest arrival rate that holds, and the fewest clusters for one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.config.errors import refuse
from explorer.config.knobs import scenario_knobs
from explorer.config.scenario import Scenario
from explorer.serving.constraints import Constraint
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.report import violation_message
from explorer.serving.simulation import simulate
from explorer.serving.simulation_plan import misfits
from explorer.serving.simulation_results import Detail, RowReader, Simulation
from explorer.serving.steady_state import steady_batch_seconds, steady_requests_per_second

RATE_PATH = "simulation.rate_requests_per_second"
LOADS = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Shares of the steady state that are tried from above, before halving what lies between two."""
HALVINGS = 6
MOST_POOL_DOUBLINGS = 4
NO_PICTURES = Detail(micro_batches=0, occupancy_points=16, histogram_bins=1)

Progress = Callable[[str], None]
"""Is told, before each run, what is tried."""


@dataclass(frozen=True)
class Probe:
    """One run of a search.

    Attributes:
        rate_requests_per_second: arrival rate asked for.
        pools: pools that served it.
        holds: whether memory, queue and limits held.
        keeps_up: whether the queue did not grow.
        attained_fraction: share of the requests that kept the limits.
    """

    rate_requests_per_second: float
    pools: int
    holds: bool
    keeps_up: bool
    attained_fraction: float


@dataclass(frozen=True)
class LargestRate:
    """The largest arrival rate at which a plan holds.

    Attributes:
        rate_requests_per_second: the largest rate tried that holds; None if none does.
        fails_requests_per_second: the least rate above it that was tried and does not hold; None
            where the steady state's rate itself holds.
        capacity_requests_per_second: what the steady state serves, which no rate exceeds.
        simulation: the run at the largest rate, without pictures; None if no rate holds.
        probes: every run, in order.
    """

    rate_requests_per_second: float | None
    fails_requests_per_second: float | None
    capacity_requests_per_second: float
    simulation: Simulation | None
    probes: tuple[Probe, ...]


@dataclass(frozen=True)
class PoolChoice:
    """How many pools of one kind a rate needs.

    Attributes:
        dp_prefill: prefill pipelines of a pool, DP_P.
        clusters_per_pool: its clusters (Eq. 20).
        least_pools: pools below which even the steady state is slower than the rate.
        pools: least pools that hold; None where none was found or nothing was run, as other
            choices are surely cheaper.
        clusters: pools x clusters a pool.
    """

    dp_prefill: int
    clusters_per_pool: int
    least_pools: int
    pools: int | None

    @property
    def clusters(self) -> int | None:
        """All clusters of the pools that hold."""
        return None if self.pools is None else self.pools * self.clusters_per_pool


@dataclass(frozen=True)
class LeastClusters:
    """The fewest clusters that serve a rate with this plan's stages and micro-batches.

    Attributes:
        rate_requests_per_second: the rate.
        best: the choice with the fewest clusters; None if none holds.
        choices: every number of prefill pipelines considered, cheapest bound first.
        scenario: the scenario with the best choice set; None if none holds.
        simulation: its run, without pictures; None if none holds.
        probes: every run, in order.
    """

    rate_requests_per_second: float
    best: PoolChoice | None
    choices: tuple[PoolChoice, ...]
    scenario: Scenario | None
    simulation: Simulation | None
    probes: tuple[Probe, ...]


def largest_rate(
    scenario: Scenario, progress: Progress | None = None, reader: RowReader | None = None
) -> LargestRate:
    """Return the largest rate of the scenario's arrivals at which memory, queue and limits hold.

    Rates are tried from the steady state's downwards until one holds, then the gap to the one
    above is halved a few times. All runs see the same luck. A plan that only fails at low rates,
    where micro-batches wait to fill, is still found.

    Args:
        scenario: plan, arrivals and limits; its rate is not used.
        progress: is told what is tried.
        reader: gets what every run finishes, block by block; what it raises ends the search.

    Raises:
        InputError: for saturated arrivals, which have no rate, or a plan that does not fit.
    """
    _require_rate(scenario)
    capacity = float(steady_requests_per_second(evaluate(scenario)))
    runs = _Runs(progress, reader)
    holding, failing = None, None
    for load in LOADS:
        found = runs.run(scenario, _within_knob(capacity * load))
        if found.holds:
            holding = found
            break
        failing = runs.rate
    if holding is None:
        return LargestRate(None, failing, capacity, None, tuple(runs.probes))
    rate = runs.rate
    for _ in range(HALVINGS if failing is not None and failing > rate else 0):
        middle = (rate + (failing or rate)) / 2
        found = runs.run(scenario, middle)
        if found.holds:
            holding, rate = found, middle
        else:
            failing = middle
    return LargestRate(rate, failing, capacity, holding, tuple(runs.probes))


def least_clusters(
    scenario: Scenario,
    rate: float,
    progress: Progress | None = None,
    reader: RowReader | None = None,
) -> LeastClusters:
    """Return the fewest clusters whose pools hold at an arrival rate.

    The plan keeps its stages, TP and micro-batches; prefill pipelines a pool (DP_P) and pools are
    chosen. Each DP_P needs at least the pools whose steady state reaches the rate, which bounds
    its clusters from below: choices are run in order of that bound until none can be cheaper.

    Args:
        scenario: plan, arrivals and limits; its number of clusters is not used.
        rate: arrival rate [requests/s].
        progress: is told what is tried.
        reader: gets what every run finishes, block by block; what it raises ends the search.

    Raises:
        InputError: for saturated arrivals, a rate out of range, or when no choice fits.
    """
    _require_rate(scenario)
    scenario = scenario.replacing({RATE_PATH: rate})
    runs = _Runs(progress, reader)
    best: tuple[PoolChoice, Scenario, Simulation] | None = None
    choices: list[PoolChoice] = []
    for bound, candidate in _candidates(scenario, rate):
        cheapest = None if best is None else best[0].clusters
        if cheapest is not None and bound.least_pools * bound.clusters_per_pool >= cheapest:
            choices.append(bound)
            continue
        found = _least_pools(candidate, bound, rate, cheapest, runs)
        pools = None if found is None else found[0]
        choice = PoolChoice(bound.dp_prefill, bound.clusters_per_pool, bound.least_pools, pools)
        choices.append(choice)
        if found is not None and (cheapest is None or (choice.clusters or 0) < cheapest):
            best = (choice, _with_pools(candidate, choice, found[0]), found[1])
    probes = tuple(runs.probes)
    if best is None:
        return LeastClusters(rate, None, tuple(choices), None, None, probes)
    return LeastClusters(rate, best[0], tuple(choices), best[1], best[2], probes)


class _Runs:
    """Runs the simulation and remembers what each run said."""

    def __init__(self, progress: Progress | None, reader: RowReader | None) -> None:
        self.probes: list[Probe] = []
        self.rate = 0.0
        self._progress = progress
        self._reader = reader

    def run(self, scenario: Scenario, rate: float) -> Simulation:
        self.rate = rate
        chosen = scenario.replacing({RATE_PATH: rate})
        if self._progress is not None:
            self._progress(f"{rate:.4g} requests/s on {_pools(chosen)} pools")
        found = simulate(chosen, detail=NO_PICTURES, reader=self._reader)
        attained = found.goodput.attained_fraction if found.goodput is not None else math.nan
        self.probes.append(Probe(rate, found.pools, found.holds, found.keeps_up, attained))
        return found


def _pools(scenario: Scenario) -> int:
    return int(evaluate(scenario).pools)


def _require_rate(scenario: Scenario) -> None:
    if scenario.simulation.arrivals == "saturated":
        accepted = "has no rate; expected poisson, constant or bursts"
        raise refuse("simulation.arrivals", "saturated", accepted)


def _within_knob(rate: float) -> float:
    knob = scenario_knobs()[RATE_PATH]
    return min(max(rate, float(knob.minimum)), float(knob.maximum))


def _candidates(scenario: Scenario, rate: float) -> Iterator[tuple[PoolChoice, Scenario]]:
    """Yield choices of DP_P with the least pools that they need, cheapest bound first.

    Raises:
        InputError: when no choice fits.
    """
    found: list[tuple[PoolChoice, Scenario]] = []
    refused: tuple[Constraint, ...] = ()
    for dp in range(1, _most_pipelines(evaluate(scenario)) + 1):
        candidate = scenario.replacing({"plan.dp_prefill": dp})
        e = evaluate(candidate)
        clusters = int(e.clusters)
        least = math.ceil(rate * float(steady_batch_seconds(e) / e.batch))
        choice = PoolChoice(dp, clusters, max(least, 1), None)
        if choice.least_pools * clusters > scenario_knobs()["workload.clusters_total"].maximum:
            continue
        candidate = _with_pools(candidate, choice, choice.least_pools)
        broken = misfits(candidate)
        refused = refused or broken
        if not broken:
            found.append((choice, candidate))
    if not found:
        words = " ".join(violation_message(constraint) for constraint in refused)
        raise refuse("plan", "", f"fits with no number of prefill pipelines: {words}")
    yield from sorted(found, key=lambda item: item[0].least_pools * item[0].clusters_per_pool)


def _most_pipelines(evaluation: Evaluation) -> int:
    """Return the most prefill pipelines worth having: those that outrun decode."""
    if evaluation.inputs.shared:
        return 1
    knob = scenario_knobs()["plan.dp_prefill"]
    prefill = float(evaluation.prefill_micro_batches * evaluation.prefill_stage.seconds)
    decode = float(evaluation.decode_seconds)
    if decode <= 0 or prefill / decode >= knob.maximum:
        return int(knob.maximum)
    return min(math.ceil(prefill / decode) + 1, int(knob.maximum))


def _with_pools(scenario: Scenario, choice: PoolChoice, pools: int) -> Scenario:
    return scenario.replacing({"workload.clusters_total": pools * choice.clusters_per_pool})


def _least_pools(
    scenario: Scenario, choice: PoolChoice, rate: float, cheapest: int | None, runs: _Runs
) -> tuple[int, Simulation] | None:
    """Return the least pools that hold and their run; None if none does below ``cheapest``."""
    knob = scenario_knobs()["workload.clusters_total"]
    most = int(knob.maximum) // choice.clusters_per_pool
    if cheapest is not None:
        most = min(most, (cheapest - 1) // choice.clusters_per_pool)
    most = min(most, choice.least_pools * 2**MOST_POOL_DOUBLINGS)
    failing, pools = choice.least_pools - 1, choice.least_pools
    found = runs.run(_with_pools(scenario, choice, pools), rate)
    while not found.holds:
        if pools >= most:
            return None
        failing, pools = pools, min(2 * pools, most)
        found = runs.run(_with_pools(scenario, choice, pools), rate)
    while pools - failing > 1:
        middle = (pools + failing) // 2
        tried = runs.run(_with_pools(scenario, choice, middle), rate)
        if tried.holds:
            pools, found = middle, tried
        else:
            failing = middle
    return pools, found
