"""Moving KV cache from prefill to decode, layer by layer under compute (THInfer, P-B-D)."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import Array


def message_seconds(
    payload_bytes: Array, latency_seconds: Array, bandwidth_bytes_per_second: Array
) -> Array:
    """Return the time of one message [s]."""
    return latency_seconds + payload_bytes / bandwidth_bytes_per_second


def link_stall_seconds(layer_message_seconds: Array, layers: Array, compute: Array) -> Array:
    """Return how long a stage waits because its link sends slower than it computes [s].

    A stage sends one message a layer; the next micro-batch cannot send before they are gone.
    """
    return np.maximum(layer_message_seconds * layers - compute, 0.0)


def exposed_tail_seconds(layer_message_seconds: Array, layer_compute_seconds: Array) -> Array:
    """Return what the two hops of the last layer add after the stage's last interval [s].

    Both hops (prefill to buffer, buffer to decode) run layer by layer. When a message is shorter
    than a layer's compute, two messages stick out behind the compute. When it is longer, the
    stage's interval already covers the first hop up to one layer's compute.
    """
    return layer_message_seconds + np.minimum(layer_message_seconds, layer_compute_seconds)
