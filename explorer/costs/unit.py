"""One fusion unit: what its operators, being together, move and keep on chip."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from explorer.config.errors import refuse
from explorer.costs.graph import Graph, Operator, Span, Use

Names = frozenset[str]
# Distance of an operand: in registers from one elementwise loop to itself, in on-chip memory
# between a product and its neighbours, in DDR between units.
IN_REGISTERS, ON_CHIP, OFF_CHIP = 0, 1, 2


@dataclass(frozen=True)
class Capacity:
    """On-chip memory [B]: SM and AM of a DSP, GSM of the cluster; raises InputError below 0."""

    sm_bytes: int
    am_bytes: int
    gsm_bytes: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                accepted = "expected a whole number of bytes, at least 0"
                raise refuse(f"capacity.{field.name}", value, accepted)


@dataclass(frozen=True)
class WorkingSet:
    """What a unit needs on chip [B].

    Attributes:
        sm_bytes: on a DSP.
        am_bytes: on a DSP, held rows not included.
        gsm_bytes: of the cluster, held rows not included.
        held_bytes: whole rows that a DSP keeps, "some stored in GSM and the rest in AM".
    """

    sm_bytes: int
    am_bytes: int
    gsm_bytes: int
    held_bytes: int

    def am_needed(self, capacity: Capacity, dsps: int) -> int:
        """Return the AM taken on a DSP [B] when held rows fill its share of free GSM first."""
        share = max(capacity.gsm_bytes - self.gsm_bytes, 0) // dsps
        return self.am_bytes + max(self.held_bytes - share, 0)

    def fits(self, capacity: Capacity, dsps: int) -> bool:
        """Return whether SM, GSM and AM all suffice."""
        return (
            self.sm_bytes <= capacity.sm_bytes
            and self.gsm_bytes <= capacity.gsm_bytes
            and self.am_needed(capacity, dsps) <= capacity.am_bytes
        )


@dataclass(frozen=True)
class Region:
    """One unit: its operators in order, its DDR traffic, its work, what it needs on chip."""

    names: tuple[str, ...]
    ddr_bytes: int
    macs: int
    vector_operations: int
    distance: int
    working_set: WorkingSet


class Unit:
    """Operators to be fused, and what follows from their being together.

    ``stage`` counts the products on the longest path within the unit up to an operator, itself
    included: 0 is a prologue that works on what streams in from DDR.
    """

    def __init__(self, graph: Graph, names: Names) -> None:
        """Keep the operators in the graph's order."""
        self.graph, self.names = graph, names
        self.operators = [operator for operator in graph.operators if operator.name in names]

    def producer(self, use: Use) -> Operator | None:
        """Return the operator within the unit that makes an operand, None for DDR."""
        name = self.graph.tensor[use.tensor].producer
        return self.graph.operator[name] if name in self.names else None

    @cached_property
    def stage(self) -> dict[str, int]:
        """Stage of each operator."""
        stages: dict[str, int] = {}
        for operator in self.operators:
            producers = (self.producer(use) for use in operator.uses)
            before = max((stages[p.name] for p in producers if p is not None), default=0)
            stages[operator.name] = before + operator.product
        return stages

    @property
    def connected(self) -> bool:
        """Whether operators hang together by tensors, or by products of one left operand."""
        reached, frontier = set[str](), [self.operators[0].name]
        neighbours: dict[str, set[str]] = {name: set() for name in self.names}
        shared: dict[str, str] = {}
        for operator in self.operators:
            links = [p.name for use in operator.uses if (p := self.producer(use)) is not None]
            if operator.product:
                links.append(shared.setdefault(operator.uses[0].tensor, operator.name))
            for link in links:
                neighbours[link].add(operator.name)
                neighbours[operator.name].add(link)
        while frontier:
            name = frontier.pop()
            if name not in reached:
                reached.add(name)
                frontier += neighbours[name]
        return len(reached) == len(self.names)

    @property
    def needs_barrier(self) -> bool:
        """Whether an operator needs rows that other DSPs make in the same unit."""
        return any(
            use.span is Span.SEQUENCE and self.producer(use) is not None
            for operator in self.operators
            for use in operator.uses
        )

    def written(self) -> set[str]:
        """Return tensors that go to DDR: read outside the unit, or leaving the layer."""
        return {
            output
            for operator in self.operators
            for output in operator.outputs
            if self.graph.tensor[output].leaves_layer
            or not self.names.issuperset(self.graph.consumers[output])
        }

    def read(self) -> dict[tuple[str, int, Span], int]:
        """Return bytes by tensor from DDR: once for all operators that need it at one time."""
        reads: dict[tuple[str, int, Span], int] = {}
        for operator in self.operators:
            for use in operator.uses:
                if self.producer(use) is None:
                    key = (use.tensor, self.stage[operator.name], use.span)
                    reads[key] = max(reads.get(key, 0), use.read_bytes)
        return reads

    def region(self) -> Region:
        """Return the unit as a result."""
        own = sum(operator.weight_bytes for operator in self.operators)
        written = sum(self.graph.tensor[tensor].write_bytes for tensor in self.written())
        return Region(
            names=tuple(operator.name for operator in self.operators),
            ddr_bytes=own + written + sum(self.read().values()),
            macs=sum(operator.macs for operator in self.operators),
            vector_operations=sum(operator.vector_operations for operator in self.operators),
            distance=sum(
                self._distance(operator, use)
                for operator in self.operators
                for use in operator.uses
            ),
            working_set=self.working_set(),
        )

    def _distance(self, operator: Operator, use: Use) -> int:
        producer = self.producer(use)
        if producer is None:
            return OFF_CHIP
        by_tile = use.span is Span.TILE and not (operator.product or producer.product)
        return IN_REGISTERS if by_tile else ON_CHIP

    def working_set(self) -> WorkingSet:
        """Return what the unit keeps at once.

        Products run one after the other, so of each memory the greediest moment counts; states
        of low-density operators and held rows are allocated for the whole unit.
        """
        products = [operator for operator in self.operators if operator.product]
        from_ddr = [o for o in products if self.stage[o.name] == 1]
        moments = [*({o.name} for o in products), *self._alive_tiles().values()]
        return WorkingSet(
            sm_bytes=max((o.needs.sm_bytes for o in products), default=0),
            am_bytes=max((self._am_bytes(moment) for moment in moments), default=0)
            + sum(o.needs.state_bytes for o in self.operators)
            + self._operand_tile_bytes(),
            gsm_bytes=max((o.needs.gsm_bytes for o in from_ddr), default=0),
            held_bytes=sum(self._held().values()),
        )

    def _am_bytes(self, alive: set[str]) -> int:
        """Return AM while some products' tiles are alive: their W2 take turns in one buffer."""
        products = [self.graph.operator[name] for name in alive]
        return (
            max((o.needs.stream_bytes for o in products), default=0)
            + sum(o.needs.output_bytes for o in products)
            + max((self._prologue_bytes(o) for o in products), default=0)
        )

    def _alive_tiles(self) -> dict[str, set[str]]:
        """Return, for each operator, products whose tiles must be alive together for its result.

        A sum accumulates on the tile that is there; only a product of two needs both.
        """
        alive: dict[str, set[str]] = {}
        for operator in self.operators:
            if operator.product:
                alive[operator.name] = {operator.name}
                continue
            tiles = [
                alive[producer.name]
                for use in operator.uses
                if use.span is Span.TILE and (producer := self.producer(use)) is not None
            ]
            if operator.joins_operands:
                alive[operator.name] = set().union(*tiles)
            else:
                alive[operator.name] = max(tiles, key=self._am_bytes, default=set())
        return alive

    def _prologue_bytes(self, product: Operator) -> int:
        """Return AM that stages a product's left operand on its way to GSM and SM.

        One tile for each operand of the prologue's widest operator. Eq. 8 has a single buffer in
        GSM, so a second one here could not be filled earlier.
        """
        widest, pending = 0, [product.uses[0]]
        while pending:
            producer = self.producer(pending.pop())
            if producer is not None and self.stage[producer.name] == 0:
                widest = max(widest, len(producer.uses))
                pending += producer.uses
        return widest * product.needs.left_tile_bytes

    def _operand_tile_bytes(self) -> int:
        """Return AM for epilogue operands that come from DDR and cannot start accumulators."""
        tile = max((o.needs.output_tile_bytes for o in self.operators), default=0)
        return tile * sum(
            1
            for operator in self.operators
            if operator.joins_operands and self.stage[operator.name] > 0
            for use in operator.uses
            if (producer := self.producer(use)) is None or self.stage[producer.name] == 0
        )

    def _held(self) -> dict[str, int]:
        """Return whole rows a DSP must keep, by buffer.

        A product makes its rows a tile of columns at a time, so whoever needs a row waits for all
        of them. Low-density operators work in place: input and output share a buffer.
        """
        held: dict[str, int] = {}
        buffer: dict[str, str] = {}
        for operator in self.operators:
            stage = self.stage[operator.name]
            for use in operator.uses:
                producer = self.producer(use)
                made = self.stage[producer.name] if producer is not None else 0
                key = ""
                if use.span is Span.ROW and (made or self._needs_row_first(operator)):
                    key = buffer.get(use.tensor, use.tensor)
                elif use.span is Span.TILE and 0 < made < stage:
                    # Other products run before this tile is asked for again.
                    key = f"{use.tensor} for later"
                if key:
                    size = self.graph.tensor[use.tensor].held_bytes
                    held[key] = max(held.get(key, 0), size)
            for index, output in enumerate(operator.outputs):
                source = operator.uses[min(index, len(operator.uses) - 1)].tensor
                buffer[output] = output if operator.product else buffer.get(source, source)
        return held

    def _needs_row_first(self, operator: Operator) -> bool:
        """Return whether a low-density operator needs its row before any result is of use.

        A statistic that commutes with products needs not, when products are all that follows.
        """
        if operator.product:
            return False
        followers = [name for o in operator.outputs for name in self.graph.consumers[o]]
        deferred = operator.commutes and all(
            name in self.names and self.graph.operator[name].product for name in followers
        )
        return not deferred
