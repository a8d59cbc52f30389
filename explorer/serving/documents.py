"""Shapes of the documents that are written: evaluation and export, field by field."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from explorer.config.quantity import Document, Kind, Number
from explorer.config.scenario import Scenario

NumberOrNull: TypeAlias = Annotated[
    Number | None, Field(description="null where a plan does not fit, or nothing is to be told")
]


class Violation(Document):
    """A constraint that the plan breaks."""

    constraint: str
    value: NumberOrNull
    limit: NumberOrNull
    unit: str
    message: str


class Budget(Document):
    """Memory of the fullest cluster or card of a pool [B] (Eqs 12 to 16)."""

    params_bytes: Number
    kv_bytes: Number
    state_bytes: Number
    overhead_bytes: Number
    imbalance_bytes: Number
    total_bytes: Number
    limit_bytes: Number


class Buffer(Document):
    """The buffer pool."""

    kv_bytes: Number
    clusters: Number


class Memory(Document):
    """Memory of both pools and of the buffer between them."""

    prefill: Budget
    decode: Budget
    buffer: Buffer


class Communication(Document):
    """What an all-reduce of decode moves in its group [B] (Eq. 17)."""

    tp_all_reduce_bytes: Number


class TermDocument(Document):
    """One operator's share of a time; seconds of all terms add up to it."""

    name: str
    seconds: Number
    busy_seconds: Number
    bytes: Number
    macs: Number
    bound_by: str
    kinds: list[str]


class Stages(Document):
    """T_p and T_d of one batch, and the terms that they are made of."""

    batch: Number
    prefill_micro_batches: Number
    prefill_seconds: NumberOrNull
    decode_seconds: NumberOrNull
    prefill_stage_seconds: NumberOrNull
    decode_stage_seconds: NumberOrNull
    prefill_terms: list[TermDocument] | None
    decode_terms: list[TermDocument] | None


class Pool(Document):
    """Pools and objectives (Eqs 20 to 22)."""

    clusters: Number
    pools: Number
    idle_clusters: Number
    objective: NumberOrNull
    cluster_seconds_per_token: NumberOrNull
    throughput_tokens_per_second: NumberOrNull
    bottleneck: str


class Latency(Document):
    """Latency of one request."""

    ttft_seconds: NumberOrNull
    tpot_seconds: NumberOrNull
    total_seconds: NumberOrNull


class EvaluationDocument(Document):
    """What a scenario delivers."""

    schema_: Literal["explorer.evaluation/1"] = Field(alias="schema")
    feasible: bool
    violations: list[Violation]
    notes: list[str]
    memory: Memory
    communication: Communication
    stages: Stages
    pool: Pool
    latency: Latency


class PrefillPlan(Document):
    """Parallelism of prefill."""

    tp: int
    pp: int
    dp: int
    micro_batch: int


class DecodePlan(Document):
    """Parallelism of decode."""

    tp: int
    pp: int
    micro_batch: int


class StageLayers(Document):
    """First and last layer of each pipeline stage."""

    prefill: list[tuple[int, int]]
    decode: list[tuple[int, int]]


class RankGroup(Document):
    """Consecutive ranks of a pool that do one thing."""

    group: str
    first_rank: int
    ranks: int


class Deploy(Document):
    """What to set on the real engine; the fields from ``limits`` on differ by chip."""

    prefill: PrefillPlan
    decode: DecodePlan
    buffer_clusters: Number
    buffer_bytes: Number
    pools: Number
    layers: StageLayers
    ranks: list[RankGroup]
    environment: dict[str, str]
    limits: dict[str, Number] | None = None
    kernels: dict[str, Any] | None = None
    tp_world: int | None = None
    slice_rule: dict[str, int] | None = None
    prepare: list[str] = Field(default_factory=list)
    launch: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class Source(Document):
    """One number of the chip or the model, and where it is from."""

    value: Number
    unit: str
    source: str
    kind: Kind


class ExportDocument(Document):
    """The exported file: a scenario, what it delivers, how to deploy it, and every source."""

    schema_: Literal["explorer.export/1"] = Field(alias="schema")
    explorer_version: str
    scenario: Scenario
    evaluation: EvaluationDocument
    deploy: Deploy
    sources: dict[str, Source]
