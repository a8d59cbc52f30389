"""A pass as a race of timelines: one host thread, a compute stream, and collectives in two stages.

Lanes (Ascend TP Collective Overlap, sections 1 to 3):

- ``host``: one thread that issues everything in program order and never waits for the device;
- ``compute``: operators, in order;
- ``setup``: the fixed part of a collective, one collective at a time;
- ``link``: the bytes of a collective, one collective at a time.

Slice i of a sliced site runs its product (compute), then the collective's fixed term (setup), then
its bytes (link): slice i's collective runs under slice i + 1's product, and its bytes under the
fixed term of slice i + 1. Whatever follows the site waits for its last bytes. One slice is the
serial path. That fixed term and bytes are two stages is inferred from the slice sweep.

Max-plus algebra: a stretch of program maps the times (device free, host free) to
``max(device + D, host + C), host + H``. Stretches compose exactly, and n equal ones are
``n D``, ``n H`` and ``C + (n - 1) max(H, D)``. So the wall of a pass is a closed form, and it is
the event-by-event replay. All times are seconds and all closed forms broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from explorer.costs.arrays import ONE, ZERO, Array, scalar

HOST, COMPUTE, SETUP, LINK = "host", "compute", "setup", "link"
LANES = (HOST, COMPUTE, SETUP, LINK)
NEVER = scalar(-np.inf)


@dataclass(frozen=True)
class Operator:
    """Something the host issues in one go and the compute stream executes [s]."""

    name: str
    issue_seconds: Array
    seconds: Array


@dataclass(frozen=True)
class Site:
    """A row-parallel product followed by its all-reduce, cut into ``slices``.

    Attributes:
        name: of the product.
        issue_seconds: host time to issue one slice, product and collective.
        gemm_seconds: product of one slice.
        setup_seconds: fixed term of one collective.
        wire_seconds: byte term of one slice's collective.
        slices: how many; 1 is serial.
    """

    name: str
    issue_seconds: Array
    gemm_seconds: Array
    setup_seconds: Array
    wire_seconds: Array
    slices: Array = field(default_factory=lambda: ONE)

    @property
    def through_seconds(self) -> Array:
        """One slice on its own: g + k + b."""
        return self.gemm_seconds + self.setup_seconds + self.wire_seconds

    @property
    def pace_seconds(self) -> Array:
        """What every further slice adds: the slowest stage, max(g, k, b)."""
        return np.maximum(np.maximum(self.gemm_seconds, self.setup_seconds), self.wire_seconds)

    @property
    def device_seconds(self) -> Array:
        """The whole site once everything is issued: g + k + b + (s - 1) max(g, k, b)."""
        return self.through_seconds + (self.slices - 1) * self.pace_seconds

    def exposed_seconds(self) -> tuple[Array, Array, Array]:
        """Return what product, fixed term and bytes each put on the critical path.

        One slice of each stage is exposed, and of the stage that sets the pace all s; the three add
        up to ``device_seconds``.
        """
        g, k, b = self.gemm_seconds, self.setup_seconds, self.wire_seconds
        more = (self.slices - 1) * self.pace_seconds
        by_gemm = (g >= k) & (g >= b)
        by_setup = ~by_gemm & (k >= b)
        by_wire = ~by_gemm & ~by_setup
        return (
            g + np.where(by_gemm, more, 0.0),
            k + np.where(by_setup, more, 0.0),
            b + np.where(by_wire, more, 0.0),
        )


Step: TypeAlias = Operator | Site


@dataclass(frozen=True)
class Stretch:
    """A stretch of program as a max-plus map.

    Attributes:
        device_seconds: D, device time when everything is issued.
        issued_seconds: C, the latest of "issued at + device time still to go" from its start.
        host_seconds: H, time the host takes to issue it.
    """

    device_seconds: Array = field(default_factory=lambda: ZERO)
    issued_seconds: Array = field(default_factory=lambda: NEVER)
    host_seconds: Array = field(default_factory=lambda: ZERO)

    @property
    def seconds(self) -> Array:
        """Wall from an idle machine: max(D, C)."""
        return np.maximum(self.device_seconds, self.issued_seconds)

    @property
    def waiting_seconds(self) -> Array:
        """Time by which the host is late: wall less the device's own chain."""
        return np.maximum(self.issued_seconds - self.device_seconds, 0.0)

    def then(self, other: Stretch) -> Stretch:
        """Return this stretch followed by another."""
        return Stretch(
            self.device_seconds + other.device_seconds,
            np.maximum(
                self.issued_seconds + other.device_seconds,
                self.host_seconds + other.issued_seconds,
            ),
            self.host_seconds + other.host_seconds,
        )

    def times(self, count: Array) -> Stretch:
        """Return ``count`` equal stretches; 0 is no stretch at all."""
        pace = np.maximum(self.host_seconds, self.device_seconds)
        issued = self.issued_seconds + (count - 1) * pace
        return Stretch(
            count * self.device_seconds,
            np.where(count > 0, issued, NEVER),
            count * self.host_seconds,
        )


def stretch_of(steps: Iterable[Step]) -> Stretch:
    """Return the map of some steps in program order.

    Slice i of a site is issued at (i + 1) issue times and needs g + k + b + (s - 1 - i) max(g, k,
    b) from there: linear in i, so the first or the last slice is the latest.
    """
    whole = Stretch()
    for step in steps:
        if isinstance(step, Operator):
            part = Stretch(step.seconds, step.issue_seconds + step.seconds, step.issue_seconds)
        else:
            device, host = step.device_seconds, step.slices * step.issue_seconds
            issued = np.maximum(step.issue_seconds + device, host + step.through_seconds)
            part = Stretch(device, issued, host)
        whole = whole.then(part)
    return whole


class Event(NamedTuple):
    """One piece of work on one lane, for a Gantt chart.

    Attributes:
        lane: one of ``LANES``.
        what: name of the operator or site.
        layer: index of the layer; -1 before the first one, their number after the last one.
        slice: index of the slice, 0 for an operator.
        start: when it begins [s].
        end: when it ends [s].
    """

    lane: str
    what: str
    layer: int
    slice: int
    start: float
    end: float


@dataclass(frozen=True)
class Replay:
    """A pass event by event.

    Attributes:
        seconds: wall of the whole pass, also when only a window was kept.
        events: those of the layers asked for, in issue order.
    """

    seconds: float
    events: tuple[Event, ...]


def replay(programs: Sequence[tuple[int, Sequence[Step]]], first: int, last: int) -> Replay:
    """Return the pass event by event; events are kept for layers ``first`` <= layer < ``last``.

    Args:
        programs: (layer, steps) in program order; all times scalars.
        first: first layer whose events are kept.
        last: layer behind the last one.
    """
    clock = dict.fromkeys(LANES, 0.0)
    events: list[Event] = []
    ready = 0.0

    def run(lane: str, what: str, layer: int, part: int, earliest: float, seconds: float) -> float:
        start = max(clock[lane], earliest)
        clock[lane] = start + seconds
        if first <= layer < last:
            events.append(Event(lane, what, layer, part, start, clock[lane]))
        return clock[lane]

    for layer, steps in programs:
        for step in steps:
            issue, what = float(step.issue_seconds), step.name
            if isinstance(step, Operator):
                issued = run(HOST, what, layer, 0, 0.0, issue)
                ready = run(COMPUTE, what, layer, 0, max(issued, ready), float(step.seconds))
                continue
            gemm, setup = float(step.gemm_seconds), float(step.setup_seconds)
            wire, done = float(step.wire_seconds), ready
            for part in range(int(step.slices)):
                issued = run(HOST, what, layer, part, 0.0, issue)
                product = run(COMPUTE, what, layer, part, max(issued, ready), gemm)
                fixed = run(SETUP, what, layer, part, product, setup)
                done = run(LINK, what, layer, part, fixed, wire)
            ready = done
    return Replay(ready, tuple(events))
