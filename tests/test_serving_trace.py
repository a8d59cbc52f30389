"""Trace files: read strictly, whole or not at all, in bounded memory."""

import csv
import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.serving import trace as reading
from explorer.serving.simulation import simulate
from explorer.serving.trace import parse_trace, read_trace, require_context
from tests.scenarios import MT3000, scenario

HEADER = b"arrival_seconds,prompt_tokens,output_tokens\n"
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n"


def parsed(content):
    found = parse_trace(content, "t.csv")
    columns = (found.arrival_seconds, found.prompt_tokens, found.output_tokens)
    return [column.tolist() for column in columns]


def refused(content):
    with pytest.raises(InputError) as caught:
        parse_trace(content, "t.csv")
    message = str(caught.value)
    assert message.isprintable()
    return message


def test_times_count_from_the_first_request():
    content = HEADER + b"10.5,512,128\n10.5,1,1\n12,640,7\n"
    assert parsed(content) == [[0.0, 0.0, 1.5], [512, 1, 640], [128, 1, 7]]


@pytest.mark.parametrize(
    "stamps",
    [
        (b"2023-11-16 18:15:46.6805900", b"2023-11-16 18:15:50.9951690"),
        (b"2024-05-10 00:00:00.009930+00:00", b"2024-05-10 00:00:04.324509+00:00"),
        (b"2024-05-10T23:59:58Z", b"2024-05-11T00:00:02.314579Z"),
        (b"2024-05-10 01:59:58+02:00", b"2024-05-10 00:00:02.314579+00:00"),
    ],
)
def test_timestamps_of_the_azure_traces_are_seconds_from_the_first(stamps):
    content = AZURE + b"%s,374,44\n%s,396,109\n" % stamps
    times, prompts, outputs = parsed(content)
    assert times == [0.0, pytest.approx(4.314579, abs=1e-9)]
    assert (prompts, outputs) == ([374, 396], [44, 109])


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + HEADER + b"0,512,128\n",
        HEADER.replace(b"\n", b"\r\n") + b"0,512,128\r\n",
        HEADER + b"0,512,128",
        HEADER + b"0,512,128\n\n\r\n \n",
        b'"arrival_seconds","prompt_tokens","output_tokens"\n"0","512","128"\n',
        b" arrival_seconds , prompt_tokens,\toutput_tokens\n 0 , 512,\t128 \n",
        b"output_tokens,arrival_seconds,prompt_tokens\n128,0,512\n",
        b"user,arrival_seconds,prompt_tokens,output_tokens,model\na,0,512,128,x\n",
        HEADER + b"0.0e0,0512,0128\n",
    ],
)
def test_harmless_variants_say_the_same(content):
    assert parsed(content) == [[0.0], [512], [128]]


def test_columns_that_are_not_used_are_told():
    content = b"user,arrival_seconds,prompt_tokens,output_tokens\na,0,512,128\n"
    found = parse_trace(content)
    assert found.unused_columns == ("user",)
    assert any("user" in note for note in simulate(scenario(), found).notes)


GOOD = b"0,512,128\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "t.csv: an empty file"),
        (b"\n", "t.csv line 1: expected the columns arrival_seconds,prompt_tokens,output_tokens"),
        (b"a,b,c\n1,2,3\n", "t.csv line 1 = a,b,c: expected the columns"),
        (b"0,512,128\n", "t.csv line 1 = 0,512,128: expected the columns"),
        (b"arrival_seconds,prompt_tokens\n0,1\n", "t.csv line 1: the column output_tokens is miss"),
        (b"TIMESTAMP,GeneratedTokens\n", "t.csv line 1: the column ContextTokens is missing"),
        (b"Arrival_Seconds,prompt_tokens,output_tokens\n", "the column arrival_seconds is missing"),
        (HEADER[:-1] + b",prompt_tokens\n", "t.csv line 1 = prompt_tokens: appears twice"),
        (HEADER, "t.csv: holds no requests"),
        (HEADER + b"\n", "t.csv: holds no requests"),
        (HEADER + GOOD + b"-1,512,128\n", "t.csv line 3 arrival_seconds = -1: expected a number"),
        (HEADER + b"1,1,1\n0.5,1,1\n", "t.csv line 3 arrival_seconds = 0.5: before the line above"),
        (HEADER + b"nan,1,1\n", "t.csv line 2 arrival_seconds = nan: expected a number"),
        (HEADER + b"inf,1,1\n", "line 2 arrival_seconds = inf: expected a number"),
        (HEADER + b"1e99,1,1\n", "line 2 arrival_seconds = 1e99: expected a number"),
        (HEADER + b"1_0,1,1\n", "line 2 arrival_seconds = 1_0: expected a number"),
        (HEADER + b"0x1,1,1\n", "line 2 arrival_seconds = 0x1: expected a number"),
        (HEADER + b",1,1\n", "line 2 arrival_seconds = nothing: expected a number"),
        (HEADER + "٣,1,1\n".encode(), "line 2 arrival_seconds = ٣: expected a number"),
        (HEADER + b"0,many,1\n", "line 2 prompt_tokens = many: expected a whole number of tokens"),
        (HEADER + b"0,0,1\n", "line 2 prompt_tokens = 0: expected a whole number of tokens from 1"),
        (HEADER + b"0,1,0\n", "line 2 output_tokens = 0: expected a whole number of tokens from 1"),
        (HEADER + b"0,1,-3\n", "line 2 output_tokens = -3: expected a whole number"),
        (HEADER + b"0,1.5,1\n", "line 2 prompt_tokens = 1.5: expected a whole number"),
        (HEADER + b"0,1,99999999999\n", "line 2 output_tokens = 99999999999: expected a whole"),
        (HEADER + b"0,1,\n", "line 2 output_tokens = nothing: expected a whole number"),
        (HEADER + b"0,1\n", "t.csv line 2: 2 columns; expected 3"),
        (HEADER + b"0;1;1\n", "t.csv line 2: 1 column; expected 3"),
        (HEADER + b"0,1,1,1\n", "t.csv line 2: 4 columns; expected 3"),
        (HEADER + GOOD + b"\n" + GOOD, "t.csv line 3: an empty line"),
        (HEADER + b"0,1,1\x00\n", "t.csv line 2 = 0,1,1?: holds characters"),
        (HEADER + b"0,1,1\x1b[31m\n", "t.csv line 2 = 0,1,1?[31m: holds characters"),
        (HEADER + b"0,1,\xff\n", "t.csv line 2: not UTF-8 text"),
        ("arrival_seconds,prompt".encode("utf-16"), "t.csv line 1: not UTF-8 text"),
        (HEADER + b'0,1,"1\n', 't.csv line 2 = 0,1,"1: a quote that is not closed'),
        (HEADER + b'"0\n",1,1\n', 't.csv line 2 = "0: a quote that is not closed'),
        (HEADER.replace(b"\n", b"\r") + b"0,1,1\r", "t.csv line 1: a lone carriage return"),
        (HEADER + b"0,1,1" + 2000 * b" ", "t.csv line 2: longer than 1000 bytes"),
        (AZURE + b"1,2,3\n", "line 2 TIMESTAMP = 1: expected a time such as"),
        (AZURE + b"2023-13-16 18:15:46,2,3\n", "line 2 TIMESTAMP = 2023-13-16 18:15:46: expected"),
        (AZURE + b"2023-11-16 25:15:46,2,3\n", "TIMESTAMP = 2023-11-16 25:15:46: expected"),
        (
            AZURE + b"2023-11-16 18:15:46,2,3\n2023-11-16 18:15:45,2,3\n",
            "t.csv line 3 TIMESTAMP = 2023-11-16 18:15:45: before the line above",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_line_and_column(content, said):
    assert said in refused(content)


def test_too_many_requests_are_refused(monkeypatch):
    monkeypatch.setattr(reading, "MOST_REQUESTS", 3)
    assert len(parsed(HEADER + 3 * GOOD)[0]) == 3
    assert "more than the 3 requests accepted" in refused(HEADER + 4 * GOOD)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6).map(lambda value: round(value, 6)),
            st.integers(1, 10**6),
            st.integers(1, 10**6),
        ),
        min_size=1,
        max_size=30,
    ),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_whatever_a_csv_writer_writes_is_read_back(rows, quoted):
    rows = sorted(rows)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(HEADER.decode().strip().split(","))
    writer.writerows(rows)
    times, prompts, outputs = parsed(text.getvalue().encode())
    assert times == pytest.approx([row[0] - rows[0][0] for row in rows], abs=1e-9)
    assert list(zip(prompts, outputs, strict=True)) == [row[1:] for row in rows]


@given(st.binary(max_size=60))
@example(b"0,1,1\n\x00")
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused_in_one_line(tail):
    for content in (tail, HEADER + tail, AZURE + tail):
        try:
            found = parse_trace(content, "t.csv")
        except InputError as error:
            assert str(error).isprintable()
        else:
            assert found.prompt_tokens.min() >= 1
            assert (np.diff(found.arrival_seconds) >= 0).all()


def test_a_request_longer_than_the_context_is_named():
    trace = parse_trace(HEADER + b"0,512,128\n1,700,1\n", "t.csv")
    with pytest.raises(InputError, match=r"t.csv line 3 prompt_tokens = 700: expected fewer"):
        require_context(trace, 640)
    trace = parse_trace(HEADER + b"0,512,128\n1,512,129\n", "t.csv")
    with pytest.raises(InputError, match=r"line 3 output_tokens = 129: with prompt_tokens = 512"):
        require_context(trace, 640)
    require_context(trace, 641)
    azure = parse_trace(AZURE + b"2023-11-16 18:15:46,640,1\n", "t.csv")
    with pytest.raises(InputError, match=r"t.csv line 2 ContextTokens = 640"):
        simulate(scenario(MT3000), azure)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "missing.csv", "a\0b"):
        with pytest.raises(InputError, match="--trace"):
            read_trace(path)
    good = tmp_path / "good.csv"
    good.write_bytes(HEADER + GOOD)
    assert read_trace(str(good)).name == "good.csv"


def test_memory_is_what_the_numbers_take():
    """A file is read line by line: 16 bytes a request, and arrays that grow by an eighth."""
    rows = 40_000
    content = HEADER + b"".join(b"%d.25,512,128\n" % second for second in range(rows))
    file = io.BytesIO(content)
    tracemalloc.start()
    trace = parse_trace(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert trace.arrival_seconds.size == rows
    assert peak < 3 * 16 * rows + 200_000
