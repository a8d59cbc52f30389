"""Numbers that the Ascend 910A cost model reads from its chip document."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.costs.arrays import ZERO, Array, scalar

BROADCAST_ROWS, RANK1_UPDATE = "broadcast_rows", "rank1_update"
RECURRENCE_GROUPS = (
    "recurrence_broadcast_rows_seconds_per_row_layer",
    "recurrence_rank1_update_seconds_per_row_layer",
    "recurrence_rest_seconds_per_row_layer",
)
"""Numbers whose sum, times the factor, is the recurrence of a row in a layer."""
KEPT_GROUPS = {
    "whole": (True, True),
    "without_broadcast_rows": (False, True),
    "without_rank1_update": (True, False),
    "without_both": (False, False),
}
"""Whether broadcast_rows and the rank-1 update run, by the word of ``kernel.recurrence``."""

AFTER_MIXER_AND_MLP = scalar(2)
"""All-reduces a layer of chip documents that were written before the number existed."""


@dataclass(frozen=True)
class Ascend910aNumbers:
    """Numbers of the chip document, one card each unless the name says otherwise."""

    peak_macs_per_second_fp16: Array
    hbm_bandwidth_bytes_per_second: Array
    weight_stream_bytes_per_second: Array
    memory_bytes: Array
    usable_memory_fraction: Array
    overhead_bytes: Array
    link_latency_seconds: Array
    link_bandwidth_bytes_per_second: Array
    recurrence_broadcast_rows_seconds_per_row_layer: Array
    recurrence_rank1_update_seconds_per_row_layer: Array
    recurrence_rest_seconds_per_row_layer: Array
    recurrence_time_factor: Array
    full_attention_seconds_per_row_layer: Array
    full_attention_seconds_per_pair_layer: Array
    projection_seconds_per_row_layer: Array
    norm_seconds_per_row_layer: Array
    other_seconds_per_row_layer: Array
    outside_seconds_per_row: Array
    outside_fixed_seconds: Array
    host_issue_seconds_per_layer: Array
    host_issue_seconds_per_collective: Array
    device_fixed_seconds_per_layer: Array
    collective_fixed_seconds: Array
    probe_bytes_per_second: Array
    synced_collective_fixed_seconds: Array
    sweep_collective_fixed_seconds: Array
    synced_full_attention_fixed_seconds_per_layer: Array
    synced_projection_fixed_seconds_per_layer: Array
    synced_norm_fixed_seconds_per_layer: Array
    synced_other_fixed_seconds_per_layer: Array
    decode_fixed_seconds_per_layer: Array
    serial_below_rows_per_slice: Array
    shortest_measured_rows: Array
    longest_measured_rows: Array
    largest_measured_decode_batch: Array
    measured_tp: Array
    all_reduces_per_layer: Array = AFTER_MIXER_AND_MLP

    def recurrence_groups(self, word: str) -> dict[str, Array]:
        """Return seconds a row a layer of each instruction group of the recurrence (section 5.4).

        Args:
            word: a word of ``kernel.recurrence``; a group left out takes no time.
        """
        broadcast, rank1 = KEPT_GROUPS[word]
        groups = {
            BROADCAST_ROWS: (
                self.recurrence_broadcast_rows_seconds_per_row_layer if broadcast else ZERO
            ),
            RANK1_UPDATE: self.recurrence_rank1_update_seconds_per_row_layer if rank1 else ZERO,
            "rest": self.recurrence_rest_seconds_per_row_layer,
        }
        return {name: self.recurrence_time_factor * value for name, value in groups.items()}
