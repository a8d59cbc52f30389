"""Chips of one's own: whole documents, differences from a preset, and rows edited by hand."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.chips.registry import check_numbers
from explorer.config.chip import SMALLEST_VALUE, Chip
from explorer.config.errors import InputError
from explorer.config.files import chip_from, chip_from_json
from explorer.config.jsonio import LARGEST_DOCUMENT_BYTES
from explorer.config.numbers import number_text, plain_number
from explorer.config.own_chip import (
    NO_SOURCE,
    QuantityChange,
    Row,
    changes_in,
    derived_chip,
    parse_chip,
    rows_of,
)
from explorer.config.presets import load_chip, versions_of
from explorer.config.quantity import plain_text
from explorer.serving.evaluate import evaluate
from tests.scenarios import MT3000, scenario

BANDWIDTH = "ddr_bandwidth_bytes_per_second"
CHIPS = tuple(versions_of("chips"))


def differences(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "schema": "explorer.chip/1",
        "base": "mt3000@1",
        "id": "mine",
        "name": "Mine",
        "quantities": {},
    }
    return {key: value for key, value in {**document, **changes}.items() if value is not None}


def whole(preset: str = "mt3000", **changes: Any) -> dict[str, Any]:
    document = load_chip(preset).model_dump(mode="json", by_alias=True)
    return copy.deepcopy({**document, "id": "mine", **changes})


def refused(document: Any) -> str:
    content = document if isinstance(document, str | bytes) else json.dumps(document)
    with pytest.raises(InputError) as caught:
        check_numbers(chip_from_json(content, "mine.json"))
    message = str(caught.value)
    assert message.isprintable()
    return message


# Differences from a preset


def test_everything_but_the_differences_is_the_presets() -> None:
    chip = parse_chip(differences(quantities={BANDWIDTH: 6e10}))
    base = load_chip("mt3000")
    assert (chip.id, chip.version, chip.name) == ("mine", 1, "Mine")
    assert (chip.family, chip.unit_name) == (base.family, base.unit_name)
    assert chip.source == "derived from MT-3000 (mt3000@1)"
    moved = {name for name, item in chip.quantities.items() if item != base.quantities[name]}
    assert moved == {BANDWIDTH}
    now, before = chip.quantities[BANDWIDTH], base.quantities[BANDWIDTH]
    assert (now.value, now.source, now.kind) == (6e10, NO_SOURCE, "assumed")
    assert (now.unit, now.minimum, now.maximum) == (before.unit, before.minimum, before.maximum)


def test_a_change_may_say_everything_about_a_number() -> None:
    change = {
        "value": 5e13, "unit": "B/s", "source": "a letter", "kind": "measured", "note": "once",
        "minimum": 1e10, "maximum": 1e14,
    }  # fmt: skip
    item = parse_chip(differences(quantities={BANDWIDTH: change})).quantities[BANDWIDTH]
    assert {key: getattr(item, key) for key in change} == change


def test_the_same_value_keeps_its_source_unless_it_is_told_anew() -> None:
    base = load_chip("mt3000").quantities[BANDWIDTH]
    kept = parse_chip(differences(quantities={BANDWIDTH: base.value})).quantities[BANDWIDTH]
    assert kept == base
    told = parse_chip(differences(quantities={BANDWIDTH: {"kind": "measured", "source": "mine"}}))
    item = told.quantities[BANDWIDTH]
    assert (item.value, item.kind, item.source) == (base.value, "measured", "mine")


def test_a_note_on_the_old_value_goes_with_it() -> None:
    name = "peak_macs_per_second_fp32"
    assert load_chip("mt3000").quantities[name].note
    assert parse_chip(differences(quantities={name: 5e12})).quantities[name].note == ""


@pytest.mark.parametrize("name", CHIPS)
def test_no_differences_are_the_preset_under_another_name(name: str) -> None:
    chip = parse_chip(differences(base=f"{name}@1"))
    assert chip.quantities == load_chip(name).quantities
    check_numbers(chip)


@given(st.sampled_from(CHIPS), st.data())
@settings(max_examples=60, deadline=None)
def test_a_chip_in_a_file_does_what_its_sliders_do(name: str, data: st.DataObject) -> None:
    """Overrides on sliders, differences, and the whole document deliver the same figures."""
    preset = {"mt3000": MT3000, "ascend910a": "ascend910a-qwen3.8-27b"}.get(name, "a100-llama2-70b")
    base = scenario(preset).with_chip(name)
    chip = base.chip_document()
    names = data.draw(st.lists(st.sampled_from(list(chip.quantities)), max_size=4, unique=True))
    values = {}
    for quantity in names:
        knob = chip.knob(quantity)
        low, high = max(float(knob.minimum), SMALLEST_VALUE), float(knob.maximum)
        values[quantity] = data.draw(
            st.integers(math.ceil(low), int(high)) if knob.whole else st.floats(low, high)
        )
    document = differences(base=f"{name}@1", quantities=values)
    try:
        sliders = evaluate(base.replacing({f"hardware.{k}": v for k, v in values.items()}))
    except InputError:
        with pytest.raises(InputError):
            evaluate(base.with_chip(parse_chip(document)))
        return
    own = parse_chip(json.loads(json.dumps(document)))
    again = parse_chip(json.loads(json.dumps(own.model_dump(mode="json", by_alias=True))))
    assert again == own
    found = evaluate(base.with_chip(own))
    for figure in ("prefill_seconds", "decode_seconds", "limit_bytes", "clusters"):
        assert float(getattr(found, figure)) == float(getattr(sliders, figure))


# Rows edited by hand


@given(st.floats(1e-18, 1e30) | st.integers(0, 2**53))
def test_numbers_are_written_shortly_and_read_back_exactly(value: float) -> None:
    text = number_text(value)
    assert plain_number(text, isinstance(value, int)) == value
    assert len(text) <= len(repr(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [(4.05e12, "4.05e12"), (2e9, "2e9"), (0.8, "0.8"), (1e-5, "1e-5"), (24, "24"), (24.0, "24"),
     (0.0, "0"), (65536, "65536"), (999999.5, "999999.5"), (0.001, "0.001"), (4.04e-4, "4.04e-4")],
)  # fmt: skip
def test_numbers_read_as_people_write_them(value: float, text: str) -> None:
    assert number_text(value) == text


def test_rows_tell_what_changed() -> None:
    base = load_chip("mt3000")
    rows = rows_of(base)
    assert changes_in(base, rows) == {}
    rows[BANDWIDTH] = Row(" 6e10 ", "published", rows[BANDWIDTH].source)
    rows["gsm_bytes"] = Row("12582912", "measured", " a bench ")
    rows["memory_bytes"] = rows["memory_bytes"]._replace(source="their page")
    assert changes_in(base, rows) == {
        BANDWIDTH: QuantityChange(value=6e10),
        "gsm_bytes": QuantityChange(value=12582912, kind="measured", source="a bench"),
        "memory_bytes": QuantityChange(value=2e10, source="their page"),
    }
    chip = derived_chip(base, ("mine", 1, "Mine", "why"), changes_in(base, rows))
    assert chip.source == "why"
    assert chip.quantities[BANDWIDTH].source == NO_SOURCE
    assert chip.quantities["memory_bytes"].kind == base.quantities["memory_bytes"].kind


@pytest.mark.parametrize(
    ("name", "text"),
    [(BANDWIDTH, ""), (BANDWIDTH, "fast"), (BANDWIDTH, "60 GB/s"), (BANDWIDTH, "nan"),
     (BANDWIDTH, "inf"), (BANDWIDTH, "-1"), (BANDWIDTH, "1e300"), (BANDWIDTH, "6_0"),
     (BANDWIDTH, "٦"), ("gsm_bytes", "7e6"), ("gsm_bytes", "7000000.5"), ("gsm_bytes", "1")],
)  # fmt: skip
def test_texts_that_are_no_number_of_the_range_are_told_by_label(name: str, text: str) -> None:
    base = load_chip("mt3000")
    rows = {**rows_of(base), name: Row(text, "assumed", "x")}
    with pytest.raises(InputError) as caught:
        changes_in(base, rows)
    (problem,) = caught.value.problems
    assert problem.field == base.quantities[name].label
    assert problem.accepted == base.knob(name).accepted()


def test_kinds_and_sources_are_checked() -> None:
    base = load_chip("mt3000")
    for row in (Row("6e10", "guessed", "x"), Row("6e10", "assumed", "=1+1")):
        with pytest.raises(InputError, match="Memory bandwidth a cluster"):
            changes_in(base, {**rows_of(base), BANDWIDTH: row})


# Bad documents


BAD_DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"base": "mt3000"}, "base = mt3000: expected a preset with its version"),
    ({"base": "mt3000@7"}, "unknown version; available: 1"),
    ({"base": "mt4000@1"}, "unknown preset"),
    ({"base": "../mt3000@1"}, "unknown preset"),
    ({"base": 5}, "base"),
    ({"base": {}}, "base"),
    ({"id": None}, "id: this field is required"),
    ({"id": "mt3000"}, "id = mt3000: is a preset's"),
    ({"id": "h100-sxm"}, "is a preset's"),
    ({"id": "My Chip"}, "id"),
    ({"id": ""}, "id"),
    ({"id": "a" * 81}, "id"),
    ({"id": "mt3000\u200b"}, "id"),
    ({"id": "mт3000"}, "id"),
    ({"name": ""}, "name"),
    ({"name": "x" * 201}, "name"),
    ({"name": "a\nb"}, "name"),
    ({"name": "a\u202eb"}, "invisible"),
    ({"name": "a\u2066b"}, "invisible"),
    ({"name": "a\ufeffb"}, "invisible"),
    ({"name": "=HYPERLINK(1)"}, "formula"),
    ({"version": 0}, "version"),
    ({"version": "1"}, "version"),
    ({"family": "mt3000"}, "family: unknown field"),
    ({"quantities": None}, "quantities: this field is required"),
    ({"quantities": []}, "quantities"),
    ({"quantities": {"nothing": 1}}, "quantities.nothing: MT-3000 has no such number"),
    ({"quantities": {"ddr_bandwith_bytes_per_second": 1}}, f"expected {BANDWIDTH}"),
    ({"quantities": {"A B": 1}}, "quantities"),
    ({"quantities": {BANDWIDTH: "6e10"}}, "expected a number, or an object"),
    ({"quantities": {BANDWIDTH: True}}, "expected a number, or an object"),
    ({"quantities": {BANDWIDTH: None}}, "expected a number, or an object"),
    ({"quantities": {BANDWIDTH: [6e10]}}, "expected a number, or an object"),
    ({"quantities": {BANDWIDTH: float("nan")}}, "finite number"),
    ({"quantities": {BANDWIDTH: float("inf")}}, "finite number"),
    ({"quantities": {BANDWIDTH: 10**400}}, BANDWIDTH),
    ({"quantities": {BANDWIDTH: -6e10}}, "expected a number from 1e+08 to 1e+13 B/s"),
    ({"quantities": {BANDWIDTH: {"value": "6e10"}}}, "value = 6e10: expected a valid number"),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "unit": "GB/s"}}}, 'expected "B/s"'),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "kind": "guess"}}}, "kind"),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "source": "x" * 4001}}}, "source"),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "source": "@SUM(A1)"}}}, "formula"),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "maximum": 5e10}}}, "minimum <= value <= maximum"),
    ({"quantities": {BANDWIDTH: {"value": 6e10, "label": "x"}}}, "label: unknown field"),
    ({"quantities": {"gsm_bytes": 7e6}}, "expected a whole number"),
    ({"quantities": {"gsm_bytes": {"value": 7000000.5, "minimum": 0}}}, "whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "named"), BAD_DIFFERENCES, ids=lambda value: str(value)[:40])
def test_wrong_differences_are_named(changes: dict[str, Any], named: str) -> None:
    assert named in refused(differences(**changes))


def test_each_wrong_number_is_told_once() -> None:
    message = refused(differences(quantities={BANDWIDTH: {"value": "x"}, "memory_bytes": {"a": 1}}))
    assert message.count(BANDWIDTH) == 1
    assert ".int" not in message


def with_quantity(**changes: Any) -> dict[str, Any]:
    document = whole()
    document["quantities"]["overhead_bytes"].update(changes)
    return document


BAD_WHOLE = [
    (whole(family="tpu"), "family"),
    (whole(schema="explorer.chip/2"), "a newer explorer wrote this document"),
    (whole(schema="explorer.model/1"), 'expected "explorer.chip/1"'),
    ({**whole(), "schema": None}, "schema: this field is required"),
    (whole(unit_name="GPU <b>"), "unit_name"),
    (whole(id="mt3000", name="x"), "id = mt3000: is a preset's"),
    (whole(quantities={}), "also needs peak_macs_per_second_fp32"),
    (whole(quantities={f"n{i}": {} for i in range(300)}), "quantities"),
    (with_quantity(scale="divisors"), "scale"),
    (with_quantity(scale="integers", maximum=1e15), "fewer than 100,000 steps"),
    (with_quantity(scale="powers_of_two", maximum=1e20), "minimum <= value <= maximum"),
    (with_quantity(value=0, minimum=0, maximum=0), "maximum above 0"),
    (with_quantity(label=""), "label"),
    (with_quantity(raising="a\u0000b"), "raising"),
    (with_quantity(label="=x"), "formula"),
    ({"schema": "explorer.export/1"}, 'expected "explorer.chip/1"'),
]


@pytest.mark.parametrize(("document", "named"), BAD_WHOLE, ids=[named for _, named in BAD_WHOLE])
def test_wrong_chips_are_named(document: dict[str, Any], named: str) -> None:
    assert named in refused(document)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"PK\x03\x04", "not valid JSON"), (b"\x80\x04\x95.\xff", "not UTF-8"), (b"[]", "object"),
        (b"[" * 100_000, "nested too deeply"), (b'{"a":' * 100_000, "nested too deeply"),
        (b" " * (LARGEST_DOCUMENT_BYTES + 1), "larger than the 4 MB accepted"),
        (b'{"schema": "explorer.chip/1", "schema": "explorer.chip/1"}', "appears twice"),
        (b"{}", "schema: this field is required"),
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_no_document_is_refused(content: bytes, named: str) -> None:
    assert named in refused(content)


def test_a_preset_by_its_own_id_is_the_preset() -> None:
    assert chip_from_json(json.dumps(whole(id="mt3000"))) == load_chip("mt3000")


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_is_found_by_id_or_file(name: str, tmp_path: Path) -> None:
    assert chip_from(name) == chip_from(f"{name}@1") == f"{name}@1"
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(differences(base=f"{name}@1")), encoding="utf-8")
    chip = chip_from(str(file))
    assert isinstance(chip, Chip)
    assert chip.id == "mine"


@pytest.mark.parametrize(
    "reference", ["", ".", "nothing", "nothing.json", "/no/such", "mt3000@2", "\x00", "a\x00.json"]
)
def test_what_is_neither_is_refused_in_one_line(reference: str) -> None:
    with pytest.raises(InputError) as caught:
        chip_from(reference)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "a\u202eb",
        "\u200b",
        "a\u2028b",
        "\ufeff",
        "a\u00adb",
        "a\tb",
        "\x7f",
        "👩\u200d🔬",
        "\U000e0041",
    ],
)
def test_unseen_characters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invisible"):
        plain_text(text)


@pytest.mark.parametrize("text", ["Ünïcode", "漢字", "🂡", "<b>&amp;"])
def test_scripts_emoji_and_markup_are_text(text: str) -> None:
    assert plain_text(text) == text
