"""Documents of every version ever written still open, and mean what they meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from explorer.chips.registry import check_numbers
from explorer.config.files import chip_from_json, scenario_from_json
from explorer.config.jsonio import validated
from explorer.config.links import link_query, open_link
from explorer.config.migrations import MIGRATIONS
from explorer.config.model import ModelDocument
from explorer.fidelity.measurements import parse_measurements
from explorer.search.definition import read_definition
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from tests import golden_files
from tests.golden_files import SCENARIOS, accepted, differences, digest, golden, same, today
from tests.scenarios import MT3000

UPDATE = "look at 'python -m tests.golden_files', and accept with --write what is meant"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def assert_says(found: Any, written: Any, place: str = "") -> None:
    """Everything written is still there with the same value; later fields may stand beside it.

    A null that was written may be left out: both say that nothing was given.
    """
    if isinstance(written, dict):
        for key, value in written.items():
            if value is None and key not in found:
                continue
            assert key in found, f"{place}.{key}"
            assert_says(found[key], value, f"{place}.{key}")
        return
    assert found == written, place
    assert type(found) is type(written), place


@pytest.mark.parametrize("path", golden(SCENARIOS), ids=lambda path: path.stem)
def test_a_scenario_opens_to_exactly_what_was_written(path: Path) -> None:
    document = read(path)
    scenario = scenario_from_json(path.read_bytes(), path.name)
    assert_says(scenario.to_json(), document.get("scenario", document))
    assert scenario_from_json(json.dumps(export_document(scenario))) == scenario


def test_what_they_deliver_is_what_was_accepted() -> None:
    known = accepted()["figures"]
    assert set(known) == {path.name for path in golden(SCENARIOS)}, UPDATE
    for path in golden(SCENARIOS):
        for name, value in today(path).items():
            assert same(known[path.name][name], value), f"{path.name} {name}: {UPDATE}"


def test_documents_themselves_never_change() -> None:
    assert {path.name: digest(path) for path in golden("")} == accepted()["sha256"], UPDATE


def test_every_family_has_a_document_of_every_version() -> None:
    stems = {"link": "links"}
    for family, steps in MIGRATIONS.items():
        name = family.removeprefix("explorer.")
        if name in ("kernel", "knobs"):
            continue  # Written by hand, read from this repository only.
        for version in range(1, len(steps) + 2):
            assert golden(f"{stems.get(name, name)}-{version}"), (name, version)


@pytest.mark.parametrize("path", golden("study-"), ids=lambda path: path.stem)
def test_studies_open_to_exactly_the_plans_they_were_made_for(path: Path) -> None:
    document = read(path)
    space, settings = read_definition(path.stem, document)
    assert_says(space.base.to_json(), document["scenario"])
    assert [list(axis.values) for axis in space.axes] == [a["values"] for a in document["axes"]]
    assert (settings.trials, settings.seed, settings.sampler) == (50, 3, "tpe")


@pytest.mark.parametrize("path", golden("links-"), ids=lambda path: path.stem)
def test_links_open_to_exactly_the_scenario_they_meant(path: Path) -> None:
    for item in read(path):
        opened = open_link(item["link"], MT3000)
        assert opened.problems == ()
        assert_says(opened.scenario.to_json(), item["scenario"])
        again = open_link("?" + link_query(opened.scenario, opened.preset), MT3000)
        assert again.scenario == opened.scenario


@pytest.mark.parametrize("path", golden("chip-"), ids=lambda path: path.stem)
def test_chips_open_and_their_model_has_every_number_it_needs(path: Path) -> None:
    """A number that a family newly needs takes a migration that gives it to older chips."""
    document = read(path)
    chip = chip_from_json(path.read_bytes(), path.name)
    check_numbers(chip)
    if "base" in document:
        document = read(path.with_name("chip-1-mt3000.json"))
    assert_says(chip.model_dump(mode="json", by_alias=True), document)


@pytest.mark.parametrize("path", golden("model-"), ids=lambda path: path.stem)
def test_models_open(path: Path) -> None:
    model = validated(read(path), ModelDocument)
    assert_says(model.model_dump(mode="json", by_alias=True), read(path))
    assert model.shape().parameters > 0


@pytest.mark.parametrize("path", sorted(golden_files.FOLDER.glob("*.csv")), ids=lambda p: p.stem)
def test_measurements_open(path: Path) -> None:
    rows = parse_measurements(path.read_bytes(), path.name)
    expected = read(path.with_suffix(".json"))
    assert [row.id for row in rows] == [item["id"] for item in expected]
    for row, item in zip(rows, expected, strict=True):
        for name, value in item.items():
            assert getattr(row, name) == value, (row.id, name)


def test_a_plan_that_did_not_fit_still_has_no_speed() -> None:
    scenario = scenario_from_json((golden_files.FOLDER / "export-1-does-not-fit.json").read_bytes())
    assert not evaluate(scenario).feasible
    assert export_document(scenario)["evaluation"]["pool"]["throughput_tokens_per_second"] is None


# The update command


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "golden"
    shutil.copytree(golden_files.FOLDER, folder)
    monkeypatch.setattr(golden_files, "FOLDER", folder)
    monkeypatch.setattr(golden_files, "ACCEPTED", folder / "figures.json")
    return folder


def test_the_update_command_tells_what_moved_and_accepts_it(copied: Path) -> None:
    figures = read(copied / "figures.json")
    name = "export-1-generic.json"
    figures["figures"][name]["pool.throughput_tokens_per_second"] *= 2
    (copied / "figures.json").write_text(json.dumps(figures), encoding="utf-8")
    lines = [line for line in differences() if "accepted" in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"{name} pool.throughput_tokens_per_second: accepted ")
    assert lines[0].endswith(", 0.5 times")
    golden_files.accept()
    assert [line for line in differences() if "accepted" in line] == []


def test_the_update_command_refuses_a_changed_document(copied: Path) -> None:
    file = copied / "model-1.json"
    file.write_text(file.read_text(encoding="utf-8") + " ", encoding="utf-8")
    with pytest.raises(ValueError, match=r"never change, but these did: model-1\.json"):
        golden_files.accept()
