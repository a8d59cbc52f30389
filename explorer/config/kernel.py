"""The kernel document: what one core issues and how long results take, and the plain machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from explorer.config.errors import refuse
from explorer.config.jsonio import read_document
from explorer.config.presets import preset_path
from explorer.config.quantity import Document, Quantity, Text, Version

MOST_CYCLES = 1000
MOST_UNITS = 64
LARGEST_COUNT = 4096
ROLES = ("load_x", "pack", "broadcast", "load_w", "multiply_add")
COUNTS = (
    "lanes_per_vector",
    "packs_per_broadcast",
    "vectors_per_load",
    "vector_registers",
    "scalar_registers",
)
Precision = Literal["fp32", "fp16"]


class UnitQuantity(Quantity):
    """Issue slots a cycle of one kind of unit."""

    value: Annotated[int, Strict(), Field(ge=1, le=MOST_UNITS)]


class LatencyQuantity(Quantity):
    """Cycles from issue until the result can be read."""

    value: Annotated[int, Strict(), Field(ge=1, le=MOST_CYCLES)]


class CountQuantity(Quantity):
    """A number of lanes, vectors, registers or instructions."""

    value: Annotated[int, Strict(), Field(ge=1, le=LARGEST_COUNT)]


class InstructionDocument(Document):
    """One instruction: its name, the unit that issues it and its latency."""

    name: Text
    unit: Text
    latency_cycles: LatencyQuantity

    def plain(self) -> Instruction:
        """Return the instruction without provenance."""
        return Instruction(self.name, self.unit, self.latency_cycles.value)


class PrecisionDocument(Document):
    """What depends on the element type."""

    multiply_add: InstructionDocument
    lanes_per_vector: CountQuantity
    packs_per_broadcast: CountQuantity


class KernelDocument(Document):
    """The instructions of an outer-product kernel on one core, each number with its source."""

    schema_: Literal["explorer.kernel/1"] = Field(alias="schema")
    id: Text
    version: Version
    name: Text
    source: str
    units: dict[str, UnitQuantity]
    load_x: InstructionDocument
    pack: InstructionDocument
    broadcast: InstructionDocument
    load_w: InstructionDocument
    vectors_per_load: CountQuantity
    vector_registers: CountQuantity
    scalar_registers: CountQuantity
    precisions: dict[Precision, PrecisionDocument]

    @model_validator(mode="after")
    def _units_are_known(self) -> KernelDocument:
        chain = (self.load_x, self.pack, self.broadcast, self.load_w)
        for instruction in (*chain, *(p.multiply_add for p in self.precisions.values())):
            if instruction.unit not in self.units:
                raise ValueError(f"{instruction.name} needs one of the units {list(self.units)}")
        if not self.precisions:
            raise ValueError("precisions must hold fp32 or fp16")
        return self

    def machine(self, precision: str) -> KernelMachine:
        """Return the plain numbers at one precision.

        Raises:
            InputError: when the document has no such precision.
        """
        known = {str(name): held for name, held in self.precisions.items()}
        if precision not in known:
            raise refuse("precision", precision, f"expected {' or '.join(known)}")
        chosen = known[precision]
        return KernelMachine(
            units=tuple((name, count.value) for name, count in self.units.items()),
            load_x=self.load_x.plain(),
            pack=self.pack.plain(),
            broadcast=self.broadcast.plain(),
            load_w=self.load_w.plain(),
            multiply_add=chosen.multiply_add.plain(),
            lanes_per_vector=chosen.lanes_per_vector.value,
            packs_per_broadcast=chosen.packs_per_broadcast.value,
            vectors_per_load=self.vectors_per_load.value,
            vector_registers=self.vector_registers.value,
            scalar_registers=self.scalar_registers.value,
        )


@dataclass(frozen=True)
class Instruction:
    """An instruction; its result can be read ``latency_cycles`` after it issues."""

    name: str
    unit: str
    latency_cycles: int

    def __post_init__(self) -> None:
        """Refuse a latency that is not a whole number from 1 to 1000; raises InputError."""
        _whole(f"{self.name}.latency_cycles", self.latency_cycles, MOST_CYCLES)


@dataclass(frozen=True)
class KernelMachine:
    """One core as a kernel sees it, at one precision.

    Attributes:
        units: names of the units and how many instructions each kind issues a cycle.
        load_x: loads one element of X.
        pack: repeats it over a word.
        broadcast: sends the word to all lanes.
        load_w: loads ``vectors_per_load`` vectors of W.
        multiply_add: multiplies two vectors and adds to a third.
        lanes_per_vector: elements of a vector.
        packs_per_broadcast: packs in a row before one broadcast.
        vectors_per_load: vectors that one ``load_w`` brings.
        vector_registers: vectors that the register file holds.
        scalar_registers: scalars that the register file holds.
    """

    units: tuple[tuple[str, int], ...]
    load_x: Instruction
    pack: Instruction
    broadcast: Instruction
    load_w: Instruction
    multiply_add: Instruction
    lanes_per_vector: int
    packs_per_broadcast: int
    vectors_per_load: int
    vector_registers: int
    scalar_registers: int

    def __post_init__(self) -> None:
        """Refuse counts that are not whole numbers in range; raises InputError."""
        for name, count in self.units:
            _whole(f"units.{name}", count, MOST_UNITS)
        for field in COUNTS:
            _whole(field, getattr(self, field), LARGEST_COUNT)
        for role in ROLES:
            instruction = getattr(self, role)
            if instruction.unit not in dict(self.units):
                known = ", ".join(dict(self.units))
                raise refuse(f"{instruction.name}.unit", instruction.unit, f"expected {known}")

    @property
    def multiply_adds_per_cycle(self) -> int:
        """Vector multiply-adds that can issue in one cycle."""
        return dict(self.units)[self.multiply_add.unit]

    def with_latency(self, name: str, latency_cycles: int) -> KernelMachine:
        """Return the machine with another latency of the instruction ``name``.

        Raises:
            InputError: when there is no such instruction, or for a latency that is not a whole
                number from 1 to 1000.
        """
        names = {getattr(self, role).name: role for role in ROLES}
        if name not in names:
            raise refuse("instruction", name, f"expected one of {', '.join(names)}")
        changed = replace(getattr(self, names[name]), latency_cycles=latency_cycles)
        return replace(self, **{names[name]: changed})

    def with_units(self, name: str, count: int) -> KernelMachine:
        """Return the machine with another number of units ``name``.

        Raises:
            InputError: when there is no such unit, or for a count that is not a whole number
                from 1 to 64.
        """
        if name not in dict(self.units):
            known = ", ".join(dict(self.units))
            raise refuse("unit", name, f"expected one of {known}")
        return replace(self, units=tuple({**dict(self.units), name: count}.items()))


def _whole(field: str, value: object, most: int) -> None:
    fine = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
    if not fine:
        raise refuse(field, value, f"expected a whole number from 1 to {most}")


@cache
def _kernel_at(path: Path) -> KernelDocument:
    return read_document(path, KernelDocument)


def load_kernel(reference: str, version: int | None = None) -> KernelDocument:
    """Return a kernel preset; raises InputError when there is none."""
    return _kernel_at(preset_path("kernels", reference, version))
