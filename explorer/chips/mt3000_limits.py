"""What the numbers of an MT-3000 cluster cannot pass, each moved alone."""

from __future__ import annotations

from explorer.chips.machine import Limit
from explorer.chips.mt3000_numbers import Mt3000Numbers
from explorer.costs.arrays import ONE

KERNEL = "the rest of the micro-kernel"
TOGETHER = {
    "gemm_kernel_rows": KERNEL,
    "gemm_kernel_columns_fp32": KERNEL,
    "gemm_kernel_columns_fp16": KERNEL,
    "gemm_kernel_cycles_per_depth": KERNEL,
    "dsps_per_cluster": "the peak that they make together",
}
"""Numbers that mean something only together (Table I): none of them moves alone."""


def physical_limits(numbers: Mt3000Numbers) -> tuple[Limit, ...]:
    """Return the limits of a scenario without arrays: kernel, messages and softmax."""
    n = numbers
    together = [
        Limit(name, getattr(n, name), reason, most)
        for name, reason in TOGETHER.items()
        for most in (False, True)
    ]
    bandwidth, peak = n.ddr_bandwidth_bytes_per_second, n.peak_macs_per_second_fp32
    return (
        *together,
        Limit("mpi_bandwidth_bytes_per_second", bandwidth, "memory bandwidth", most=True),
        Limit("attention_score_seconds", ONE / peak, "FP32 peak"),
    )
