"""Fields of a stranger's config.json: typed, each remembered as read, each refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.model import LARGEST_SIZE, ModelQuantity
from explorer.config.quantity import Kind

SOURCE = "config: "
WHOLE = f"expected a whole number from {{least}} to {LARGEST_SIZE}"


@dataclass(frozen=True)
class Number:
    """A size, and where it comes from."""

    value: int
    source: str
    kind: Kind = "published"
    note: str = ""

    @property
    def key(self) -> str:
        """Field of the config that the size stands in."""
        return self.source.removeprefix(SOURCE)

    def quantity(self, unit: str) -> ModelQuantity:
        """Return the size as a number of a model document."""
        return ModelQuantity(
            value=self.value, unit=unit, source=self.source, kind=self.kind, note=self.note
        )


@dataclass
class Fields:
    """Values of one JSON object by key; null counts as absent.

    Attributes:
        values: of the object that describes the language model.
        outer: of the object around it; the same where there is none.
        read: keys that something asked for.
    """

    values: Mapping[str, Any]
    outer: Mapping[str, Any]
    read: set[str] = field(default_factory=set)

    def raw(self, key: str) -> Any:
        """Return what stands at a key, of the language model or else around it, or None."""
        self.read.add(key)
        value = self.values.get(key)
        return self.outer.get(key) if value is None else value

    def find(self, *keys: str, least: int = 1) -> Number | None:
        """Return the whole number at the first key that has one; raises InputError for others."""
        for key in keys:
            self.read.add(key)
            value = self.values.get(key)
            if value is None:
                continue
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= LARGEST_SIZE:
                raise refuse(key, in_json(value), WHOLE.format(least=least))
            return Number(value, f"{SOURCE}{key}")
        return None

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false; raises InputError for anything else."""
        value = self.raw(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise refuse(key, in_json(value), "expected true or false")
        return value

    def text(self, key: str) -> str:
        """Return a text, empty where there is none; raises InputError for anything else."""
        value = self.raw(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise refuse(key, value, "expected a text")
        return value

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts, None where there is none; raises InputError otherwise."""
        items = self._listed(key, "texts")
        if items is not None and not all(isinstance(item, str) for item in items):
            raise refuse(key, items, "expected a list of texts")
        return items

    def indices(self, key: str) -> tuple[int, ...] | None:
        """Return a list of whole numbers, None where there is none; raises InputError otherwise."""
        items = self._listed(key, "whole numbers")
        if items is not None and not all(type(item) is int for item in items):
            raise refuse(key, items, "expected a list of whole numbers")
        return items

    def _listed(self, key: str, what: str) -> tuple[Any, ...] | None:
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise refuse(key, value, f"expected a list of {what}")
        return tuple(value)

    def unread(self) -> tuple[str, ...]:
        """Return keys of the language model that nothing asked for."""
        return tuple(key for key in self.values if key not in self.read)


def in_json(value: object) -> object:
    """Return a value as it stands in a file, so that a text is told from a number."""
    return f'"{value}"' if isinstance(value, str) else value


def refuse_missing(names: list[str], model_type: str) -> InputError:
    """Return the error for sizes that a config does not give, to be raised by the caller."""
    accepted = f'this field is required to read a config of type "{shown(model_type)}"'
    return InputError([Problem(name, "", accepted) for name in names])


def refuse_what_json_lacks(value: object, path: str = "") -> None:
    """Raise InputError for NaN and infinities, which JSON does not have, by their place."""
    pending: list[tuple[str, object]] = [(path, value)]
    while pending:
        place, item = pending.pop()
        if isinstance(item, float) and not isfinite(item):
            raise refuse(shown(place), item, "JSON has no such number; expected a finite one")
        if isinstance(item, Mapping):
            pending += [(f"{place}.{key}".lstrip("."), inner) for key, inner in item.items()]
        elif isinstance(item, list):
            pending += [(f"{place}[{i}]", inner) for i, inner in enumerate(item)]
