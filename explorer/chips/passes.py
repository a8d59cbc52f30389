"""What a micro-batch brings to a pipeline stage, and the terms that it makes there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.chips.inputs import Inputs
from explorer.chips.machine import Link
from explorer.config.model import LayerKind
from explorer.costs.arrays import ONE, ZERO, Array
from explorer.costs.collective import all_reduce_rank_bytes, ring_all_reduce_seconds
from explorer.costs.partition import StageShare
from explorer.costs.terms import Bound, Stage, Term, code, merged
from explorer.costs.transfer import message_seconds

ALL_REDUCES_PER_LAYER = 2
"""After the attention output and after the MLP, both row-parallel (Eq. 19)."""


@dataclass(frozen=True)
class Pass:
    """What one micro-batch brings to a stage: requests, rows of activations, the group's split."""

    requests: Array
    rows: Array
    tp: Array
    pp: Array
    decodes: bool

    @classmethod
    def of_prefill(cls, inputs: Inputs) -> Pass:
        """Return a prefill micro-batch: every token of its prompts is a row."""
        requests = inputs.micro_batch_prefill
        rows = requests * inputs.prompt_tokens
        return cls(requests, rows, inputs.tp_prefill, inputs.pp_prefill, False)

    @classmethod
    def of_decode(cls, inputs: Inputs) -> Pass:
        """Return a decode micro-batch: one row a request."""
        requests = inputs.micro_batch_decode
        return cls(requests, requests, inputs.tp_decode, inputs.pp_decode, True)


@dataclass(frozen=True)
class PassTerms:
    """Terms of one micro-batch: a layer of each kind, the output head, and once a pass."""

    layers: dict[LayerKind, list[Term]]
    head: tuple[Term, ...]
    once: tuple[Term, ...]

    def of(self, share: StageShare) -> Stage:
        """Return the pass through a stage that holds ``share``."""
        terms = [
            term.times(count) for kind, count in share.layers.items() for term in self.layers[kind]
        ]
        terms += [term.times(share.head) for term in self.head]
        return Stage(merged([*terms, *self.once]))


def layer_all_reduces(link: Link, payload_bytes: Array, tp: Array) -> Term:
    """Return the two ring all-reduces of a layer; nothing on one rank."""
    seconds = ALL_REDUCES_PER_LAYER * ring_all_reduce_seconds(
        payload_bytes, tp, link.latency_seconds, link.bandwidth_bytes_per_second
    )
    moved = ALL_REDUCES_PER_LAYER * all_reduce_rank_bytes(payload_bytes, tp)
    return Term("all_reduce", seconds, seconds, moved, ZERO, code(Bound.COLLECTIVE), link.kinds)


def stage_hand_over(link: Link, payload_bytes: Array, pp: Array) -> Term:
    """Return sending the hidden state on to the next stage; nothing with one stage."""
    several = np.where(pp > 1, ONE, ZERO)
    payload = several * payload_bytes
    seconds = several * message_seconds(
        payload, link.latency_seconds, link.bandwidth_bytes_per_second
    )
    return Term("stage_hand_over", seconds, seconds, payload, ZERO, code(Bound.LINK), link.kinds)
