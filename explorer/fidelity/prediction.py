"""What a prediction is, and the plain roofline that every prediction is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from explorer.chips.machine import Machine, Roof
from explorer.costs.arrays import ONE, Array, total
from explorer.costs.memory import layer_read_bytes, request_kv_bytes
from explorer.costs.roofline import roofline_seconds
from explorer.serving.evaluate import Evaluation

Value = TypeVar("Value", float, Array)


@dataclass(frozen=True)
class Prediction(Generic[Value]):
    """A model's figure for one measurement, in seconds or tokens a second.

    Attributes:
        value: what the model says; an array where some of the chip's numbers are arrays.
        naive: what a plain roofline says, ``max(MACs / peak, compulsory bytes / bandwidth)``.
        basis: how the value came about, where the conditions leave a choice.
        extrapolated: whether the conditions leave what constants were measured or fitted on.
        naive_is_bound: whether no machine of this peak and bandwidth can beat ``naive``.
        searched: whether the plan is the model's best, since the measurement gives none.
    """

    value: Value
    naive: Value
    basis: str = ""
    extrapolated: bool = False
    naive_is_bound: bool = True
    searched: bool = False

    def single(self) -> Prediction[float]:
        """Return the prediction of one chip, whose numbers are no arrays, in plain numbers."""
        return Prediction(
            float(self.value),
            float(self.naive),
            self.basis,
            self.extrapolated,
            self.naive_is_bound,
            self.searched,
        )


def roof_of(machine: Machine, precision: str) -> Roof:
    """Return the roof of a compute precision, over the fastest memory that the chip lists."""
    return next(roof for roof in machine.roofs if roof.name.lower().startswith(precision))


def naive_prefill_seconds(evaluation: Evaluation) -> Array:
    """Return a prefill stage by plain roofline: weights read once, cache written once."""
    i = evaluation.inputs
    share = i.prefill_clusters
    cache = i.micro_batch_prefill * _kv_bytes(evaluation, i.prompt_tokens)
    weights = _weight_bytes(evaluation, i.micro_batch_prefill * i.prompt_tokens)
    macs = sum((term.macs for term in evaluation.prefill_stage.terms), start=0 * share)
    return _seconds(evaluation, macs, (weights + cache) / share)


def naive_decode_seconds(evaluation: Evaluation) -> Array:
    """Return a decode stage by plain roofline: weights and the cache of the batch read once."""
    i = evaluation.inputs
    share = i.decode_clusters
    cache = i.micro_batch_decode * _kv_bytes(evaluation, i.mean_context_tokens)
    weights = _weight_bytes(evaluation, i.micro_batch_decode)
    macs = sum((term.macs for term in evaluation.decode_stage.terms), start=0 * share)
    return _seconds(evaluation, macs, (weights + cache) / share)


def _seconds(evaluation: Evaluation, macs: Array, bytes_moved: Array) -> Array:
    precision = evaluation.inputs.scenario.precision.compute
    roof = roof_of(evaluation.machine, precision)
    return roofline_seconds(
        macs, bytes_moved, roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    )


def _weight_bytes(evaluation: Evaluation, rows: Array) -> Array:
    """Return the weights that a pass of some rows reads: layers and output head, one copy."""
    i = evaluation.inputs
    layers = total(
        [
            i.model.layers_of(kind) * layer_read_bytes(i.model, kind, rows, ONE, i.weight_bytes)
            for kind in i.model.kinds
        ]
    )
    return layers + i.model.embedding_elements * i.weight_bytes


def _kv_bytes(evaluation: Evaluation, context_tokens: Array) -> Array:
    """Return the KV cache of one request that attention reads or writes, one copy [B]."""
    i = evaluation.inputs
    return request_kv_bytes(i.model, context_tokens, i.kv_bytes)
