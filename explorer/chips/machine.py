"""What serving asks of any chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from explorer.costs.arrays import Array
from explorer.costs.partition import StageShare
from explorer.costs.terms import Stage


@dataclass(frozen=True)
class Capacity:
    """Memory of one cluster or card [B]."""

    memory_bytes: Array
    usable_fraction: Array
    overhead_bytes: Array


@dataclass(frozen=True)
class Link:
    """The network between clusters or cards."""

    latency_seconds: Array
    bandwidth_bytes_per_second: Array
    kinds: frozenset[str]


@dataclass(frozen=True)
class Roof:
    """One flat roof and the slope under it."""

    name: str
    peak_macs_per_second: Array
    bandwidth_bytes_per_second: Array


@dataclass(frozen=True)
class Limit:
    """A value that one number of a machine cannot pass, whatever is built on it.

    Attributes:
        name: number of the chip document, or a group of its times such as ``full_*``, whose
            value is a factor on the present ones.
        value: in the number's unit.
        reason: what sets the limit, as a noun phrase.
        most: whether ``value`` is the largest one; the least otherwise.
    """

    name: str
    value: Array
    reason: str
    most: bool = False


class Machine(Protocol):
    """Stage times of one chip for one scenario."""

    @property
    def capacity(self) -> Capacity:
        """Memory of one cluster or card."""

    @property
    def link(self) -> Link:
        """Network between clusters or cards."""

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """Rooflines of the precisions that the chip computes in."""

    def smallest_tile(self) -> tuple[Array, Array]:
        """Return bytes that the smallest tile takes of its tightest scratchpad, and its size."""

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill micro-batch through a stage that holds ``share``."""

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode micro-batch through a stage that holds ``share``."""

    def environment(self) -> dict[str, str]:
        """Return environment variables that set the plan on the real engine."""

    def deployment(self) -> dict[str, Any]:
        """Return what else the real engine needs: launch lines, constants; JSON values."""

    def notes(self) -> tuple[str, ...]:
        """Return where the scenario leaves what was measured, one sentence each."""

    def remarks(self) -> tuple[str, ...]:
        """Return what the plan asks for and the machine does otherwise, one sentence each."""

    def limits(self) -> tuple[Limit, ...]:
        """Return what the numbers of the chip cannot pass; of a scenario without arrays."""
