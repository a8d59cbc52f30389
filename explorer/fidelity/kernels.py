"""Measured MT-3000 kernels: matrix products and attention on one cluster."""

from __future__ import annotations

from typing import cast

import numpy as np

from explorer.chips.mt3000 import Mt3000
from explorer.costs.arrays import Array, scalar
from explorer.costs.attention import (
    METHODS,
    AttentionCost,
    Method,
    attention_cost,
    full_attention_macs,
)
from explorer.costs.gemm import ACCUMULATOR_BYTES, GemmCost, gemm_cost
from explorer.costs.memory import STORAGE_BYTES
from explorer.costs.roofline import roofline_seconds
from explorer.fidelity.conditions import NO, Conditions, NotModelledError
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.prediction import Prediction, roof_of
from explorer.fidelity.scenarios import OnChip

PRECISIONS = ("fp32", "fp16")
ATTENTION_PRECISION = "fp16"
"""The paper gives attention without precision: FP16 is assumed."""


def gemm(machine: Mt3000, dtype: str, m: Array, k: Array, n: Array) -> GemmCost:
    """Return the cost of products on one cluster; shapes and the chip's numbers broadcast."""
    cluster = machine.cluster_at(dtype, STORAGE_BYTES[dtype])
    return gemm_cost(m, k, n, machine.tile(cluster), cluster)


def attention(
    machine: Mt3000, method: Method, instances: Array, seq: Array, head_dim: Array, dtype: str
) -> AttentionCost:
    """Return the cost of attention on one cluster; shapes and the chip's numbers broadcast."""
    cluster = machine.cluster_at(dtype, STORAGE_BYTES[dtype])
    return attention_cost(method, instances, seq, head_dim, machine.attention_tiles, cluster)


def gemm_latency(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict a product of ``dtype``, ``m``, ``k``, ``n`` on one cluster."""
    machine = mt3000(on)
    dtype = conditions.word("dtype", PRECISIONS)
    _one_cluster(conditions)
    m, k, n = (scalar(conditions.whole(name)) for name in "mkn")
    cost = gemm(machine, dtype, m, k, n)
    size = STORAGE_BYTES[dtype]
    naive = _naive(machine, dtype, m * k * n, size * (m * k + k * n + m * n))
    split = "columns over the DSPs" if np.all(cost.column_split) else "rows over the DSPs"
    return Prediction(cost.seconds, naive, split)


def attention_latency(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Predict attention of ``method``, ``batch``, ``heads``, ``head_dim``, ``seq``."""
    machine = mt3000(on)
    method = cast("Method", conditions.word("method", METHODS))
    dtype = conditions.word("dtype", PRECISIONS, ATTENTION_PRECISION)
    conditions.word("causal", NO, "no")
    _one_cluster(conditions)
    instances = scalar(conditions.whole("batch", 1) * conditions.whole("heads"))
    seq, head_dim = scalar(conditions.whole("seq")), scalar(conditions.whole("head_dim"))
    least = machine.numbers.gemm_kernel_rows * head_dim
    if np.any(least * (STORAGE_BYTES[dtype] + ACCUMULATOR_BYTES) > machine.numbers.am_bytes):
        raise NotModelledError(f"head_dim={head_dim:.0f}: rows of Q and O do not fit AM")
    cost = attention(machine, method, instances, seq, head_dim, dtype)
    macs = full_attention_macs(instances, seq, np.ones(()), head_dim)
    matrices = 4 * instances * seq * head_dim * STORAGE_BYTES[dtype]
    naive = _naive(machine, dtype, macs, matrices)
    basis = f"{float(np.max(cost.rounds)):.0f} rounds of row blocks"
    if not conditions.has("dtype"):
        basis += f", {ATTENTION_PRECISION} assumed"
    return Prediction(cost.seconds, naive, basis)


def mt3000(on: OnChip) -> Mt3000:
    """Return the MT-3000 machine of a chip; raises NotModelledError for another family."""
    machine = on.machine
    if not isinstance(machine, Mt3000):
        raise NotModelledError(f"single kernels are modelled for the MT-3000 only, not {on.name}")
    return machine


def _one_cluster(conditions: Conditions) -> None:
    clusters = conditions.whole("clusters", 1)
    if clusters > 1:
        raise NotModelledError(f"clusters={clusters}: a kernel runs on one cluster in the model")


def _naive(machine: Mt3000, dtype: str, macs: Array, bytes_moved: Array) -> Array:
    roof = roof_of(machine, dtype)
    peak, bandwidth = roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    return roofline_seconds(macs, bytes_moved, peak, bandwidth)
