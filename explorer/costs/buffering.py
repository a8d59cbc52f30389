"""Triple buffering of Y2 and dynamic tiling of its store (THInfer Figs 6 and 7).

One block of Y2 is made in several iterations over K. Each loads X2 (T1), loads or broadcasts W2
(T2) and computes (T3); the finished block is stored (T4). One DMA engine carries T1, T2 and T4 in
program order, one compute engine T3. What the buffers allow:

- 1: one buffer of each kind, so nothing overlaps;
- 2: X2 and W2 twice: the loads of an iteration run under the compute of the one before, but Y2
  must leave before the next block begins;
- 3: Y2 leaves under the next block, whose first iteration then carries the whole store (Fig. 6);
  with dynamic tiling each of its iterations carries one tile of it (Fig. 7).

A store is queued before the loads that the same iteration starts, as a program does that sends Y2
at the end of its K loop; the paper does not say. Queued after them, a whole store would reach into
a second iteration and dynamic tiling would gain a little less. The last block has nothing to hide
behind: its store is the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from explorer.config.errors import refuse
from explorer.costs.arrays import ONE, Array, scalar

MOST_BUFFERS = 3
STEADY_BLOCKS = 3
MOST_SIMULATED_ITERATIONS = 100_000
What = Literal["load_x", "load_w", "compute", "store"]


@dataclass(frozen=True)
class LoopTimes:
    """Times [s], of any shapes that broadcast: three an iteration over K, one a block of Y2."""

    load_x_seconds: Array
    load_w_seconds: Array
    compute_seconds: Array
    store_seconds: Array

    def __post_init__(self) -> None:
        """Refuse times that are negative or not finite; raises InputError."""
        for name in ("load_x_seconds", "load_w_seconds", "compute_seconds", "store_seconds"):
            seconds = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.all(np.isfinite(seconds) & (seconds >= 0)):
                raise refuse(name, getattr(self, name), "expected finite seconds, 0 or more")

    @property
    def load_seconds(self) -> Array:
        """T1 + T2."""
        return self.load_x_seconds + self.load_w_seconds


@dataclass(frozen=True)
class Buffering:
    """How many buffers Y2 passes through, and whether its store is cut into tiles."""

    buffers: int
    dynamic_tiling: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not exist; raises InputError."""
        if isinstance(self.buffers, bool) or self.buffers not in range(1, MOST_BUFFERS + 1):
            raise refuse("buffers", self.buffers, f"expected 1 to {MOST_BUFFERS}")
        if self.dynamic_tiling and self.buffers != MOST_BUFFERS:
            accepted = f"dynamic tiling needs {MOST_BUFFERS}, since Y2 leaves under the next block"
            raise refuse("buffers", self.buffers, accepted)


@dataclass(frozen=True)
class LoopSeconds:
    """What a loop over blocks takes [s]; head, compute, bubbles and tail add up to the total.

    Attributes:
        period_seconds: steady state, one block of Y2 to the next.
        head_seconds: before the first compute: its loads.
        compute_seconds: all compute.
        bubble_seconds: compute waits for the DMA engine between its first start and last end.
        tail_seconds: after the last compute: stores that nothing covers.
    """

    period_seconds: Array
    head_seconds: Array
    compute_seconds: Array
    bubble_seconds: Array
    tail_seconds: Array

    @property
    def total_seconds(self) -> Array:
        """Start of the first load to the end of the last store."""
        work = self.head_seconds + self.compute_seconds
        return work + self.bubble_seconds + self.tail_seconds

    @property
    def compute_share(self) -> Array:
        """Share of the total in which the compute engine works; NaN when nothing takes time."""
        with np.errstate(invalid="ignore"):
            return np.divide(self.compute_seconds, self.total_seconds)


def loop_seconds(
    times: LoopTimes, blocks: Array, iterations: Array, buffering: Buffering
) -> LoopSeconds:
    """Return the time of ``blocks`` blocks of Y2, each of ``iterations`` iterations over K.

    With two input buffers an iteration's compute and the loads of the next start together, so
    each iteration lasts max(compute, DMA) (the closed form of ``simulate``).

    Raises:
        InputError: for counts that are not whole numbers of at least 1.
    """
    _refuse_counts(blocks, iterations)
    load, compute, store = times.load_seconds, times.compute_seconds, times.store_seconds
    all_compute = blocks * iterations * compute
    plain = np.maximum(compute, load)
    if buffering.buffers == 1:
        return LoopSeconds(
            period_seconds=iterations * (load + compute) + store,
            head_seconds=load * ONE,
            compute_seconds=all_compute,
            bubble_seconds=(blocks * iterations - 1) * load + (blocks - 1) * store,
            tail_seconds=store * ONE,
        )
    if buffering.buffers < MOST_BUFFERS:
        return LoopSeconds(
            period_seconds=iterations * plain + store,
            head_seconds=load * ONE,
            compute_seconds=all_compute,
            bubble_seconds=(blocks * iterations - 1) * (plain - compute) + (blocks - 1) * store,
            tail_seconds=store * ONE,
        )
    tiles = iterations if buffering.dynamic_tiling else ONE
    tile = store / tiles
    storing = np.maximum(compute, load + tile)
    # The very last iteration loads nothing; it may still store a tile of the block before.
    last_stores = (blocks > 1) & (tiles == iterations)
    storing_iterations = (blocks - 1) * tiles - last_stores
    plain_iterations = blocks * iterations - 1 - storing_iterations
    bubbles = storing_iterations * (storing - compute) + plain_iterations * (plain - compute)
    late = np.where(last_stores, np.maximum(tile - compute, 0.0), 0.0)
    return LoopSeconds(
        period_seconds=tiles * storing + (iterations - tiles) * plain,
        head_seconds=load * ONE,
        compute_seconds=all_compute,
        bubble_seconds=bubbles,
        tail_seconds=store + late,
    )


@dataclass(frozen=True)
class Gains:
    """How many times faster each step makes the loop; 1 is no gain.

    Attributes:
        second_buffer: 1 buffer to 2: loads under compute.
        third_buffer: 2 to 3: the store under the next block.
        dynamic_tiling: the store spread over its iterations.
        all: everything together.
    """

    second_buffer: Array
    third_buffer: Array
    dynamic_tiling: Array

    @property
    def all(self) -> Array:
        """The product of the three."""
        return self.second_buffer * self.third_buffer * self.dynamic_tiling


def steady_gains(times: LoopTimes, iterations: Array) -> Gains:
    """Return the gains on the steady-state period of a block; raises as ``loop_seconds``."""
    return _gains([loop_seconds(times, ONE, iterations, way).period_seconds for way in WAYS])


def total_gains(times: LoopTimes, blocks: Array, iterations: Array) -> Gains:
    """Return the gains on the whole loop, head and tail included; raises as ``loop_seconds``."""
    return _gains([loop_seconds(times, blocks, iterations, way).total_seconds for way in WAYS])


WAYS = (Buffering(1), Buffering(2), Buffering(3), Buffering(3, dynamic_tiling=True))


def _gains(seconds: Sequence[Array]) -> Gains:
    with np.errstate(invalid="ignore"):
        ratios = [np.divide(a, b) for a, b in pairwise(seconds)]
    return Gains(*ratios)


def _refuse_counts(blocks: Array, iterations: Array) -> None:
    for name, counts in (("blocks", blocks), ("iterations", iterations)):
        array = np.asarray(counts, dtype=np.float64)
        if not np.all(np.isfinite(array) & (array >= 1) & (array == np.floor(array))):
            raise refuse(name, counts, "expected whole numbers of at least 1")


@dataclass(frozen=True)
class Interval:
    """One transfer or computation on the timeline.

    Attributes:
        what: ``load_x`` (T1), ``load_w`` (T2), ``compute`` (T3) or ``store`` (T4).
        block: block of Y2 that it belongs to, from 0.
        iteration: iteration over K, from 0; for a store the number of the tile, 0 when whole.
        start_seconds: from the start of the first load.
        end_seconds: likewise.
    """

    what: What
    block: int
    iteration: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class Timeline:
    """A simulated loop: intervals in program order, and what they add up to.

    ``period_seconds`` is the distance of the last two blocks' first computes, None below three
    blocks, where no steady state exists.
    """

    intervals: tuple[Interval, ...]
    period_seconds: float | None
    head_seconds: float
    compute_seconds: float
    bubble_seconds: float
    tail_seconds: float
    total_seconds: float


class _Engines:
    """Runs tasks in program order, each when its engine and all that it waits for are done."""

    def __init__(self) -> None:
        self.free = {"dma": 0.0, "compute": 0.0}
        self.intervals: list[Interval] = []

    def run(
        self, what: What, place: tuple[int, int], seconds: float, after: Sequence[float]
    ) -> float:
        engine = "compute" if what == "compute" else "dma"
        start = max(self.free[engine], *after, 0.0)
        self.free[engine] = start + seconds
        self.intervals.append(Interval(what, *place, start, start + seconds))
        return start + seconds


def simulate(times: LoopTimes, blocks: int, iterations: int, buffering: Buffering) -> Timeline:
    """Return the timeline of a loop, event by event.

    Knows only the engines and the buffers: loads of an iteration wait for the compute that last
    read their buffer, a compute for its loads and, in its first iteration, for the store that
    last emptied its Y2 buffer; a store waits for its block's last compute.

    Raises:
        InputError: for times that are arrays, counts that are not whole numbers of at least 1, or
            more than 100000 iterations in all.
    """
    _refuse_counts(scalar(blocks), scalar(iterations))
    blocks, iterations = int(blocks), int(iterations)
    load_x, load_w, compute, store = _scalars(times)
    steps = blocks * iterations
    if steps > MOST_SIMULATED_ITERATIONS:
        accepted = f"expected at most {MOST_SIMULATED_ITERATIONS} iterations in all"
        raise refuse("blocks x iterations", steps, accepted)
    inputs = min(buffering.buffers, 2)
    outputs = max(buffering.buffers - 1, 1)
    tiles = iterations if buffering.dynamic_tiling else 1
    engines = _Engines()
    computed: list[float] = []
    loaded: list[float] = []
    stored: list[list[float]] = [[] for _ in range(blocks)]

    def load(step: int) -> None:
        place = divmod(step, iterations)
        buffer_free = computed[step - inputs] if step >= inputs else 0.0
        engines.run("load_x", place, load_x, [buffer_free])
        loaded.append(engines.run("load_w", place, load_w, [buffer_free]))

    def send(block: int, tile: int) -> None:
        finished = computed[(block + 1) * iterations - 1]
        stored[block].append(engines.run("store", (block, tile), store / tiles, [finished]))

    for step in range(steps):
        block, iteration = divmod(step, iterations)
        if block and iteration < tiles:
            send(block - 1, iteration)
        for ahead in range(len(loaded), min(step + inputs, steps)):
            load(ahead)
        waits = [loaded[step]]
        if iteration == 0 and block >= outputs:
            waits += stored[block - outputs]
        computed.append(engines.run("compute", (block, iteration), compute, waits))
    for tile in range(tiles):
        send(blocks - 1, tile)
    return _timeline(engines.intervals, blocks)


def _scalars(times: LoopTimes) -> tuple[float, float, float, float]:
    values = []
    for name in ("load_x_seconds", "load_w_seconds", "compute_seconds", "store_seconds"):
        value = np.asarray(getattr(times, name))
        if value.ndim:
            raise refuse(name, getattr(times, name), "expected one number to simulate")
        values.append(float(value))
    return values[0], values[1], values[2], values[3]


def _timeline(intervals: Sequence[Interval], blocks: int) -> Timeline:
    computes = [interval for interval in intervals if interval.what == "compute"]
    first, last = computes[0].start_seconds, computes[-1].end_seconds
    worked = sum(interval.end_seconds - interval.start_seconds for interval in computes)
    gaps = [b.start_seconds - a.end_seconds for a, b in pairwise(computes)]
    total = max(interval.end_seconds for interval in intervals)
    starts = [interval.start_seconds for interval in computes if interval.iteration == 0]
    return Timeline(
        intervals=tuple(intervals),
        period_seconds=starts[-1] - starts[-2] if blocks >= STEADY_BLOCKS else None,
        head_seconds=first,
        compute_seconds=worked,
        bubble_seconds=sum(gaps),
        tail_seconds=total - last,
        total_seconds=total,
    )
