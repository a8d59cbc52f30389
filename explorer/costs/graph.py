"""Operator graph of a decoder layer: what an operator moves, computes and needs on chip."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

from explorer.config.errors import refuse


class Span(IntEnum):
    """How much of a tensor an operator must see before its first result is final.

    TILE: the same tile (elementwise). ROW: whole rows, of the row block at hand only (a
    contraction, a row's statistics). SEQUENCE: all rows of the request, those that other DSPs
    produce included (K and V).
    """

    TILE = 0
    ROW = 1
    SEQUENCE = 2


class _Sizes:
    """Dataclass of whole numbers of at least 1; raises InputError for anything else."""

    prefix: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise refuse(f"{self.prefix}.{name}", value, "expected a whole number, at least 1")


@dataclass(frozen=True)
class Work(_Sizes):
    """One pass: ``requests`` bring ``rows`` tokens in all and attend to ``context`` tokens each.

    Either decode (one row a request) or prefill (every token of the context is a row); raises
    InputError for anything else.
    """

    prefix = "work"
    rows: int
    requests: int
    context: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows not in (self.requests, self.requests * self.context):
            accepted = "expected requests (decode) or requests x context (prefill)"
            raise refuse("work.rows", self.rows, accepted)

    @property
    def decode(self) -> bool:
        """True for one row a request."""
        return self.rows == self.requests


@dataclass(frozen=True)
class Blocks(_Sizes):
    """Static blocking of the kernels (Eqs 6-8) [rows, elements]; raises InputError below 1.

    Attributes:
        dsps: P, DSPs that share GSM.
        rows_per_dsp: M_2.
        attention_rows_per_dsp: M_r, rows of Q and O that a DSP keeps in attention.
        tile_k: K_2.
        tile_n: N_2.
        block_k: K_g.
    """

    prefix = "blocks"
    dsps: int
    rows_per_dsp: int
    attention_rows_per_dsp: int
    tile_k: int
    tile_n: int
    block_k: int


@dataclass(frozen=True)
class ElementBytes(_Sizes):
    """Bytes an element, by use; raises InputError below 1."""

    prefix = "element_bytes"
    activations: int
    weights: int
    kv: int
    accumulators: int


@dataclass(frozen=True)
class Tensor:
    """What one operator hands to others.

    Attributes:
        name: of the tensor.
        producer: operator, or ``""`` for the layer's input.
        write_bytes: to DDR, when it is written.
        held_bytes: on a DSP, when whole rows of its row block stay on chip.
        leaves_layer: True for the layer's output and the KV cache, written whatever is fused.
    """

    name: str
    producer: str
    write_bytes: int
    held_bytes: int
    leaves_layer: bool


@dataclass(frozen=True)
class Use:
    """One operand: the tensor, how much of it is needed at once, bytes read when from DDR."""

    tensor: str
    span: Span
    read_bytes: int


@dataclass(frozen=True)
class Needs:
    """On-chip bytes that an operator needs; of one DSP, but GSM of the cluster.

    Attributes:
        sm_bytes: both buffers of the left operand (Eq. 6).
        gsm_bytes: the left operand's block (Eq. 8), only when it comes from DDR.
        stream_bytes: AM for both buffers of the broadcast right operand (Eq. 7).
        output_bytes: AM for the output's buffers and the D N term (Eq. 7); needed once more
            for every further product whose tile has to be alive at the same time.
        left_tile_bytes: AM to stage one operand of a prologue, since SM feeds only scalars.
        output_tile_bytes: AM for one more operand of an epilogue.
        state_bytes: AM for what a low-density operator remembers beyond its tile.
    """

    sm_bytes: int = 0
    gsm_bytes: int = 0
    stream_bytes: int = 0
    output_bytes: int = 0
    left_tile_bytes: int = 0
    output_tile_bytes: int = 0
    state_bytes: int = 0


@dataclass(frozen=True)
class Operator:
    """One node.

    Attributes:
        name: of the operator.
        uses: operands; the left one of a product first.
        outputs: tensors.
        macs: multiply-accumulates of a product.
        vector_operations: of any other operator.
        weight_bytes: read from DDR, again for each row block.
        ddr_bytes: all traffic of the operator on its own.
        block_density: work a byte at the block that the kernel is built for [MAC/B].
        needs: on chip.
        product: True when it accumulates over a contraction.
        joins_operands: True when all operand tiles must be there at once (a product of two). A
            sum needs one: the other operand is what its accumulators start from.
        commutes: True when its row statistic is a factor that can wait until after a product.
    """

    name: str
    uses: tuple[Use, ...]
    outputs: tuple[str, ...]
    macs: int
    vector_operations: int
    weight_bytes: int
    ddr_bytes: int
    block_density: float
    needs: Needs
    product: bool
    joins_operands: bool = False
    commutes: bool = False

    @property
    def density(self) -> float:
        """Work a byte in this pass [MAC/B]; below ``block_density`` when the pass is small."""
        return (self.macs + self.vector_operations) / self.ddr_bytes

    def is_high(self, density_threshold: float) -> bool:
        """Return whether the kernel's block reaches a density [MAC/B].

        The block and not the pass decides, because fusion is static: in decode every Linear is
        memory-bound, and no unit would have the operator that it is built around.
        """
        return self.block_density >= density_threshold


@dataclass(frozen=True)
class Graph:
    """Operators in an order that respects the data, and the tensors between them."""

    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    dsps: int

    @cached_property
    def operator(self) -> dict[str, Operator]:
        """Operators by name."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def tensor(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Operators that read each tensor, by the tensor's name."""
        return {
            tensor.name: tuple(
                operator.name
                for operator in self.operators
                if any(use.tensor == tensor.name for use in operator.uses)
            )
            for tensor in self.tensors
        }

    @cached_property
    def predecessors(self) -> dict[str, frozenset[str]]:
        """Operators whose results each operator reads, by its name."""
        return {
            operator.name: frozenset(
                producer for use in operator.uses if (producer := self.tensor[use.tensor].producer)
            )
            for operator in self.operators
        }
