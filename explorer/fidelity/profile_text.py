"""A pasted device-synced phase profile of the Ascend engine, as rows of measurements.

Ascend TP Collective Overlap sections 5.1, 5.2 and 8: every scope's seconds are device time; a run
prints several blocks, and the timed prefill is the one whose stack matches the run's wall.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.chips.ascend910a_synced import (
    ALL_REDUCE,
    FULL_ATTENTION,
    GATED_DELTA,
    NORMS,
    PROJECTIONS,
    STACK,
    WALL,
)
from explorer.config.errors import refuse
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.profile_blocks import OWN_RANKS, PARTS, Block, Reader, Run

LARGEST_TEXT = 400_000
MOST_LINES = 8_000
BELOW_WALL = 0.07
"""The stack may be this much shorter than the wall: embedding, output head and the like lie
outside it (2.2 % at 1105 rows in the report; the models expect 6 % of the shortest prompts)."""
ABOVE_WALL = 0.002
"""It may be longer by rounding only."""
ROUNDING = 0.01
"""Scopes in a stack may add up to this much more than the stack."""
RATE_ROUNDING = 0.005
MOST_LISTED = 6
NESTED = "nested host spans (QWEN_HOST_PROFILE); expected device time (QWEN_PHASE_PROFILE=1)"
STACK_SCOPES = ("stack", "stack.r")
PHASES = (GATED_DELTA, FULL_ATTENTION, PROJECTIONS, ALL_REDUCE, NORMS)
MODEL, CHIP = "qwen3.8-27b", "ascend910a"


@dataclass(frozen=True)
class Timed:
    """One run: its wall, and the scopes of the block that was timed [s]."""

    wall_seconds: float
    rows: int
    tp: int
    first_line: int
    scopes: Mapping[str, float]

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of wall, stack and the phases that the models know, by name."""
        known = {WALL: self.wall_seconds, STACK: _stack(self.scopes) or 0.0}
        for phase in PHASES:
            seconds = _phase_seconds(self.scopes, phase)
            if seconds:
                known[phase] = seconds
        return known

    @property
    def unknown(self) -> tuple[str, ...]:
        """Scopes that are no phase of the models, nor part of one that is used."""
        used = {*PHASES, *(part for phase in self.phases for part in PARTS.get(phase, ()))}
        return tuple(
            scope
            for scope in self.scopes
            if scope.lower() not in STACK_SCOPES and scope not in used
        )


@dataclass(frozen=True)
class ProfileText:
    """What a text held: the timed runs as rows, and what was left aside."""

    measurements: tuple[Measurement, ...]
    timed: tuple[Timed, ...]
    blocks: int
    notes: tuple[str, ...]


def parse_profile(
    text: str,
    name: str = "profile",
    rows: int | None = None,
    wall_seconds: float | None = None,
    tp: int | None = None,
) -> ProfileText:
    """Return the timed blocks of a profile as measurements.

    Args:
        text: as the engine printed it, several blocks and runs, or a table of several lengths.
        name: of the file, for sources and messages.
        rows: prompt tokens of the run, where the text does not say.
        wall_seconds: wall of the run, where the text does not say.
        tp: cards, where the text does not say; 4 without.

    Raises:
        InputError: names the line that is ambiguous, or what is missing: a wall, the rows, a
            block whose stack matches the wall, or several of them.
    """
    if len(text) > LARGEST_TEXT:
        raise refuse(name, "", f"longer than the {LARGEST_TEXT:,} characters accepted")
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise refuse(name, "", f"more than the {MOST_LINES:,} lines accepted")
    reader = Reader()
    for number, line in enumerate(lines, start=1):
        reader.read(number, line)
    runs = reader.runs(wall_seconds)
    blocks = [block for block in reader.blocks if block.scopes]
    own = [block for block in blocks if block.rank in OWN_RANKS]
    if not own:
        ranks = sorted({block.rank for block in blocks if block.rank is not None})
        what = (
            f"blocks of rank {ranks[0]} only; expected rank 0" if ranks else "no scope with a time"
        )
        raise refuse(name, "", what)
    timed = tuple(_timed(run, own, rows, tp) for run in runs)
    seen: dict[int, int] = {}
    for run in timed:
        first = seen.setdefault(run.rows, run.first_line)
        if first != run.first_line:
            places = f"the blocks on line {first} and line {run.first_line}"
            raise refuse("rows", run.rows, f"{places} are both of these rows; expected one of them")
    measurements = tuple(row for run in timed for row in _rows(run, name))
    return ProfileText(measurements, timed, len(own), tuple(_notes(timed, own, len(blocks))))


def _timed(run: Run, blocks: Sequence[Block], rows: int | None, tp: int | None) -> Timed:
    """Return the block whose stack matches a wall."""
    low, high = run.wall * (1 - BELOW_WALL), run.wall * (1 + ABOVE_WALL)
    stacks = [(block, stack) for block in blocks if (stack := _stack(block.scopes)) is not None]
    fitting = [block for block, stack in stacks if low <= stack <= high]
    wall = f"{run.wall:g} s" + (f" (line {run.line})" if run.line else "")
    if not fitting:
        spans = max((sum(block.scopes.values()) for block in blocks), default=0.0)
        if not stacks and spans > run.wall:
            raise refuse("wall", wall, f"no STACK.r, and scopes of {spans:g} s: {NESTED}")
        found = ", ".join(
            f"{stack:g} s on line {block.line}" for block, stack in stacks[:MOST_LISTED]
        )
        accepted = (
            f"no block has a stack between {100 * (1 - BELOW_WALL):.0f} % and 100 % of it; "
            + (f"stacks found: {found}" if found else "expected a scope STACK.r")
        )
        raise refuse("wall", wall, accepted)
    if len(fitting) > 1:
        places = " and ".join(f"line {block.line}" for block in fitting)
        raise refuse("wall", wall, f"the blocks on {places} both match; expected one of them only")
    block = fitting[0]
    timed = Timed(run.wall, _rows_of(run, rows), _tp_of(run, tp), block.line, block.scopes)
    listed = sum(seconds for phase, seconds in timed.phases.items() if phase in PHASES)
    stack = timed.phases[STACK]
    if listed > stack * (1 + ROUNDING):
        accepted = f"its scopes add up to {listed:g} s, above the stack's {stack:g} s: {NESTED}"
        raise refuse(f"line {block.line}", "", accepted)
    return timed


def _rows_of(run: Run, given: int | None) -> int:
    """Return the rows of a run: as the text or the caller says, or tokens a second times wall."""
    by_rate = run.facts["rate"] * run.wall if "rate" in run.facts else None
    said = run.facts.get("rows", given)
    if said is None and by_rate is None:
        accepted = "not in the text; expected prompt_tokens= or tokens a second beside the wall"
        raise refuse("rows", "", f"{accepted}, or give them")
    rows = round(by_rate or 0.0) if said is None else int(said)
    place = f"line {run.line}" if run.line else "rows"
    if by_rate is not None and abs(by_rate / rows - 1) > RATE_ROUNDING:
        raise refuse(place, rows, f"tokens a second times the wall give {by_rate:.0f} rows")
    if given is not None and rows != given:
        raise refuse(place, rows, f"rows were given as {given}")
    return rows


def _tp_of(run: Run, given: int | None) -> int:
    said = run.facts.get("tp")
    if said is not None and given is not None and int(said) != given:
        raise refuse(f"line {run.line}", int(said), f"TP was given as {given}")
    return int(said or given or 4)


def _stack(scopes: Mapping[str, float]) -> float | None:
    found = [seconds for scope, seconds in scopes.items() if scope.lower() in STACK_SCOPES]
    return found[0] if found else None


def _phase_seconds(scopes: Mapping[str, float], phase: str) -> float | None:
    if phase in scopes:
        return scopes[phase]
    parts = PARTS.get(phase, ())
    return sum(scopes[part] for part in parts) if parts and set(parts) <= set(scopes) else None


def _rows(timed: Timed, name: str) -> Iterator[Measurement]:
    for phase, seconds in timed.phases.items():
        conditions = {
            "tp": str(timed.tp),
            "rows": str(timed.rows),
            "slices": "1",
            "phase": phase,
            "device_synced": "yes",
        }
        source = f"device-synced profile, block on line {timed.first_line} of {name}"
        row_id = f"profile-{timed.rows}-{phase}"
        yield Measurement(
            row_id, CHIP, MODEL, "phase_time", conditions, seconds, "s", source, f"{name}.csv"
        )


def _notes(timed: Iterable[Timed], blocks: Sequence[Block], every: int) -> Iterator[str]:
    lines = {run.first_line for run in timed}
    left = [block for block in blocks if block.line not in lines]
    if left:
        places = ", ".join(str(block.line) for block in left[:MOST_LISTED])
        yield f"blocks that match no wall, left out: on line {places}"
    if every > len(blocks):
        yield f"blocks of other ranks, left out: {every - len(blocks)}"
    unknown = dict.fromkeys(scope for run in timed for scope in run.unknown)
    if unknown:
        names = ", ".join(list(unknown)[:MOST_LISTED])
        yield f"scopes that the models do not have as a phase, left out: {names}"
