"""Requests of a real service from a CSV file, read strictly and whole or not at all.

Columns: ``arrival_seconds,prompt_tokens,output_tokens``, or the names of the public Azure traces
of LLM inference, ``TIMESTAMP,ContextTokens,GeneratedTokens``. Lines are read one by one, so that
memory is what the numbers take: 16 bytes a request.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from explorer.config.errors import InputError, Problem, printable, refuse, shown
from explorer.costs.arrays import Array, Codes
from explorer.serving.arrivals import BLOCK_REQUESTS, RequestBlock

SECONDS_COLUMNS = ("arrival_seconds", "prompt_tokens", "output_tokens")
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOST_REQUESTS = 5_000_000
LONGEST_LINE = 1000
MOST_COLUMNS = 64
FIRST_LINE = 2
"""Line of the first request: the header stands on the first."""
NUMBER = r"[0-9]{1,15}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?"
SECONDS = re.compile(NUMBER)
TOKENS = re.compile(r"[0-9]{1,9}")
PLAIN_LINE = re.compile(rf"({NUMBER}),([0-9]{{1,9}}),([0-9]{{1,9}})".encode())
TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}):"
    r"([0-5][0-9](?:\.[0-9]{1,12})?)(Z|[+-][0-9]{2}:[0-9]{2})?"
)
LATEST_SECONDS = 1e10
ACCEPTED_SECONDS = f"expected a number of seconds from 0 to {LATEST_SECONDS:g}"
ACCEPTED_TIMESTAMP = "expected a time such as 2023-11-16 18:15:46.680"
ACCEPTED_TOKENS = "expected a whole number of tokens from 1"


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival.

    Attributes:
        name: name of the file.
        arrival_seconds: when each arrives, counted from the first [s]; none arrives before the
            one in front of it.
        prompt_tokens: prompt length of each.
        output_tokens: output length of each.
        columns: the names of the columns read, in this order.
        unused_columns: names of other columns.
    """

    name: str
    arrival_seconds: Array
    prompt_tokens: Codes
    output_tokens: Codes
    columns: tuple[str, ...] = SECONDS_COLUMNS
    unused_columns: tuple[str, ...] = ()

    def blocks(self) -> Iterator[RequestBlock]:
        """Yield the requests, some at a time."""
        for first in range(0, self.arrival_seconds.size, BLOCK_REQUESTS):
            some = slice(first, first + BLOCK_REQUESTS)
            yield RequestBlock(
                self.arrival_seconds[some], self.prompt_tokens[some], self.output_tokens[some]
            )


def read_trace(path: str | Path) -> Trace:
    """Return the requests in a file; raises InputError as ``parse_trace``."""
    name = printable(Path(path).name) or "trace"
    try:
        with Path(path).open("rb") as file:
            return parse_trace(file, name)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise refuse("--trace", str(path), f"cannot be read: {reason}") from None


def parse_trace(content: bytes | BinaryIO, name: str = "trace") -> Trace:
    """Return the requests in a CSV file's content.

    Args:
        content: bytes, or a file open for reading bytes.
        name: what messages call the file.

    Raises:
        InputError: names the first wrong cell by line and column; also for another header, no
            requests, or more than ``MOST_REQUESTS``.
    """
    file = BytesIO(content) if isinstance(content, bytes) else content
    header = _cells(_line(file, name, 1), f"{name} line 1", name)
    reader = _Reader(name, header)
    number, empty_line = 1, 0
    while line := _line(file, name, number + 1):
        number += 1
        if not line.strip():
            empty_line = empty_line or number
        elif empty_line:
            raise refuse(f"{name} line {empty_line}", "", "an empty line; expected a request")
        elif len(reader.seconds) >= MOST_REQUESTS:
            raise refuse(name, "", f"more than the {MOST_REQUESTS:,} requests accepted")
        else:
            reader.read(line, number)
    if not reader.seconds:
        raise refuse(name, "", "holds no requests; expected at least one row below the header")
    return reader.trace()


def require_context(trace: Trace, max_context_tokens: int) -> None:
    """Refuse a trace with a request that is longer than the plan keeps memory for.

    Raises:
        InputError: names the first such line and its column.
    """
    total = trace.prompt_tokens.astype(np.int64) + trace.output_tokens
    too_long = np.flatnonzero(total > max_context_tokens)
    if not too_long.size:
        return
    first = int(too_long[0])
    prompt = int(trace.prompt_tokens[first])
    alone = prompt >= max_context_tokens
    column, value = trace.columns[1 if alone else 2], prompt
    words = f"at most {max_context_tokens:,} tokens fit (workload.max_context_tokens)"
    accepted = f"expected fewer: {words}, prompt and output together"
    if not alone:
        value = int(trace.output_tokens[first])
        accepted = f"with {trace.columns[1]} = {prompt}: {words}, prompt and output together"
    place = f"{trace.name} line {first + FIRST_LINE} {column}"
    raise InputError([Problem(place, str(value), accepted)])


class _Reader:
    """Rows become numbers one by one, in the order of the header's columns."""

    def __init__(self, name: str, header: list[str]) -> None:
        self._name = name
        self._columns = _known_columns(name, header)
        self._places = [header.index(column) for column in self._columns]
        self._width = len(header)
        self._unused = tuple(cell for cell in header if cell not in self._columns)
        self._timed = self._columns == AZURE_COLUMNS
        self._plain = not self._timed and tuple(header) == SECONDS_COLUMNS
        self._minutes: tuple[tuple[str, ...], float] = ((), 0.0)
        self._first_minute = self._first_second = 0.0
        self.seconds, self._prompts, self._outputs = array("d"), array("i"), array("i")
        self._previous = 0.0

    def read(self, line: bytes, number: int) -> None:
        """Append the request on a line, or raise InputError."""
        match = PLAIN_LINE.fullmatch(line.rstrip(b"\r\n")) if self._plain else None
        if match is not None:
            arrival, prompt, output = match.groups()
            self._append(float(arrival), int(prompt), int(output), number, arrival.decode())
            return
        place = f"{self._name} line {number}"
        cells = _cells(line, place, self._name)
        if len(cells) != self._width:
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise refuse(place, "", f"{count}; expected {self._width}")
        time, prompt_cell, output_cell = (cells[index] for index in self._places)
        arrival_seconds = self._time(time, number)
        tokens = [
            self._tokens(cell, number, column)
            for cell, column in ((prompt_cell, 1), (output_cell, 2))
        ]
        self._append(arrival_seconds, tokens[0], tokens[1], number, time)

    def trace(self) -> Trace:
        """Return everything read."""
        seconds = np.frombuffer(self.seconds, dtype=np.float64)
        return Trace(
            self._name,
            seconds - seconds[0],
            np.frombuffer(self._prompts, dtype=np.int32),
            np.frombuffer(self._outputs, dtype=np.int32),
            self._columns,
            self._unused,
        )

    def _append(
        self, seconds: float, prompt: int, output: int, number: int, time_cell: str
    ) -> None:
        if seconds < self._previous:
            earlier = "before the line above; expected times in ascending order"
            raise self._wrong(number, 0, time_cell, earlier)
        if seconds > LATEST_SECONDS:
            raise self._wrong(number, 0, time_cell, ACCEPTED_SECONDS)
        if prompt < 1:
            raise self._wrong(number, 1, prompt, ACCEPTED_TOKENS)
        if output < 1:
            raise self._wrong(number, 2, output, ACCEPTED_TOKENS)
        self._previous = seconds
        self.seconds.append(seconds)
        self._prompts.append(prompt)
        self._outputs.append(output)

    def _time(self, cell: str, number: int) -> float:
        if not self._timed:
            if not SECONDS.fullmatch(cell):
                raise self._wrong(number, 0, cell, ACCEPTED_SECONDS)
            return float(cell)
        match = TIMESTAMP.fullmatch(cell)
        if match is None:
            raise self._wrong(number, 0, cell, ACCEPTED_TIMESTAMP)
        day, minute, second, zone = match.groups(default="")
        if self._minutes[0] != (day, minute, zone):
            try:
                moment = datetime.fromisoformat(f"{day}T{minute}:00{zone}")
            except ValueError:
                raise self._wrong(number, 0, cell, ACCEPTED_TIMESTAMP) from None
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            self._minutes = ((day, minute, zone), aware.timestamp())
        minute_seconds, seconds = self._minutes[1], float(second)
        if not self.seconds:
            self._first_minute, self._first_second = minute_seconds, seconds
        # Whole minutes and seconds apart: as one number they would lose the last digits.
        return (minute_seconds - self._first_minute) + (seconds - self._first_second)

    def _tokens(self, cell: str, number: int, column: int) -> int:
        if not TOKENS.fullmatch(cell):
            raise self._wrong(number, column, cell, ACCEPTED_TOKENS)
        return int(cell)

    def _wrong(self, number: int, column: int, value: object, accepted: str) -> InputError:
        place = f"{self._name} line {number} {self._columns[column]}"
        return refuse(place, value if value != "" else "nothing", accepted)


def _known_columns(name: str, header: list[str]) -> tuple[str, ...]:
    for columns in (SECONDS_COLUMNS, AZURE_COLUMNS):
        missing = [column for column in columns if column not in header]
        if not missing:
            twice = [column for column in columns if header.count(column) > 1]
            if twice:
                raise refuse(f"{name} line 1", twice[0], "appears twice; expected each column once")
            return columns
        if len(missing) < len(columns):
            raise refuse(f"{name} line 1", "", f"the column {missing[0]} is missing")
    accepted = f"expected the columns {','.join(SECONDS_COLUMNS)} or {','.join(AZURE_COLUMNS)}"
    raise refuse(f"{name} line 1", shown(",".join(header)), accepted)


def _line(file: BinaryIO, name: str, number: int) -> bytes:
    line = file.readline(LONGEST_LINE + 1)
    if len(line) > LONGEST_LINE:
        raise refuse(f"{name} line {number}", "", f"longer than {LONGEST_LINE} bytes")
    return line


def _cells(line: bytes, place: str, name: str) -> list[str]:
    """Return the cells of a line without the spaces around them."""
    if not line:
        raise refuse(name, "", "an empty file; expected a CSV file")
    try:
        text = line.decode("utf-8-sig" if place.endswith(" line 1") else "utf-8")
    except UnicodeDecodeError:
        raise refuse(place, "", "not UTF-8 text; expected a CSV file") from None
    text = text.rstrip("\r\n")
    if "\r" in text:
        raise refuse(place, "", "a lone carriage return; expected lines that end in a line feed")
    if not text.replace("\t", " ").isprintable():
        raise refuse(place, text, "holds characters that cannot be shown; expected plain text")
    try:
        cells = next(csv.reader([text], strict=True, skipinitialspace=True), [])
    except csv.Error:
        raise refuse(place, text, "a quote that is not closed; expected CSV cells") from None
    if len(cells) > MOST_COLUMNS:
        raise refuse(place, "", f"more than the {MOST_COLUMNS} columns accepted")
    return [cell.strip() for cell in cells]
