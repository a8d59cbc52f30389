"""Files from strangers: scenarios, exports and presets, or one clear sentence."""

import json

import pytest

from explorer.config.errors import InputError
from explorer.config.files import scenario_from, scenario_from_json
from explorer.config.jsonio import LARGEST_DOCUMENT_BYTES, PRESETS, parse_json, read_document
from explorer.config.knobs import KnobTable
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, MT3000, scenario
from tests.scenarios import PRESETS as PRESET_IDS


def refused(content, name="plan.json"):
    with pytest.raises(InputError) as caught:
        scenario_from_json(content, name)
    message = str(caught.value)
    assert message.isprintable()
    return message


@pytest.mark.parametrize("preset", PRESET_IDS)
def test_a_preset_file_a_scenario_and_an_export_hold_the_same_scenario(preset, tmp_path):
    s = scenario(preset)
    file = tmp_path / "s.json"
    for document in (s.to_json(), export_document(s)):
        file.write_text(json.dumps(document), encoding="utf-8")
        assert scenario_from(str(file)) == s
    assert scenario_from(str(PRESETS / "scenarios" / f"{preset}@1.json")) == s
    assert scenario_from(preset) == scenario_from(f"{preset}@1") == s


def test_a_file_without_extension_in_the_working_directory_is_read(tmp_path, monkeypatch):
    (tmp_path / "mine").write_text(json.dumps(scenario(MT3000).to_json()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert scenario_from("mine") == scenario(MT3000)


def test_a_byte_order_mark_is_no_harm():
    content = b"\xef\xbb\xbf" + json.dumps(scenario(MT3000).to_json()).encode()
    assert scenario_from_json(content) == scenario(MT3000)


GOOD = json.dumps(scenario(MT3000).to_json())


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "not valid JSON at line 1, column 1"),
        (GOOD[:-1], "not valid JSON at line 1, column"),
        (GOOD[: len(GOOD) // 2], "not valid JSON"),
        (GOOD + "x", "not valid JSON"),
        ("[]", "expected a JSON object"),
        ("null", "expected a JSON object"),
        ('"mt3000-llama2-13b"', "expected a JSON object"),
        ("{}", "schema: this field is required"),
        ('{"schema": null}', "schema: this field is required"),
        ('{"schema": "explorer.scenario/2"}', "a newer explorer wrote this"),
        ('{"schema": "explorer.export/2"}', "a newer explorer wrote this"),
        ('{"schema": "explorer.export/1"}', "scenario: this field is required"),
        ('{"schema": "explorer.export/1", "scenario": 5}', "expected a JSON object"),
        ('{"schema": "explorer.scenario-preset/9"}', "explorer.scenario-preset/1"),
        ('{"schema": "explorer.chip/1"}', 'expected "explorer.scenario/1"'),
        ('{"schema": {}}', 'expected "explorer.scenario/1"'),
        ('{"a": 1, "a": 2}', "appears twice"),
        ('{"schema": "explorer.scenario/1", "plan": {"slices": 1, "slices": 2}}', "appears twice"),
        ('{"a\\n": 1, "a\\n": 2}', "appears twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a":' + "9" * 5000 + "}", "too long to read"),
        (b"\x00\xff\xfe", "not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00", "not UTF-8"),
        (b"PK\x03\x04", "not valid JSON"),
        (GOOD.encode("utf-16"), "not UTF-8"),
        (b" " * (LARGEST_DOCUMENT_BYTES + 1), "larger than the 4 MB accepted"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_unusable_content_is_refused_with_the_reason(content, named):
    assert named in refused(content)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-0", "true"])
def test_numbers_that_json_lacks_never_become_a_plan(literal):
    document = GOOD.replace('"tp_decode": 4', f'"tp_decode": {literal}')
    assert document != GOOD
    assert "plan.tp_decode" in refused(document)
    hardware = GOOD.replace('"hardware": {}', f'"hardware": {{"memory_bytes": {literal}}}')
    assert "hardware.memory_bytes" in refused(hardware)


def test_a_document_of_exactly_the_limit_is_read():
    assert parse_json("{}".ljust(LARGEST_DOCUMENT_BYTES)) == {}


def test_messages_name_the_file():
    assert refused("{", "mine.json").startswith("mine.json: not valid JSON")
    assert refused("{", "a\nb.json").startswith("a?b.json")


@pytest.mark.parametrize(
    "reference",
    [
        "", ".", "..", "/", "nothing", "nothing.json", "/no/such/file", "x" * 300, "x" * 5000,
        "x" * 300 + ".json", "a\x00b", "a\x00b.json", "\ud800", "\ud800.json", "a\nb", "a\nb.json",
        "mt3000-llama2-13b@2", "mt3000-llama2-13b@x", "~", "file:///etc/hosts", "-",
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_what_is_neither_preset_nor_file_is_refused_in_one_line(reference):
    with pytest.raises(InputError) as caught:
        scenario_from(reference)
    assert str(caught.value).isprintable()


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path):
    file = tmp_path / "big.json"
    with file.open("wb") as opened:
        opened.truncate(50_000_000_000)
    with pytest.raises(InputError, match=r"big\.json: larger than the 4 MB accepted"):
        scenario_from(str(file))


def test_a_file_without_permission_or_a_folder_says_why(tmp_path):
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        scenario_from(f"{tmp_path}/")


def test_a_missing_document_of_the_project_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: cannot be read"):
        read_document(tmp_path / "none.json", KnobTable)


@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_what_is_exported_opens_to_the_same_export(preset):
    s = scenario(preset, plan__micro_batch_decode=24, limits__ttft_seconds=1234.5678901234567)
    first = export_document(s)
    text = json.dumps(first, allow_nan=False)
    again = export_document(scenario_from_json(text))
    assert json.dumps(again, allow_nan=False) == text
