"""The closed form that a simulation is compared with: what a pool serves once it is full."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import Array
from explorer.serving.evaluate import Evaluation


def steady_batch_seconds(evaluation: Evaluation) -> Array:
    """Return the time between two batches of a pool whose pipelines stay full [s].

    max(n x stage / DP_P, T_d): Eq. 21 without filling the prefill pipeline anew for every batch.
    With shared placement a batch starts when the one before is decoded: T_p + T_d.
    """
    if evaluation.inputs.shared:
        return evaluation.batch_seconds
    prefill = evaluation.prefill_micro_batches * evaluation.prefill_stage.seconds
    return np.maximum(prefill / evaluation.inputs.dp_prefill, evaluation.decode_seconds)


def steady_tokens_per_second(evaluation: Evaluation) -> Array:
    """Return output tokens a second of all whole pools in steady state, feasible or not."""
    return evaluation.pools * evaluation.batch_tokens / steady_batch_seconds(evaluation)


def steady_requests_per_second(evaluation: Evaluation) -> Array:
    """Return requests a second of all whole pools in steady state, feasible or not."""
    return evaluation.pools * evaluation.batch / steady_batch_seconds(evaluation)


def eq21_tokens_per_second(evaluation: Evaluation) -> Array:
    """Return output tokens a second of all whole pools by Eq. 21, feasible or not."""
    return evaluation.pools * evaluation.batch_tokens / evaluation.batch_seconds
