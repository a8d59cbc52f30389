"""A scenario as float arrays, ready for the cost functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from typing import TypeVar

import numpy as np

from explorer.config.errors import refuse
from explorer.config.model import Model
from explorer.config.numbers import as_float_array
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.costs.memory import STORAGE_BYTES

Numbers = TypeVar("Numbers")
MAY_BE_ZERO = ("overhead_bytes", "all_reduces_per_layer")
"""Numbers that divide nothing; so may times."""
Kinds = Callable[..., frozenset[str]]


@dataclass(frozen=True)
class Inputs:
    """Everything of a scenario that costs depend on, but for the chip's numbers.

    Arrays keep their own broadcast shape; counts are whole numbers held as float64.
    """

    scenario: Scenario

    @cached_property
    def model(self) -> Model:
        """Sizes of the model."""
        return self.scenario.model_shape()

    @cached_property
    def compute_bytes(self) -> int:
        """Bytes of one element in arithmetic, and so of an activation."""
        return STORAGE_BYTES[self.scenario.precision.compute]

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of one stored weight."""
        return STORAGE_BYTES[self.scenario.precision.weights]

    @cached_property
    def kv_bytes(self) -> int:
        """Bytes of one stored KV-cache element."""
        return STORAGE_BYTES[self.scenario.precision.kv]

    @property
    def shared(self) -> bool:
        """Whether the same cards prefill and then decode."""
        return self.scenario.plan.placement == "shared"

    def array(self, path: str) -> Array:
        """Return the number at a knob path as a float array."""
        return as_float_array(self.scenario.value(path))

    @cached_property
    def prompt_tokens(self) -> Array:
        """Prompt tokens a request."""
        return self.array("workload.prompt_tokens")

    @cached_property
    def output_tokens(self) -> Array:
        """Output tokens a request, N."""
        return self.array("workload.output_tokens")

    @cached_property
    def mean_context_tokens(self) -> Array:
        """Context of the average decode step: prompt + N / 2."""
        return self.prompt_tokens + self.output_tokens / 2

    @cached_property
    def tp_prefill(self) -> Array:
        """Tensor-parallel degree of prefill."""
        return self.array("plan.tp_prefill")

    @cached_property
    def pp_prefill(self) -> Array:
        """Pipeline stages of prefill."""
        return self.array("plan.pp_prefill")

    @cached_property
    def dp_prefill(self) -> Array:
        """Prefill pipelines, DP_P."""
        return self.array("plan.dp_prefill")

    @cached_property
    def prefill_clusters(self) -> Array:
        """Clusters of one prefill pipeline, TP_P x PP_P."""
        return self.tp_prefill * self.pp_prefill

    @cached_property
    def micro_batch_prefill(self) -> Array:
        """Requests in one prefill micro-batch."""
        return self.array("plan.micro_batch_prefill")

    @cached_property
    def tp_decode(self) -> Array:
        """Tensor-parallel degree of decode."""
        return self.array("plan.tp_decode")

    @cached_property
    def pp_decode(self) -> Array:
        """Pipeline stages of decode."""
        return self.array("plan.pp_decode")

    @cached_property
    def decode_clusters(self) -> Array:
        """Clusters of one decode pipeline, TP_D x PP_D."""
        return self.tp_decode * self.pp_decode

    @cached_property
    def micro_batch_decode(self) -> Array:
        """Requests in one decode micro-batch."""
        return self.array("plan.micro_batch_decode")


def read_numbers(scenario: Scenario, into: type[Numbers]) -> Numbers:
    """Return the chip's numbers, overrides applied, as a dataclass of float arrays.

    A number with a default may be missing: documents written before it existed have none.

    Raises:
        InputError: when the chip document lacks a number that its family needs, or has zero for
            one that divides.
    """
    chip = scenario.chip_document()
    known = {field.name: field.default is MISSING for field in fields(into)}  # type: ignore[arg-type]
    missing = [name for name, needed in known.items() if needed and name not in chip.quantities]
    if missing:
        raise refuse("chip.quantities", "", f"a {chip.family} chip also needs {', '.join(missing)}")
    names = [name for name in known if name in chip.quantities]
    own = scenario.hardware
    values = {
        name: as_float_array(own[name] if name in own else chip.quantities[name].value)
        for name in names
    }
    for name, value in values.items():
        if not ("_seconds" in name or name in MAY_BE_ZERO or np.all(value > 0)):
            raise refuse(f"chip.quantities.{name}", value, "expected a number above 0")
    return into(**values)


def kinds_reader(scenario: Scenario) -> Kinds:
    """Return a function from chip number names to the kinds of their sources."""
    quantities = scenario.chip_document().quantities
    changed = scenario.hardware

    def kinds(*names: str) -> frozenset[str]:
        return frozenset("override" if name in changed else quantities[name].kind for name in names)

    return kinds
