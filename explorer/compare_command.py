"""Command ``compare``: scenarios side by side as text, JSON or CSV."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from explorer.config.errors import InputError
from explorer.config.files import scenario_from
from explorer.config.links import DEFAULT_PRESET, open_link
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.outfile import write_text
from explorer.serving.comparison import (
    Candidate,
    Comparison,
    FigureRow,
    compare,
    comparison_csv,
    comparison_document,
)

GAP = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="ID|FILE|LINK",
        help="two to four presets, files or share links; ratios refer to the first",
    )
    parser.add_argument("--csv", metavar="FILE", help="also write the table to this file")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the document and the text of a comparison.

    Raises:
        InputError: for a source that cannot be read, too many or too few, or a file that cannot
            be written.
    """
    comparison = compare(
        [
            Candidate(f"{number}: {scenario.name}", scenario)
            for number, scenario in enumerate(map(_scenario, options.sources), 1)
        ]
    )
    if options.csv is not None:
        write_text(options.csv, comparison_csv(comparison), "--csv")
    return dict(comparison_document(comparison)), comparison_text(comparison)


def _scenario(source: str) -> Scenario:
    if "preset=" not in source and "?" not in source:
        return scenario_from(source)
    opened = open_link(source, DEFAULT_PRESET)
    if opened.problems:
        raise InputError(opened.problems)
    return opened.scenario


def comparison_text(comparison: Comparison) -> str:
    """Return a comparison as a table in text, its columns as wide as what they hold."""
    names = [candidate.name for candidate in comparison.candidates]
    shown = [row for row in comparison.inputs if row.everywhere]
    figures: list[tuple[str, Sequence[str]]] = [
        ("", names),
        *((row.label, _texts(row)) for row in comparison.figures),
        ("Limited by", comparison.bottlenecks),
    ]
    inputs = [(row.path, row.values) for row in shown]
    every = [(label, *cells) for label, cells in (*figures, *inputs)]
    widths = [GAP + max(map(len, column)) for column in zip(*every, strict=True)]

    def line(label: str, cells: Sequence[str]) -> str:
        pairs = zip((label, *cells), widths, strict=True)
        return "".join(cell.ljust(width) for cell, width in pairs).rstrip()

    lines = [line(*row) for row in figures]
    lines += [
        f"{name} does not fit: {misfit}"
        for name, misfit in zip(names, comparison.misfits, strict=True)
        if misfit
    ]
    lines += ["", "inputs that differ:"] if comparison.inputs else ["", "the inputs are the same"]
    lines += [line(*row) for row in inputs]
    if len(shown) < len(comparison.inputs):
        count = len(comparison.inputs) - len(shown)
        lines.append(f"and {count} numbers that only one kind of chip has (--json lists them)")
    return "\n".join(lines)


def _texts(row: FigureRow) -> list[str]:
    """Return the figures of all scenarios with units, and after the first their ratios to it."""
    return [
        human(value, row.unit)
        + (f" ({significant(ratio)}×)" if ratio is not None and number else "")
        for number, (value, ratio) in enumerate(zip(row.values, row.ratios, strict=True))
    ]
