"""Whether measured prefill passes may stand beside a scenario's, and if not, why."""

from __future__ import annotations

from explorer.config.scenario import Scenario
from explorer.fidelity.measurements import Measurement, shipped_measurements

WHOLE, PRECISION = "whole", "fp16"
PASSES = ("prefill_throughput", "phase_time")


def passes_of(scenario: Scenario) -> tuple[Measurement, ...]:
    """Return the published prefill passes of a scenario's chip and model, under any plan."""
    chip, model = scenario.chip_document().id, scenario.model_document().id
    return tuple(
        row
        for row in shipped_measurements()
        if (row.chip, row.model) == (chip, model) and row.quantity in PASSES
    )


def comparable_passes(scenario: Scenario) -> tuple[Measurement, ...]:
    """Return the published prefill passes that ran as this scenario's do; none where none did.

    They must share the chip, the model, tensor parallelism, a single stage, fp16 and
    the whole recurrence kernel. Rows and slices may differ.
    """
    if _differences(scenario):
        return ()
    return passes_of(scenario)


def why_not_comparable(scenario: Scenario) -> str:
    """Return, as a sentence, why no measured pass is comparable; empty where some are."""
    chip, model = scenario.chip_document().name, scenario.model_document().name
    if not passes_of(scenario):
        return f"No prefill pass of {model} on the {chip} was published."
    different = _differences(scenario)
    if not different:
        return ""
    return (
        f"Nothing was measured here: the published passes ran {'; '.join(different)}. No "
        "measured points are shown."
    )


def _differences(scenario: Scenario) -> list[str]:
    """Return in which ways a scenario leaves the plan of every published pass."""
    found = []
    plan, precision = scenario.plan, scenario.precision
    measured = {int(row.conditions.get("tp", "1")) for row in passes_of(scenario)}
    if int(plan.tp_prefill) not in measured:
        told = " or ".join(map(str, sorted(measured)))
        found.append(f"at TP {told}, not {int(plan.tp_prefill)}")
    if int(plan.pp_prefill) > 1:
        found.append(f"in one stage, not {int(plan.pp_prefill)}")
    others = sorted({precision.compute, precision.weights, precision.kv} - {PRECISION})
    if others:
        found.append(f"in {PRECISION} throughout, not {' and '.join(others)}")
    if scenario.kernel.recurrence != WHOLE:
        found.append("with the whole recurrence")
    return found
