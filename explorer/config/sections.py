"""The sections of a scenario: precision, workload, plan, mechanisms, limits, measured times."""

from __future__ import annotations

from typing import Literal

from explorer.config.numbers import Real, Whole
from explorer.config.quantity import Document, Text, Version


class Precision(Document):
    """Arithmetic and storage formats, independent of each other."""

    compute: Literal["fp32", "fp16"]
    weights: Literal["fp32", "fp16", "int8"]
    kv: Literal["fp32", "fp16", "int8"]


class Versions(Document):
    """Preset versions that ``chip`` and ``model`` mean, when those are preset ids."""

    chip: Version | None = None
    model: Version | None = None


class Workload(Document):
    """What is asked of the machine; all counts, may be arrays."""

    prompt_tokens: Whole
    output_tokens: Whole
    max_context_tokens: Whole
    clusters_total: Whole


class Plan(Document):
    """How the machine is used (Eqs 12-20); all counts, may be arrays."""

    placement: Literal["disaggregated", "shared"]
    tp_prefill: Whole = 1
    pp_prefill: Whole = 1
    dp_prefill: Whole = 1
    micro_batch_prefill: Whole = 1
    tp_decode: Whole = 1
    pp_decode: Whole = 1
    micro_batch_decode: Whole = 1
    buffer_clusters: Whole | Literal["auto"] = "auto"
    slices: Whole | Literal["rule"] = "rule"
    max_slices: Whole = 4
    min_rows_per_slice: Whole = 1024


class Kernel(Document):
    """Which of the chip's mechanisms are on; a chip without one ignores it."""

    attention: Literal["mt", "flash", "unfused"] = "mt"
    fusion: Literal["fused", "separate"] = "fused"
    launch: Literal["unified", "per_operator", "per_head"] = "unified"
    recurrence: Literal[
        "whole", "without_broadcast_rows", "without_rank1_update", "without_both"
    ] = "whole"


class Limits(Document):
    """Bounds that a plan must keep; None means no bound."""

    ttft_seconds: Real | None = None
    tpot_seconds: Real | None = None
    memory_headroom_fraction: Real = 0.0
    budget: Text | None = None


class Measured(Document):
    """Stage times typed by a person, which replace the model's (Eq. 22)."""

    prefill_seconds: Real | None = None
    decode_seconds: Real | None = None
