"""The blocks of a pasted profile: scopes that were printed together, and what is said of the runs.

A line with a tag and no scope begins a block, and so does a scope that comes again: after a blank
line or a wall, or as the first of its block. Anything else that comes again is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from explorer.chips.ascend910a_synced import NORMS
from explorer.config.errors import refuse
from explorer.fidelity.profile_lines import Line, Scope, read_line

WALL_ROUNDING = 0.01
OWN_RANKS = (None, 0)
ROWS_HEADER = re.compile(
    r"^\W*(?:prompt[ _]tokens|prefill[ _]tokens|rows|tokens)\W+([0-9]+(?:[\s|,;]+[0-9]+)+)[\s|]*$",
    re.IGNORECASE,
)
PARTS = {NORMS: ("attn_resid_norm", "add", "norm")}
"""Scopes that a row of the report's table sums up."""


@dataclass
class Block:
    """Scopes printed together."""

    line: int
    tag: str
    rank: int | None
    scopes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """What the text says of one run."""

    line: int
    wall: float
    facts: Mapping[str, float]


class Reader:
    """Puts lines into blocks, and collects what they say of the runs."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._walls: list[Run] = []
        self._loose: dict[str, list[tuple[int, float]]] = {}
        self._columns: list[Block] = []
        self._current: dict[int | None, Block] = {}
        self._tag = ""
        self._rank: int | None = None
        self._lengths: list[int] = []
        self._gap = True

    def read(self, number: int, text: str) -> None:
        """Take in one line; raises InputError naming it where it is ambiguous."""
        header = ROWS_HEADER.match(text)
        if header:
            self._table(number, [int(word) for word in re.findall("[0-9]+", header[1])])
            return
        line = read_line(number, text, max(len(self._columns), 1))
        slices = line.settings.get("COMM_OVERLAP_SLICES", 1)
        if slices > 1:
            accepted = "a sliced pass, whose phases overlap; expected 1 (the serial path)"
            raise refuse(f"line {number}", f"QWEN_COMM_OVERLAP_SLICES={slices}", accepted)
        if line.tag and not line.scopes:
            self._current, self._tag, self._rank = {}, line.tag, line.rank
        if line.facts and line.rank in OWN_RANKS:
            self._fact(line)
        for scope in line.scopes:
            self._scope(line, scope)
        if line.facts or line.settings or line.blank:
            self._gap = True
        if line.blank and not line.rule:
            self._columns = []

    def runs(self, wall: float | None) -> list[Run]:
        """Return the runs that the text tells of; raises InputError without any."""
        walls = self._walls
        if not walls and wall is not None:
            walls = [Run(0, wall, {})]
        if not walls:
            accepted = "not in the text; expected a line with prefill_seconds=, or give it"
            raise refuse("wall", "", accepted)
        if wall is not None and all(abs(run.wall / wall - 1) > WALL_ROUNDING for run in walls):
            raise refuse(
                f"line {walls[0].line}", f"wall {walls[0].wall:g} s", f"given as {wall:g} s"
            )
        for name, values in self._loose.items():
            for line, value in values:
                if value != values[0][1]:
                    accepted = f"{name} is {values[0][1]:g} on line {values[0][0]}"
                    raise refuse(f"line {line}", f"{value:g}", accepted)
            if len(walls) > 1:
                accepted = (
                    f"{name} on a line of its own, with several runs; expected it beside a wall"
                )
                raise refuse(f"line {values[0][0]}", f"{values[0][1]:g}", accepted)
            walls = [replace(walls[0], facts={name: values[0][1], **walls[0].facts})]
        return walls

    def _table(self, number: int, lengths: Sequence[int]) -> None:
        """Begin a table of several lengths: a block and a run for each column."""
        self._columns = [Block(number, "table", None) for _ in lengths]
        self._lengths = list(lengths)
        self.blocks += self._columns

    def _fact(self, line: Line) -> None:
        if self._columns:
            self._facts_of_columns(line)
            return
        single = {name: values[0] for name, values in line.facts.items()}
        wall = single.pop("wall", None)
        if wall is not None:
            known = next((run for run in self._walls if run.wall == wall), None)
            if known is None:
                self._walls.append(Run(line.number, wall, single))
            return
        for name, value in single.items():
            self._loose.setdefault(name, []).append((line.number, value))

    def _facts_of_columns(self, line: Line) -> None:
        for name, values in line.facts.items():
            if len(values) != len(self._columns):
                accepted = f"expected {len(self._columns)} values, one for each length"
                raise refuse(f"line {line.number}", f"{len(values)} of {name}", accepted)
            if name == "wall":
                self._walls += [
                    Run(line.number, wall, {"rows": float(rows)})
                    for wall, rows in zip(values, self._lengths, strict=True)
                ]

    def _scope(self, line: Line, scope: Scope) -> None:
        if self._columns:
            for column, seconds in zip(self._columns, scope.seconds, strict=True):
                _add(column, line, scope, seconds)
            return
        tag, rank = line.tag or self._tag, self._rank if line.rank is None else line.rank
        block = self._current.get(rank)
        if block is None or block.tag != tag or self._begins(block, scope):
            block = Block(line.number, tag, rank)
            self._current[rank] = block
            self.blocks.append(block)
        self._gap = False
        _add(block, line, scope, scope.seconds[0])

    def _begins(self, block: Block, scope: Scope) -> bool:
        """Return whether a scope begins a new block: known already, after a gap or as the first."""
        known = _name(scope) in block.scopes
        return known and (self._gap or _name(scope) == next(iter(block.scopes)))


def _add(block: Block, line: Line, scope: Scope, seconds: float) -> None:
    name = _name(scope)
    if name in block.scopes:
        accepted = (
            f"is already in the block that begins on line {block.line}; expected a blank line "
            "or a tag= line between blocks"
        )
        raise refuse(f"line {line.number}", name, accepted)
    block.scopes[name] = seconds


def _name(scope: Scope) -> str:
    """Return the name of a scope; a sum goes by the phase that it is, or by all its parts."""
    if len(scope.parts) > 1:
        phase = next((name for name, parts in PARTS.items() if set(parts) == set(scope.parts)), "")
        return phase or " + ".join(scope.parts)
    return scope.name
