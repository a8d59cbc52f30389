"""Operator fusion: THInfer's density-driven regions (Fig. 4), and every legal partition.

A unit is "[low-density]-high-density-[low-density]". Two things bound it. Data-dependency
distance: production and consumption close within the unit, on the rows of one DSP; what other DSPs
produce (K and V) needs the barrier that only the end of a kernel gives. Capacity: what the unit
keeps at once fits in AM, SM and GSM (``working_set``).

Partitions are compared by DDR bytes, then units, then distance, then AM taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite

from explorer.config.errors import refuse
from explorer.config.model import Model
from explorer.costs.graph import (
    Blocks,
    ElementBytes,
    Graph,
    Work,
)
from explorer.costs.layer import ATTENTION, decoder_layer
from explorer.costs.unit import Capacity, Names, Region, Unit


@dataclass(frozen=True)
class Partition:
    """A layer cut into units, each one launch (Eq. 11).

    Attributes:
        regions: in an order that respects the data.
        saved_bytes: of DDR traffic, against one unit an operator.
        saved_launches: against the same.
        am_bytes: sum over units of the AM taken on a DSP.
    """

    regions: tuple[Region, ...]
    saved_bytes: int
    saved_launches: int
    am_bytes: int

    @property
    def ddr_bytes(self) -> int:
        """Traffic of all units [B]."""
        return sum(region.ddr_bytes for region in self.regions)

    @property
    def launches(self) -> int:
        """Thread groups created for a layer, N of Eq. 11."""
        return len(self.regions)

    @property
    def distance(self) -> int:
        """Data-dependency distance, summed over all operands."""
        return sum(region.distance for region in self.regions)

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Operators of each unit."""
        return tuple(region.names for region in self.regions)

    @property
    def score(self) -> tuple[int, int, int, int]:
        """What a better partition has less of, the first difference deciding."""
        return self.ddr_bytes, len(self.regions), self.distance, self.am_bytes


@dataclass(frozen=True)
class Saving:
    """DDR bytes and launches that a fusion avoids."""

    ddr_bytes: int
    launches: int


class _Planner:
    """Units of one graph under one capacity, each evaluated once."""

    def __init__(self, graph: Graph, capacity: Capacity, density_threshold: float) -> None:
        if not (isfinite(density_threshold) and density_threshold > 0):
            accepted = "expected MAC a byte, a finite number above 0"
            raise refuse("density_threshold", density_threshold, accepted)
        self.graph, self.capacity = graph, capacity
        self.high = frozenset(o.name for o in graph.operators if o.is_high(density_threshold))
        self.regions: dict[Names, Region | None] = {}

    def legal(self, names: Names) -> Region | None:
        """Return the unit if it may stand in a partition (convexity is for the caller).

        An operator on its own always may: its kernel can take a blocking of its own.
        """
        if names not in self.regions:
            self.regions[names] = self._legal(names)
        return self.regions[names]

    def _legal(self, names: Names) -> Region | None:
        unit = Unit(self.graph, names)
        if len(names) > 1:
            if not names & self.high or unit.needs_barrier or not unit.connected:
                return None
            if not unit.working_set().fits(self.capacity, self.graph.dsps):
                return None
        return unit.region()

    def am_bytes(self, region: Region) -> int:
        return region.working_set.am_needed(self.capacity, self.graph.dsps)

    def score(self, regions: Iterable[Region]) -> tuple[int, int, int, int]:
        listed = tuple(regions)
        return (
            sum(region.ddr_bytes for region in listed),
            len(listed),
            sum(region.distance for region in listed),
            sum(map(self.am_bytes, listed)),
        )

    def partition(self, units: Iterable[Names]) -> Partition:
        ordered = _in_order(self.graph, list(units))
        if ordered is None:
            raise ValueError("units wait for each other")
        regions = tuple(Unit(self.graph, names).region() for names in ordered)
        return Partition(
            regions=regions,
            saved_bytes=sum(saved_by_tensor(self.graph, ordered).values()),
            saved_launches=len(self.graph.operators) - len(regions),
            am_bytes=sum(map(self.am_bytes, regions)),
        )


def _in_order(graph: Graph, units: list[Names]) -> list[Names] | None:
    """Return the units in an order that respects the data, None when there is none."""
    done: set[str] = set()
    waiting, ordered = units, list[Names]()
    while waiting:
        ready = next(
            (u for u in waiting if all(graph.predecessors[name] <= done | u for name in u)), None
        )
        if ready is None:
            return None
        ordered.append(ready)
        done |= ready
        waiting = [unit for unit in waiting if unit is not ready]
    return ordered


def saved_by_tensor(graph: Graph, units: Iterable[Names]) -> dict[str, int]:
    """Return DDR bytes that a partition saves, by tensor: writes not made, reads not made."""
    saved = {tensor.name: tensor.write_bytes if tensor.producer else 0 for tensor in graph.tensors}
    for operator in graph.operators:
        for use in operator.uses:
            saved[use.tensor] += use.read_bytes
    for names in units:
        unit = Unit(graph, names)
        for tensor in unit.written():
            saved[tensor] -= graph.tensor[tensor].write_bytes
        for (tensor, _, _), read_bytes in unit.read().items():
            saved[tensor] -= read_bytes
    return saved


def partition_of(graph: Graph, units: Iterable[Iterable[str]], capacity: Capacity) -> Partition:
    """Return a partition given by names, whether or not it fits.

    Raises InputError unless every operator is in exactly one unit and the units can be ordered.
    """
    given = [frozenset(unit) for unit in units]
    listed = sorted(name for unit in given for name in unit)
    if listed != sorted(graph.operator):
        raise refuse("units", listed, "expected every operator of the graph exactly once")
    if _in_order(graph, given) is None:
        raise refuse("units", listed, "expected units that do not wait for each other")
    return _Planner(graph, capacity, 1.0).partition(given)


def unfused(graph: Graph, capacity: Capacity) -> Partition:
    """Return one unit an operator."""
    return partition_of(graph, ([operator.name] for operator in graph.operators), capacity)


def fuse_by_density(graph: Graph, capacity: Capacity, density_threshold: float) -> Partition:
    """Return the density-driven partition; the threshold is in MAC/B.

    1. High-density operators that share their left operand make one core.
    2. Low-density operators linked by tensors that nobody else reads make one run. Each run
       joins the core before or after it, whichever leaves the better score; a run that fits
       nowhere is tried operator by operator.
    3. Units whose loops can still be closed are joined, best first.

    Raises InputError for a threshold that is not a finite number above 0.
    """
    planner = _Planner(graph, capacity, density_threshold)
    units = _cores(planner)
    for run in _runs(planner):
        if not _attach(planner, units, run):
            for name in run:
                _attach(planner, units, [name])
    while _join_best_pair(planner, units):
        pass
    return planner.partition(units)


def _cores(planner: _Planner) -> list[Names]:
    graph, units = planner.graph, [frozenset([o.name]) for o in planner.graph.operators]
    cores: dict[str, list[str]] = {}
    for operator in graph.operators:
        if operator.name in planner.high:
            cores.setdefault(operator.uses[0].tensor, []).append(operator.name)
    for core in cores.values():
        _replace(planner, units, frozenset(core))
    return units


def _runs(planner: _Planner) -> list[list[str]]:
    runs: list[list[str]] = []
    for operator in planner.graph.operators:
        if operator.name in planner.high:
            continue
        before = {planner.graph.tensor[use.tensor].producer for use in operator.uses}
        for run in runs:
            tail = planner.graph.operator[run[-1]]
            closed = all(
                planner.graph.consumers[output] == (operator.name,) for output in tail.outputs
            )
            if tail.name in before and closed:
                run.append(operator.name)
                break
        else:
            runs.append([operator.name])
    return runs


def _attach(planner: _Planner, units: list[Names], run: list[str]) -> bool:
    """Put a run into the core that it suits best; False when none admits it."""
    names = frozenset(run)
    cores = [unit for unit in units if unit & planner.high]
    options = [core | names for core in cores]
    return _take_best(planner, units, options)


def _join_best_pair(planner: _Planner, units: list[Names]) -> bool:
    return _take_best(planner, units, [one | other for one, other in combinations(units, 2)])


def _take_best(planner: _Planner, units: list[Names], options: list[Names]) -> bool:
    """Replace parts of the best legal option by it; False when none improves the score."""
    best: tuple[tuple[int, ...], Names] | None = None
    for option in options:
        region = planner.legal(option)
        if region is None:
            continue
        parts = [part for unit in units if unit <= option and (part := planner.legal(unit))]
        before, after = planner.score(parts), planner.score([region])
        change = tuple(new - old for new, old in zip(after, before, strict=True))
        if change < (0,) * len(change) and (best is None or change < best[0]):
            merged = [unit for unit in units if not unit <= option] + [option]
            if _in_order(planner.graph, merged) is not None:
                best = (change, option)
    if best is None:
        return False
    return _replace(planner, units, best[1])


def _replace(planner: _Planner, units: list[Names], merged: Names) -> bool:
    if planner.legal(merged) is None:
        return False
    units[:] = [unit for unit in units if not unit <= merged] + [merged]
    return True


def fuse_exhaustively(graph: Graph, capacity: Capacity, density_threshold: float) -> Partition:
    """Return the best of all legal partitions; the threshold is in MAC/B.

    Every partition into units that can run in some order is a chain of growing sets closed under
    predecessors, and scores add up over units, so the best chain to each set is enough. Raises
    InputError for a threshold that is not a finite number above 0.
    """
    planner = _Planner(graph, capacity, density_threshold)
    closed = _closed_sets(graph)
    best: dict[Names, tuple[tuple[int, ...], tuple[Names, ...]]] = {
        frozenset(): (planner.score([]), ())
    }
    for target in closed[1:]:
        options = []
        for start in closed:
            if not start < target:
                continue
            region = planner.legal(target - start)
            if region is not None:
                score, units = best[start]
                step = planner.score([region])
                total = tuple(a + b for a, b in zip(score, step, strict=True))
                options.append((total, (*units, target - start)))
        best[target] = min(options, key=lambda option: option[0])
    return planner.partition(best[frozenset(graph.operator)][1])


def _closed_sets(graph: Graph) -> list[Names]:
    """Return the sets of operators that contain all predecessors, smaller ones first."""
    found, frontier = {frozenset[str]()}, [frozenset[str]()]
    while frontier:
        current = frontier.pop()
        for name, predecessors in graph.predecessors.items():
            grown = current | {name}
            if predecessors <= current and grown not in found:
                found.add(grown)
                frontier.append(grown)
    return sorted(found, key=len)


def rope_saving(graph: Graph) -> Saving:
    """Return what RoPE inside the Linear kernels (Algorithm 1) avoids against its own kernel.

    Q and K are neither written before it nor read by it: 2 rows (W_q + W_k) D bytes.
    """
    rope = graph.operator["rope"]
    linears = frozenset(graph.tensor[use.tensor].producer for use in rope.uses)
    apart = [Unit(graph, linears), Unit(graph, frozenset([rope.name]))]
    inside = Unit(graph, linears | {rope.name})
    saved = sum(unit.region().ddr_bytes for unit in apart) - inside.region().ddr_bytes
    return Saving(saved, len(apart) - 1)


def fitting_attention_rows(
    model: Model,
    work: Work,
    blocks: Blocks,
    element_bytes: ElementBytes,
    capacity: Capacity,
    kernel_rows: int,
) -> int:
    """Return the most rows of Q a DSP can keep with all their scores on chip.

    At most the given M_r, then multiples of the micro-kernel's rows, down to one micro-kernel: "we
    dynamically adjust row-block sizes". Raises InputError for kernel rows below 1.
    """
    if kernel_rows < 1:
        raise refuse("kernel_rows", kernel_rows, "expected a whole number of at least 1")
    most = blocks.attention_rows_per_dsp
    candidates: list[int] = [most, *range(most // kernel_rows * kernel_rows, 0, -kernel_rows)]
    for rows in candidates:
        tried = replace(blocks, attention_rows_per_dsp=rows)
        graph = decoder_layer(model, work, tried, element_bytes)
        if Unit(graph, frozenset(ATTENTION)).working_set().fits(capacity, blocks.dsps):
            return rows
    return min(most, kernel_rows)
