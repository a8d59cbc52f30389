"""The exported file: scenario, evaluation, what to set on the real engine, and sources."""

from __future__ import annotations

from typing import Any

from explorer import __version__
from explorer.config.scenario import Scenario
from explorer.serving.deploy import deploy_document
from explorer.serving.evaluate import evaluate
from explorer.serving.report import evaluation_document

EXPORT_SCHEMA = "explorer.export/1"


def export_document(scenario: Scenario) -> dict[str, Any]:
    """Return the export of a scenario without arrays as JSON values.

    Raises:
        InputError: when the chip document lacks a number that its family needs.
        TypeError: when the scenario holds arrays.
    """
    pinned = scenario.pinned()
    evaluation = evaluate(pinned)
    return {
        "schema": EXPORT_SCHEMA,
        "explorer_version": __version__,
        "scenario": pinned.to_json(),
        "evaluation": evaluation_document(evaluation),
        "deploy": deploy_document(evaluation),
        "sources": source_documents(pinned),
    }


def source_documents(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """Return value, unit, source and kind of every number of the chip and the model."""
    chip, model = scenario.chip_document(), scenario.model_document()
    sources: dict[str, dict[str, Any]] = {}
    for name, quantity in chip.quantities.items():
        overridden = name in scenario.hardware
        sources[f"hardware.{name}"] = {
            "value": scenario.value(f"hardware.{name}"),
            "unit": quantity.unit,
            "source": "set in this scenario" if overridden else quantity.source,
            "kind": "override" if overridden else quantity.kind,
        }
    for name in type(model.numbers).model_fields:
        number_ = getattr(model.numbers, name)
        if number_ is not None:
            sources[f"model.{name}"] = number_.model_dump(exclude={"note"})
    return sources
