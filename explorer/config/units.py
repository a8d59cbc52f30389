"""Numbers for people: three significant figures and a unit whose meaning never changes."""

from __future__ import annotations

import math
import re
from decimal import Decimal

SIGNIFICANT = 3
DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SCALED_UNITS = ("B", "B/s", "MAC", "MAC/s", "FLOP", "FLOP/s")
BINARY = ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
BINARY_BYTES = "iB"
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
SECONDS_AS_MINUTES = 600.0
SECONDS_AS_HOURS = 36000.0
LARGEST_PLAIN = 1e15
CLUSTER_WORD = re.compile(r"\b[Cc]luster(?=s?\b)")
HUNDRED, THOUSAND = 99.95, 1000
FACTOR, FACTOR_SHOWN = "x", "×"
"""Unit of factors, in documents and to people."""
RATE = "/"
"""What the units of rates have in common: ``tokens/s``."""
ROUNDS_UP = 0.9995
"""Part of the next larger unit that three figures show as one of it: 999.6 kB is 1.00 MB."""


def in_words_of(unit_name: str, text: str) -> str:
    """Return a text about clusters in the words of a chip whose unit is a cluster or a card."""
    return CLUSTER_WORD.sub(
        lambda match: unit_name.capitalize() if match[0][0] == "C" else unit_name, text
    )


def unit_sizes(unit: str) -> dict[str, Decimal]:
    """Return every name that a value in ``unit`` may be shown or written with, and its size.

    The names keep their case, in which ``m`` and ``M`` differ; ``unit`` itself is of size 1. Bytes
    have binary prefixes beside the decimal ones.
    """
    sizes = {unit: Decimal(1), _singular(unit): Decimal(1)}
    if unit == "s":
        sizes |= {name: _exactly(factor) for factor, name in TIMES}
        sizes |= {"us": sizes["µs"], "μs": sizes["µs"], "min": Decimal(60), "h": Decimal(3600)}
    elif unit == "fraction":
        sizes["%"] = _exactly(0.01)
    elif unit == FACTOR:
        sizes[FACTOR_SHOWN] = Decimal(1)
    elif unit in SCALED_UNITS:
        prefixes = (*DECIMAL, *BINARY) if unit.startswith("B") else DECIMAL
        sizes |= {f"{prefix}{unit}": _exactly(factor) for factor, prefix in prefixes}
    return sizes


def _exactly(factor: float) -> Decimal:
    return Decimal(repr(factor))


def significant(value: float, figures: int = SIGNIFICANT) -> str:
    """Return a number rounded to some significant figures, grouped: 12345.6 is ``12,300``.

    What is counted is exact, and not for this function.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value) or abs(value) >= LARGEST_PLAIN:
        return f"{value:.{figures - 1}e}"
    # The exponent after rounding: 9.999 is 10.0.
    digits, exponent = f"{value:.{figures - 1}e}".split("e")
    decimals = max(figures - 1 - int(exponent), 0)
    text = f"{float(f'{digits}e{exponent}'):,.{decimals}f}"
    return text if text.strip("-0.,") else f"{value:.{figures - 1}e}"


def given(value: float) -> str:
    """Return a number that a person gave, with every digit of it, grouped: ``2,345.5``."""
    plain = 1 / LARGEST_PLAIN <= abs(value) < LARGEST_PLAIN
    return f"{Decimal(repr(float(value))):,f}".removesuffix(".0") if plain else f"{value:g}"


def percent(fraction: float) -> str:
    """Return an error or a loss with one decimal, as columns of them read; 3 figures from 100 %."""
    value = 100 * fraction
    return f"{value:.1f} %" if abs(value) < HUNDRED else f"{significant(value)} %"


def human(value: float | None, unit: str = "", figures: int = SIGNIFICANT) -> str:
    """Return a value with its unit for display, ``-`` for a missing one.

    Quantities take three significant figures, or as many as are asked for. Whole numbers of
    anything that is no rate are counts, and keep every digit. ``iB`` shows bytes with binary
    prefixes (1 KiB = 1024 B), as scratchpads are sized. Other bytes and rates take decimal
    prefixes (1 GB = 1e9 B), seconds become ms, µs, min or h, a fraction becomes a percentage, and
    ``x`` the sign ``×``.
    """
    if value is None or math.isnan(value):
        return "–"
    if unit == "s":
        return _human_time(value, figures)
    if unit == "fraction":
        return f"{significant(100 * value, figures)} %"
    if unit == FACTOR:
        unit = FACTOR_SHOWN
    if unit == BINARY_BYTES:
        return _human_binary(value)
    if unit in SCALED_UNITS:
        for factor, prefix in DECIMAL:
            if abs(value) >= ROUNDS_UP * factor:
                return f"{significant(value / factor, figures)} {prefix}{unit}"
    exact = THOUSAND if RATE in unit else LARGEST_PLAIN
    counted = float(value).is_integer() and abs(value) < exact
    number = f"{value:,.0f}" if counted else significant(value, figures)
    return f"{number} {_singular(unit) if value == 1 else unit}".rstrip()


def _singular(unit: str) -> str:
    """Return ``cluster`` for ``clusters``; other units stay as they are."""
    return unit[:-1] if unit.isalpha() and unit.endswith("s") and len(unit) > 1 else unit


def _human_binary(value: float) -> str:
    for factor, prefix in BINARY:
        if abs(value) >= factor:
            return f"{_binary_figures(value / factor)} {prefix}B"
    return f"{_binary_figures(value)} B"


def _binary_figures(value: float) -> str:
    """Return three figures, or the four of 1000 to 1023."""
    return significant(value, len(f"{abs(value):.0f}") if abs(value) >= THOUSAND else SIGNIFICANT)


def _human_time(seconds: float, figures: int) -> str:
    if seconds >= SECONDS_AS_HOURS:
        return f"{significant(seconds / 3600, figures)} h"
    if seconds >= SECONDS_AS_MINUTES:
        return f"{significant(seconds / 60, figures)} min"
    for factor, name in TIMES:
        if abs(seconds) >= ROUNDS_UP * factor:
            return f"{significant(seconds / factor, figures)} {name}"
    return "0 s" if seconds == 0 else f"{significant(seconds / 1e-9, figures)} ns"
