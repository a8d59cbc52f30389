"""How far a prediction can be believed: what was measured of the same case."""

from __future__ import annotations

from explorer.config.units import human, significant
from explorer.fidelity.same_case import published
from explorer.serving.evaluate import Evaluation
from explorer.ui.text import plain

AS_MEASURED = 0.05
"""Share within which a prediction counts as the measured value."""


def measured_sentence(evaluation: Evaluation) -> str:
    """Return what was published of the service that a feasible plan of a scenario gives."""
    scenario = evaluation.inputs.scenario
    found = published(scenario)
    model = plain(scenario.model_document().name)
    chip = plain(scenario.chip_document().name)
    if found.same is not None:
        measured = found.same.si_value
        times = float(evaluation.objective("throughput")) / measured
        told = (
            f"Published for these tokens and {scenario.chip_document().unit_name}s, under a plan "
            f"that was not told: **{human(measured, 'tokens/s')}** ({plain(found.same.source)})."
        )
        if abs(times - 1) <= AS_MEASURED:
            return f"{told} This plan is predicted to deliver as much."
        return f"{told} This plan is predicted to deliver {significant(times)} times that."
    if found.services:
        rates = sorted(row.si_value for row in found.services)
        return (
            f"Serving {model} was measured with other tokens or "
            f"{scenario.chip_document().unit_name}s, or on the {chip} as it is: "
            f"{human(rates[0], 'tokens/s')} to {human(rates[-1], 'tokens/s')}."
        )
    if found.others:
        return (
            f"Serving {model} on the {chip} was not measured, but "
            f"{human(float(found.others), 'kernels and passes')} were."
        )
    return f"Nothing that was measured on the {chip} is known here, so the error is not known."
