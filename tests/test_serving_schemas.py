"""Published JSON Schemas: current, and kept by everything that is written."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from explorer.cli import main
from explorer.config.errors import InputError
from explorer.config.files import scenario_from_json
from explorer.config.jsonio import PRESETS as FOLDER
from explorer.config.presets import versions_of
from explorer.serving.export import export_document
from explorer.serving.schemas import DOCUMENTS, json_schema, schema_path, schema_text
from tests.golden_files import golden
from tests.scenarios import GENERIC, MT3000, PRESETS, scenario, scenarios

VALIDATORS = {name: Draft202012Validator(json_schema(name)) for name in DOCUMENTS}


def faults(name: str, document: Any) -> list[str]:
    return [error.message for error in VALIDATORS[name].iter_errors(document)]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_published_schemas_are_current_and_valid(name: str) -> None:
    written = schema_path(name).read_text(encoding="utf-8")
    assert written == schema_text(name), "run 'python -m explorer schema --write'"
    Draft202012Validator.check_schema(json.loads(written))


@given(scenarios())
@settings(max_examples=40, deadline=None)
def test_every_export_keeps_its_schema(s: Any) -> None:
    document = json.loads(json.dumps(export_document(s)))
    assert faults("export", document) == []
    assert faults("scenario", document["scenario"]) == []
    assert faults("evaluation", document["evaluation"]) == []


@pytest.mark.parametrize("preset", PRESETS)
def test_own_documents_keep_their_schemas(preset: str) -> None:
    s = scenario(preset).with_chip(scenario(preset).chip_document())
    s = s.model_copy(update={"model": s.model_document()})
    document = json.loads(json.dumps(export_document(s)))
    assert faults("export", document) == []
    assert isinstance(document["scenario"]["model"], dict)


@pytest.mark.parametrize("kind", ["chip", "model", "scenario"])
def test_presets_keep_their_schemas(kind: str) -> None:
    for name, versions in versions_of(f"{kind}s").items():
        for version in versions:
            document = read(FOLDER / f"{kind}s" / f"{name}@{version}.json")
            assert faults(kind, document.get("scenario", document)) == [], name


@pytest.mark.parametrize("path", golden(("chip-", "model-", "scenario-1")), ids=lambda p: p.stem)
def test_golden_documents_keep_the_schema_of_their_version(path: Path) -> None:
    assert faults(path.name.partition("-")[0], read(path)) == []


def test_a_handwritten_scenario_may_hold_a_chips_differences() -> None:
    document = scenario(MT3000).to_json()
    changes = {"ddr_bandwidth_bytes_per_second": 6e10, "gsm_bytes": {"value": 7000000}}
    document["chip"] = {
        "schema": "explorer.chip/1", "base": "mt3000@1", "id": "mine", "name": "Mine",
        "quantities": changes,
    }  # fmt: skip
    assert faults("scenario", document) == []
    opened = scenario_from_json(json.dumps(document))
    assert opened.value("hardware.gsm_bytes") == 7000000
    assert faults("scenario", opened.to_json()) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("plan", "tp_decode"), "4"), (("plan", "tp_decode"), 4.5), (("plan", "tp"), 4),
        (("plan", "placement"), "both"), (("precision", "compute"), "int8"), (("schema",), "x"),
        (("hardware",), []), (("chip",), 5), (("name",), ""), (("limits", "ttft_seconds"), "none"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_tool_refuses_by_type_the_schema_refuses_too(
    place: tuple[str, ...], value: Any
) -> None:
    document = copy.deepcopy(scenario(MT3000).to_json())
    part = document
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    assert faults("scenario", document)
    with pytest.raises(InputError):
        scenario_from_json(json.dumps(document))


@pytest.mark.parametrize("place", ["feasible", "memory", "pool"])
def test_an_evaluation_without_a_part_is_refused(place: str) -> None:
    document = export_document(scenario(GENERIC))["evaluation"]
    del document[place]
    assert faults("evaluation", document)


def test_the_command_prints_one_and_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "evaluation"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("evaluation")
    assert main(["schema", "evaluations"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "expected scenario, chip, model, evaluation, export" in captured.err


def test_the_command_writes_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("explorer.serving.schemas.PRESETS", tmp_path)
    assert main(["schema", "--write"]) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == "explorer.scenario/1"
    for name in DOCUMENTS:
        written = (tmp_path / "schemas" / schema_path(name).name).read_text(encoding="utf-8")
        assert written == schema_text(name)
