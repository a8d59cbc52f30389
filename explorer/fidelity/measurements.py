"""Measurements from CSV files: one row a measured value, read strictly.

Columns: ``id,chip,model,quantity,conditions,value,unit,source``; conditions are
``key=value;key=value``. A file is used whole or not at all.
"""

from __future__ import annotations

import csv
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Literal

from explorer.config.csvio import begins_a_formula, csv_text
from explorer.config.errors import InputError, Problem, printable, refuse, shown
from explorer.config.jsonio import PRESETS

COLUMNS = ("id", "chip", "model", "quantity", "conditions", "value", "unit", "source")
REQUIRED = ("id", "chip", "quantity", "value", "unit")
LARGEST_FILE_BYTES = 4_000_000
MOST_ROWS = 5_000
MOST_SEARCHED_ROWS = 200
"""Rows of serving throughput in one file: each may need a search over millions of plans."""
LONGEST_CELL = 2_000
MOST_PROBLEMS = 8
NUMBER = re.compile(r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?")
KEY = re.compile(r"[a-z][a-z0-9_.]{0,60}")
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that take no ink, though Unicode does not count them among format signs."""
NAMES = ("id", "chip", "model", "quantity")
"""Columns that rows are told apart by: two that look alike must not differ."""

SEARCHED = "serving_throughput"
Dimension = Literal["time", "rate"]
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "min": 60.0}
RATES = {"tok/s": 1.0, "tokens/s": 1.0, "token/s": 1.0}
UNITS: dict[Dimension, dict[str, float]] = {"time": SECONDS, "rate": RATES}
DIMENSIONS: dict[str, Dimension] = {
    "gemm_latency": "time",
    "attention_latency": "time",
    "serving_throughput": "rate",
    "prefill_throughput": "rate",
    "decode_throughput": "rate",
    "decode_step_time": "time",
    "phase_time": "time",
    "all_reduce_time": "time",
    "ablation_gated_delta": "time",
}
"""Quantities that rows may have, by dimension: seconds, or tokens a second."""


@dataclass(frozen=True)
class Measurement:
    """One measured value.

    Attributes:
        id: name of the row, unique within its file.
        chip: preset id of the chip.
        model: preset id of the model, empty for a kernel's row.
        quantity: what was measured, usually one of ``DIMENSIONS``.
        conditions: under which conditions, as text.
        value: as printed, in ``unit``.
        unit: unit as printed.
        source: document and table.
        file: name of the file it stands in.
    """

    id: str
    chip: str
    model: str
    quantity: str
    conditions: Mapping[str, str]
    value: float
    unit: str
    source: str
    file: str

    @property
    def dimension(self) -> Dimension | None:
        """Whether it is a time or a rate; None for a quantity that is not known."""
        return DIMENSIONS.get(self.quantity)

    @property
    def unit_size(self) -> float:
        """How many seconds, or tokens a second, one of ``unit`` is; 1 when not known."""
        dimension = self.dimension
        return 1.0 if dimension is None else UNITS[dimension][self.unit]

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the name of its file: rows of the same content are one measurement."""
        conditions = tuple(self.conditions.items())
        return (
            self.id,
            self.chip,
            self.model,
            self.quantity,
            conditions,
            self.value,
            self.unit,
            self.source,
        )

    @property
    def si_value(self) -> float:
        """Value in seconds or tokens a second."""
        return self.value * self.unit_size


def parse_measurements(content: bytes, name: str = "file") -> tuple[Measurement, ...]:
    """Return the measurements in a CSV file's content.

    Raises:
        InputError: names each wrong cell by line and column; also when the content is too large,
            not UTF-8, has another header, no rows, or rows of the same id.
    """
    if len(content) > LARGEST_FILE_BYTES:
        limit = LARGEST_FILE_BYTES // 1_000_000
        raise refuse(name, "", f"larger than the {limit} MB accepted")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise refuse(f"{name} line {line}", "", "not UTF-8 text; expected a CSV file") from None
    problems: list[Problem] = []
    rows: list[Measurement] = []
    lines: dict[str, int] = {}
    count = 0
    try:
        for line, cells in _lines(text, name):
            count += 1
            if count > MOST_ROWS:
                raise refuse(name, "", f"more than the {MOST_ROWS:,} rows accepted")
            wrong = _problems(cells, f"{name} line {line}", lines)
            problems += wrong
            if len(problems) > MOST_PROBLEMS:
                break
            if not wrong:
                lines[_alike(cells[0].strip())] = line
                rows.append(_measurement(cells, name))
    except csv.Error as error:
        raise refuse(name, "", f"not readable as CSV: {error}") from None
    if problems:
        extra = len(problems) > MOST_PROBLEMS
        more = [Problem(name, "", "more lines are wrong; only the first are listed")]
        raise InputError([*problems[:MOST_PROBLEMS], *(more if extra else [])])
    if sum(row.quantity == SEARCHED for row in rows) > MOST_SEARCHED_ROWS:
        raise refuse(name, "", f"more than the {MOST_SEARCHED_ROWS} rows of {SEARCHED} accepted")
    if not rows:
        raise refuse(name, "", "holds no measurements; expected at least one row below the header")
    return tuple(rows)


def read_measurements(path: str | Path) -> tuple[Measurement, ...]:
    """Return the measurements in a file; raises InputError as ``parse_measurements``."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise refuse("--data", str(path), f"cannot be read: {reason}") from None
    return parse_measurements(content, printable(Path(path).name) or "file")


def measurements_csv(rows: Iterable[Measurement]) -> str:
    """Return measurements as a CSV file that ``parse_measurements`` reads again."""
    return csv_text(
        COLUMNS,
        (
            (
                row.id,
                row.chip,
                row.model,
                row.quantity,
                ";".join(f"{key}={value}" for key, value in row.conditions.items()),
                row.value,
                row.unit,
                row.source,
            )
            for row in rows
        ),
    )


@cache
def shipped_measurements() -> tuple[Measurement, ...]:
    """Return the published measurements that ship with the project, file by file."""
    files = sorted((PRESETS / "measurements").glob("*.csv"))
    return tuple(row for path in files for row in read_measurements(path))


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header with their line numbers; raises on another header."""
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    header = next(reader, None)
    if header is None:
        raise refuse(name, "", "an empty file; expected a CSV file")
    if tuple(cell.strip() for cell in header) != COLUMNS:
        found = ",".join(header)
        raise refuse(f"{name} line 1", found, f"expected the header {','.join(COLUMNS)}")
    for cells in reader:
        if cells:
            yield reader.line_num, cells


def _alike(name: str) -> str:
    """Return what all ways to write a name have in common (compatibility composition)."""
    return unicodedata.normalize("NFKC", name)


def _problems(cells: list[str], place: str, known: Mapping[str, int]) -> list[Problem]:
    if len(cells) != len(COLUMNS):
        accepted = f"{len(cells)} columns; expected {len(COLUMNS)}"
        return [Problem(place, "", f"{accepted} (a comma within a cell needs quotes)")]
    found = dict(zip(COLUMNS, (cell.strip() for cell in cells), strict=True))
    problems = []
    for column, cell in found.items():
        accepted = _refusal(column, cell, found)
        if accepted:
            problems.append(Problem(f"{place} {column}", shown(cell), accepted))
    first = known.get(_alike(found["id"]))
    if first is not None:
        accepted = f"already on line {first}; expected each id once"
        problems.append(Problem(f"{place} id", shown(found["id"]), accepted))
    return problems


def _refusal(column: str, cell: str, found: Mapping[str, str]) -> str:
    """Return why a cell is not accepted, or an empty text."""
    if not cell:
        return "is empty; expected a value" if column in REQUIRED else ""
    if len(cell) > LONGEST_CELL:
        return f"longer than {LONGEST_CELL} characters"
    if column == "value":
        return _value_refusal(cell)
    if begins_a_formula(cell):
        return "begins like a spreadsheet formula; expected plain text"
    if printable(cell) != cell or (column in NAMES and INVISIBLE.search(cell)):
        return "holds characters that cannot be shown; expected plain text"
    if column == "unit" and found["quantity"] in DIMENSIONS:
        units = UNITS[DIMENSIONS[found["quantity"]]]
        return (
            "" if cell in units else f"expected a unit of {found['quantity']}: {', '.join(units)}"
        )
    return _conditions_refusal(cell) if column == "conditions" else ""


def _value_refusal(cell: str) -> str:
    if not NUMBER.fullmatch(cell):
        return "expected a number above 0"
    value = float(cell)
    return "" if math.isfinite(value) and value > 0 else "expected a finite number above 0"


def _conditions_refusal(cell: str) -> str:
    seen: set[str] = set()
    for part in cell.removesuffix(";").split(";"):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and value and KEY.fullmatch(key)):
            return f"{shown(part.strip())} is no condition; expected key=value;key=value"
        if key in seen:
            return f"{key} appears twice; expected each condition once"
        seen.add(key)
    return ""


def _measurement(cells: list[str], name: str) -> Measurement:
    row_id, chip, model, quantity, conditions, value, unit, source = (c.strip() for c in cells)
    pairs = (part.partition("=") for part in conditions.removesuffix(";").split(";") if part)
    parsed = {key.strip(): text.strip() for key, _, text in pairs}
    return Measurement(row_id, chip, model, quantity, parsed, float(value), unit, source, name)
