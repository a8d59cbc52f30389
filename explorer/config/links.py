"""Share links: a preset with its version and only what differs from it, readable and editable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from explorer.config.chip import Chip
from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.migrations import migrated
from explorer.config.model import ModelDocument
from explorer.config.numbers import plain_number
from explorer.config.presets import load_scenario_preset, preset_path, scenario_presets
from explorer.config.scenario import (
    OPTIONAL_PATHS,
    TEXT_PATHS,
    WORD_FIELDS,
    Scenario,
    knob_at,
    parse_scenario,
    paths_of,
    unknown_field,
)

DEFAULT_PRESET = "mt3000-llama2-13b"
"""What opens when nothing says otherwise."""

LONGEST_LINK = 4000
MOST_PARAMETERS = 400
HEAD_PATHS = ("chip", "model", "name")
UNBOUNDED = "none"
NOT_SET = "default"
"""What a link states of a hardware number that its preset sets and the scenario does not."""
SCHEMA, FAMILY, FIRST = "schema", "explorer.link", "explorer.link/1"
"""Parameter that a link of a later version will carry; without it a link is of the first."""
OWN_DOCUMENT = "own-document"
"""Marks an address whose scenario holds a document that no link can carry."""


@dataclass(frozen=True)
class Opened:
    """What a link gave: the scenario, the preset it starts from, and what could not be used."""

    scenario: Scenario
    preset: str
    problems: tuple[Problem, ...]

    @property
    def meaningless(self) -> bool:
        """Whether what the link starts from is not known, so that nothing of it can be meant."""
        return any(
            problem.field == "preset"
            or (problem.field == SCHEMA and problem.value.startswith(FAMILY))
            for problem in self.problems
        )


@lru_cache(maxsize=64)
def preset_scenario(reference: str) -> Scenario:
    """Return the scenario of a preset; raises InputError when there is none."""
    return parse_scenario(load_scenario_preset(reference).scenario)


def pinned_reference(reference: str) -> str:
    """Return ``id@version`` for an id with or without version; raises InputError."""
    return preset_path("scenarios", reference).name.removesuffix(".json")


def link_query(scenario: Scenario, reference: str) -> str:
    """Return the query of a share link, from ``preset=`` on.

    Args:
        scenario: a scenario without arrays.
        reference: preset to state differences from, ``id`` or ``id@version``.

    Raises:
        InputError: when the chip or model is a document of its own, or when the link would be
            longer than browsers and chat tools keep; the exported file holds any scenario.
    """
    pinned = pinned_reference(reference)
    base = preset_scenario(pinned)
    for field in ("chip", "model"):
        if isinstance(getattr(scenario, field), Chip | ModelDocument):
            raise refuse(field, "", "a document of its own fits in no link; use the file")
    pairs = [("preset", pinned), *_differences(base, scenario)]
    query = urlencode(pairs, quote_via=quote, safe="@.-:")
    if len(query) > LONGEST_LINK:
        raise refuse("link", "", f"longer than {LONGEST_LINK} characters; use the file instead")
    return query


def nearest_preset(scenario: Scenario) -> str:
    """Return the preset that a link should start from: the one with the shortest link."""
    same = [
        preset
        for preset in scenario_presets()
        if (preset.scenario["chip"], preset.scenario["model"]) == (scenario.chip, scenario.model)
    ]
    candidates = same or list(scenario_presets())
    return min(candidates, key=lambda preset: len(link_query(scenario, preset.id))).id


def open_link(link: str, default: str) -> Opened:
    """Return what a link means: everything valid is used, the rest is explained.

    Args:
        link: a URL, or its query with or without the question mark.
        default: preset to start from when the link names none that exists.

    Raises:
        InputError: when the link is not readable text at all.
    """
    if len(link) > 16 * LONGEST_LINK:
        raise refuse("link", "", f"longer than the {16 * LONGEST_LINK} characters accepted")
    try:
        query = urlsplit(link).query if "?" in link or "://" in link else link
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError as error:
        raise refuse("link", link, f"cannot be read: {error}") from None
    known = ("preset", SCHEMA, *HEAD_PATHS)
    if not any("." in key or key in known for key, _ in pairs):
        raise refuse("link", link, "nothing in it can be used; expected ?preset=ID&path=value")
    return open_pairs(pairs, default)


def open_pairs(pairs: Iterable[tuple[str, str]], default: str) -> Opened:
    """Return what the parameters of a link mean; see ``open_link``."""
    problems: list[Problem] = []
    values: dict[str, str] = {}
    for key, value in pairs:
        if "\ufffd" in key + value:
            problems.append(Problem(shown(key), shown(value), "not UTF-8 text; not used"))
        elif key == OWN_DOCUMENT:
            accepted = "its chip or model is in no link; open the exported file instead"
            problems.append(Problem(key, "", accepted))
        elif key in values:
            problems.append(Problem(shown(key), shown(value), "given twice; the first is used"))
        else:
            values[key] = value
    try:
        values = migrated({SCHEMA: FIRST, **values}, FAMILY)
    except InputError as error:
        problems += error.problems
        if values[SCHEMA].startswith(FAMILY):
            # Its other parameters may mean something else by now.
            values = {}
    values.pop(SCHEMA, None)
    reference = values.pop("preset", default)
    try:
        reference = pinned_reference(reference)
    except InputError as error:
        problems.append(Problem("preset", *_parts(error, default)))
        reference = pinned_reference(default)
    scenario, refused = apply_texts(preset_scenario(reference), values)
    return Opened(scenario, reference, (*problems, *refused))


def apply_texts(
    scenario: Scenario, values: Mapping[str, str]
) -> tuple[Scenario, tuple[Problem, ...]]:
    """Return the scenario with all values applied, or with the valid ones and the problems."""
    # What is unset first, then the heads: a new chip may lack a number that was set on the old.
    unset = {path for path, text in values.items() if _unsets(path, text)}
    ordered = sorted(values, key=lambda path: (path not in unset, path not in HEAD_PATHS))
    try:
        # All at once first: a new model may only accept the plan that comes with it.
        head = {path: values[path] for path in ordered if path in HEAD_PATHS}
        typed_for = scenario.unchecked({**dict.fromkeys(unset), **head})
        changes = {path: _parsed(typed_for, path, values[path]) for path in ordered}
        return scenario.replacing(changes), ()
    except InputError:
        problems: list[Problem] = []
    for path in ordered:
        try:
            scenario = scenario.replacing({path: _parsed(scenario, path, values[path])})
        except InputError as error:
            problems += error.problems
    return scenario, tuple(problems)


def split_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Return texts by path of ``path=value`` assignments, as a link or a shell writes them.

    Raises:
        InputError: when one has no ``=`` or a path is given twice.
    """
    texts: dict[str, str] = {}
    for assignment in assignments:
        path, separator, value = assignment.partition("=")
        if not separator:
            raise refuse(shown(assignment), "", "expected path=value, such as plan.tp_decode=4")
        if path.strip() in texts:
            raise refuse(shown(path.strip()), shown(value), "given twice; expected once")
        texts[path.strip()] = value.strip()
    return texts


def _parts(error: InputError, default: str) -> tuple[str, str]:
    first = error.problems[0]
    return first.value, f"{first.accepted}; the app opens {default} instead"


def _parsed(scenario: Scenario, path: str, text: str) -> object:
    """Return the text as the type of its field, so that 24 stays 24 and 2.50 is 2.5."""
    if path in HEAD_PATHS or path in WORD_FIELDS:
        return text
    if path in TEXT_PATHS:
        return None if text == UNBOUNDED else text
    if _unsets(path, text):
        return None
    knob = knob_at(scenario, path)
    if knob is None:
        raise unknown_field(scenario, path)
    if text in knob.words:
        return text
    if text == UNBOUNDED and path in OPTIONAL_PATHS:
        return None
    try:
        return plain_number(text, knob.whole)
    except ValueError:
        raise refuse(path, text, knob.accepted()) from None


def _unsets(path: str, text: str) -> bool:
    return text == NOT_SET and path.startswith("hardware.")


def _differences(base: Scenario, scenario: Scenario) -> list[tuple[str, str]]:
    # Numbers set on the preset's chip are among them, whether or not this chip has them.
    paths = (*paths_of(scenario), *(f"hardware.{name}" for name in base.hardware))
    return [
        (path, _text(path, _stated(scenario, path)))
        for path in dict.fromkeys(paths)
        if _stated(scenario, path) != _stated(base, path)
    ]


def _stated(scenario: Scenario, path: str) -> object:
    """Return what a link would state; None for a hardware number that is the chip's own."""
    if path in HEAD_PATHS:
        return _head(scenario, path)
    if path.startswith("hardware."):
        return scenario.hardware.get(path.partition(".")[2])
    return scenario.value(path)


def _head(scenario: Scenario, path: str) -> str:
    value = str(getattr(scenario, path))
    return value if path == "name" else f"{value}@{getattr(scenario.versions, path)}"


def _text(path: str, value: object) -> str:
    if value is None:
        return NOT_SET if path.startswith("hardware.") else UNBOUNDED
    return repr(value) if isinstance(value, float) else str(value)
