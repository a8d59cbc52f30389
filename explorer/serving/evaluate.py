"""The one engine: from a scenario to stage times, memory, pools, objectives and latency.

Every number of the scenario may be a numpy array. Results keep the broadcast shape of what they
depend on and are computed when first asked for, so an enumeration over an open mesh pays for a
quantity of two axes on two axes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.registry import machine_of
from explorer.config.model import LayerKind
from explorer.config.numbers import as_float_array
from explorer.config.scenario import Scenario
from explorer.config.sizes import caches_tokens
from explorer.costs.arrays import ONE, ZERO, Array, Codes, Mask, ceil_divide, scalar, total
from explorer.costs.collective import all_reduce_group_bytes
from explorer.costs.memory import (
    Cache,
    MemoryBudget,
    Storage,
    attended_tokens,
    kv_bytes_per_token_layer,
    memory_budget,
    request_cache_bytes,
)
from explorer.costs.partition import StageShare, largest_stage_candidates
from explorer.costs.terms import Bound, Stage, Term, code, fixed_term, slowest
from explorer.costs.transfer import exposed_tail_seconds, link_stall_seconds, message_seconds
from explorer.serving.constraints import Constraint, all_kept, budget_constraint

OBJECTIVES = ("eq22", "cluster_seconds_per_token", "throughput")
DECODE_CODE_OFFSET = 100
CAPACITY_CODE = 200
NO_BOUND = scalar(np.inf)


def evaluate(scenario: Scenario) -> Evaluation:
    """Return everything that the models say of a scenario.

    Args:
        scenario: a checked scenario; any number may be an array, all broadcast together.

    Raises:
        InputError: when the chip document lacks a number that its family needs.
    """
    inputs = Inputs(scenario)
    return Evaluation(inputs, machine_of(inputs))


@dataclass(frozen=True)
class Evaluation:
    """Results of one scenario, or of as many as its arrays broadcast to."""

    inputs: Inputs
    machine: Machine

    # Stages ---------------------------------------------------------------------------------

    @cached_property
    def prefill_shares(self) -> tuple[StageShare, ...]:
        """Candidates for the largest prefill stage."""
        return largest_stage_candidates(self.inputs.model, self.inputs.pp_prefill)

    @cached_property
    def decode_shares(self) -> tuple[StageShare, ...]:
        """Candidates for the largest decode stage."""
        return largest_stage_candidates(self.inputs.model, self.inputs.pp_decode)

    @cached_property
    def batch(self) -> Array:
        """Requests of one batch, B = PP_D x micro_batch_decode."""
        return self.inputs.pp_decode * self.inputs.micro_batch_decode

    @cached_property
    def prefill_micro_batches(self) -> Array:
        """Prefill micro-batches of one batch, n = ceil(B / micro_batch_prefill)."""
        return ceil_divide(self.batch, self.inputs.micro_batch_prefill)

    @cached_property
    def prefill_passes(self) -> Array:
        """Stage times that one pipeline needs for a batch from empty, n + PP_P - 1."""
        return self.prefill_micro_batches + self.inputs.pp_prefill - 1

    @cached_property
    def decode_passes(self) -> Array:
        """Decode stage times of one batch, (N - 1) PP_D: prefill emits the first token."""
        return (self.inputs.output_tokens - 1) * self.inputs.pp_decode

    @cached_property
    def prefill_stage(self) -> Stage:
        """One prefill micro-batch through the slowest stage."""
        measured = self.inputs.scenario.measured.prefill_seconds
        if measured is not None:
            return _measured_stage(as_float_array(measured) / self.prefill_passes)
        return slowest(self.modelled_prefill_stages)

    @cached_property
    def modelled_prefill_stages(self) -> tuple[Stage, ...]:
        """One prefill micro-batch through each of ``prefill_shares``, its link included."""
        stages = []
        for share in self.prefill_shares:
            stage = self.machine.prefill_stage(share)
            stages.append(Stage((*stage.terms, self._link_stall(share, stage))))
        return tuple(stages)

    @cached_property
    def decode_stage(self) -> Stage:
        """One decode micro-batch through the slowest stage, at mean context."""
        measured = self.inputs.scenario.measured.decode_seconds
        if measured is not None:
            return _measured_stage(as_float_array(measured) / np.maximum(self.decode_passes, 1))
        return slowest([self.machine.decode_stage(share) for share in self.decode_shares])

    @cached_property
    def prefill_seconds(self) -> Array:
        """T_p: prefill of one batch by one pipeline (DP_P = 1), from empty [s]."""
        return self.prefill_passes * self.prefill_stage.seconds

    @cached_property
    def decode_seconds(self) -> Array:
        """T_d: decode of one batch [s]; zero for a single output token."""
        return self.decode_passes * self.decode_stage.seconds

    def prefill_terms(self) -> tuple[Term, ...]:
        """Return the terms of T_p: the work of n passes, and filling the pipeline."""
        work = self.prefill_stage.times(self.prefill_micro_batches).terms
        fill = (self.inputs.pp_prefill - 1) * self.prefill_stage.seconds
        return (*work, fixed_term("pipeline_fill", fill, Bound.PIPELINE_FILL, frozenset()))

    def decode_terms(self) -> tuple[Term, ...]:
        """Return the terms of T_d."""
        return self.decode_stage.times(self.decode_passes).terms

    # Memory, communication and buffer ---------------------------------------------------------

    @cached_property
    def limit_bytes(self) -> Array:
        """Memory that a plan may fill on one cluster or card [B]."""
        capacity = self.machine.capacity
        headroom = self.inputs.array("limits.memory_headroom_fraction")
        return capacity.memory_bytes * capacity.usable_fraction * (1 - headroom)

    @cached_property
    def prefill_memory(self) -> MemoryBudget:
        """Budget of the fullest prefill cluster (Eqs 12, 13, 16).

        With shared placement the caches stay, so all requests of a batch count.
        """
        i = self.inputs
        requests = self.batch if i.shared else i.micro_batch_prefill
        cache = Cache(requests, i.array("workload.max_context_tokens"), i.shared)
        return self._memory(self.prefill_shares, i.tp_prefill, i.pp_prefill, cache)

    @cached_property
    def decode_memory(self) -> MemoryBudget:
        """Budget of the fullest decode cluster (Eqs 14-16): all micro-batches in flight."""
        i = self.inputs
        cache = Cache(self.batch, i.array("workload.max_context_tokens"), True)
        return self._memory(self.decode_shares, i.tp_decode, i.pp_decode, cache)

    @cached_property
    def request_cache_bytes(self) -> Array:
        """KV cache and recurrent state of one request at maximum context, whole model [B]."""
        context = self.inputs.array("workload.max_context_tokens")
        return request_cache_bytes(self.inputs.model, context, self.inputs.kv_bytes)

    @cached_property
    def buffer_kv_bytes(self) -> Array:
        """Cache that the buffer pool is sized for: one whole batch [B]; zero when shared."""
        return ZERO if self.inputs.shared else self.batch * self.request_cache_bytes

    @cached_property
    def buffer_clusters(self) -> Array:
        """B_P: clusters of the buffer pool."""
        if self.inputs.shared:
            return ZERO
        chosen = self.inputs.scenario.plan.buffer_clusters
        if isinstance(chosen, str):
            return ceil_divide(self.buffer_kv_bytes, self.limit_bytes)
        return as_float_array(chosen)

    @cached_property
    def buffer_micro_batches(self) -> Array:
        """Decode micro-batches that the buffer can hold, at most one batch."""
        micro_batch_bytes = self.inputs.micro_batch_decode * self.request_cache_bytes
        held = np.floor(self.buffer_clusters * self.limit_bytes / micro_batch_bytes)
        return np.minimum(held, self.inputs.pp_decode)

    @cached_property
    def tp_all_reduce_bytes(self) -> Array:
        """Bytes that one all-reduce of a decode micro-batch moves in its group (Eq. 17)."""
        i = self.inputs
        payload = i.micro_batch_decode * i.model.hidden_size * i.compute_bytes
        return all_reduce_group_bytes(payload, i.tp_decode)

    # Pools and objectives ---------------------------------------------------------------------

    @cached_property
    def clusters(self) -> Array:
        """Clu_pool: clusters of one pool (Eq. 20); with shared placement TP x PP."""
        i = self.inputs
        if i.shared:
            return i.decode_clusters
        return i.dp_prefill * i.prefill_clusters + self.clusters_beside_prefill

    @cached_property
    def clusters_beside_prefill(self) -> Array:
        """Clusters of decode and of the buffer."""
        return self.inputs.decode_clusters + self.buffer_clusters

    @cached_property
    def pools(self) -> Array:
        """Whole pools that the clusters make."""
        return np.floor(self.inputs.array("workload.clusters_total") / self.clusters)

    @cached_property
    def idle_clusters(self) -> Array:
        """Clusters that are left over."""
        return self.inputs.array("workload.clusters_total") - self.pools * self.clusters

    @cached_property
    def batch_seconds(self) -> Array:
        """Time that one pool takes a batch: max(T_p / DP_P, T_d), or T_p + T_d when shared [s]."""
        if self.inputs.shared:
            return self.prefill_seconds + self.decode_seconds
        return np.maximum(self.prefill_seconds / self.inputs.dp_prefill, self.decode_seconds)

    @cached_property
    def batch_tokens(self) -> Array:
        """Output tokens of one batch, B N."""
        return self.batch * self.inputs.output_tokens

    @cached_property
    def feasible(self) -> Mask:
        """Where every constraint holds."""
        return all_kept(self.constraints)

    def objective(self, name: str) -> Array:
        """Return an objective, NaN where infeasible.

        ``eq22`` [cluster-seconds] and ``cluster_seconds_per_token`` are minimised,
        ``throughput`` [tokens/s] of all whole pools together is maximised.

        Raises:
            KeyError: for a name outside ``OBJECTIVES``.
        """
        value = self.unconstrained_objective(name)
        return np.where(self.feasible, value, np.nan)

    def unconstrained_objective(self, name: str) -> Array:
        """Return an objective as if every constraint held; raises KeyError as ``objective``."""
        return {
            "eq22": self._eq22,
            "cluster_seconds_per_token": self._cluster_seconds_per_token,
            "throughput": self._throughput,
        }[name]()

    def _eq22(self) -> Array:
        return self.clusters * self.batch_seconds

    def _cluster_seconds_per_token(self) -> Array:
        # Dividing the smaller array first keeps the full-size work to one product.
        return (self.clusters / self.batch_tokens) * self.batch_seconds

    def _throughput(self) -> Array:
        return (self.pools * self.batch_tokens) / self.batch_seconds

    # Latency ----------------------------------------------------------------------------------

    @cached_property
    def kv_transfer_tail_seconds(self) -> Array:
        """Exposed part of moving a micro-batch's cache to decode [s]; zero when shared."""
        if self.inputs.shared:
            return ZERO
        layers = ceil_divide(ONE * self.inputs.model.layers, self.inputs.pp_prefill)
        compute = self.prefill_stage.seconds / layers
        message = np.max(np.stack(np.broadcast_arrays(*self._layer_messages().values())), axis=0)
        return exposed_tail_seconds(message, compute)

    @cached_property
    def ttft_seconds(self) -> Array:
        """Time to first token through an idle pipeline, transfer included [s]."""
        pipeline = self.inputs.pp_prefill * self.prefill_stage.seconds
        return pipeline + self.kv_transfer_tail_seconds

    @cached_property
    def tpot_seconds(self) -> Array:
        """Time per output token after the first, PP_D stages [s]; NaN for one output token."""
        step = self.inputs.pp_decode * self.decode_stage.seconds
        return np.where(self.inputs.output_tokens > 1, step, np.nan)

    @cached_property
    def total_seconds(self) -> Array:
        """Time to the last token, TTFT + (N - 1) TPOT [s]."""
        return self.ttft_seconds + self.decode_seconds

    # Constraints and bottleneck ---------------------------------------------------------------

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """All constraints, always the same ones in the same order."""
        i, unit = self.inputs, self.inputs.scenario.chip_document().unit_name
        return (
            Constraint(
                "context",
                i.prompt_tokens + i.output_tokens,
                i.array("workload.max_context_tokens"),
                "tokens",
                "prompt and output of a request",
            ),
            self._memory_constraint("prefill_memory", self.prefill_memory),
            self._memory_constraint("decode_memory", self.decode_memory),
            self._buffer_constraint(),
            Constraint(
                "clusters",
                self.clusters,
                i.array("workload.clusters_total"),
                f"{unit}s",
                "one pool",
            ),
            Constraint(
                "placement",
                self._placement_mismatch(),
                ZERO,
                "settings",
                "shared placement with prefill TP and PP unlike decode's, or DP_P above 1:",
            ),
            Constraint(
                "tile",
                *self.machine.smallest_tile(),
                "B",
                "the tile of one micro-kernel of rows at the K_2, N_2 and K_g set, or of "
                "attention, in its fullest scratchpad,",
            ),
            self._latency_constraint("ttft", "time to first token"),
            self._latency_constraint("tpot", "time per output token"),
            budget_constraint(i),
        )

    @cached_property
    def bottleneck(self) -> Codes:
        """Code of what limits a batch: a ``Bound``, + 100 when it is decode's; 200 capacity."""
        prefill = self.prefill_seconds / (1 if self.inputs.shared else self.inputs.dp_prefill)
        codes = np.where(
            prefill >= self.decode_seconds,
            self.prefill_stage.dominant_bound(),
            self.decode_stage.dominant_bound() + DECODE_CODE_OFFSET,
        )
        return np.where(self.feasible, codes, CAPACITY_CODE)

    # Parts ------------------------------------------------------------------------------------

    def _memory(
        self, shares: tuple[StageShare, ...], tp: Array, pp: Array, cache: Cache
    ) -> MemoryBudget:
        i = self.inputs
        storage = Storage(
            i.weight_bytes, i.kv_bytes, self.machine.capacity.overhead_bytes, self.limit_bytes
        )
        return memory_budget(i.model, shares, tp, pp, cache, storage)

    def _layer_messages(self) -> dict[LayerKind, Array]:
        """Return seconds to send what one layer of each kind leaves behind, one micro-batch."""
        i, link = self.inputs, self.machine.link
        kv_token = kv_bytes_per_token_layer(i.model, i.tp_prefill, i.kv_bytes)
        state = i.model.state_bytes_per_layer / i.tp_prefill
        payloads = {
            kind: i.micro_batch_prefill
            * (
                attended_tokens(i.model, kind, i.prompt_tokens) * kv_token
                if caches_tokens(kind)
                else state
            )
            for kind in i.model.kinds
        }
        return {
            kind: message_seconds(
                payloads[kind], link.latency_seconds, link.bandwidth_bytes_per_second
            )
            for kind in i.model.kinds
        }

    def _link_stall(self, share: StageShare, stage: Stage) -> Term:
        """Return how long a prefill stage waits for its link each pass."""
        if self.inputs.shared:
            return fixed_term("kv_transfer_stall", ZERO, Bound.LINK, frozenset())
        sending = ZERO
        for kind, seconds in self._layer_messages().items():
            sending = sending + seconds * share.layers[kind]
        stall = link_stall_seconds(sending, ONE, stage.seconds)
        return Term(
            "kv_transfer_stall",
            stall,
            sending,
            bound_by=code(Bound.LINK),
            kinds=self.machine.link.kinds,
        )

    def _memory_constraint(self, name: str, budget: MemoryBudget) -> Constraint:
        return Constraint(
            name,
            budget.total_bytes,
            budget.limit_bytes,
            "B",
            f"the fullest {name.partition('_')[0]} "
            f"{self.inputs.scenario.chip_document().unit_name}",
        )

    def _buffer_constraint(self) -> Constraint:
        needed, limit = ZERO, NO_BOUND
        if not self.inputs.shared:
            needed = self.inputs.micro_batch_decode * self.request_cache_bytes
            limit = self.buffer_clusters * self.limit_bytes
        return Constraint("buffer", needed, limit, "B", "one decode micro-batch in the buffer")

    def _placement_mismatch(self) -> Array:
        i = self.inputs
        if not i.shared:
            return ZERO
        unlike = (i.tp_prefill != i.tp_decode, i.pp_prefill != i.pp_decode, i.dp_prefill != 1)
        return total([np.where(mask, ONE, ZERO) for mask in unlike])

    def _latency_constraint(self, name: str, meaning: str) -> Constraint:
        limit = getattr(self.inputs.scenario.limits, f"{name}_seconds")
        if limit is None:
            # Without a bound nobody need know the latency of every plan of an enumeration.
            return Constraint(name, ZERO, NO_BOUND, "s", meaning)
        value = np.nan_to_num(getattr(self, f"{name}_seconds"), nan=0.0)
        return Constraint(name, value, as_float_array(limit), "s", meaning)


def _measured_stage(seconds: Array) -> Stage:
    return Stage((fixed_term("measured", seconds, Bound.MEASURED, frozenset({"measured"})),))


def bottleneck_name(bottleneck_code: int) -> str:
    """Return the name of a bottleneck code, such as ``decode:weights`` or ``capacity``."""
    if bottleneck_code == CAPACITY_CODE:
        return "capacity"
    pool = "decode" if bottleneck_code >= DECODE_CODE_OFFSET else "prefill"
    return f"{pool}:{Bound(bottleneck_code % DECODE_CODE_OFFSET).label}"
