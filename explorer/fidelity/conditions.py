"""Conditions of a measurement as numbers and words, and why a row is not modelled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from explorer.config.errors import shown

WHOLE = re.compile(r"[0-9]{1,12}")
SILENT = frozenset({"build", "device_synced", "reps", "system", "variant"})
"""Conditions that say how a value was taken and leave the prediction as it is."""
YES, NO = ("yes", "true", "1"), ("no", "false", "0")


class NotModelledError(Exception):
    """A row that the models have no figure for; its text is the reason."""


@dataclass
class Conditions:
    """Reads conditions and remembers which ones were used."""

    texts: Mapping[str, str]
    used: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        """Return whether a condition is given."""
        return name in self.texts

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; raises NotModelledError."""
        self.used.add(name)
        text = self.texts.get(name)
        if text is None:
            if default is None:
                raise NotModelledError(f"the condition {name} is missing")
            return default
        if not WHOLE.fullmatch(text) or int(text) < 1:
            raise NotModelledError(f"{name}={shown(text)} is not a whole number above 0")
        return int(text)

    def whole_of(self, names: Sequence[str], default: int | None = None) -> int:
        """Return the whole number that goes by one of some names; raises NotModelledError.

        Several of them may be given if they agree.
        """
        given = [name for name in names if name in self.texts]
        values = {name: self.whole(name) for name in given}
        if len(set(values.values())) > 1:
            told = " and ".join(f"{name}={value}" for name, value in values.items())
            raise NotModelledError(f"{told} contradict each other")
        return values[given[0]] if given else self.whole(names[0], default)

    def word(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """Return one of some words; raises NotModelledError."""
        self.used.add(name)
        text = self.texts.get(name, default)
        if text is None:
            raise NotModelledError(f"the condition {name} is missing")
        if text not in known:
            raise NotModelledError(
                f"{name}={shown(text)} is not modelled; known: {', '.join(known)}"
            )
        return text

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a yes or no; raises NotModelledError."""
        return self.word(name, YES + NO, "yes" if default else "no") in YES

    def unused(self) -> tuple[str, ...]:
        """Return conditions that played no part and might have mattered."""
        return tuple(name for name in self.texts if name not in self.used | SILENT)
