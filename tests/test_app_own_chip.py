"""A chip of one's own in the app: from a preset, sliders or a file; used and taken along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.files import chip_from_json
from explorer.config.links import preset_scenario
from explorer.config.own_chip import NO_SOURCE, Row, rows_of
from explorer.config.presets import load_chip, versions_of
from explorer.config.units import significant
from explorer.serving.evaluate import evaluate
from explorer.ui.own_chip import EXAMPLE
from explorer.ui.own_chip_draft import (
    PRESENT,
    begun,
    difference_table,
    edited_rows,
    editor_table,
    own_id,
)
from explorer.ui.text import plain
from tests.scenarios import GENERIC, MT3000, scenario
from tests.test_app_pages import metrics, notices, opened, to_page

BANDWIDTH = "ddr_bandwidth_bytes_per_second"
FILE: dict[str, Any] = {
    "schema": "explorer.chip/1",
    "base": "mt3000@1",
    "id": "mine",
    "name": "Mine",
    "quantities": {BANDWIDTH: {"value": 9e10, "source": "vendor's letter", "kind": "published"}},
}


def at_own(**parameters: str) -> AppTest:
    """Open the page at its section Chip, whichever comes first."""
    app = opened(**parameters)
    app.session_state["own"] = "Chip"
    to_page(app, "own")
    app.segmented_control(key="own:section").set_value("Chip").run()
    assert not app.exception
    return app


def answer(app: AppTest) -> str:
    return next(item.value for item in app.markdown if item.value.startswith("On **"))


def upload(app: AppTest, content: bytes | dict[str, Any], name: str = "chip.json") -> AppTest:
    data = json.dumps(content).encode() if isinstance(content, dict) else content
    app.file_uploader(key="own_chip_upload").upload(name, data, "application/json").run()
    assert not app.exception
    return app


def rate(changed: Any) -> str:
    return significant(float(evaluate(changed).objective("throughput")))


def test_markup_in_a_chip_is_shown_letter_by_letter() -> None:
    hostile = "<b>*mine*</b> $x$"
    number = {"value": 9e10, "source": hostile, "kind": "published"}
    app = upload(at_own(), {**FILE, "name": hostile, "quantities": {BANDWIDTH: number}})
    assert plain(hostile) in answer(app)
    app.button(key="own_chip_use").click().run()
    assert not app.exception
    for route in ("own", "", "share"):
        to_page(app, route)
        assert not app.exception
        parts = (app.markdown, app.caption, app.error, app.success, app.subheader)
        words = "\n".join(str(element.value) for part in parts for element in part)
        helps = "\n".join(item.help or "" for item in (*app.select_slider, *app.metric))
        assert hostile not in words + helps


# Drafts


def test_sliders_become_numbers_of_a_chip_with_a_name_of_its_own() -> None:
    draft = begun(PRESENT, scenario(MT3000, **{f"hardware__{BANDWIDTH}": 60e9}), 0)
    assert not draft.touched
    assert draft.changed
    chip = draft.chip()
    assert (chip.id, chip.version, chip.name) == ("my-mt-3000", 1, "My MT-3000")
    assert chip.quantities[BANDWIDTH].value == 60e9
    assert chip.quantities[BANDWIDTH].source == "set on its slider"
    others = {name: item for name, item in chip.quantities.items() if name != BANDWIDTH}
    base = load_chip("mt3000").quantities
    assert others == {name: item for name, item in base.items() if name != BANDWIDTH}


@pytest.mark.parametrize("reference", versions_of("chips"))
def test_an_untouched_table_is_the_preset(reference: str) -> None:
    draft = begun(f"{reference}@1", scenario(MT3000), 0)
    assert edited_rows(draft.base, editor_table(draft)) == draft.rows == rows_of(draft.base)
    assert draft.chip() is draft.base == load_chip(reference)


def test_an_emptied_cell_is_refused_by_the_numbers_name() -> None:
    draft = begun("mt3000@1", scenario(MT3000), 0)
    table = editor_table(draft)
    table.loc[2, "value"] = None
    rows = edited_rows(draft.base, table)
    assert rows[BANDWIDTH].value == ""


def test_differences_are_told_with_units() -> None:
    base = load_chip("mt3000")
    chip = chip_from_json(json.dumps(FILE))
    (row,) = difference_table(base, chip).to_dict("records")
    assert row == {
        "number": "Memory bandwidth a cluster", "before": "30.0 GB/s", "now": "90.0 GB/s",
        "times": "3.00", "kind": "published", "source": "vendor's letter",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("My MT-3000", "my-mt-3000"), ("MT3000", "my-mt3000"), ("Ünïcode!", "unicode"),
        ("漢字", "my-chip"), ("  ", "my-chip"), ("a" * 300, "a" * 60), ("../x", "x"),
    ],
)  # fmt: skip
def test_ids_are_plain_and_no_presets(name: str, expected: str) -> None:
    assert own_id(name) == expected


# The page


ZERO_BANDWIDTH = {**FILE, "quantities": {BANDWIDTH: {"value": 9e10, "minimum": 0}}}


def test_a_chip_that_no_model_can_read_is_refused_wherever_it_comes_in() -> None:
    """In a scenario's file, and from a slider whose own range begins at zero."""
    app = opened(preset="mt3000-llama2-13b@1")
    before = app.session_state["scenario"]
    document = scenario(MT3000).to_json()
    document["chip"] = chip_from_json(json.dumps(FILE)).model_dump(mode="json", by_alias=True)
    del document["chip"]["quantities"]["sm_bytes"]
    to_page(app, "share")
    app.file_uploader(key="upload").upload("s.json", json.dumps(document).encode()).run()
    assert not app.exception
    assert "also needs sm_bytes" in "\n".join(notices(app))
    assert app.session_state["scenario"] == before
    app.session_state["scenario"] = before.with_chip(chip_from_json(json.dumps(ZERO_BANDWIDTH)))
    to_page(app, "")
    app.select_slider(key=f"knob:hardware.{BANDWIDTH}").set_value(0.0).run()
    assert not app.exception
    assert "expected a number above 0" in "\n".join(notices(app))
    app.text_input(key="exact").set_value(f"hardware.{BANDWIDTH}=0").run()
    assert not app.exception
    assert app.session_state["scenario"].hardware == {}


def test_the_example_beside_the_box_and_in_the_readme_is_a_chip() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    block = readme[
        readme.index('     "schema": "explorer.chip/1"') : readme.index("The page Bring")
    ]
    chip = chip_from_json("{" + block)
    assert chip == chip_from_json(EXAMPLE)
    assert chip.quantities["memory_bytes"].value == 4e10


def test_the_section_tells_what_sliders_make_of_the_scenario() -> None:
    app = at_own(preset="mt3000-llama2-13b@1", **{f"hardware__{BANDWIDTH}": "6e10"})
    before, after = scenario(MT3000), scenario(MT3000, **{f"hardware__{BANDWIDTH}": 6e10})
    assert f"delivers **{rate(after)} tokens/s**" in answer(app)
    assert f"times the {rate(before)} on MT-3000" in answer(app)
    app.button(key="own_chip_use").click().run()
    assert not app.exception
    used = app.session_state["scenario"]
    assert (used.chip.id, used.hardware) == ("my-mt-3000", {})
    assert rate(used) == rate(after)
    slider = app.select_slider(key=f"knob:hardware.{BANDWIDTH}#1")
    assert slider.value == 6e10


def test_another_preset_can_be_used_and_its_link_still_works() -> None:
    app = at_own(preset="a100-llama2-70b@1")
    app.selectbox(key="own_chip_start").set_value("h100-sxm@1").run()
    h100 = scenario(GENERIC).with_chip("h100-sxm")
    assert f"On **H100 SXM** this scenario delivers **{rate(h100)} tokens/s**" in answer(app)
    app.button(key="own_chip_use").click().run()
    assert app.session_state["scenario"] == h100
    to_page(app, "share")
    assert any("chip=h100-sxm@1" in code.value for code in app.code)


def test_an_uploaded_file_is_used_and_its_export_says_where_numbers_are_from() -> None:
    app = upload(at_own(preset="mt3000-llama2-13b@1"), FILE)
    expected = scenario(MT3000, **{f"hardware__{BANDWIDTH}": 9e10})
    assert f"On **Mine** this scenario delivers **{rate(expected)} tokens/s**" in answer(app)
    app.button(key="own_chip_use").click().run()
    used = app.session_state["scenario"]
    assert used.chip == chip_from_json(json.dumps(FILE))
    to_page(app, "share")
    assert any("a document of its own" in info.value for info in app.info)
    to_page(app, "")
    assert metrics(app)["Throughput"] == f"{rate(expected)} tokens/s"


def test_a_renamed_chip_is_another_one() -> None:
    app = at_own(preset="mt3000-llama2-13b@1")
    app.text_input(key="own_chip_name#0").set_value("Next <b>year</b>").run()
    assert "On **Next \\<b\\>year\\</b\\>**" in answer(app)
    app.button(key="own_chip_use").click().run()
    assert app.session_state["scenario"].chip.id == "next-b-year-b"


def test_a_draft_that_nobody_touched_follows_the_scenario() -> None:
    app = at_own(preset="mt3000-llama2-13b@1")
    to_page(app, "")
    app.select_slider(key=f"knob:hardware.{BANDWIDTH}").set_value(60e9).run()
    to_page(app, "own")
    assert "My MT-3000" in answer(app)


def test_edits_outlive_another_page() -> None:
    app = at_own(preset="mt3000-llama2-13b@1")
    app.text_input(key="own_chip_name#0").set_value("Kept").run()
    to_page(app, "")
    to_page(app, "own")
    assert "On **Kept**" in answer(app)


def test_a_chip_without_the_scenarios_arithmetic_says_so() -> None:
    app = at_own(preset="mt3000-llama2-13b@1", precision__compute="fp32")
    app.selectbox(key="own_chip_start").set_value("ascend910a@1").run()
    assert not app.exception
    assert "has no fp32 arithmetic" in app.error[0].value


BAD = [
    (b"PK\x03\x04zip", "not valid JSON"),
    (b"\x80\x04\x95pickle\xff", "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a": 1, "a": 2}', "appears twice"),
    ({**FILE, "schema": "explorer.chip/2"}, "a newer explorer wrote this document"),
    ({**FILE, "id": "mt3000"}, "is a preset's"),
    ({**FILE, "base": "mt3000"}, "with its version"),
    ({**FILE, "base": "mt9999@1"}, "unknown preset"),
    ({**FILE, "name": "a\u202eb"}, "invisible"),
    ({**FILE, "quantities": {BANDWIDTH: float("nan")}}, "finite number"),
    ({**FILE, "quantities": {BANDWIDTH: "9e10"}}, "expected a number"),
    ({**FILE, "quantities": {BANDWIDTH: -1}}, "expected a number from 1e+08"),
    ({**FILE, "quantities": {"ddr_bandwith": 1}}, "has no such number"),
    ({**FILE, "quantities": {BANDWIDTH: {"value": 9e10, "source": "=1+1"}}}, "formula"),
]


@pytest.mark.parametrize(("content", "named"), BAD, ids=[named for _, named in BAD])
def test_a_file_that_is_no_good_says_why_and_changes_nothing(
    content: bytes | dict[str, Any], named: str
) -> None:
    app = upload(at_own(preset="mt3000-llama2-13b@1"), content)
    assert any(named in text for text in notices(app))
    assert app.session_state["scenario"] == preset_scenario(MT3000)
    assert "MT-3000" in answer(app)


def test_a_value_without_a_source_says_so() -> None:
    chip = chip_from_json(json.dumps({**FILE, "quantities": {BANDWIDTH: 9e10}}))
    quantity = chip.quantities[BANDWIDTH]
    assert (quantity.source, quantity.kind, quantity.note) == (NO_SOURCE, "assumed", "")
    assert rows_of(chip)[BANDWIDTH] == Row("9e10", "assumed", NO_SOURCE)
