"""Pasted profiles: every way to print the same block reads the same, and nothing is guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.fidelity.measurements import (
    measurements_csv,
    parse_measurements,
    shipped_measurements,
)
from explorer.fidelity.predict import predict
from explorer.fidelity.profile_text import parse_profile

# Section 5.2 of the report, as its table is copied from the page.
REPORT = """
prompt tokens\t1105\t2223\t4433
wall (prefill_seconds)\t1.2501\t2.1490\t3.9484
STACK.r\t1.2229\t2.1187\t3.9142
prefill TPS\t883.9\t1034.5\t1122.7
gated_delta (48 calls)\t0.5493 (44.9%)\t1.1005 (51.9%)\t2.2009 (56.2%)
full_attention (16)\t0.1359 (11.1%)\t0.2331 (11.0%)\t0.4722 (12.1%)
projections, all 384 GEMMs\t0.1623 (13.3%)\t0.3243 (15.3%)\t0.5471 (14.0%)
tp_all_reduce (129 collectives)\t0.3026 (24.7%)\t0.3479 (16.4%)\t0.4961 (12.7%)
attn_resid_norm + add + norm\t0.0312 (2.6%)\t0.0507 (2.4%)\t0.0693 (1.8%)
"""
SCOPES = {
    "STACK.r": 1.2229,
    "gated_delta": 0.5493,
    "full_attention": 0.1359,
    "projections": 0.1623,
    "tp_all_reduce": 0.3026,
    "norms": 0.0312,
    "swiglu": 0.0125,
}
CALLS = 48
RESULT = "prefill_seconds=1.2501 prefill_tokens_per_s=883.9 decode_seconds=14.5"
EXPECTED = {"wall": 1.2501, "stack": 1.2229} | {
    name: seconds for name, seconds in SCOPES.items() if name not in ("STACK.r", "swiglu")
}
TAG = "qwen_phase tag=prefill rank=0"
FORMATS = [
    "  {name} seconds={s:.4f}",
    "{name}: {s:.4f} s",
    "{name}:{s:.4f}",
    "{name} = {ms:.1f} ms",
    "{name}\t{calls}\t{s:.4f}",
    "{name},{calls} calls,{s:.4f}",
    "| {name} | {calls} | {s:.4f} | 44.9% |",
    "| {name} | {s:.4f} s | 44.9 % |",
    "{name} calls={calls} seconds={s:.4f} mean=0.0114",
    "scope={name} calls={calls} seconds={s:.4f} share=0.1",
    "name: {name} seconds: {s:.4f}",
    "{name} {us:.0f}us",
    "{name} {us:.0f} µs",
    "{name:<24}{s:.4f}",
    "{name} ({calls} calls): {s:.4f}s (12.0%)",
    "{name} calls {calls} total {s:.4f} s mean 11.4 ms",
    "- {name} : {ms:.1f} ms",
    "{name}={s:.4f}",
    "{name} {s:.4e}",
    TAG + " scope={name} calls={calls} seconds={s:.4f}",
]


def block(template: str, factor: float = 1.0, scopes=SCOPES, head: str = TAG) -> str:
    lines = [
        template.format(
            name=name, s=factor * s, ms=1e3 * factor * s, us=1e6 * factor * s, calls=CALLS
        )
        for name, s in scopes.items()
    ]
    return "\n".join([head, *lines])


def parsed(text: str, **given_):
    return parse_profile(text, "my.txt", **given_)


def refusal(text: str, **given_) -> str:
    with pytest.raises(InputError) as caught:
        parsed(text, **given_)
    assert str(caught.value).isprintable()
    return str(caught.value)


PLAIN = block(FORMATS[0])


def test_the_reports_own_table_gives_the_published_rows() -> None:
    found = parsed(REPORT)
    published = {
        (row.conditions["rows"], row.conditions["phase"]): row.value
        for row in shipped_measurements()
        if row.quantity == "phase_time"
    }
    read = {
        (row.conditions["rows"], row.conditions["phase"]): row.value for row in found.measurements
    }
    assert read == published
    assert found.notes == ()
    assert all(predict(row).prediction is not None for row in found.measurements)


@pytest.mark.parametrize("template", FORMATS)
def test_the_timed_block_is_found_among_warm_ups_however_it_is_printed(template: str) -> None:
    text = "\n\n".join(
        [block(template, 1.31), block(template, 0.08), block(template), RESULT + "\n"]
    )
    found = parsed(text)
    (run,) = found.timed
    assert (run.rows, run.tp) == (1105, 4)
    assert run.phases == pytest.approx(EXPECTED, rel=1e-3)
    assert found.blocks == 3
    assert run.first_line == 2 * (len(SCOPES) + 2) + 2
    assert run.unknown == ("swiglu",)


def test_blocks_without_a_tag_are_told_apart_by_gaps_and_by_their_first_scope() -> None:
    one, two = block(FORMATS[0], 1.3, head=""), block(FORMATS[0], head="")
    for between in ("\n\n", "\n----\n", "\n", f"\n{TAG}\n"):
        assert parsed(f"{one}{between}{two}\n{RESULT}").timed[0].phases == pytest.approx(EXPECTED)


def test_blank_lines_within_a_block_do_not_end_it() -> None:
    spaced = PLAIN.replace("\n", "\n\n")
    assert parsed(f"{spaced}\n\n{RESULT}").timed[0].phases == pytest.approx(EXPECTED)


def test_several_scopes_may_stand_on_one_line() -> None:
    line = " ".join(f"{name}={seconds}" for name, seconds in SCOPES.items())
    assert parsed(f"wall=1.2501 {line}\nrows=1105").timed[0].phases == pytest.approx(EXPECTED)
    assert parsed(f"{line}\n{RESULT}").timed[0].phases == pytest.approx(EXPECTED)


def test_norms_may_be_given_as_their_parts_and_only_as_all_of_them() -> None:
    parts = SCOPES | {"attn_resid_norm": 0.01, "add": 0.0112, "norm": 0.01}
    del parts["norms"]
    found = parsed(f"{block(FORMATS[0], scopes=parts)}\n{RESULT}")
    assert found.timed[0].phases == pytest.approx(EXPECTED)
    del parts["add"]
    less = parsed(f"{block(FORMATS[0], scopes=parts)}\n{RESULT}")
    assert "norms" not in less.timed[0].phases
    assert any("attn_resid_norm" in note for note in less.notes)


def test_other_ranks_and_nested_host_spans_are_left_aside() -> None:
    host = "qwen_host tag=prefill\nlayer.attn 1.2\nar.lin.out 0.9\nar.mlp.down 0.7\nTOTAL 2.77\n"
    other = block(FORMATS[0], 1.001, head="qwen_phase tag=prefill rank=1")
    found = parsed(f"{host}\n{other}\nrank=1 prefill_seconds=1.2503\n\n{PLAIN}\n{RESULT}")
    assert found.timed[0].phases == pytest.approx(EXPECTED)
    assert "blocks of other ranks, left out: 1" in found.notes
    assert "nested host spans" in refusal(f"{host}\n{RESULT}")


def test_several_runs_pair_with_their_own_blocks() -> None:
    second = "prefill_seconds=2.149 prefill_tokens_per_s=1034.5"
    longer = SCOPES | {"STACK.r": 2.1187, "gated_delta": 1.1005}
    text = f"{PLAIN}\n{RESULT}\n\n{block(FORMATS[0], scopes=longer)}\n{second}"
    found = parsed(text)
    assert [(run.rows, run.phases["stack"]) for run in found.timed] == [
        (1105, 1.2229),
        (2223, 2.1187),
    ]
    assert len({row.id for row in found.measurements}) == len(found.measurements)


def test_rows_and_wall_may_be_given_beside_the_text() -> None:
    found = parsed(PLAIN, rows=1105, wall_seconds=1.2501)
    assert found.timed[0].phases == pytest.approx(EXPECTED)
    assert parsed(f"{PLAIN}\nwall: 1.2501 s\nprompt_tokens: 1105").timed[0].rows == 1105
    assert parsed(f"{PLAIN}\nwall=1.2501 rows=1105 tp=2").timed[0].tp == 2
    assert parsed(f"{PLAIN}\n{RESULT}", tp=8).timed[0].tp == 8


def test_the_rows_are_measurements_that_the_reader_accepts_and_models_predict() -> None:
    found = parsed(f"{PLAIN}\n{RESULT}")
    again = parse_measurements(measurements_csv(found.measurements).encode(), "my.txt.csv")
    assert again == found.measurements
    errors = []
    for row in again:
        outcome = predict(row)
        assert outcome.prediction is not None
        errors.append(abs(outcome.prediction.value / row.si_value - 1))
    assert max(errors) < 0.01


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gated_delta 0.5493 0.1359", "expected one time (such as seconds=0.5493)"),
        ("gated_delta 48 16", "found 48, 16"),
        ("gated_delta 1 calls 48", "may belong to either number"),
        ("gated_delta seconds=nan", "no number"),
        ("gated_delta seconds=-0.5", "0 or above"),
        ("gated_delta seconds=1e999", "0 or above"),
        ("gated_delta 0,5493", "decimal point"),
        ("gated_delta 1,234.5 ms", "decimal point"),
        ("gated_delta 0.5493 furlongs=3 seconds=0.1 seconds=0.2", "expected one time"),
        ("gated_delta 0.54h", "no unit of time"),
        ("0.5493", "without a scope"),
        ("seconds=0.5493", "without a scope"),
        ("[INFO] 12:30:01 loaded 64 layers", "line 3"),
        ("QWEN_COMM_OVERLAP_SLICES=4 ./run.sh", "serial path"),
        ("x" * 2000 + " 1", "longer than"),
    ],
)
def test_what_is_ambiguous_is_refused_with_its_line(line: str, words: str) -> None:
    message = refusal(f"{TAG}\nSTACK.r seconds=1.2229\n{line}\n{RESULT}")
    assert "line 3" in message
    assert words in message


def test_a_scope_that_comes_again_without_a_gap_is_ambiguous() -> None:
    message = refusal(f"{TAG}\nSTACK.r 1.2229\nadd 0.1\nadd 0.1\n{RESULT}")
    assert "line 4" in message
    assert "block that begins on line 2" in message


def test_blocks_that_both_match_or_do_not_match_are_refused() -> None:
    twice = refusal(f"{PLAIN}\n\n{block(FORMATS[0], 0.999)}\n{RESULT}")
    assert "line 2" in twice
    assert "line 11" in twice
    none = refusal(f"{block(FORMATS[0], 0.9)}\n{RESULT}")
    assert "between 93 % and 100 %" in none
    assert "1.1006 s on line 2" in none
    assert "STACK.r" in refusal(f"gated_delta 0.5\n{RESULT}")
    # A stack above its wall is another run's.
    assert "no block" in refusal(f"{block(FORMATS[0], 1.03)}\n{RESULT}")


def test_scopes_that_exceed_their_stack_are_nested_spans() -> None:
    nested = SCOPES | {"tp_all_reduce": 1.1}
    assert "nested host spans" in refusal(f"{block(FORMATS[0], scopes=nested)}\n{RESULT}")


@pytest.mark.parametrize(
    ("text", "given_", "words"),
    [
        ("", {}, "wall: not in the text"),
        (PLAIN, {}, "wall: not in the text"),
        (f"{PLAIN}\nwall=1.2501", {}, "rows: not in the text"),
        (f"{PLAIN}\n{RESULT}", {"rows": 512}, "512"),
        (f"{PLAIN}\n{RESULT}", {"wall_seconds": 2.0}, "given as 2 s"),
        (f"{PLAIN}\n{RESULT} rows=2223", {}, "give 1105 rows"),
        (f"{PLAIN}\nwall=1.2501 rows=11.5", {}, "whole number"),
        (f"{PLAIN}\nwall=1.2501 rows=1105 tp=4", {"tp": 2}, "TP was given as 2"),
        (f"{PLAIN}\n{RESULT}\nrows=1105\nrows=1106", {}, "line 11"),
        (f"prompt tokens 1105 2223\nwall 1.25\n{RESULT}", {}, "expected 2 values"),
        ("wall=1.25 rows=3", {}, "no scope with a time"),
        ("qwen_phase tag=prefill rank=2\nSTACK.r 1.22\nwall=1.25 rows=3", {}, "rank"),
        ("a 1\n" * 9000, {}, "lines accepted"),
        ("a" * 500_000, {}, "characters accepted"),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_refused(text, given_, words) -> None:
    assert words in refusal(text, **given_)


names = st.from_regex(r"[a-z][a-z_]{2,12}(\.[a-z]{1,6})?", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 30).map(lambda x: float(f"{x:.5g}")),
    st.sampled_from(FORMATS[:1] + FORMATS[8:10]),
    st.lists(st.floats(0.05, 0.9), max_size=3, unique=True),
    st.integers(20, 9000),
)
def test_any_run_reads_back_what_was_printed(stack, template, warm_ups, rows) -> None:
    shares = {"gated_delta": 0.45, "full_attention": 0.1, "projections": 0.2, "tp_all_reduce": 0.1}
    scopes = {"STACK.r": stack} | {name: share * stack for name, share in shares.items()}
    blocks = [
        block(template.replace(":.4f", ":.9f"), factor, scopes) for factor in (*warm_ups, 1.0)
    ]
    text = "\n\n".join(blocks) + f"\nprefill_seconds={stack * 1.015!r} rows={rows}\n"
    (run,) = parsed(text).timed
    assert run.rows == rows
    assert run.phases["stack"] == pytest.approx(stack, rel=1e-6)
    assert run.phases["gated_delta"] == pytest.approx(0.45 * stack, rel=1e-6)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_no_text_ends_in_anything_but_rows_or_one_sentence(text: str) -> None:
    try:
        found = parse_profile(text, "x", rows=5, wall_seconds=1.0)
    except InputError as error:
        assert str(error).isprintable()
    else:
        assert found.measurements


lines = st.lists(
    st.one_of(
        st.sampled_from([TAG, "", "---", "wall=1.0", "rows 5", "STACK.r 0.99", "a=", "%", "| | |"]),
        st.builds(
            "{} {}{}".format,
            names,
            st.floats(0, 2).map(lambda x: f"{x:.4f}"),
            st.sampled_from(["", " s", "ms", " %", " calls", "="]),
        ),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(lines)
def test_lines_like_those_of_a_profile_never_crash(parts: list[str]) -> None:
    try:
        parse_profile("\n".join(parts), "x", rows=5, wall_seconds=1.0)
    except InputError as error:
        assert str(error).isprintable()
