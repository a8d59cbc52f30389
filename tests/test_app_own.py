"""The page "Bring your own" with a model: upload, figures, use, and files that are no model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.own_model import with_model
from explorer.config.units import human
from explorer.serving.evaluate import evaluate
from explorer.ui.text import plain
from tests.configs import FOLDER, config, imported_config
from tests.scenarios import MT3000, scenario
from tests.tables import tables
from tests.test_app_pages import metrics, notices, opened

ASCEND_LINK, MT3000_LINK = "ascend910a-qwen3.8-27b@1", f"{MT3000}@1"


def to_page(app: AppTest, name: str) -> AppTest:
    pages = app._registered_pages.values()
    app._page_hash = next(p["page_script_hash"] for p in pages if p["url_pathname"] == name)
    return app.run()


def uploaded(content: bytes, name: str = "config.json", preset: str = MT3000_LINK) -> AppTest:
    app = to_page(opened(preset=preset), "own")
    app.file_uploader(key="own:model_file").upload(name, content, "application/json")
    return app.run()


def with_config(name: str, preset: str = MT3000_LINK) -> AppTest:
    return uploaded((FOLDER / f"{name}.json").read_bytes(), f"{name}.json", preset)


def words(app: AppTest) -> str:
    every = (*app.markdown, *app.caption, *app.text, *app.info, *app.success, *app.subheader)
    return "\n".join(str(element.value) for element in every)


def cells(app: AppTest) -> list[Any]:
    return [cell for table in tables(app) for row in table.values.tolist() for cell in row]


def test_without_a_file_the_present_model_is_explained() -> None:
    app = to_page(opened(preset=MT3000_LINK), "own")
    assert not app.exception
    assert "No file yet" in words(app)
    assert metrics(app)["Parameters"] == "13.0 billion"
    assert "13,015,864,320" in cells(app)
    assert not any(button.key == "use_model" for button in app.button)


def test_a_config_shows_its_figures_with_formulas_and_what_is_left_out() -> None:
    app = with_config("mixtral-8x7b")
    assert not app.exception
    assert metrics(app)["Parameters"] == "46.7 billion"
    assert metrics(app)["Active a token"] == "12.9 billion"
    assert metrics(app)["KV cache a token"] == "131 kB"
    assert metrics(app)["Work a token"] == "25.5 GFLOP"
    for cell in ("46,702,792,704", "131,072 B", "2 × 8 KV heads × 128 × 2 B × 32 layers"):
        assert cell in cells(app)
    for note in imported_config("mixtral-8x7b").not_modelled:
        assert note.partition("_")[0] in words(app)


def test_a_used_model_is_on_the_sliders_of_every_page() -> None:
    app = with_config("llama-3-8b")
    app.button(key="use_model").click().run()
    assert not app.exception
    assert notices(app) == []
    assert "is on the sliders" in words(app)
    assert "travels by file" in words(app)
    to_page(app, "")
    expected, _ = with_model(scenario(), imported_config("llama-3-8b").document)
    throughput = human(float(evaluate(expected).objective("throughput")), "tokens/s")
    assert metrics(app)["Throughput"] == throughput
    assert "Model from a file: **llama-3-8b**" in words(app)
    to_page(app, "share")
    assert "This scenario travels by file" in words(app)
    assert not app.code or "preset=" not in app.code[0].value
    app.button(key="reset").click().run()
    assert "Model from a file" not in words(app)


def test_a_plan_that_does_not_divide_changes_with_a_message() -> None:
    app = with_config("qwen2.5-0.5b", ASCEND_LINK)
    app.button(key="use_model").click().run()
    assert not app.exception
    said = notices(app)
    assert len(said) == 2
    assert all("now 2, qwen2.5-0.5b splits over 1, 2 ranks" in sentence for sentence in said)
    app.button(key="close_notices").click().run()
    assert notices(app) == []


def test_the_file_stays_while_other_pages_are_looked_at() -> None:
    app = with_config("gemma-2-9b")
    to_page(app, "share")
    to_page(app, "own")
    assert metrics(app)["Parameters"] == "9.24 billion"
    assert any(button.key == "use_model" for button in app.button)


def test_a_model_document_is_read_as_well_as_a_config() -> None:
    document = imported_config("gpt2").document.model_dump(mode="json", by_alias=True)
    app = uploaded(json.dumps(document).encode(), "model.json")
    assert metrics(app)["Parameters"] == "124 million"


@pytest.mark.parametrize(
    ("name", "preset"), [("gemma-3-1b", MT3000_LINK), ("deepseek-moe-16b", ASCEND_LINK)]
)
def test_no_page_fails_on_a_model_of_another_kind(name: str, preset: str) -> None:
    app = with_config(name, preset)
    app.button(key="use_model").click().run()
    for page in ("", "search", "pipeline", "slices", "attribution", "compare", "share"):
        to_page(app, page)
        assert not app.exception, page
        assert not app.error, page


def test_a_layer_without_an_operator_graph_says_so() -> None:
    app = with_config("mixtral-8x7b")
    app.button(key="use_model").click().run()
    to_page(app, "inside")
    app.segmented_control(key="inside:mechanism").set_value("Fusion").run()
    assert not app.exception
    assert "expected full_attention layers" in app.error[0].value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\xff\xff", "not UTF-8"),
        (b"{}", "hidden_size: this field is required"),
        (b'{"<img src=x>": {"a": "b"}, "model_type": "<b>t</b>"}', '"<b>t</b>"'),
    ],
    ids=["zip", "empty", "markup"],
)
def test_a_file_that_is_no_model_says_why_beside_its_box(content: bytes, said: str) -> None:
    app = uploaded(content)
    assert not app.exception
    reasons = [text.value for text in app.text if text.value.startswith("⚠ config.json was not")]
    assert reasons
    assert any(said in reason for reason in reasons)
    assert "Nothing was read" in words(app)
    assert metrics(app)["Parameters"] == "13.0 billion"


def test_markup_in_names_is_shown_letter_by_letter() -> None:
    name = "<script>alert(1)<:red[b] `c` **d**"
    app = uploaded(json.dumps(config("llama-2-7b", _name_or_path=f"x/{name}")).encode())
    app.button(key="use_model").click().run()
    assert not app.exception
    assert app.subheader[0].value == plain(name) != name
    assert f"**{plain(name)} is on the sliders**" in words(app)
    assert f"Model from a file: **{plain(name)}**" in words(app)
    assert name not in words(app)


def test_the_upload_is_bounded_before_it_is_read() -> None:
    app = to_page(opened(preset=MT3000_LINK), "own")
    assert app.file_uploader(key="own:model_file").proto.max_upload_size_mb == 4


def test_another_file_replaces_the_first() -> None:
    app = with_config("gpt2")
    content = (FOLDER / "llama-3-8b.json").read_bytes()
    app.file_uploader(key="own:model_file").upload("llama.json", content, "application/json").run()
    assert metrics(app)["Parameters"] == "8.03 billion"
