"""Which cost model reads which family of chip documents, and which numbers it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_numbers import Ascend910aNumbers
from explorer.chips.generic import Generic
from explorer.chips.generic_numbers import GenericNumbers
from explorer.chips.inputs import Inputs
from explorer.chips.machine import Machine
from explorer.chips.mt3000 import Mt3000
from explorer.chips.mt3000_numbers import Mt3000Numbers
from explorer.config.chip import Chip, peak_name
from explorer.config.errors import InputError, Problem


@dataclass(frozen=True)
class Family:
    """The cost model of a family, its numbers, and the peaks of which it needs one."""

    machine: Callable[[Inputs], Machine]
    numbers: type[Any]
    peaks: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the numbers that every chip of the family has."""
        return tuple(field.name for field in fields(self.numbers) if field.default is MISSING)

    @property
    def known(self) -> tuple[str, ...]:
        """Names of all numbers that the model reads."""
        return (*(field.name for field in fields(self.numbers)), *self.peaks)


FAMILIES = {
    "mt3000": Family(Mt3000.of, Mt3000Numbers),
    "ascend910a": Family(Ascend910a.of, Ascend910aNumbers),
    "generic": Family(Generic.of, GenericNumbers, (peak_name("fp32"), peak_name("fp16"))),
}


def machine_of(inputs: Inputs) -> Machine:
    """Return the machine of a scenario; raises InputError when its chip lacks a number."""
    return FAMILIES[inputs.scenario.chip_document().family].machine(inputs)


def check_numbers(chip: Chip) -> None:
    """Refuse a chip of one's own that lacks a number, or has one that its model never reads.

    Raises:
        InputError: names every such number.
    """
    family = FAMILIES[chip.family]
    problems = [
        Problem(f"chip.quantities.{name}", "", f"the {chip.family} model reads no such number")
        for name in chip.quantities
        if name not in family.known
    ]
    missing = [name for name in family.needed if name not in chip.quantities]
    if family.peaks and not set(family.peaks) & set(chip.quantities):
        missing.append(" or ".join(family.peaks))
    if missing:
        accepted = f"a {chip.family} chip also needs {', '.join(missing)}"
        problems.insert(0, Problem("chip.quantities", "", accepted))
    if problems:
        raise InputError(problems)
