"""Which cost model reads which family of chip documents."""

from __future__ import annotations

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.mt3000 import Mt3000

FAMILIES = {"mt3000": Mt3000, "ascend910a": Ascend910a}


def machine_of(inputs: Inputs) -> Machine:
    """Return the machine of a scenario; raises InputError when its chip lacks a number."""
    family = FAMILIES[inputs.scenario.chip_document().family]
    return family.of(inputs)
