"""What a reader of a plan's figures must know, one sentence each, for any chip."""

from __future__ import annotations

import numpy as np

from explorer.config.units import human
from explorer.serving.evaluate import Evaluation


def plan_notes(evaluation: Evaluation) -> tuple[str, ...]:
    """Return where a plan leaves measurements, what runs otherwise than asked, and padding."""
    machine = evaluation.machine
    return (*machine.notes(), *machine.remarks(), *_padding(evaluation))


def _padding(evaluation: Evaluation) -> tuple[str, ...]:
    """Return that a prefill pass is priced full where the batch does not fill it."""
    i = evaluation.inputs
    batch, each = evaluation.batch, i.micro_batch_prefill
    priced = evaluation.prefill_micro_batches * each
    if not np.any(priced > batch):
        return ()
    if priced.ndim:
        return ("Some batches do not fill their last prefill micro-batch: it is priced as full.",)
    of = f"a prefill micro-batch of {human(float(each), 'requests')}"
    spare = human(float(priced - batch), "requests")
    if each > batch:
        return (
            f"The batch of {human(float(batch), 'requests')} does not fill {of}: the pass is "
            f"priced as full, and {spare} of it are padding.",
        )
    return (
        f"The batch of {human(float(batch), 'requests')} does not fill its last prefill "
        f"micro-batch of {human(float(each), 'requests')}: that pass is priced as full, with "
        f"{spare} of padding.",
    )
