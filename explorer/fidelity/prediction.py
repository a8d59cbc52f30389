"""What a prediction is, and the plain roofline that every prediction is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from explorer.chips.machine import Machine, Roof
from explorer.costs.arrays import ONE, Array
from explorer.costs.memory import layer_weight_bytes
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
    share = i.tp_prefill * i.pp_prefill
    cache = i.micro_batch_prefill * i.prompt_tokens * _kv_bytes_per_token(evaluation)
    macs = sum((term.macs for term in evaluation.prefill_stage.terms), start=0 * share)
    return _seconds(evaluation, macs, (_weight_bytes(evaluation) + cache) / share)


def naive_decode_seconds(evaluation: Evaluation) -> Array:
    """Return a decode stage by plain roofline: weights and the cache of the batch read once."""
    i = evaluation.inputs
    share = i.tp_decode * i.pp_decode
    cache = i.micro_batch_decode * i.mean_context_tokens * _kv_bytes_per_token(evaluation)
    macs = sum((term.macs for term in evaluation.decode_stage.terms), start=0 * share)
    return _seconds(evaluation, macs, (_weight_bytes(evaluation) + cache) / share)


def _seconds(evaluation: Evaluation, macs: Array, bytes_moved: Array) -> Array:
    precision = evaluation.inputs.scenario.precision.compute
    roof = roof_of(evaluation.machine, precision)
    return roofline_seconds(
        macs, bytes_moved, roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    )


def _weight_bytes(evaluation: Evaluation) -> float:
    """Return the weights that every pass reads: layers and output head, an even split."""
    i = evaluation.inputs
    layers = sum(
        i.model.layers_of(kind) * float(layer_weight_bytes(i.model, kind, ONE, i.weight_bytes))
        for kind in i.model.kinds
    )
    return layers + i.model.embedding_elements * i.weight_bytes


def _kv_bytes_per_token(evaluation: Evaluation) -> float:
    i = evaluation.inputs
    return i.model.kv_elements_per_token * i.kv_bytes
