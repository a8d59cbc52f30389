"""Modulo scheduling of a loop: the least interval between two iterations on given issue slots."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

from explorer.config.errors import refuse

TRIES_PER_OPERATION = 12


@dataclass(frozen=True)
class Operation:
    """One instruction of the loop body; its unit takes a new one every cycle."""

    name: str
    instruction: str
    unit: str
    latency_cycles: int


@dataclass(frozen=True)
class Dependence:
    """``target`` reads what ``source`` wrote ``distance`` iterations before."""

    source: int
    target: int
    distance: int = 0


@dataclass(frozen=True)
class Body:
    """One iteration of a loop: operations in program order, dependences, slots a cycle by unit."""

    operations: tuple[Operation, ...]
    dependences: tuple[Dependence, ...]
    units: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        """Refuse a body that cannot be scheduled; raises InputError."""
        if not self.operations:
            raise refuse("operations", "", "expected at least one")
        slots = dict(self.units)
        for operation in self.operations:
            if slots.get(operation.unit, 0) < 1:
                raise refuse(f"units.{operation.unit}", slots.get(operation.unit), "expected 1+")
            if operation.latency_cycles < 1:
                cycles = operation.latency_cycles
                raise refuse(f"{operation.instruction}.latency_cycles", cycles, "expected 1+")
        for edge in self.dependences:
            inside = all(0 <= end < len(self.operations) for end in (edge.source, edge.target))
            if not inside or edge.distance < 0:
                raise refuse("dependences", edge, "expected known operations, distance 0+")

    def weight(self, edge: Dependence, interval: int) -> int:
        """Return how many cycles of one iteration ``edge`` puts between its ends."""
        return self.operations[edge.source].latency_cycles - interval * edge.distance

    @cached_property
    def before(self) -> tuple[tuple[Dependence, ...], ...]:
        """Dependences that end in each operation."""
        return self._grouped([edge.target for edge in self.dependences])

    @cached_property
    def after(self) -> tuple[tuple[Dependence, ...], ...]:
        """Dependences that start from each operation."""
        return self._grouped([edge.source for edge in self.dependences])

    def _grouped(self, owners: Sequence[int]) -> tuple[tuple[Dependence, ...], ...]:
        groups: list[list[Dependence]] = [[] for _ in self.operations]
        for owner, edge in zip(owners, self.dependences, strict=True):
            groups[owner].append(edge)
        return tuple(map(tuple, groups))

    @cached_property
    def cyclic(self) -> frozenset[int]:
        """Operations left when those that no cycle can pass are stripped from both ends."""
        left = set(range(len(self.operations)))
        while True:
            edges = [e for e in self.dependences if e.source in left and e.target in left]
            kept = {e.source for e in edges} & {e.target for e in edges}
            if kept == left:
                return frozenset(left)
            left = kept


@dataclass(frozen=True)
class Schedule:
    """When each operation of an iteration issues; iterations start ``interval`` cycles apart.

    Attributes:
        interval: initiation interval [cycles].
        cycles: issue cycle of each operation, counted from the start of its iteration.
        slots: which of its unit's slots each operation takes.
    """

    interval: int
    cycles: tuple[int, ...]
    slots: tuple[int, ...]


def resource_intervals(body: Body) -> dict[str, int]:
    """Return by unit the least interval [cycles] at which its slots carry an iteration."""
    uses = Counter(operation.unit for operation in body.operations)
    return {unit: -(-uses[unit] // slots) for unit, slots in body.units}


def recurrence_interval(body: Body) -> int:
    """Return the least interval [cycles] that every cycle of dependences admits.

    It is the maximum over cycles of ceil(latencies / distances), and 0 without cycles.

    Raises:
        InputError: when a cycle lies within one iteration.
    """
    return max((_component_interval(body, part) for part in _components(body)), default=0)


def _components(body: Body) -> list[list[Dependence]]:
    """Return the dependences among cyclic operations, one list a connected part."""
    parent = {index: index for index in body.cyclic}

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    edges = [e for e in body.dependences if e.source in parent and e.target in parent]
    for edge in edges:
        parent[root(edge.source)] = root(edge.target)
    parts: dict[int, list[Dependence]] = defaultdict(list)
    for edge in edges:
        parts[root(edge.source)].append(edge)
    return list(parts.values())


def _component_interval(body: Body, edges: Sequence[Dependence]) -> int:
    low, high = 0, sum(body.operations[edge.source].latency_cycles for edge in edges)
    if not _settles(body, edges, high):
        raise refuse("dependences", "", "expected no cycle within one iteration")
    while low < high:
        middle = (low + high) // 2
        if _settles(body, edges, middle):
            high = middle
        else:
            low = middle + 1
    return low


def _settles(body: Body, edges: Sequence[Dependence], interval: int) -> bool:
    """Return whether longest paths exist, that is whether no cycle has a positive length."""
    longest = {end: 0 for edge in edges for end in (edge.source, edge.target)}
    for _ in range(len(longest) + 1):
        changed = False
        for edge in edges:
            reached = longest[edge.source] + body.weight(edge, interval)
            if reached > longest[edge.target]:
                longest[edge.target], changed = reached, True
        if not changed:
            return True
    return False


def least_interval(body: Body) -> int:
    """Return the lower bound of the interval [cycles]: resources and recurrences."""
    return max(1, recurrence_interval(body), *resource_intervals(body).values())


def modulo_schedule(body: Body) -> Schedule:
    """Return a schedule with the least interval that iterative modulo scheduling finds.

    Intervals are tried upwards from ``least_interval``, so a schedule there is optimal; above it a
    shorter one may rarely have been missed. Within an interval the operation of greatest height
    is placed next, between what it reads and its readers; where that leaves no slot it takes one
    and what is in its way is placed anew (B. R. Rau, Iterative Modulo Scheduling, 1994, with the
    upper limit added). Operations outside recurrences are then moved as late as their readers
    allow, which shortens the lives of registers.

    Raises:
        InputError: when a cycle of dependences lies within one iteration.
    """
    interval = least_interval(body)
    while True:
        heights = _heights(body, interval)
        by_height = [(False, -height) for height in heights]
        # Where heights alone fail, a rigid recurrence found its slots taken: it goes first.
        recurrences_first = [
            (index not in body.cyclic, -height) for index, height in enumerate(heights)
        ]
        for priority in (by_height, recurrences_first):
            cycles = _placed(body, interval, priority)
            if cycles is not None:
                return _finished(body, interval, _delayed(body, interval, cycles))
        interval += 1


def list_schedule(body: Body) -> Schedule:
    """Return a schedule without overlap: the next iteration starts when all results are there.

    Raises:
        InputError: when a cycle of dependences lies within one iteration.
    """
    least_interval(body)
    # With an interval beyond any possible end, modulo scheduling is list scheduling.
    longest = sum(operation.latency_cycles for operation in body.operations)
    by_height = [(False, -height) for height in _heights(body, longest)]
    cycles = _placed(body, longest, by_height)
    if cycles is None:
        raise AssertionError("an interval that holds the iteration in sequence always suffices")
    ends = [c + o.latency_cycles for c, o in zip(cycles, body.operations, strict=True)]
    return _finished(body, max(ends) - min(cycles), cycles)


def _heights(body: Body, interval: int) -> list[int]:
    """Return the longest path from each operation to the end of the iteration [cycles]."""
    heights = [operation.latency_cycles for operation in body.operations]
    changed = True
    while changed:
        changed = False
        for edge in reversed(body.dependences):
            height = heights[edge.target] + body.weight(edge, interval)
            if height > heights[edge.source]:
                heights[edge.source], changed = height, True
    return heights


class _Table:
    """The modulo reservation table: which operations issue in each row of each unit."""

    def __init__(self, body: Body, interval: int) -> None:
        self.body = body
        self.interval = interval
        self.slots = dict(body.units)
        self.rows: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.cycles: dict[int, int] = {}

    def row(self, index: int, cycle: int) -> list[int]:
        return self.rows[self.body.operations[index].unit, cycle % self.interval]

    def free(self, index: int, cycle: int) -> bool:
        return len(self.row(index, cycle)) < self.slots[self.body.operations[index].unit]

    def place(self, index: int, cycle: int) -> None:
        self.row(index, cycle).append(index)
        self.cycles[index] = cycle

    def remove(self, index: int) -> None:
        self.row(index, self.cycles.pop(index)).remove(index)

    def first_free(self, index: int, cycles: Iterable[int]) -> int | None:
        return next((cycle for cycle in cycles if self.free(index, cycle)), None)


def _placed(
    body: Body, interval: int, priority: Sequence[tuple[bool, int]]
) -> tuple[int, ...] | None:
    """Return issue cycles by iterative modulo scheduling, or None when its tries run out.

    Of the operations that wait, the one of the least ``priority`` is placed next.
    """
    table = _Table(body, interval)
    last: dict[int, int] = {}
    waiting = [(priority[index], index) for index in range(len(body.operations))]
    heapify(waiting)
    for _ in range(TRIES_PER_OPERATION * len(waiting)):
        if not waiting:
            break
        index = heappop(waiting)[1]
        ready = _earliest(body, table, index)
        latest = min(ready + interval - 1, _latest(body, table, index, ready + interval))
        cycle = table.first_free(index, range(ready, latest + 1))
        if cycle is None:
            cycle = max(ready, last[index] + 1) if index in last else ready
            if not table.free(index, cycle):
                evicted = table.row(index, cycle)[0]
                table.remove(evicted)
                heappush(waiting, (priority[evicted], evicted))
        table.place(index, cycle)
        last[index] = cycle
        for edge in body.after[index]:
            reader = edge.target
            if reader == index or reader not in table.cycles:
                continue
            if table.cycles[reader] < cycle + body.weight(edge, interval):
                table.remove(reader)
                heappush(waiting, (priority[reader], reader))
    if waiting:
        return None
    start = min(table.cycles.values())
    return tuple(table.cycles[index] - start for index in range(len(body.operations)))


def _earliest(body: Body, table: _Table, index: int) -> int:
    """Return the first cycle that the operations placed so far admit, itself left out."""
    return max(
        (
            table.cycles[edge.source] + body.weight(edge, table.interval)
            for edge in body.before[index]
            if edge.source in table.cycles and edge.source != index
        ),
        default=0,
    )


def _latest(body: Body, table: _Table, index: int, default: int) -> int:
    """Return the last cycle that the readers placed so far admit, ``default`` without any."""
    return min(
        (
            table.cycles[edge.target] - body.weight(edge, table.interval)
            for edge in body.after[index]
            if edge.target in table.cycles and edge.target != index
        ),
        default=default,
    )


def _delayed(body: Body, interval: int, cycles: Sequence[int]) -> tuple[int, ...]:
    """Return the cycles with operations outside recurrences as late as their readers allow."""
    table = _Table(body, interval)
    for index, cycle in enumerate(cycles):
        table.place(index, cycle)
    for index in sorted(table.cycles, key=lambda index: -cycles[index]):
        if index in body.cyclic or not body.after[index]:
            continue
        latest = min(
            table.cycles[edge.target] - body.weight(edge, interval) for edge in body.after[index]
        )
        later = table.first_free(index, range(latest, table.cycles[index], -1))
        if later is not None:
            table.remove(index)
            table.place(index, later)
    start = min(table.cycles.values())
    return tuple(table.cycles[index] - start for index in range(len(cycles)))


def _finished(body: Body, interval: int, cycles: Sequence[int]) -> Schedule:
    """Return the schedule with slots given out in program order."""
    used: Counter[tuple[str, int]] = Counter()
    slots = []
    for operation, cycle in zip(body.operations, cycles, strict=True):
        row = operation.unit, cycle % interval
        slots.append(used[row])
        used[row] += 1
    return Schedule(interval, tuple(cycles), tuple(slots))


def violations(body: Body, schedule: Schedule) -> tuple[str, ...]:
    """Return what is wrong with a schedule, one sentence each; nothing when it is valid.

    Checks every dependence and every row of the modulo reservation table by itself, whatever
    made the schedule.
    """
    found = []
    for edge in body.dependences:
        source, target = body.operations[edge.source], body.operations[edge.target]
        written = schedule.cycles[edge.source] + source.latency_cycles
        read = schedule.cycles[edge.target] + schedule.interval * edge.distance
        if read < written:
            found.append(f"{target.name} reads {source.name} at {read}, before {written}")
    taken: dict[tuple[str, int, int], str] = {}
    slots = dict(body.units)
    for operation, cycle, slot in zip(
        body.operations, schedule.cycles, schedule.slots, strict=True
    ):
        if cycle < 0 or not 0 <= slot < slots[operation.unit]:
            found.append(f"{operation.name} issues in cycle {cycle}, slot {slot}: no such slot")
        key = operation.unit, slot, cycle % schedule.interval
        if key in taken:
            found.append(f"{operation.name} and {taken[key]} share {key}")
        taken[key] = operation.name
    return tuple(found)
