"""All-reduce among the ranks of a tensor-parallel group (THInfer Eq. 17)."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import Array


def all_reduce_group_bytes(payload_bytes: Array, tp: Array) -> Array:
    """Return the bytes a ring all-reduce moves in the whole group: 2 (TP - 1) payloads (Eq. 17).

    With a payload of B x D_emb x D_size this is the equation as printed.
    """
    return 2 * (tp - 1) * payload_bytes


def all_reduce_rank_bytes(payload_bytes: Array, tp: Array) -> Array:
    """Return the bytes each rank sends: 2 (TP - 1) / TP payloads."""
    return all_reduce_group_bytes(payload_bytes, tp) / tp


def ring_all_reduce_seconds(
    payload_bytes: Array, tp: Array, latency_seconds: Array, bandwidth_bytes_per_second: Array
) -> Array:
    """Return the time of one ring all-reduce [s]; zero for a group of one.

    2 (TP - 1) steps, each with the link's latency and a TP-th of the payload.
    """
    steps = 2 * (tp - 1)
    wire = all_reduce_rank_bytes(payload_bytes, tp) / bandwidth_bytes_per_second
    return steps * latency_seconds + wire


def marginal_all_reduce_seconds(
    payload_bytes: Array,
    tp: Array,
    fixed_seconds: Array,
    payload_bytes_per_second: Array,
    reference_tp: Array,
) -> tuple[Array, Array]:
    """Return the fixed and the byte term [s] of an all-reduce measured at ``reference_tp`` ranks.

    ``payload_bytes_per_second`` is payload over marginal time at the measured size of group;
    other sizes scale the byte term with the ring's 2 (TP - 1) / TP. Both are zero for one rank.
    """
    several = tp > 1
    ring = ((tp - 1) / tp) / ((reference_tp - 1) / reference_tp)
    fixed = np.where(several, fixed_seconds, 0.0)
    return fixed, payload_bytes / payload_bytes_per_second * ring
