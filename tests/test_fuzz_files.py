"""Links and files with parts changed and bytes damaged: used exactly, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.chips.inputs import Inputs
from explorer.chips.registry import machine_of
from explorer.cli import main
from explorer.config.files import chip_from_json, scenario_from_json
from explorer.config.links import link_query, nearest_preset, open_link, preset_scenario
from explorer.config.own_model import model_from_json, with_model
from explorer.config.scenario import Scenario
from explorer.fidelity.measurements import measurements_csv, parse_measurements
from explorer.fidelity.predict import predict
from explorer.fidelity.profile_text import parse_profile
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.report import evaluation_document
from explorer.serving.simulation import simulate
from explorer.serving.trace import parse_trace
from tests.fuzz import (
    STRANGE,
    broken_documents,
    broken_tables,
    examples,
    golden,
    hugging_face_configs,
    one_scenario,
    or_refused,
)

ROOT = Path(__file__).resolve().parent.parent
MEASUREMENTS = {
    path.stem: path.read_bytes() for path in (ROOT / "presets" / "measurements").glob("*.csv")
}
TRACE = b"arrival_seconds,prompt_tokens,output_tokens\n" + b"".join(
    f"{i * 0.37},{100 + 13 * i % 400},{1 + 7 * i % 100}\n".encode() for i in range(30)
)
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n" + b"".join(
    f"2023-11-16 18:17:{i:02d}.9799600,{300 + i},{10 + i}\n".encode() for i in range(30)
)
PROFILE = """rank 0 prefill_seconds=4.055 rate=548.2
STACK.r 3.95 s
gated_delta: 1.62 s (48 calls)
full_attention = 0.20 s
projections 0.84
all_reduce 0.64
norms 0.19
"""


def use(scenario: Scenario | None) -> None:
    """Do with a scenario from outside what the app does."""
    if scenario is None or or_refused(lambda: machine_of(Inputs(scenario))) is None:
        return
    json.dumps(evaluation_document(evaluate(scenario)), allow_nan=False)
    exported = json.dumps(export_document(scenario), allow_nan=False)
    assert scenario_from_json(exported) == scenario.pinned()
    or_refused(lambda: link_query(scenario, nearest_preset(scenario)))


@given(broken_documents(golden("scenario-*.json", "export-*.json")))
@examples(1500)
def test_a_broken_scenario_file_is_used_or_refused(content: bytes) -> None:
    use(or_refused(lambda: scenario_from_json(content, "f.json")))


@given(broken_documents(golden("chip-*.json")))
@examples(800)
def test_a_broken_chip_file_is_used_or_refused(content: bytes) -> None:
    chip = or_refused(lambda: chip_from_json(content, "f.json"))
    if chip is not None:
        use(or_refused(lambda: preset_scenario("mt3000-llama2-13b").with_chip(chip)))


@given(broken_documents([*golden("model-*.json"), *hugging_face_configs()]))
@examples(1500)
def test_a_broken_model_file_is_used_or_refused(content: bytes) -> None:
    imported = or_refused(lambda: model_from_json(content, "config.json"))
    if imported is not None:
        base = preset_scenario("mt3000-llama2-13b")
        changed = or_refused(lambda: with_model(base, imported.document))
        use(None if changed is None else changed[0])


@st.composite
def links(draw: st.DrawFn) -> str:
    """Draw a link with parts doubled, renamed, set to anything, or not a link at all."""
    s = draw(one_scenario())
    query = or_refused(lambda: link_query(s, nearest_preset(s))) or "preset=mt3000-llama2-13b@1"
    parts = query.split("&")
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(parts) - 1))
        name = parts[at].partition("=")[0]
        value = draw(st.sampled_from([str(item) for item in STRANGE]) | st.text(max_size=8))
        value = quote(value.encode("utf-8", "surrogatepass"))
        parts[at] = draw(
            st.sampled_from([f"{name}={value}", f"{name}x={value}", parts[at] * 2, value, ""])
        )
        parts.insert(draw(st.integers(0, len(parts))), draw(st.sampled_from(parts)))
    return draw(st.sampled_from(["?", "", "http://host/?", "/slices?"])) + "&".join(parts)


@given(links())
@examples(800)
def test_a_broken_link_opens_with_what_is_right_in_it(link: str) -> None:
    opened = or_refused(lambda: open_link(link, "mt3000-llama2-13b"))
    if opened is not None:
        use(opened.scenario)
        assert all(problem.sentence().isprintable() for problem in opened.problems)


@given(link=links())
@examples(60)
def test_a_command_ends_with_0_or_with_2_and_one_line(
    capsys: pytest.CaptureFixture[str], link: str
) -> None:
    status = main(["open", link])
    said = capsys.readouterr()
    assert status in (0, 2)
    assert said.err.count("\n") <= (1 if status else 0) or "\n" in said.err.strip()
    assert "Traceback" not in said.err


@given(st.sampled_from(sorted(MEASUREMENTS)).flatmap(lambda n: broken_tables(MEASUREMENTS[n])))
@examples(800)
def test_a_broken_table_of_measurements_is_predicted_or_refused(content: bytes) -> None:
    rows = or_refused(lambda: parse_measurements(content, "m.csv")) or ()
    assert parse_measurements(measurements_csv(rows).encode(), "m.csv") == rows if rows else True
    for row in rows[:3]:
        outcome = predict(row)
        assert outcome.reason or outcome.prediction is not None


@given(st.sampled_from([TRACE, AZURE]).flatmap(broken_tables))
@examples(800)
def test_a_broken_trace_is_simulated_or_refused(content: bytes) -> None:
    trace = or_refused(lambda: parse_trace(content, "t.csv"))
    if trace is not None:
        or_refused(lambda: simulate(preset_scenario("mt3000-llama2-13b"), trace))


@given(broken_tables(PROFILE.encode()), st.none() | st.integers(1, 10_000))
@examples(800)
def test_a_broken_profile_is_read_or_refused(content: bytes, rows: int | None) -> None:
    text = content.decode("utf-8", "replace")
    or_refused(lambda: parse_profile(text, "p.txt", rows=rows))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@examples(500)
def test_what_is_no_file_of_any_kind_is_refused_in_words(content: bytes) -> None:
    for read in (
        scenario_from_json, chip_from_json, model_from_json, parse_measurements, parse_trace,
    ):  # fmt: skip
        or_refused(lambda read=read: read(content, "f"))
    or_refused(lambda: parse_profile(content.decode("utf-8", "replace"), "f"))
