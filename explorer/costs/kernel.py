"""The outer-product micro-kernel as a software pipeline (THInfer Tables I and II).

Y1[rows, columns] += X1[rows, k] W1[k, columns] on one core. The initiation interval, Table I's 16
cycles, is computed from latencies and issue slots. Loading and storing Y1 itself, the loop branch
and address updates are not counted: the paper gives no instruction for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from explorer.config.errors import refuse
from explorer.config.kernel import Instruction, KernelMachine
from explorer.costs.arrays import Array, ceil_divide, scalar
from explorer.costs.schedule import (
    Body,
    Dependence,
    Operation,
    Schedule,
    list_schedule,
    modulo_schedule,
    recurrence_interval,
    resource_intervals,
)

MOST_ROWS = 1024
MOST_COLUMNS = 65_536
MOST_K = 64
MOST_MULTIPLY_ADDS = 1024
RECURRENCE = "recurrence"


@dataclass(frozen=True)
class KernelShape:
    """Rows of X1 (M_1), columns of W1 (N_1) and steps of K in one iteration of the loop."""

    rows: int
    columns: int
    k_unroll: int

    def __post_init__(self) -> None:
        """Refuse sizes that are not whole numbers in range; raises InputError."""
        for name, most in (("rows", MOST_ROWS), ("columns", MOST_COLUMNS), ("k_unroll", MOST_K)):
            size = getattr(self, name)
            whole = isinstance(size, int) and not isinstance(size, bool)
            if not whole or not 1 <= size <= most:
                raise refuse(f"kernel.{name}", size, f"expected a whole number from 1 to {most}")


@dataclass(frozen=True)
class Registers:
    """Registers that hold something in the fullest cycle of the steady state.

    Attributes:
        accumulators: vectors of Y1, which stay for the whole loop.
        w_vectors: vectors of W1, from their load to their last reader.
        x_vectors: broadcast elements of X1, likewise.
        vectors: all of these at the fullest cycle; at most the sum of the three peaks.
        scalars: loaded and packed elements of X1.
        vectors_limit: vectors that the register file holds.
        scalars_limit: scalars that the register file holds.
        copies: copies of the loop needed so that no value is overwritten by its successor an
            interval later (modulo variable expansion); 1 when every value lives that briefly.
    """

    accumulators: int
    w_vectors: int
    x_vectors: int
    vectors: int
    scalars: int
    vectors_limit: int
    scalars_limit: int
    copies: int

    @property
    def fits(self) -> bool:
        """Whether both register files hold it."""
        return self.vectors <= self.vectors_limit and self.scalars <= self.scalars_limit


@dataclass(frozen=True)
class Grid:
    """A schedule as Table I prints it.

    Attributes:
        units: column names, such as ``VMAC1``.
        rows: one row a cycle of the interval; each cell an operation's name, or ``""``.
        stages: in the same places, how many intervals after its iteration began it issues.
    """

    units: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    stages: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Value:
    """A register's content: the operation that writes it and those that read it."""

    writer: int
    readers: tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """The loop body with the values that pass through registers, by kind of register."""

    body: Body
    x_vectors: tuple[Value, ...]
    w_vectors: tuple[Value, ...]
    scalars: tuple[Value, ...]


def kernel_vectors(machine: KernelMachine, shape: KernelShape) -> int:
    """Return the vectors in one row of W1.

    Raises:
        InputError: for columns that are not a multiple of the vector, or more than 1024
            multiply-adds an iteration.
    """
    lanes = machine.lanes_per_vector
    if shape.columns % lanes:
        accepted = f"expected a multiple of the vector of {lanes} elements"
        raise refuse("kernel.columns", shape.columns, accepted)
    vectors = shape.columns // lanes
    if shape.rows * vectors * shape.k_unroll > MOST_MULTIPLY_ADDS:
        size = f"{shape.rows} x {shape.columns} x {shape.k_unroll}"
        accepted = f"expected at most {MOST_MULTIPLY_ADDS} vector multiply-adds an iteration"
        raise refuse("kernel", size, accepted)
    return vectors


class _Builder:
    """Collects operations and dependences in program order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.edges: list[Dependence] = []

    def add(self, instruction: Instruction, name: str, *sources: int) -> int:
        index = len(self.operations)
        self.operations.append(
            Operation(
                f"{instruction.name} {name}",
                instruction.name,
                instruction.unit,
                instruction.latency_cycles,
            )
        )
        self.edges += [Dependence(source, index) for source in sources]
        return index


def build_kernel(machine: KernelMachine, shape: KernelShape) -> Kernel:
    """Return the data-dependence graph of one iteration.

    For each k: every element of X goes load -> pack -> broadcast, W comes by loads of several
    vectors, and each multiply-add waits for the one before it on the same accumulator, the first
    for the last of the iteration before.

    Raises:
        InputError: as ``kernel_vectors``.
    """
    vectors = kernel_vectors(machine, shape)
    build = _Builder()
    scalars: list[Value] = []
    x_vectors: list[Value] = []
    w_vectors: list[Value] = []
    accumulators: dict[tuple[int, int], list[int]] = {}
    per_load = machine.vectors_per_load
    for k in range(shape.k_unroll):
        w_loads = [
            build.add(machine.load_w, f"w[{k},{first}:{min(first + per_load, vectors)}]")
            for first in range(0, vectors, per_load)
        ]
        readers_of_w: list[list[int]] = [[] for _ in range(vectors)]
        for row in range(shape.rows):
            element = f"x[{row},{k}]"
            ready = build.add(machine.load_x, element)
            for _ in range(machine.packs_per_broadcast):
                packed = build.add(machine.pack, element, ready)
                scalars.append(Value(ready, (packed,)))
                ready = packed
            spread = build.add(machine.broadcast, element, ready)
            scalars.append(Value(ready, (spread,)))
            readers_of_x = []
            for vector in range(vectors):
                load = w_loads[vector // per_load]
                name = f"y[{row},{vector}] k{k}"
                reader = build.add(machine.multiply_add, name, spread, load)
                readers_of_x.append(reader)
                readers_of_w[vector].append(reader)
                accumulators.setdefault((row, vector), []).append(reader)
            x_vectors.append(Value(spread, tuple(readers_of_x)))
        w_vectors += [
            Value(w_loads[vector // per_load], tuple(readers))
            for vector, readers in enumerate(readers_of_w)
        ]
    for chain in accumulators.values():
        build.edges += [Dependence(a, b) for a, b in pairwise(chain)]
        build.edges.append(Dependence(chain[-1], chain[0], distance=1))
    body = Body(tuple(build.operations), tuple(build.edges), machine.units)
    return Kernel(body, tuple(x_vectors), tuple(w_vectors), tuple(scalars))


@dataclass(frozen=True)
class KernelPlan:
    """A scheduled kernel and what it costs on one core."""

    machine: KernelMachine
    shape: KernelShape
    kernel: Kernel
    schedule: Schedule

    @property
    def interval(self) -> int:
        """Initiation interval [cycles]: 16 for the paper's 6 x 128, k = 2 (Table I)."""
        return self.schedule.interval

    @cached_property
    def lower_bounds(self) -> dict[str, int]:
        """Least intervals [cycles] by unit, and by the accumulators' ``recurrence``."""
        body = self.kernel.body
        return {**resource_intervals(body), RECURRENCE: recurrence_interval(body)}

    @property
    def minimum_interval(self) -> int:
        """The interval that no schedule can beat [cycles]."""
        return max(1, *self.lower_bounds.values())

    @property
    def bound_by(self) -> tuple[str, ...]:
        """Units, and perhaps ``recurrence``, that set the least interval."""
        least = self.minimum_interval
        return tuple(name for name, cycles in self.lower_bounds.items() if cycles == least)

    @property
    def is_least(self) -> bool:
        """Whether the interval is proved to be the least one."""
        return self.interval == self.minimum_interval

    @cached_property
    def issued(self) -> dict[str, int]:
        """Instructions of one iteration by name."""
        return dict(Counter(operation.instruction for operation in self.kernel.body.operations))

    @property
    def multiply_adds(self) -> int:
        """Vector multiply-adds of one iteration."""
        return self.issued[self.machine.multiply_add.name]

    @property
    def utilisation(self) -> float:
        """Share of multiply-add slots used in the steady state."""
        return self.multiply_adds / (self.interval * self.machine.multiply_adds_per_cycle)

    @cached_property
    def depth_cycles(self) -> int:
        """Cycles of one iteration, from its first issue to its last result."""
        operations = self.kernel.body.operations
        return max(
            cycle + operation.latency_cycles
            for cycle, operation in zip(self.schedule.cycles, operations, strict=True)
        )

    @property
    def stages(self) -> int:
        """Iterations in flight at once."""
        return max(self.schedule.cycles) // self.interval + 1

    @property
    def ramp_cycles(self) -> int:
        """Cycles of prologue and epilogue: what a loop takes beyond an interval an iteration."""
        return self.depth_cycles - self.interval

    @cached_property
    def prologue_cycles(self) -> int:
        """Cycles before the first multiply-add issues."""
        operations = self.kernel.body.operations
        return min(
            cycle
            for cycle, operation in zip(self.schedule.cycles, operations, strict=True)
            if operation.instruction == self.machine.multiply_add.name
        )

    @property
    def epilogue_cycles(self) -> int:
        """The rest of the ramp: multiply-adds of the last iteration finish."""
        return self.ramp_cycles - self.prologue_cycles

    def cycles(self, depth_k: Array) -> Array:
        """Return the cycles of a kernel call that runs over ``depth_k`` (K_2) of X's columns.

        A depth that is not a multiple of ``k_unroll`` pays for the whole last iteration.

        Raises:
            InputError: for a depth below 1.
        """
        _at_least_one("depth_k", depth_k)
        iterations = ceil_divide(depth_k, scalar(self.shape.k_unroll))
        return iterations * self.interval + self.ramp_cycles

    def utilisation_at(self, depth_k: Array) -> Array:
        """Return the share of multiply-add slots used in a call over ``depth_k``, ramp included.

        Raises:
            InputError: for a depth below 1.
        """
        vectors = self.shape.columns // self.machine.lanes_per_vector
        slots = self.machine.multiply_adds_per_cycle * self.cycles(depth_k)
        return depth_k * self.shape.rows * vectors / slots

    @cached_property
    def registers(self) -> Registers:
        """Registers in use. A value's register is free from the cycle after its last reader."""
        accumulators = self.shape.rows * (self.shape.columns // self.machine.lanes_per_vector)
        w_live = self._live(self.kernel.w_vectors)
        x_live = self._live(self.kernel.x_vectors)
        scalars = self.kernel.scalars
        short_lived = (*self.kernel.w_vectors, *self.kernel.x_vectors, *scalars)
        return Registers(
            accumulators=accumulators,
            w_vectors=max(w_live),
            x_vectors=max(x_live),
            vectors=accumulators + max(w + x for w, x in zip(w_live, x_live, strict=True)),
            scalars=max(self._live(scalars)),
            vectors_limit=self.machine.vector_registers,
            scalars_limit=self.machine.scalar_registers,
            copies=max(-(-len(self._life(value)) // self.interval) for value in short_lived),
        )

    def _life(self, value: Value) -> range:
        cycles = self.schedule.cycles
        written = cycles[value.writer] + self.kernel.body.operations[value.writer].latency_cycles
        return range(written, max(cycles[reader] for reader in value.readers) + 1)

    def _live(self, values: Sequence[Value]) -> list[int]:
        """Return how many values are alive in each cycle of the steady state."""
        live = [0] * self.interval
        for value in values:
            for cycle in self._life(value):
                live[cycle % self.interval] += 1
        return live


@lru_cache(maxsize=256)
def pipelined_kernel(machine: KernelMachine, shape: KernelShape) -> KernelPlan:
    """Return the kernel as a software pipeline with the least interval found.

    Raises:
        InputError: as ``kernel_vectors``.
    """
    kernel = build_kernel(machine, shape)
    return KernelPlan(machine, shape, kernel, modulo_schedule(kernel.body))


@lru_cache(maxsize=256)
def unpipelined_kernel(machine: KernelMachine, shape: KernelShape) -> KernelPlan:
    """Return the kernel as a compiler leaves it that does not pipeline the loop.

    One iteration is list-scheduled; the next starts when all its results are there.

    Raises:
        InputError: as ``kernel_vectors``.
    """
    kernel = build_kernel(machine, shape)
    return KernelPlan(machine, shape, kernel, list_schedule(kernel.body))


def grid(plan: KernelPlan) -> Grid:
    """Return the steady state as cycles x issue slots (the layout of Table I)."""
    columns = [(unit, slot) for unit, slots in plan.machine.units for slot in range(slots)]
    many = {unit for unit, slots in plan.machine.units if slots > 1}
    rows = [[""] * len(columns) for _ in range(plan.interval)]
    stages = [[0] * len(columns) for _ in range(plan.interval)]
    schedule = plan.schedule
    for operation, cycle, slot in zip(
        plan.kernel.body.operations, schedule.cycles, schedule.slots, strict=True
    ):
        stage, row = divmod(cycle, plan.interval)
        column = columns.index((operation.unit, slot))
        rows[row][column] = operation.name
        stages[row][column] = stage
    return Grid(
        tuple(f"{unit}{slot + 1}" if unit in many else unit for unit, slot in columns),
        tuple(map(tuple, rows)),
        tuple(map(tuple, stages)),
    )


def columns_used(head_dim: Array, kernel_columns: Array) -> Array:
    """Return the share of the kernel's columns that a head fills, 1 when N_1 divides it.

    A head of ``head_dim`` columns takes ceil(head_dim / N_1) kernels side by side.

    Raises:
        InputError: for sizes below 1.
    """
    _at_least_one("head_dim", head_dim)
    _at_least_one("kernel.columns", kernel_columns)
    return head_dim / (ceil_divide(head_dim, kernel_columns) * kernel_columns)


def _at_least_one(field: str, sizes: Array) -> None:
    if not np.all(np.asarray(sizes) >= 1):
        raise refuse(field, sizes, "expected at least 1")
