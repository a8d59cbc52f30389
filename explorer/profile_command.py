"""The ``profile`` command: a device-synced phase profile as measurement rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from explorer.config.errors import printable, refuse
from explorer.config.units import human
from explorer.fidelity.measurements import Measurement, measurements_csv
from explorer.fidelity.profile_text import LARGEST_TEXT, ProfileText, parse_profile
from explorer.outfile import write_text

PROFILE_SCHEMA = "explorer.profile/1"
MOST_SECONDS = 1e6
MOST_DIGITS = 9


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE", help="what the engine printed; - reads stdin")
    parser.add_argument("--rows", metavar="N", help="prompt tokens, where the text does not say")
    parser.add_argument("--wall", metavar="S", help="prefill seconds, where the text does not say")
    parser.add_argument("--tp", metavar="N", help="cards, where the text does not say (4)")
    parser.add_argument("--out", metavar="FILE.csv", help="write the rows for calibrate --data")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the profile's document and its text; raises InputError for one that is no good."""
    found = parse_profile(
        _content(options.file),
        printable(Path(options.file).name) or "profile",
        rows=_whole("--rows", options.rows),
        wall_seconds=_seconds(options.wall),
        tp=_whole("--tp", options.tp),
    )
    if options.out is not None:
        write_text(options.out, measurements_csv(found.measurements))
    return profile_document(found), profile_text(found)


def profile_document(found: ProfileText) -> dict[str, Any]:
    """Return the timed runs and their rows as JSON values."""
    return {
        "schema": PROFILE_SCHEMA,
        "blocks": found.blocks,
        "runs": [
            {
                "rows": run.rows,
                "tp": run.tp,
                "wall_seconds": run.wall_seconds,
                "block_on_line": run.first_line,
                "phases": run.phases,
                "other_scopes": list(run.unknown),
            }
            for run in found.timed
        ],
        "rows": [_row(row) for row in found.measurements],
        "notes": list(found.notes),
    }


def profile_text(found: ProfileText) -> str:
    """Return the timed runs as text."""
    lines = []
    for run in found.timed:
        stack = run.phases["stack"]
        lines.append(
            f"{run.rows:,} rows on {run.tp} cards: the timed block is that of line "
            f"{run.first_line}, of {found.blocks}"
        )
        lines += [
            f"  {phase:<16}{human(seconds, 's'):>10}{100 * seconds / stack:>8.1f} % of the stack"
            for phase, seconds in run.phases.items()
        ]
    return "\n".join([*lines, *(f"  note: {note}" for note in found.notes)])


def _row(row: Measurement) -> dict[str, Any]:
    return {
        "id": row.id,
        "chip": row.chip,
        "model": row.model,
        "quantity": row.quantity,
        "conditions": dict(row.conditions),
        "value": row.value,
        "unit": row.unit,
        "source": row.source,
    }


def _content(path: str) -> str:
    try:
        # "-" is read through its device file, which ends where the pipe does.
        with Path("/dev/stdin" if path == "-" else path).open("rb") as file:
            content = file.read(4 * LARGEST_TEXT + 1)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refuse(f"{path} line {line}", "", "not UTF-8 text; expected a profile") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise refuse("FILE", path, f"cannot be read: {reason}") from None


def _whole(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and int(text) > 0):
        raise refuse(option, text, "expected a whole number above 0")
    return int(text)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < MOST_SECONDS:
        raise refuse("--wall", text, "expected seconds above 0")
    return seconds
