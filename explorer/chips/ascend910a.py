"""Ascend 910A: a prefill pass is a race between host issue and device; decode streams weights.

Source of the structure and of the numbers: Ascend TP Collective Overlap, sections 2 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.chips.ascend910a_decode import decode_stage
from explorer.chips.ascend910a_deploy import Deployment
from explorer.chips.ascend910a_limits import physical_limits
from explorer.chips.ascend910a_numbers import Ascend910aNumbers
from explorer.chips.ascend910a_prefill import PrefillPass
from explorer.chips.ascend910a_scale import is_measured, measured_model
from explorer.chips.ascend910a_synced import (
    CollectivePrice,
    SyncedProfile,
    collective_prices,
)
from explorer.chips.ascend910a_work import Work
from explorer.chips.inputs import Inputs, Kinds, kinds_reader, read_numbers
from explorer.chips.machine import Capacity, Limit, Link, Roof
from explorer.config.errors import refuse
from explorer.config.numbers import as_float_array
from explorer.config.sizes import has_experts
from explorer.costs.arrays import ONE, ZERO, Array, scalar
from explorer.costs.overlap import effective_slices, slices_by_rule
from explorer.costs.partition import StageShare, largest_stage_candidates
from explorer.costs.terms import Stage

__all__ = ["Ascend910a", "Ascend910aNumbers"]


@dataclass(frozen=True)
class Ascend910a:
    """Stage times of a group of Ascend 910A cards for one scenario."""

    inputs: Inputs
    numbers: Ascend910aNumbers
    kinds: Kinds

    @classmethod
    def of(cls, inputs: Inputs) -> Ascend910a:
        """Return the machine of a scenario; raises InputError when the chip lacks a number."""
        scenario = inputs.scenario
        numbers = read_numbers(scenario, Ascend910aNumbers)
        if np.any(numbers.measured_tp <= 1):
            accepted = "expected at least 2 cards: one alone reduces nothing"
            raise refuse("chip.quantities.measured_tp", numbers.measured_tp, accepted)
        return cls(inputs, numbers, kinds_reader(scenario))

    @property
    def capacity(self) -> Capacity:
        """Memory of one card."""
        n = self.numbers
        return Capacity(n.memory_bytes, n.usable_memory_fraction, n.overhead_bytes)

    @property
    def link(self) -> Link:
        """Link between cards."""
        n = self.numbers
        kinds = self.kinds("link_latency_seconds", "link_bandwidth_bytes_per_second")
        return Link(n.link_latency_seconds, n.link_bandwidth_bytes_per_second, kinds)

    @property
    def roofs(self) -> tuple[Roof, ...]:
        """FP16 peak over HBM, and over the rate that single-row products stream weights at."""
        n = self.numbers
        peak = n.peak_macs_per_second_fp16
        return (
            Roof("FP16, HBM", peak, n.hbm_bandwidth_bytes_per_second),
            Roof("FP16, weight streaming", peak, n.weight_stream_bytes_per_second),
        )

    @property
    def prefill_rows(self) -> Array:
        """Rows of one prefill pass: all prompt tokens of the micro-batch."""
        return self.inputs.micro_batch_prefill * self.inputs.prompt_tokens

    def slices(self) -> Array:
        """Return the slices that each all-reduce of a prefill pass runs in; 1 is serial."""
        plan, rows = self.inputs.scenario.plan, self.prefill_rows
        if isinstance(plan.slices, str):
            chosen = slices_by_rule(
                rows, as_float_array(plan.max_slices), as_float_array(plan.min_rows_per_slice)
            )
        else:
            chosen = as_float_array(plan.slices)
        least = self.numbers.serial_below_rows_per_slice
        return effective_slices(chosen, rows, self.inputs.tp_prefill, least)

    def smallest_tile(self) -> tuple[Array, Array]:
        """Return no requirement: the report gives no tiles of its kernels."""
        return ZERO, scalar(np.inf)

    def work(self, share: StageShare, tp: Array) -> Work:
        """Return bytes, MACs and measured slopes of one stage at one TP."""
        return Work(self.inputs, self.numbers, self.kinds, share, tp)

    def prefill_pass(self, share: StageShare) -> PrefillPass:
        """Return one prefill pass: its programs, terms and events."""
        return PrefillPass(self.work(share, self.inputs.tp_prefill), self.slices())

    def prefill_stage(self, share: StageShare) -> Stage:
        """Return one prefill pass: the device's terms, and waiting for the host if it is later."""
        return self.prefill_pass(share).stage()

    def synced_profile(self, share: StageShare) -> SyncedProfile:
        """Return the serial pass as the device-synced profile sees it, phase by phase."""
        return SyncedProfile(self.work(share, self.inputs.tp_prefill))

    def decode_stage(self, share: StageShare) -> Stage:
        """Return one decode step: a chain on the device, term by term."""
        return decode_stage(self.work(share, self.inputs.tp_decode))

    def environment(self) -> dict[str, str]:
        """Return the engine's slice setting."""
        return Deployment(self.inputs, self.numbers).environment

    def deployment(self) -> dict[str, Any]:
        """Return TP world, the slice rule's constants and one launch line a rank (section 8).

        Raises:
            TypeError: when the scenario holds arrays.
        """
        return Deployment(self.inputs, self.numbers).document()

    def notes(self) -> tuple[str, ...]:
        """Return where the scenario leaves the report's measurements."""
        n, i = self.numbers, self.inputs
        rows, batch = self.prefill_rows, i.micro_batch_decode
        measured = f"{n.shortest_measured_rows:.0f} to {n.longest_measured_rows:.0f} rows"
        notes = []
        if np.any((rows < n.shortest_measured_rows) | (rows > n.longest_measured_rows)):
            notes.append(
                f"Prefill passes of {measured} were measured: this plan's time is extrapolated, "
                "and the memory of its activations is not counted."
            )
        if np.any(batch > n.largest_measured_decode_batch):
            notes.append(
                f"Decode was measured at up to {n.largest_measured_decode_batch:.0f} request a "
                "step: larger batches assume that weights are still streamed once."
            )
        if np.any((i.tp_prefill != n.measured_tp) | (i.tp_decode != n.measured_tp)):
            notes.append(f"Only {n.measured_tp:.0f} cards were measured: other TP is extrapolated.")
        if np.any((i.pp_prefill > 1) | (i.pp_decode > 1)):
            notes.append(
                "Pipeline stages were never measured. Times of a pass are those of its slowest "
                "stage, and a request passes every stage."
            )
        return (*notes, *self._notes_on_another_model())

    def _notes_on_another_model(self) -> tuple[str, ...]:
        model, measured = self.inputs.model, measured_model()
        if is_measured(model):
            return ()
        note = (
            f"Kernels were measured with {measured.name}: for {model.name} products and recurrence "
            "scale with their MACs, attention with heads x head dimension, norms and the rest with "
            "the hidden size; issue and fixed times stay as they are. All of it is extrapolated."
        )
        if not any(map(has_experts, model.kinds)):
            return (note,)
        return note, "Routing rows to experts and gathering them was never measured: no time here."

    def remarks(self) -> tuple[str, ...]:
        """Return where slices were asked for and the pass runs serially."""
        forced = self.inputs.scenario.plan.slices
        if isinstance(forced, str):
            return ()
        asked = as_float_array(forced)
        if not np.any((asked > 1) & (self.slices() <= 1)):
            return ()
        if np.all(self.inputs.tp_prefill <= 1):
            return ("One card has nothing to reduce: slices asked for do not run.",)
        least = self.numbers.serial_below_rows_per_slice
        what = f"{float(asked):.0f} slices" if asked.ndim == 0 else "Some slice counts"
        return (
            f"{what} would hold fewer than {float(np.max(least)):.0f} of these rows each: the pass "
            "runs serially.",
        )

    def limits(self) -> tuple[Limit, ...]:
        """Return what products, streams and collectives of this chip cannot pass."""
        (whole,) = largest_stage_candidates(self.inputs.model, ONE)[:1]
        return physical_limits(self.work(whole, self.inputs.tp_prefill))

    @property
    def collective_prices(self) -> tuple[CollectivePrice, ...]:
        """One all-reduce of this prefill pass by each of the report's routes (sections 2, 5.3, 6).

        They disagree on the fixed term by up to 4.6 times; the report leaves that open.
        """
        i = self.inputs
        payload = self.prefill_rows * i.model.hidden_size * i.compute_bytes
        return collective_prices(self.numbers, payload, i.tp_prefill)
