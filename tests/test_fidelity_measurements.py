"""Measurement files: read whole and exactly, or refused with the line and the column."""

from __future__ import annotations

import time
import zipfile
from io import BytesIO

import pytest

from explorer.config.errors import InputError
from explorer.fidelity.measurements import (
    COLUMNS,
    DIMENSIONS,
    MOST_PROBLEMS,
    MOST_ROWS,
    MOST_SEARCHED_ROWS,
    parse_measurements,
    read_measurements,
    shipped_measurements,
)
from explorer.fidelity.predict import PREDICTORS

HEADER = ",".join(COLUMNS)
GOOD = "g1,mt3000,,gemm_latency,dtype=fp32;m=1024;k=4096;n=256,1.12,ms,a table"


def parsed(*lines: str, header: str = HEADER):
    return parse_measurements("\n".join([header, *lines]).encode(), "my.csv")


def refusal(*lines: str, header: str = HEADER) -> str:
    with pytest.raises(InputError) as caught:
        parsed(*lines, header=header)
    return str(caught.value)


def cell(column: str, text: str) -> str:
    cells = dict(zip(COLUMNS, GOOD.split(","), strict=True)) | {column: text}
    return ",".join(cells.values())


def test_a_row_is_read_to_the_last_digit() -> None:
    (row,) = parsed(GOOD)
    assert (row.id, row.chip, row.model, row.quantity) == ("g1", "mt3000", "", "gemm_latency")
    assert row.conditions == {"dtype": "fp32", "m": "1024", "k": "4096", "n": "256"}
    assert (row.value, row.unit, row.source, row.file) == (1.12, "ms", "a table", "my.csv")


@pytest.mark.parametrize(
    ("quantity", "unit", "si"),
    [
        ("gemm_latency", "s", 3.0),
        ("gemm_latency", "ms", 3e-3),
        ("phase_time", "us", 3e-6),
        ("phase_time", "µs", 3e-6),
        ("all_reduce_time", "ns", 3e-9),
        ("decode_step_time", "min", 180.0),
        ("prefill_throughput", "tok/s", 3.0),
        ("serving_throughput", "tokens/s", 3.0),
    ],
)
def test_units_become_si(quantity: str, unit: str, si: float) -> None:
    (row,) = parsed(f"x,mt3000,,{quantity},,3,{unit},")
    assert row.si_value == pytest.approx(si, rel=1e-15)


def test_files_as_spreadsheets_write_them_are_read() -> None:
    text = (
        f'\ufeff{HEADER}\r\n"g1",mt3000,,gemm_latency,"dtype=fp32; m=8;",1.5e-1,ms,"a, b"\r\n\r\n'
    )
    (row,) = parse_measurements(text.encode(), "f")
    assert row.conditions == {"dtype": "fp32", "m": "8"}
    assert (row.value, row.source) == (0.15, "a, b")


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("value", "", "is empty"),
        ("value", "nan", "a number above 0"),
        ("value", "inf", "a number above 0"),
        ("value", "-1", "above 0"),
        ("value", "0", "above 0"),
        ("value", "1e999", "finite"),
        ("value", "1e-999", "above 0"),
        ("value", "1.000.000", "a number"),
        ("value", "1 2", "a number"),
        ("value", "٣", "a number"),
        ("value", "=1+1", "a number"),
        ("value", "0x10", "a number"),
        ("unit", "furlong", "expected a unit of gemm_latency: s, ms"),
        ("unit", "tok/s", "expected a unit of gemm_latency"),
        ("unit", "", "is empty"),
        ("id", "=HYPERLINK(1)", "formula"),
        ("id", "", "is empty"),
        ("id", "a\x1b[31m", "cannot be shown"),
        ("id", "a\u202eb", "cannot be shown"),
        ("id", "a\u2066b", "cannot be shown"),
        ("id", "a\u200bb", "cannot be shown"),
        ("id", "a\ufeffb", "cannot be shown"),
        ("id", "a\u034fb", "cannot be shown"),
        ("id", "a\u3164", "cannot be shown"),
        ("id", "a\ufe0f", "cannot be shown"),
        ("chip", "mt3000\u115f", "cannot be shown"),
        ("source", "a\u2028b", "cannot be shown"),
        ("id", "\uff1d1+1", "formula"),
        ("source", "\t=1+1", "formula"),
        ("chip", "@SUM(1)", "formula"),
        ("chip", "", "is empty"),
        ("quantity", "", "is empty"),
        ("source", "+cmd|' /C calc'!A0", "formula"),
        ("source", "x" * 2001, "longer than 2000"),
        ("conditions", "m", "no condition"),
        ("conditions", "m=", "no condition"),
        ("conditions", "=3", "formula"),
        ("conditions", "m=1;;n=2", "no condition"),
        ("conditions", "m=1;m=2", "m appears twice"),
        ("conditions", "M x=1", "no condition"),
    ],
)
def test_a_bad_cell_is_named_by_line_and_column(column: str, text: str, words: str) -> None:
    message = refusal(GOOD.replace("g1", "g0"), cell(column, text))
    assert f"my.csv line 3 {column}" in message
    assert words in message
    assert message.isprintable()


@pytest.mark.parametrize("header", ["", "id;chip;model", HEADER.upper(), HEADER + ",more", GOOD])
def test_another_header_is_refused(header: str) -> None:
    assert "expected the header id,chip,model" in refusal(GOOD, header=header) or not header


def test_other_numbers_of_columns_are_refused() -> None:
    assert "my.csv line 2: 7 columns; expected 8" in refusal("a,b,c,d,e,f,g")
    assert "my.csv line 3: 9 columns; expected 8" in refusal(GOOD, GOOD + ",x")


def test_an_id_appears_once() -> None:
    assert "my.csv line 3 id = g1: already on line 2" in refusal(GOOD, GOOD)


def test_ids_that_look_alike_are_the_same_id() -> None:
    assert "already on line 2" in refusal(cell("id", "é1"), cell("id", "e\u03011"))
    assert "already on line 2" in refusal(cell("id", "g1"), cell("id", "\uff471"))


def test_html_in_names_is_text_like_any_other() -> None:
    (row,) = parsed(cell("id", "<img src=x onerror=alert(1)>"))
    assert row.id == "<img src=x onerror=alert(1)>"


def test_every_bad_line_is_listed_up_to_a_limit() -> None:
    few = refusal(cell("value", "a"), cell("unit", "b"))
    assert "line 2 value = a" in few
    assert "line 3 unit = b" in few
    many = refusal(*[cell("value", "a")] * 5000)
    assert many.count(" value = a") == MOST_PROBLEMS
    assert "more lines are wrong" in many


def test_nothing_but_a_header_and_nothing_at_all() -> None:
    assert "holds no measurements" in refusal()
    with pytest.raises(InputError, match="an empty file"):
        parse_measurements(b"", "f")


def zipped() -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", f"{HEADER}\n{GOOD}\n" * 50)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        HEADER.encode() + b"\ng1,mt3000,,gemm_latency,m=1,1,ms,caf\xe9",
        HEADER.encode("utf-16"),
        b"PK\x03\x04\xff\xfe binary",
        zipped(),
    ],
)
def test_other_encodings_are_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="not UTF-8"):
        parse_measurements(content, "f")


@pytest.mark.parametrize("row", ['g1,"unclosed', "g1,a\x00b,,gemm_latency,m=1,1,ms,", '"a"b,c'])
def test_broken_csv_is_one_clear_sentence(row: str) -> None:
    message = refusal(row)
    assert message.startswith("my.csv")
    assert message.isprintable()


def test_a_file_of_200_mb_and_one_of_a_million_lines_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="larger than the 4 MB"):
        parse_measurements(bytes(200_000_000), "f")
    assert "larger than the 4 MB" in refusal(*[GOOD] * 1_000_000)
    short = refusal(*["a"] * 1_000_000)
    assert "1 columns; expected 8" in short
    sparse = tmp_path / "sparse.csv"
    with sparse.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(InputError, match="larger than the 4 MB"):
        read_measurements(sparse)


def test_huge_files_are_refused_at_once() -> None:
    lines = [f"g{i},mt3000,,gemm_latency,m=1,1,ms,s" for i in range(200_000)]
    start = time.perf_counter()
    assert "larger than the 4 MB" in refusal(*lines)
    assert f"more than the {MOST_ROWS:,} rows" in refusal(*lines[:60_000])
    served = [f"s{i},mt3000,llama2-7b,serving_throughput,prompt=1,1,tok/s,s" for i in range(300)]
    assert f"more than the {MOST_SEARCHED_ROWS} rows of serving" in refusal(*served)
    assert time.perf_counter() - start < 10


def test_unreadable_paths_are_refused(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "none.csv", "\0"):
        with pytest.raises(InputError, match="cannot be read"):
            read_measurements(path)


def test_the_published_rows_ship_and_every_quantity_has_a_predictor() -> None:
    rows = shipped_measurements()
    assert len(rows) == 125
    assert len({row.id for row in rows}) == len(rows)
    assert {row.quantity for row in rows} <= set(DIMENSIONS)
    assert set(DIMENSIONS) == set(PREDICTORS)
