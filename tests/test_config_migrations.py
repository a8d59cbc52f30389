"""Schema versions: older documents are brought forward in order, newer ones refused politely."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.files import chip_from_json, scenario_from_json
from explorer.config.jsonio import schema_of, validated
from explorer.config.links import open_link
from explorer.config.migrations import MIGRATIONS, migrated, newest
from explorer.config.own_chip import ChipChanges
from explorer.search.definition import parse_definition
from explorer.serving.documents import ExportDocument
from explorer.serving.export import EXPORT_SCHEMA, export_document
from explorer.serving.report import EVALUATION_SCHEMA
from explorer.serving.schemas import DOCUMENTS
from tests.scenarios import MT3000, scenario


def renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Version 2 of a made-up family calls ``rate`` by its unit."""
    return {("tokens_per_second" if key == "rate" else key): document[key] for key in document}


def split(document: dict[str, Any]) -> dict[str, Any]:
    """Version 3 tells both phases apart; what was one figure was decode's."""
    rate = document["tokens_per_second"]
    return {"schema": document["schema"], "rates": {"decode": rate, "prefill": None}}


MADE_UP = {"explorer.made-up": (renamed, split)}
NEWEST = {"schema": "explorer.made-up/3", "rates": {"decode": 5, "prefill": None}}


@pytest.mark.parametrize(
    "document",
    [
        {"schema": "explorer.made-up/1", "rate": 5},
        {"schema": "explorer.made-up/2", "tokens_per_second": 5},
        NEWEST,
    ],
    ids=["1", "2", "3"],
)
def test_every_version_becomes_the_newest(document: dict[str, Any]) -> None:
    before = json.dumps(document)
    assert migrated(document, "explorer.made-up", registry=MADE_UP) == NEWEST
    assert json.dumps(document) == before
    assert newest("explorer.made-up", MADE_UP) == "explorer.made-up/3"


def test_without_a_schema_a_document_is_of_the_newest() -> None:
    assert migrated({"rates": 1}, "explorer.made-up", registry=MADE_UP) == {"rates": 1}


@pytest.mark.parametrize("version", ["4", "999999"])
def test_a_newer_version_is_refused_politely(version: str) -> None:
    with pytest.raises(InputError) as caught:
        migrated({"schema": f"explorer.made-up/{version}"}, "explorer.made-up", "x", MADE_UP)
    message = str(caught.value)
    assert message.startswith(f"x.schema = explorer.made-up/{version}: ")
    assert "reads version 1 to 3 of explorer.made-up; a newer explorer wrote" in message


@pytest.mark.parametrize(
    "schema",
    ["explorer.made-up/0", "explorer.made-up/01", "explorer.made-up/-1", "explorer.made-up/x",
     "explorer.made-up/", "explorer.made-up", "explorer.made-up/1 ", "explorer.made-up/٢",
     "explorer.chip/1", "", None, 1, [], {}, "explorer.made-up/1\n",
     "explorer.made-up/" + "9" * 50],
    ids=repr,
)  # fmt: skip
def test_what_is_no_version_is_refused(schema: Any) -> None:
    with pytest.raises(InputError, match=r'expected "explorer\.made-up/3"'):
        migrated({"schema": schema}, "explorer.made-up", registry=MADE_UP)


@given(st.integers(1, 40), st.data())
def test_steps_run_once_each_and_in_order(steps: int, data: st.DataObject) -> None:
    def step(number: int) -> Any:
        return lambda document: {**document, "seen": [*document.get("seen", []), number]}

    registry = {"explorer.x": tuple(step(number) for number in range(1, steps + 1))}
    start = data.draw(st.integers(1, steps + 1))
    found = migrated({"schema": f"explorer.x/{start}"}, "explorer.x", registry=registry)
    assert found.get("seen", []) == list(range(start, steps + 1))
    assert found["schema"] == f"explorer.x/{steps + 1}"


# The families that there are


@pytest.mark.parametrize("document", [*DOCUMENTS.values(), ChipChanges], ids=lambda d: d.__name__)
def test_documents_are_of_the_newest_version(document: Any) -> None:
    family = schema_of(document).partition("/")[0]
    if family == "explorer.evaluation":
        assert schema_of(document) == EVALUATION_SCHEMA
    else:
        assert schema_of(document) == newest(family)


def test_what_is_written_is_of_the_newest_version() -> None:
    assert newest("explorer.export") == EXPORT_SCHEMA == schema_of(ExportDocument)
    document = export_document(scenario(MT3000))
    assert document["schema"] == EXPORT_SCHEMA
    assert document["scenario"]["schema"] == newest("explorer.scenario")


@pytest.mark.parametrize("family", MIGRATIONS)
def test_no_family_is_opened_in_a_version_to_come(family: str) -> None:
    """Through the way that a person's document comes in."""
    later = f"{family}/{len(MIGRATIONS[family]) + 2}"
    polite = "a newer explorer wrote this document"
    whole = scenario(MT3000).to_json()
    chip = scenario(MT3000).chip_document().model_dump(mode="json", by_alias=True)
    model = scenario(MT3000).model_document().model_dump(mode="json", by_alias=True)
    if family == "explorer.link":
        opened = open_link(f"?preset=mt3000-llama2-7b@1&plan.tp_decode=8&schema={later}", MT3000)
        assert opened.meaningless
        assert opened.scenario == scenario(MT3000)
        assert any(polite in problem.accepted for problem in opened.problems)
        return
    if family in ("explorer.kernel", "explorer.knobs"):
        with pytest.raises(InputError, match=polite):
            migrated({"schema": later}, family)
        return
    if family == "explorer.study":
        with pytest.raises(InputError, match=polite):
            parse_definition("mine", {"schema": later})
        return
    content = {
        "explorer.scenario": {**whole, "schema": later},
        "explorer.scenario-preset": {"schema": later, "scenario": whole},
        "explorer.export": {"schema": later, "scenario": whole},
        "explorer.chip": {**whole, "chip": {**chip, "schema": later}},
        "explorer.model": {**whole, "model": {**model, "schema": later}},
    }[family]
    with pytest.raises(InputError, match=polite):
        scenario_from_json(json.dumps(content))
    if family == "explorer.chip":
        with pytest.raises(InputError, match=polite):
            chip_from_json(json.dumps({**chip, "schema": later, "base": "mt3000@1"}))


def test_a_newer_scenario_within_an_export_of_today_is_refused() -> None:
    document = export_document(scenario(MT3000))
    document["scenario"]["schema"] = "explorer.scenario/2"
    with pytest.raises(InputError, match=r"this version reads explorer\.scenario/1; a newer"):
        scenario_from_json(json.dumps(document))


def test_a_documents_place_is_told_with_its_schema() -> None:
    with pytest.raises(InputError, match=r"^chip\.schema = explorer\.chip/2"):
        validated({"schema": "explorer.chip/2"}, DOCUMENTS["chip"], "chip")
