"""One function a quantity: what the models say of a measurement, or why they say nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from explorer.config.errors import InputError, shown
from explorer.costs.arrays import Array
from explorer.fidelity.conditions import Conditions, NotModelledError
from explorer.fidelity.kernels import attention_latency, gemm_latency
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.passes import (
    ablation_gated_delta,
    all_reduce_time,
    decode_step_time,
    decode_throughput,
    phase_time,
    prefill_throughput,
)
from explorer.fidelity.prediction import Prediction
from explorer.fidelity.scenarios import OnChip
from explorer.fidelity.serving import serving_throughput

Predictor = Callable[[Measurement, Conditions, OnChip], Prediction[Array]]
PREDICTORS: dict[str, Predictor] = {
    "gemm_latency": gemm_latency,
    "attention_latency": attention_latency,
    "serving_throughput": serving_throughput,
    "prefill_throughput": prefill_throughput,
    "decode_throughput": decode_throughput,
    "decode_step_time": decode_step_time,
    "phase_time": phase_time,
    "all_reduce_time": all_reduce_time,
    "ablation_gated_delta": ablation_gated_delta,
}


@dataclass(frozen=True)
class Outcome:
    """A prediction, or the reason why there is none; a note on what it left unused."""

    prediction: Prediction[float] | None
    reason: str = ""
    note: str = ""


def predict(row: Measurement, on: OnChip | None = None) -> Outcome:
    """Return what the models say of a measurement; never raises for what they cannot say.

    Args:
        row: the measurement.
        on: the chip to predict it on, none of its numbers an array; the row's own without one.
    """
    conditions = Conditions(row.conditions)
    try:
        prediction = modelled(row, conditions, on or OnChip(row.chip)).single()
    except NotModelledError as error:
        return Outcome(None, str(error))
    except InputError as error:
        return Outcome(None, "; ".join(problem.sentence() for problem in error.problems))
    if not (math.isfinite(prediction.value) and prediction.value > 0):
        return Outcome(None, "the model gives no finite figure for these conditions")
    unused = conditions.unused()
    note = f"conditions not used: {', '.join(unused)}" if unused else ""
    return Outcome(prediction, note=note)


def modelled(row: Measurement, conditions: Conditions, on: OnChip) -> Prediction[Array]:
    """Return the prediction of a measurement on a chip whose numbers may be arrays.

    Raises:
        NotModelledError, InputError: what the models cannot say, and why.
    """
    predictor = PREDICTORS.get(row.quantity)
    if predictor is None:
        known = ", ".join(PREDICTORS)
        raise NotModelledError(f"unknown quantity {shown(row.quantity)}; known: {known}")
    return predictor(row, conditions, on)
