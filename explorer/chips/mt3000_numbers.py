"""Numbers that an MT-3000 chip document must hold."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.costs.arrays import Array


@dataclass(frozen=True)
class Mt3000Numbers:
    """Numbers of the chip document, one cluster each unless the name says otherwise."""

    peak_macs_per_second_fp32: Array
    peak_macs_per_second_fp16: Array
    ddr_bandwidth_bytes_per_second: Array
    memory_bytes: Array
    usable_memory_fraction: Array
    overhead_bytes: Array
    sm_bytes: Array
    am_bytes: Array
    gsm_bytes: Array
    dsps_per_cluster: Array
    hthreads_create_seconds: Array
    hthreads_launch_seconds: Array
    mpi_latency_seconds: Array
    mpi_bandwidth_bytes_per_second: Array
    gemm_block_k: Array
    gemm_tile_k: Array
    gemm_tile_n: Array
    gemm_kernel_rows: Array
    gemm_kernel_columns_fp32: Array
    gemm_kernel_columns_fp16: Array
    gemm_kernel_cycles_per_depth: Array
    gemm_kernel_ramp_cycles: Array
    gemm_output_buffers: Array
    gemm_mixed_stream_efficiency: Array
    broadcast_cost: Array
    attention_mt_rows: Array
    attention_flash_columns: Array
    attention_flash_rows: Array
    attention_score_memory_bytes: Array
    attention_round_seconds: Array
    attention_score_seconds: Array
    attention_unfused_score_moves: Array
    attention_longest_fitted_tokens: Array
