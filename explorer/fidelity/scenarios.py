"""Scenarios that measurements were taken in: a chip, a model, and the plan to be filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.registry import machine_of
from explorer.config.chip import Chip
from explorer.config.links import preset_scenario
from explorer.config.presets import load_chip, load_model, scenario_presets
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.fidelity.conditions import NotModelledError
from explorer.serving.evaluate import Evaluation, evaluate


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


@dataclass(frozen=True)
class OnChip:
    """The chip that measurements are predicted on.

    Attributes:
        chip: preset id, or a document of its own.
        hardware: numbers of the chip that take other values; arrays broadcast together.
    """

    chip: str | Chip
    hardware: Mapping[str, Array] = field(default_factory=dict)
    _evaluations: dict[tuple[object, ...], Evaluation] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """Its id, for messages."""
        return self.chip if isinstance(self.chip, str) else self.chip.id

    @property
    def is_preset(self) -> bool:
        """Whether it is a preset as it stands."""
        return isinstance(self.chip, str) and not self.hardware

    @cached_property
    def machine(self) -> Machine:
        """The machine alone, for kernels that need no model."""
        if isinstance(self.chip, str) and not self.hardware:
            return _preset_machine(self.chip)
        return machine_of(Inputs(self.scenario()))

    def layers(self, model: str) -> int:
        """Return the layers of a model preset; raises as ``scenario``."""
        return base_scenario(self._base, model).model_shape().layers

    def scenario(self, model: str = "", layers: int | None = None) -> Scenario:
        """Return a scenario of this chip and a model preset cut to its first layers.

        The numbers' ranges are not checked.

        Raises:
            InputError: when there is no such chip or model preset.
            NotModelledError: as ``base_scenario`` and ``with_layers``.
        """
        cut = with_layers((self._base, model), layers) if layers else None
        base = cut or base_scenario(self._base, model)
        if isinstance(self.chip, Chip):
            base = base.model_copy(update={"chip": self.chip})
        return base.unchecked({f"hardware.{name}": v for name, v in self.hardware.items()})

    def evaluation(self, model: str, layers: int, changes: Mapping[str, object]) -> Evaluation:
        """Return the evaluation of ``scenario`` with some values changed.

        Phases of one pass ask for the same one: it is made once.

        Args:
            model: preset id.
            layers: of the model, the first ones.
            changes: plain values by path.

        Raises:
            InputError, NotModelledError: as ``scenario``, and for a value that is not accepted.
        """
        key = (model, layers, *sorted(changes.items(), key=lambda item: item[0]))
        if key not in self._evaluations:
            self._evaluations[key] = evaluate(self.scenario(model, layers).replacing(changes))
        return self._evaluations[key]

    @property
    def _base(self) -> str:
        """The preset whose scenarios are used."""
        return self.chip if isinstance(self.chip, str) else _preset_of_family(self.chip.family)


@lru_cache(maxsize=16)
def _preset_machine(chip: str) -> Machine:
    return machine_of(Inputs(base_scenario(chip)))


@lru_cache(maxsize=16)
def _preset_of_family(family: str) -> str:
    for preset in scenario_presets():
        chip = str(preset.scenario["chip"])
        if load_chip(chip).family == family:
            return chip
    raise NotModelledError(f"no scenario preset uses a chip of the family {family}")
