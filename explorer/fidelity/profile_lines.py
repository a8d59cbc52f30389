"""One line of a pasted profile: the scope and its seconds, or what else it says.

Spaces, units, colons, equal signs and tables are all read; a line with a number that could be
read in two ways is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from explorer.chips.ascend910a_synced import PHASES as LISTED_PHASES
from explorer.config.errors import InputError, refuse

SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "usec", "µs", "μs", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
}
"""Units of time, and keys that name one."""
TIME_KEYS = {**SECONDS, **dict.fromkeys(("time", "total", "elapsed", "duration"), None)}
"""Keys of the time of a scope, and the unit that they stand for, if any."""
BESIDE = "calls call count n x layers share pct percent mean avg average min max"
COUNT_KEYS = frozenset(BESIDE.split())
"""Keys of numbers beside the time of a scope, which say nothing here."""
NUMBER_KEYS = COUNT_KEYS | TIME_KEYS.keys()
WALL_KEYS = frozenset(("wall", "prefill_seconds", "wall_seconds", "prefill_wall", "prefill_time"))
ROWS_KEYS = frozenset(("rows", "prompt_tokens", "prefill_tokens", "tokens", "prompt"))
RATE_KEYS = frozenset(("prefill_tokens_per_s", "prefill_tps", "tokens_per_s", "tps"))
TP_KEYS = frozenset(("tp", "tp_world", "tp-world", "world", "world_size"))
SLICES_KEYS = frozenset(("slices", "comm_overlap_slices", "qwen_comm_overlap_slices"))
BESIDE_A_RUN = frozenset(("decode_seconds", "decode_tokens_per_s", "decode_tps"))
KNOWN_SCOPES = frozenset(("stack", "stack.r", *LISTED_PHASES))
FACT_KEYS = {"wall": WALL_KEYS, "rows": ROWS_KEYS, "rate": RATE_KEYS, "tp": TP_KEYS}
SCOPE_KEYS = frozenset(("scope", "name", "phase"))
LONGEST_LINE = 1_000

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
TOKEN = re.compile(
    r"(?P<word>--)?(?P<name>[A-Za-z_µμ][\w.\-/]*)"
    rf"|(?P<number>{NUMBER})(?P<suffix>%|[A-Za-zµμ]+)?"
    r"|(?P<sign>[=:+%])"
)
PARENTHESES = re.compile(r"\([^()]*\)")
DECIMAL_COMMA = re.compile(r"[0-9],[0-9]")
COMMAND = re.compile(r"^(?:[$>#]|QWEN_|HCCL_|\./|bash |python|--)")
SETTING = re.compile(r"QWEN_([A-Z_]+)\s*=\s*([0-9]+)")
RANK = re.compile(r"\brank\s*[=:]?\s*([0-9]+)|^\[(?:rank)?([0-9]+)\]:", re.IGNORECASE)
TAG = re.compile(r"\btag\s*[=:]\s*([\w.\-]+)")
RULE = re.compile(r"^[\s|+\-=─━│:.*_]*$")


class Scope(NamedTuple):
    """One scope and its seconds, several in a table of several lengths.

    ``attn_resid_norm + add + norm`` names the scopes that it sums up as its parts.
    """

    name: str
    parts: tuple[str, ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True)
class Line:
    """What one line says.

    Attributes:
        number: of the line, from 1.
        blank: whether it holds nothing but space or a rule.
        rule: whether it is a rule, as tables have below their head.
        tag: of the block, where it is named.
        rank: of the process, where it is named.
        scopes: with their times, usually one.
        facts: numbers of the run: wall [s], rows, rate [tokens/s], tp.
        settings: environment variables of the engine, without ``QWEN_``.
    """

    number: int
    blank: bool = False
    rule: bool = False
    tag: str = ""
    rank: int | None = None
    scopes: tuple[Scope, ...] = ()
    facts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    settings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Item:
    """A number of a line, the key before it and the unit after it."""

    key: str
    value: float
    text: str
    unit: str = ""

    @property
    def is_plain_count(self) -> bool:
        return not self.unit and not self.key and self.text.isdigit()


def read_line(number: int, text: str, columns: int = 1) -> Line:
    """Return what a line of a profile says.

    Args:
        number: of the line, for messages.
        text: the line.
        columns: values of every scope, more than 1 in a table of several lengths.

    Raises:
        InputError: names the line, when it holds a number that is no clear time.
    """
    place = f"line {number}"
    if len(text) > LONGEST_LINE:
        raise refuse(place, "", f"longer than {LONGEST_LINE} characters")
    if RULE.match(text):
        return Line(number, blank=True, rule=bool(text.strip()))
    settings = {name: int(value) for name, value in SETTING.findall(text)}
    if COMMAND.match(text.strip()):
        return Line(number, settings=settings)
    found = RANK.search(text)
    rank = None if found is None else int(found[1] or found[2])
    tag = TAG.search(text)
    rest = TAG.sub(" ", RANK.sub(" ", SETTING.sub(" ", text)))
    rest = PARENTHESES.sub(" ", rest)
    if DECIMAL_COMMA.search(rest):
        raise refuse(place, text.strip(), "a comma within a number; expected a decimal point")
    try:
        words, items, named = _items(rest)
        facts = _facts(words, items)
        scopes = tuple(_scopes(words, items, named, columns, bool(facts)))
    except InputError as error:
        raise refuse(place, text.strip(), error.problems[0].accepted) from None
    named_tag = tag[1] if tag else ""
    return Line(number, False, False, named_tag, rank, scopes, facts, settings)


def _items(text: str) -> tuple[list[str], list[_Item], str]:
    """Return the words before the first number, the numbers, and a scope named by a key."""
    tokens = list(TOKEN.finditer(text))
    words: list[str] = []
    items: list[_Item] = []
    named, key, index = "", "", 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token["number"]:
            items.append(_number(token, key))
            key = ""
        elif token["sign"] == "%" and items:
            items[-1] = _Item("percent", items[-1].value, items[-1].text, "%")
        elif token["sign"] == "+" and not items:
            words.append("+")
        elif token["name"]:
            name, following = token["name"], tokens[index : index + 2]
            keyed = bool(following) and following[0]["sign"] in ("=", ":")
            if keyed and len(following) > 1 and following[1]["name"]:
                named = _word_value(name, following[1]["name"]) or named
                index += 2
            elif keyed:
                key, index = name, index + 1
                words += [name] if not items else []
            elif items and not items[-1].unit and name.lower() in SECONDS:
                items[-1] = _Item(items[-1].key, items[-1].value, items[-1].text, name.lower())
            elif items and items[-1].is_plain_count and tokens[index - 2]["number"]:
                if _is_number(following) and following[0]["number"].isdigit():
                    raise refuse("", "", f"{name} may belong to either number; expected {name}=")
                items.pop()  # A number of things: "384 GEMMs".
            elif words and name.lower() in NUMBER_KEYS and _is_number(following):
                key = name
            elif not items:
                words.append(name)
    return words, items, named


def _word_value(key: str, word: str) -> str:
    """Return the scope that ``key=word`` names; raises InputError for a time that is no number."""
    if key.lower() in TIME_KEYS or key.lower() in WALL_KEYS:
        raise refuse("", "", f"{key} is no number; expected a time above 0")
    return word if key.lower() in SCOPE_KEYS else ""


def _is_number(tokens: Sequence[re.Match[str]]) -> bool:
    return bool(tokens) and tokens[0]["number"] is not None


def _number(token: re.Match[str], key: str) -> _Item:
    text, suffix = token["number"], (token["suffix"] or "").lower()
    if suffix not in ("", "%", "x", *SECONDS):
        raise refuse("", "", f"{text}{suffix} has no unit of time; expected s, ms, us or ns")
    value = float(text)
    return _Item("calls" if suffix == "x" else key, value, text, suffix if suffix != "x" else "")


def _facts(words: Sequence[str], items: Sequence[_Item]) -> dict[str, tuple[float, ...]]:
    """Return numbers of the run: each by its key, or all of a line by its first words."""
    facts: dict[str, tuple[float, ...]] = {}
    label = "_".join(words[:2]).lower()
    for name, keys in FACT_KEYS.items():
        keyed = [item for item in items if item.key.lower() in keys]
        first = words[0].lower() if words else ""
        if not keyed and items and (first in keys or label in keys):
            keyed = [item for item in items if item.unit != "%"]
        if keyed:
            facts[name] = tuple(_fact(name, item) for item in keyed)
    return facts


def _fact(name: str, item: _Item) -> float:
    value = item.value * (SECONDS[item.unit] if name == "wall" and item.unit else 1.0)
    whole = name in ("rows", "tp")
    if not (math.isfinite(value) and value > 0) or (whole and not value.is_integer()):
        raise refuse(
            "", "", f"expected {name} as {'a whole number' if whole else 'a number'} above 0"
        )
    return value


def _scopes(
    words: Sequence[str], items: Sequence[_Item], named: str, columns: int, has_facts: bool
) -> Iterator[Scope]:
    """Yield the scopes of a line with their times; raises InputError where they are not clear."""
    if has_facts or all(item.key.lower() in BESIDE_A_RUN for item in items):
        # Beside the numbers of a run only what is known by name is a scope.
        for item in items:
            if item.key.lower() in KNOWN_SCOPES:
                yield Scope(item.key, (), _checked([item]))
        return
    several = [item for item in items if item.key and item.key.lower() not in NUMBER_KEYS]
    if len(several) > 1 and len(several) == len(items) and not named:
        for item in several:
            yield Scope(item.key, (), _checked([item]))
        return
    first = [] if words and words[0].lower() in SECONDS else words[:1]
    more = [word for word in words[1:] if word.lower() not in TIME_KEYS]
    label = [named] if named else [*first, *more]
    if not label:
        raise refuse("", "", "holds a number without a scope; expected a scope and its time")
    parts = tuple(_parts(label))
    times = _checked(_times(items, label, columns))
    yield Scope(parts[0], parts if len(parts) > 1 else (), times)


def _parts(label: Sequence[str]) -> Iterator[str]:
    """Yield the scopes of ``attn_resid_norm + add + norm``; further words only describe one."""
    yield label[0]
    for before, word in pairwise(label):
        if before == "+" and word != "+":
            yield word


def _times(items: Sequence[_Item], label: Sequence[str], columns: int) -> list[_Item]:
    """Return the times of a scope; raises InputError where it is not clear which they are."""
    own = {word.lower() for word in label}
    known = [item for item in items if item.unit != "%" and item.key.lower() not in COUNT_KEYS]
    keyed = [item for item in known if item.key.lower() in TIME_KEYS]
    chosen = keyed or [item for item in known if not item.key or item.key.lower() in own]
    if len(chosen) > columns:
        united = [item for item in chosen if item.unit]
        chosen = united or [item for item in chosen if not item.is_plain_count]
    if len(chosen) != columns:
        numbers = ", ".join(item.text for item in items)
        what = "one time" if columns == 1 else f"{columns} times"
        raise refuse("", "", f"expected {what} (such as seconds=0.5493), found {numbers}")
    return chosen


def _checked(items: Sequence[_Item]) -> tuple[float, ...]:
    """Return times in seconds; raises InputError for one that is not 0 or above."""
    times = []
    for item in items:
        factor = SECONDS.get(item.unit) or TIME_KEYS.get(item.key.lower()) or 1.0
        if not (math.isfinite(item.value) and item.value >= 0):
            raise refuse("", "", "expected a time of 0 or above")
        times.append(item.value * factor)
    return tuple(times)
