"""The Compare page, driven without a browser."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.config.units import human
from explorer.serving.evaluate import evaluate
from explorer.ui.compare import _words
from tests.tables import tables
from tests.test_app_pages import APP, notices, unfold

MT3000 = "mt3000-llama2-13b@1"


def opened(**parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.query_params["preset"] = MT3000
    for key, value in parameters.items():
        app.query_params[key.replace("__", ".")] = value
    return to_compare(app.run())


def to_compare(app: AppTest) -> AppTest:
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "compare"
    )
    return app.run()


def keep(app: AppTest, name: str = "") -> AppTest:
    app.text_input(key="snapshot_name").set_value(name)
    return app.button(key="keep").click().run()


def test_alone_it_says_what_to_do() -> None:
    app = opened()
    assert not app.exception
    assert "beside the present one" in app.markdown[0].value
    assert not tables(app)


def test_a_kept_scenario_is_compared_with_the_sliders() -> None:
    app = keep(opened(), "as it was")
    app.select_slider(key="knob:plan.tp_decode").set_value(8).run()
    assert not app.exception
    figures, inputs = tables(app)
    assert list(figures.columns) == ["", "as it was", "what the sliders hold now"]
    now = evaluate(app.session_state["scenario"]).objective("throughput")
    assert human(float(now), "tokens/s") in figures.iloc[0, 2]
    assert inputs.iloc[:, 0].tolist() == ["Decode tensor parallelism (TP_D)"]
    assert "**as it was**" in app.markdown[0].value
    assert len(app.get("plotly_chart")) == 3


def test_names_are_made_unlike_and_four_are_the_most() -> None:
    app = keep(keep(keep(opened(), "a"), "a"), "<b>*x*</b>")
    assert list(app.session_state["snapshots"]) == ["a", "a (2)", "<b>*x*</b>"]
    assert app.button(key="keep").disabled
    assert not app.exception
    app.button(key="remove:a").click().run()
    assert list(app.session_state["snapshots"]) == ["a (2)", "<b>*x*</b>"]


def test_presets_links_and_files_can_be_added() -> None:
    app = unfold(opened(), "compare_add")
    app.selectbox(key="add_preset").select("mt3000-llama2-7b@1").run()
    app.text_input(key="add_link").set_value("?preset=mt3000-llama2-70b@1&plan.pp_decode=9").run()
    text = json.dumps(preset_scenario("mt3000-llama-30b").to_json()).encode()
    app.file_uploader(key="add_file").set_value(("mine.json", text, "application/json")).run()
    assert not app.exception
    kept = app.session_state["snapshots"]
    assert [scenario.model for scenario in kept.values()] == [
        "llama2-7b",
        "llama2-70b",
        "llama-30b",
    ]
    assert list(kept.values())[1].plan.pp_decode == 9
    assert list(kept)[2] == "mine"
    assert len(tables(app)[0].columns) == 5


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"PK\x03\x04", b'{"schema": "explorer.scenario/9"}']
)
def test_a_bad_file_is_said_and_adds_nothing(content: bytes) -> None:
    app = unfold(opened(), "compare_add")
    app.file_uploader(key="add_file").set_value(("bad.json", content, "application/json")).run()
    assert not app.exception
    assert "The file was not added" in "\n".join(notices(app))
    assert not app.session_state["snapshots"]


def test_a_bad_link_is_said_and_adds_nothing() -> None:
    app = unfold(opened(), "compare_add")
    for link in ("hello", "?preset=nothing"):
        app.text_input(key="add_link").set_value(link).run()
        assert not app.session_state["snapshots"]
    assert "The link was not added" in "\n".join(notices(app))


def test_what_does_not_fit_is_said_and_can_be_put_on_the_sliders() -> None:
    app = keep(opened(plan__tp_decode="1", plan__pp_decode="1"), "small")
    app.select_slider(key="knob:plan.tp_decode").set_value(4).run()
    app.select_slider(key="knob:plan.pp_decode").set_value(4).run()
    assert "**small** does not fit" in app.markdown[0].value
    app.button(key="use:small").click().run()
    assert app.session_state["scenario"].plan.tp_decode == 1
    assert "do not fit" in app.markdown[0].value
    assert not app.exception


def test_snapshots_survive_another_page() -> None:
    app = keep(opened(), "first")
    app._page_hash = ""
    app.run()
    assert list(to_compare(app).session_state["snapshots"]) == ["first"]


@pytest.mark.parametrize(
    ("bottleneck", "told"),
    [("decode:kv_cache", "decode: KV cache"), ("prefill:compute", "prefill: compute"),
     ("capacity", "capacity")],
)  # fmt: skip
def test_what_limits_is_told_in_words(bottleneck: str, told: str) -> None:
    assert _words(bottleneck) == told
