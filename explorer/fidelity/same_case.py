"""What was published of the service that a scenario describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from explorer.config.scenario import Scenario
from explorer.fidelity.measurements import SEARCHED, Measurement, shipped_measurements

STAGE = "stage"
SERVED: Mapping[str, str] = {
    "prompt": "workload.prompt_tokens",
    "output": "workload.output_tokens",
    "clusters": "workload.clusters_total",
}
"""Conditions of a measured service, and the values of a scenario that they are."""


@dataclass(frozen=True)
class Published:
    """What was measured of a scenario's chip and model.

    Attributes:
        same: serving throughput with this scenario's tokens and clusters on the chip as its preset
            has it; None where nobody published one. Which plan ran is not told.
        services: serving throughput with other tokens or clusters, a row each.
        others: how many other rows there are, of kernels and passes.
    """

    same: Measurement | None
    services: tuple[Measurement, ...]
    others: int


def published(scenario: Scenario) -> Published:
    """Return what was measured of a scenario's chip and model, under any plan."""
    chip, model = scenario.chip_document().id, scenario.model_document().id
    rows = [row for row in shipped_measurements() if row.chip == chip and row.model in ("", model)]
    services = [row for row in rows if row.quantity == SEARCHED and STAGE not in row.conditions]
    same = [row for row in services if _is_same(row, scenario)]
    return Published(
        same[0] if same else None,
        tuple(row for row in services if row not in same),
        len(rows) - len(services),
    )


def _is_same(row: Measurement, scenario: Scenario) -> bool:
    quantities = scenario.chip_document().quantities
    as_published = all(quantities[name].value == value for name, value in scenario.hardware.items())
    return as_published and all(
        float(row.conditions[name]) == scenario.value(path) for name, path in SERVED.items()
    )
