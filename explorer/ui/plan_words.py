"""Plans in one line, as tables of many plans need them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.config.scenario import Scenario, knob_at
from explorer.search.space import Space
from explorer.ui.tables import NO_BREAK
from explorer.ui.text import plain

TERM = re.compile(r"\(([A-Z]+(?:_[A-Z])?)\)$")


def setting_name(scenario: Scenario, path: str) -> str:
    """Return the paper's term for a setting, such as ``TP_D``, or the knob's name without one."""
    knob = knob_at(scenario, path)
    if knob is None:
        return path
    term = TERM.search(knob.label)
    return plain(term[1] if term is not None else knob.label)


def plan_words(space: Space, values: Sequence[object]) -> str:
    """Return the settings of a plan, one value an axis of a space, such as ``TP_D 8, PP_D 5``.

    A name and its value stay on one line.
    """
    return ", ".join(
        f"{setting_name(space.base, axis.paths[0])}{NO_BREAK}{value}"
        for axis, value in zip(space.axes, values, strict=True)
    )
