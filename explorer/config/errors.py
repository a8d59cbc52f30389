"""The one error that bad input raises: it names the field, the value and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

LONGEST_SHOWN_VALUE = 60


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    Attributes:
        field: dotted path of the field, such as ``plan.tp_decode``; ``""`` for a whole document.
        value: the offending value as text, shortened for display.
        accepted: what would be accepted, as the end of a sentence.
    """

    field: str
    value: str
    accepted: str

    def sentence(self) -> str:
        """Return the problem as one sentence without line breaks."""
        subject = self.field or "input"
        value = f" = {self.value}" if self.value else ""
        return printable(f"{subject}{value}: {self.accepted}")


class InputError(ValueError):
    """Input that cannot be used; carries every problem found, in order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems and make them the message."""
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.sentence() for problem in self.problems))


def printable(text: str) -> str:
    """Return ``text`` on one line, with a question mark for what a terminal might act on."""
    return "".join(character if character.isprintable() else "?" for character in text)


def shown(value: object) -> str:
    """Return ``value`` as short printable text, fit for one line of a message."""
    if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0:
        value = value.item()
    try:
        text = value if isinstance(value, str) else repr(value)
    except (RecursionError, ValueError):
        text = f"a {type(value).__name__} too large to show"
    text = printable(text)
    if len(text) <= LONGEST_SHOWN_VALUE:
        return text
    return text[: LONGEST_SHOWN_VALUE - 3] + "..."


def refuse(field: str, value: object, accepted: str) -> InputError:
    """Return the error for a single problem, to be raised by the caller."""
    return InputError([Problem(field, shown(value), accepted)])
