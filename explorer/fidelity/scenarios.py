"""Scenarios that measurements were taken in: a chip, a model, and the plan to be filled in."""

from __future__ import annotations

from functools import lru_cache

from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.registry import machine_of
from explorer.config.links import preset_scenario
from explorer.config.presets import load_chip, load_model, scenario_presets
from explorer.config.scenario import Scenario
from explorer.fidelity.conditions import NotModelledError


@lru_cache(maxsize=64)
def base_scenario(chip: str, model: str = "") -> Scenario:
    """Return a scenario of a chip and a model, newest versions, in a preset's precision.

    Raises:
        InputError: when there is no such chip or model preset.
        NotModelledError: when no scenario preset uses the chip.
    """
    load_chip(chip)
    if model:
        load_model(model)
    of_chip = [preset for preset in scenario_presets() if preset.scenario["chip"] == chip]
    if not of_chip:
        raise NotModelledError(f"no scenario preset uses the chip {chip}")
    same = [preset for preset in of_chip if preset.scenario["model"] == model]
    base = preset_scenario((same or of_chip)[0].id).replacing({"chip": chip})
    if not model:
        return base
    one = {f"plan.{kind}_{pool}": 1 for kind in ("tp", "pp") for pool in ("prefill", "decode")}
    return base.replacing({**one, "model": model})


@lru_cache(maxsize=64)
def with_layers(scenario_of: tuple[str, str], layers: int) -> Scenario:
    """Return the base scenario of a chip and a model cut to its first layers.

    Raises:
        InputError: as ``base_scenario``.
        NotModelledError: when the model has fewer layers.
    """
    base = base_scenario(*scenario_of)
    document = base.model_document()
    quantity = document.numbers.layers
    if layers == quantity.value:
        return base
    if layers > quantity.value:
        raise NotModelledError(f"layers={layers}: {document.name} has {quantity.value}")
    cut = quantity.model_copy(update={"value": layers})
    numbers = document.numbers.model_copy(update={"layers": cut})
    return base.model_copy(update={"model": document.model_copy(update={"numbers": numbers})})


@lru_cache(maxsize=16)
def chip_machine(chip: str) -> Machine:
    """Return the machine of a chip, for kernels that need no model."""
    return machine_of(Inputs(base_scenario(chip)))
