"""Which cost model reads which family of chip documents."""

from __future__ import annotations

from collections.abc import Callable

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.mt3000 import Mt3000

FAMILIES: dict[str, Callable[[Inputs], Machine]] = {
    "mt3000": Mt3000.of,
    "ascend910a": Ascend910a.of,
}


def machine_of(inputs: Inputs) -> Machine:
    """Return the machine of a scenario; raises InputError when its chip lacks a number."""
    return FAMILIES[inputs.scenario.chip_document().family](inputs)
