"""A budget across a machine's numbers: ``2 * hardware.gsm_bytes + hardware.memory_bytes <= 4``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.quantity import Quantity

BUDGET = "limits.budget"
FORM = "expected weight * hardware.NAME + ... <= limit"
MOST_TERMS = 32
LONGEST = 2000
NUMBER = r"[0-9]{1,15}(?:\.[0-9]{0,15})?(?:[eE][+-]?[0-9]{1,2})?"
TERM = re.compile(rf"(?:({NUMBER})\s*\*\s*)?(hardware\.[a-z0-9_]+)", re.ASCII)
LIMIT = re.compile(NUMBER, re.ASCII)


@dataclass(frozen=True)
class Term:
    """What a number costs: ``weight`` at the chip's own value, in proportion to it elsewhere."""

    weight: float
    name: str


@dataclass(frozen=True)
class Budget:
    """Sum of weight x (value / the chip's own value) over the terms, at most ``limit``."""

    terms: tuple[Term, ...]
    limit: float


@lru_cache(maxsize=256)
def parse_budget(text: str) -> Budget:
    """Return the budget that a text states.

    A term without a weight has weight 1. Spaces mean nothing.

    Raises:
        InputError: for anything but terms joined by ``+``, ``<=`` and a limit; for a number named
            twice; for weights or a limit that are not above 0 and finite.
    """
    if len(text) > LONGEST or not text.isascii():
        raise refuse(BUDGET, text, FORM)
    left, sign, right = text.partition("<=")
    if not sign or not LIMIT.fullmatch(right.strip()):
        raise refuse(BUDGET, text, f"{FORM}, the limit a number above 0")
    terms = tuple(_term(text, part.strip()) for part in left.split("+"))
    names = [term.name for term in terms]
    if len(terms) > MOST_TERMS:
        raise refuse(BUDGET, text, f"expected at most {MOST_TERMS} terms")
    for name in names:
        if names.count(name) > 1:
            raise refuse(BUDGET, text, f"hardware.{name} stands twice; expected once")
    return Budget(terms, _positive(text, right.strip()))


def check_budget(text: str, quantities: Mapping[str, Quantity]) -> None:
    """Raise InputError where a text is no budget of the chip that has these quantities."""
    for term in parse_budget(text).terms:
        if term.name not in quantities:
            raise refuse(BUDGET, f"hardware.{term.name}", "this chip has no such number")
        if not quantities[term.name].value > 0:
            accepted = "the chip's own value is 0, so that nothing can be a multiple of it"
            raise refuse(BUDGET, f"hardware.{term.name}", accepted)


def budget_problem(text: object, quantities: Mapping[str, Quantity]) -> Problem | None:
    """Return what is wrong with a budget as it stands in a scenario; None is no budget."""
    if text is None:
        return None
    if not isinstance(text, str):
        return Problem(BUDGET, shown(text), f'{FORM}, or "none"')
    try:
        check_budget(text, quantities)
    except InputError as error:
        return error.problems[0]
    return None


def _term(text: str, part: str) -> Term:
    match = TERM.fullmatch(part)
    if match is None:
        raise refuse(BUDGET, part or text, f"is no term; {FORM}")
    weight, path = match.groups()
    name = path.partition(".")[2]
    return Term(1.0 if weight is None else _positive(text, weight), name)


def _positive(text: str, number: str) -> float:
    value = float(number)
    if not 0 < value < math.inf:
        raise refuse(BUDGET, text, f"{FORM}, every number above 0")
    return value
