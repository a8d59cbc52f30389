"""Short names for the settings of a plan, as tables of many plans need them."""

from __future__ import annotations

import re

from explorer.config.scenario import Scenario, knob_at
from explorer.search.space import Space
from explorer.ui.text import plain

TERM = re.compile(r"\(([A-Z]+(?:_[A-Z])?)\)$")


def setting_name(scenario: Scenario, path: str) -> str:
    """Return the paper's term for a setting, such as ``TP_D``, or the knob's name without one."""
    knob = knob_at(scenario, path)
    if knob is None:
        return path
    term = TERM.search(knob.label)
    return plain(term[1] if term is not None else knob.label)


def setting_names(space: Space) -> list[str]:
    """Return the names of the axes of a space, all different."""
    names = [setting_name(space.base, axis.paths[0]) for axis in space.axes]
    pairs = zip(names, space.axes, strict=True)
    return [name if names.count(name) == 1 else axis.name for name, axis in pairs]
