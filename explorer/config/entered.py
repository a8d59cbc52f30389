"""Values as a person writes them, after the controls: ``60 GB/s``, ``3,000``, ``INT8``.

Links have one strict form; this turns what is typed into it, and their refusals into the words of
the controls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from explorer.config.errors import Problem, shown
from explorer.config.links import NOT_SET, UNBOUNDED, split_assignments
from explorer.config.numbers import number_text
from explorer.config.quantity import Knob
from explorer.config.scenario import OPTIONAL_PATHS, WORD_FIELDS, Scenario, knob_at, paths_of
from explorer.config.units import SCALED_UNITS, human, unit_sizes

NUMBER = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,12}|[0-9]{1,40})?(?:\.[0-9]{0,40})?"
    r"(?:[eE][+-]?[0-9]{1,3})?)\s*(?P<unit>[^0-9\s.,+-].*)?"
)
CASE_MATTERS = ("s", *SCALED_UNITS)
"""Units whose names differ in case alone: Gb/s is not GB/s."""
Words = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Entered:
    """What was typed, by path.

    Attributes:
        typed: as typed.
        texts: as a link writes it, where it can be used.
        problems: what is wrong with the rest.
    """

    typed: Mapping[str, str]
    texts: Mapping[str, str]
    problems: tuple[Problem, ...]


def read_entered(
    scenario: Scenario, text: str, labels: Mapping[str, str], words: Words, marks: Iterable[str]
) -> Entered:
    """Return the values of ``name = value & name = value`` as a link writes them, by path.

    Args:
        scenario: whose controls are meant.
        text: as typed; a name is a control's label in any case, or its path.
        labels: labels of the choices between words, by path.
        words: what each word of a choice is shown as, by path and word.
        marks: what the label of a control may end in beside its name, such as `` (assumed)``.

    Raises:
        InputError: when a part has no ``=`` or a path is given twice.
    """
    paths = _paths(scenario, labels, tuple(marks))
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    assignments = (_with_path(paths, part) for part in text.split("&"))
    typed = split_assignments(assignments)
    for path, value in typed.items():
        knob = knob_at(scenario, path)
        if path in WORD_FIELDS:
            written = _word(path, value, words.get(path, {}))
        elif knob is not None:
            written = _value(knob, value)
        else:
            written = value
        if isinstance(written, Problem):
            problems.append(in_words_of_controls(scenario, written, labels, typed))
        else:
            texts[path] = written
    return Entered(typed, texts, tuple(problems))


def in_words_of_controls(
    scenario: Scenario, problem: Problem, labels: Mapping[str, str], typed: Mapping[str, str]
) -> Problem:
    """Return a problem with the label, the unit and the range that a control shows.

    Args:
        scenario: whose controls are meant.
        problem: as ``links`` or the scenario states it.
        labels: labels of the choices between words, by path.
        typed: what was typed, by path.
    """
    path = problem.field
    value = shown(typed[path]) if path in typed else problem.value
    knob = knob_at(scenario, path)
    if knob is None:
        return Problem(labels.get(path, path), value, problem.accepted)
    accepted = problem.accepted.replace(knob.accepted(), accepted_as_shown(knob))
    return Problem(knob.label, value, accepted)


def accepted_as_shown(knob: Knob) -> str:
    """Return the accepted values as the end of a sentence, in the units that sliders show."""
    low, high = (human(float(bound), knob.shown_unit) for bound in (knob.minimum, knob.maximum))
    kind = "a whole number" if knob.whole else "a number"
    words = "".join(f' or "{word}"' for word in knob.words)
    none = f' or "{UNBOUNDED}"' if knob.path in OPTIONAL_PATHS else ""
    return f"expected {kind} from {low} to {high}{words}{none}{_alone(knob)}"


def _alone(knob: Knob) -> str:
    """Return what a number without a unit means, where it could mean something else."""
    if knob.unit == "fraction":
        return " (a number without a unit is a fraction: 0.5 is 50 %)"
    return f" (a number without a unit is in {knob.unit})" if knob.unit in CASE_MATTERS else ""


def _paths(scenario: Scenario, labels: Mapping[str, str], marks: tuple[str, ...]) -> dict[str, str]:
    """Return the paths of all controls by what their names have in common in any case."""
    found: dict[str, str] = {}
    for path in paths_of(scenario):
        knob = knob_at(scenario, path)
        label = labels.get(path, "") if knob is None else knob.label
        for name in (label, *(f"{label}{mark}" for mark in marks)):
            if label:
                found.setdefault(name.casefold(), path)
    return found


def _with_path(paths: Mapping[str, str], assignment: str) -> str:
    """Return ``name=value`` with the path of the control that has this name, if there is one."""
    name, equals, value = (part.strip() for part in assignment.partition("="))
    return f"{paths.get(name.casefold(), name)}{equals}{value}"


def _word(path: str, text: str, words: Mapping[str, str]) -> str | Problem:
    """Return the word that a text names, by itself or as it is shown, in any case."""
    named = {
        word: (word.casefold(), words.get(word, word).casefold()) for word in WORD_FIELDS[path]
    }
    for word, names in named.items():
        if text.casefold() in names:
            return word
    expected = " or ".join(words.get(word, word) for word in named)
    return Problem(path, shown(text), f"expected {expected}")


def _value(knob: Knob, text: str) -> str | Problem:
    """Return a number or word of a knob as a link writes it, or what is wrong with it."""
    for word in (*knob.words, UNBOUNDED, NOT_SET):
        if text.casefold() == word.casefold():
            return word
    found = NUMBER.fullmatch(text)
    if found is None or not any(sign.isdigit() for sign in found["number"]):
        return Problem(knob.path, shown(text), knob.accepted())
    number = found["number"].replace(",", "")
    if found["unit"] is None:
        return number
    size = _size(knob.unit, found["unit"].strip())
    if size is None:
        foreign = shown(found["unit"].strip())
        return Problem(knob.path, shown(text), f"{foreign} is no unit of it; {knob.accepted()}")
    value = Decimal(number) * size
    if not knob.whole:
        return number_text(float(value))
    # A multiple as shown, 1.33 KiB, need not be whole; tokens and clusters must be.
    if size == 1 and value != value.to_integral_value():
        return Problem(knob.path, shown(text), knob.accepted())
    return str(int(value.to_integral_value()))


def _size(unit: str, written: str) -> Decimal | None:
    """Return the size of a unit as written, or None where it does not belong to ``unit``."""
    sizes = unit_sizes(unit)
    if written in sizes or unit in CASE_MATTERS:
        return sizes.get(written)
    return {name.casefold(): size for name, size in sizes.items()}.get(written.casefold())
