"""Ranges typed by a person: ``plan.pp_decode=1:8:1`` as the values of a search axis."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from explorer.config.errors import InputError, Problem, refuse, shown
from explorer.config.quantity import Knob, listed
from explorer.config.scenario import Scenario, knob_at, legal_values, paths_of, unknown_field
from explorer.search.space import Value, Values, powers_of_two

REAL_NUMBER = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})([eE][+-]?[0-9]{1,3})?")
POINTS_WITHOUT_STEP = 9
MOST_POINTS = 10_000
FORM = "expected path=lowest:highest or path=lowest:highest:step"


def parse_varied(scenario: Scenario, texts: Iterable[str]) -> dict[str, Values]:
    """Return the values by path of several ranges.

    Raises:
        InputError: as ``parse_vary``, and when a path is given twice.
    """
    result: dict[str, Values] = {}
    for text in texts:
        path, values = parse_vary(scenario, text)
        if path in result:
            raise refuse(path, text.partition("=")[2], "this path is varied twice; expected once")
        result[path] = values
    return result


def parse_vary(scenario: Scenario, text: str) -> tuple[str, Values]:
    """Return the path and the ascending values of a range ``path=lowest:highest[:step]``.

    Both ends belong to the range. Without a step, whole numbers advance by 1 and real ones take
    nine points, evenly or geometrically as the knob's scale is. Where whole numbers would be more
    than 10,000, as bytes of a memory are, they are the powers of two or nine geometric points too.
    Of tensor-parallel degrees only those that the model admits are kept.

    Raises:
        InputError: names the path, the text and what would be accepted, for an unknown path, for
            text that is no range of numbers, an empty range, a step that is not above 0, an end
            outside the knob's bounds, no legal degree, or more points than can be searched.
    """
    path, equals, given = text.partition("=")
    path = path.strip()
    if not equals:
        raise refuse("vary", text, FORM)
    knob = knob_at(scenario, path)
    if knob is None:
        if path in paths_of(scenario):
            raise refuse(path, given, "is not a number; expected the path of a number")
        raise unknown_field(scenario, path)
    if path.startswith("simulation."):
        raise refuse(path, given, "changes no plan's evaluation; it belongs to simulate")
    lowest, highest, *rest = _numbers(knob, given)
    problems = [problem for end in (lowest, highest) if (problem := knob.problem(end))]
    if problems:
        raise InputError(dict.fromkeys(problems))
    if lowest > highest:
        raise refuse(path, given, "an empty range; expected the lowest value first")
    step = rest[0] if rest else None
    if step is not None and step <= 0:
        raise refuse(path, given, f"step = {step:g}; expected a step above 0")
    values = _points(knob, given, lowest, highest, step)
    return path, _legal(scenario, path, given, values)


def default_range(scenario: Scenario, path: str) -> str:
    """Return a range around a number's present value: half to twice, within the knob's bounds.

    Raises:
        InputError: when the path is no number, or has no value now.
    """
    knob, now = knob_at(scenario, path), scenario.value(path)
    if knob is None or isinstance(now, bool) or not isinstance(now, int | float):
        raise refuse(path, now, "has no number now; expected a range")
    if legal_values(scenario, path) or path.startswith("plan."):
        return f"{knob.minimum:g}:{knob.maximum:g}"
    low, high = max(now / 2, knob.minimum), min(now * 2, knob.maximum)
    if not knob.whole:
        return f"{_short(low)}:{_short(high)}"
    first, last = math.ceil(low), math.floor(high)
    step = (last - first) // (POINTS_WITHOUT_STEP - 1)
    return f"{first}:{last}:{step}" if 1 < step < MOST_POINTS else f"{first}:{last}"


def _short(value: float) -> str:
    """Return a number as a person would type it: with an exponent where that is shorter."""
    plain = f"{value:.12g}"
    return min(plain, np.format_float_scientific(_tidy(value), trim="-", exp_digits=1), key=len)


def _numbers(knob: Knob, given: str) -> tuple[Value, ...]:
    parts = [part.strip() for part in given.split(":")]
    fine = len(parts) in (2, 3) and all(REAL_NUMBER.fullmatch(part) for part in parts)
    if not fine or (knob.whole and not all(float(part).is_integer() for part in parts)):
        bounds = knob.model_copy(update={"words": ()}).accepted().removeprefix("expected ")
        raise refuse(knob.path, given, f"{FORM}, each {bounds}")
    numbers = tuple(map(float, parts))
    if not all(map(math.isfinite, numbers)):
        raise refuse(knob.path, given, f"{FORM}, each a finite number")
    return tuple(map(int, numbers)) if knob.whole else numbers


def _points(knob: Knob, given: str, lowest: Value, highest: Value, step: Value | None) -> Values:
    if knob.whole:
        if step is None and highest - lowest >= MOST_POINTS:
            return _spread(knob, int(lowest), int(highest))
        _check_count(knob, given, (highest - lowest) / (step or 1))
        return tuple(range(int(lowest), int(highest) + 1, int(step or 1)))
    if lowest == highest:
        return (float(lowest),)
    if step is None:
        spread = np.geomspace if knob.scale == "log" and lowest > 0 else np.linspace
        points = [float(point) for point in spread(lowest, highest, POINTS_WITHOUT_STEP)]
        inner = [_tidy(point) for point in points[1:-1]]
        values = [float(lowest), *inner, float(highest)]
    else:
        steps = (highest - lowest) / step
        _check_count(knob, given, steps)
        # A last step that misses the end by rounding only still counts as reaching it.
        count = math.floor(steps * (1 + 1e-12) + 1e-9) + 1
        values = [min(_tidy(lowest + i * step), float(highest)) for i in range(count)]
    if any(a >= b for a, b in pairwise(values)):
        raise refuse(knob.path, given, "its values cannot be told apart; expected a larger step")
    return tuple(values)


def _spread(knob: Knob, lowest: int, highest: int) -> Values:
    """Return both ends of a long range of whole numbers, and some between them."""
    if knob.scale == "powers_of_two":
        between = [power for power in powers_of_two(knob) if lowest < power < highest]
    else:
        spread = np.geomspace(max(lowest, 1), highest, POINTS_WITHOUT_STEP)
        between = [round(float(point)) for point in spread[1:-1]]
    return tuple(sorted({lowest, *between, highest}))


def _tidy(value: float) -> float:
    """Return the value without the last digits, which arithmetic made."""
    return float(f"{value:.12g}")


def _check_count(knob: Knob, given: str, steps: float) -> None:
    if steps >= MOST_POINTS:
        raise refuse(knob.path, given, f"more than {MOST_POINTS:,} values; expected a larger step")


def _legal(scenario: Scenario, path: str, given: str, values: Values) -> Values:
    legal = legal_values(scenario, path)
    if not legal:
        return values
    kept = tuple(value for value in values if value in legal)
    if not kept:
        model = scenario.model_shape().name
        accepted = f"holds no degree that divides the heads and FFN width of {model}"
        raise InputError(
            [Problem(path, shown(given), f"{accepted}; expected some of {listed(legal)}")]
        )
    return kept
