"""The device-synced profile of a serial prefill pass, and the prices of one all-reduce.

Ascend TP Collective Overlap sections 2, 5.2, 5.3 and 6. Every scope of that profile drains the
device on entry and exit, so its phases add up; their slopes are those of the overlapped pass and
their fixed terms (issue and drain of the scopes) are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from explorer.chips.ascend910a_numbers import Ascend910aNumbers
from explorer.chips.ascend910a_prefill import PrefillPass
from explorer.chips.ascend910a_work import Work
from explorer.costs.arrays import ONE, Array, total
from explorer.costs.collective import marginal_all_reduce_seconds

GATED_DELTA, FULL_ATTENTION = "gated_delta", "full_attention"
PROJECTIONS, ALL_REDUCE = "projections", "tp_all_reduce"
NORMS, OTHER = "norms", "other"
PHASES = (GATED_DELTA, FULL_ATTENTION, PROJECTIONS, ALL_REDUCE, NORMS, OTHER)
STACK, WALL = "stack", "wall"
ENGINE, STANDALONE, SWEEP = "engine", "standalone", "sweep"


@dataclass(frozen=True)
class SyncedProfile:
    """Phases of a device-synced serial pass [s]; ``other`` is what the report does not list."""

    work: Work

    @cached_property
    def phases(self) -> dict[str, Array]:
        """Seconds by phase, in the order of table 5.2: a fixed term a layer and a slope."""
        n, work = self.work.numbers, self.work
        serial = PrefillPass(work, ONE)
        rows, layers = serial.rows, work.share.layer_count
        wide_rows = rows * work.width
        collective = total(
            list(all_reduce_by(ENGINE, n, work.payload_bytes(rows), work.tp)),
        )
        return {
            GATED_DELTA: work.linear * rows * work.recurrence_seconds_per_row,
            FULL_ATTENTION: serial.attention_term.seconds
            + (work.full + work.sliding) * n.synced_full_attention_fixed_seconds_per_layer,
            PROJECTIONS: serial.all_gemm_seconds
            + layers * n.synced_projection_fixed_seconds_per_layer,
            ALL_REDUCE: work.all_reduces * collective,
            NORMS: layers
            * (wide_rows * n.norm_seconds_per_row_layer + n.synced_norm_fixed_seconds_per_layer),
            OTHER: layers
            * (wide_rows * n.other_seconds_per_row_layer + n.synced_other_fixed_seconds_per_layer),
        }

    @cached_property
    def stack_seconds(self) -> Array:
        """All layers: the sum of the phases."""
        return total(list(self.phases.values()))

    @cached_property
    def wall_seconds(self) -> Array:
        """The pass: the stack and what lies outside the layers."""
        serial = PrefillPass(self.work, ONE)
        head = self.work.share.head * self.work.numbers.outside_fixed_seconds
        rows = self.work.share.embedding * serial.rows * self.work.width
        return self.stack_seconds + head + rows * self.work.numbers.outside_seconds_per_row

    def seconds(self, phase: str) -> Array:
        """Return the time of a phase, of the ``stack`` or of the ``wall``."""
        whole = {STACK: lambda: self.stack_seconds, WALL: lambda: self.wall_seconds}
        return whole[phase]() if phase in whole else self.phases[phase]


def all_reduce_by(
    route: str, numbers: Ascend910aNumbers, payload_bytes: Array, tp: Array
) -> tuple[Array, Array]:
    """Return fixed and byte term [s] of one all-reduce by one of the report's routes.

    Args:
        route: ``engine``, the device-synced two-point fit of section 5.3 (1.848 ms, 22.73 GB/s);
            ``sweep``, the extra collectives of section 2 (1.60 ms) over the same byte rate;
            ``standalone``, the probe of section 6 (0.404 ms and its own slope).
        numbers: of the chip.
        payload_bytes: bytes reduced.
        tp: cards; other numbers than the measured one scale as a ring.
    """
    n = numbers
    fixed, rate = {
        ENGINE: (n.synced_collective_fixed_seconds, n.link_bandwidth_bytes_per_second),
        SWEEP: (n.sweep_collective_fixed_seconds, n.link_bandwidth_bytes_per_second),
        STANDALONE: (n.collective_fixed_seconds, n.probe_bytes_per_second),
    }[route]
    return marginal_all_reduce_seconds(payload_bytes, tp, fixed, rate, n.measured_tp)


ROUTES = {
    ENGINE: "two-point fit of the device-synced profile (section 5.3): issue and device in line",
    SWEEP: "extra collectives of 512-row passes (section 2): bound by host issue",
    STANDALONE: "standalone probe (section 6): what the device pays in the timeline",
}


@dataclass(frozen=True)
class CollectivePrice:
    """Price of one all-reduce by one route [s], and what that route measures."""

    route: str
    meaning: str
    fixed_seconds: Array
    byte_seconds: Array

    @property
    def seconds(self) -> Array:
        """Fixed and byte term."""
        return self.fixed_seconds + self.byte_seconds


def collective_prices(
    numbers: Ascend910aNumbers, payload_bytes: Array, tp: Array
) -> tuple[CollectivePrice, ...]:
    """Return the price of one all-reduce by every route, side by side."""
    return tuple(
        CollectivePrice(route, meaning, *all_reduce_by(route, numbers, payload_bytes, tp))
        for route, meaning in ROUTES.items()
    )
