"""Every page on a chip that is neither the MT-3000 nor the 910A, and the recipe it gives."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.scenario import Scenario
from explorer.search.space_map import mappable_paths
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.stages import slowest_stage_words
from explorer.ui import deploy, story
from explorer.ui.sensitivity_map import FIRST
from explorer.ui.sidebar import MAIN_HARDWARE
from tests.scenarios import ASCEND, GENERIC, MT3000, PRESETS, scenario
from tests.tables import tables
from tests.test_app_pages import metrics, notices, opened, throughput, to_page, unfold

REFERENCE = f"{GENERIC}@1"


def at(route: str, **parameters: str) -> AppTest:
    app = opened(preset=REFERENCE, **parameters)
    app.session_state["own"] = "Chip"
    to_page(app, route)
    assert not app.exception
    assert notices(app) == []
    return app


@pytest.mark.parametrize(
    ("route", "named"),
    [("inside", "These mechanisms are the MT-3000's"), ("slices", "Slices belong to the Ascend"),
     ("attribution", "The profile by length and the replay are the Ascend 910A's")],
)  # fmt: skip
def test_a_page_of_another_chip_says_so_in_one_sentence(route: str, named: str) -> None:
    (sentence,) = [info.value for info in at(route).info]
    assert sentence.startswith(named)
    assert "A100 80GB SXM" in sentence
    links = [link.proto.label for link in at(route).get("page_link")]
    elsewhere = [story.QUESTIONS[path] for path in story.answered_by(route, "generic")]
    assert elsewhere
    assert links[: len(elsewhere)] == elsewhere


@pytest.mark.parametrize("route", ["", "search", "fidelity", "share", "own"])
def test_the_other_pages_work_on_any_chip(route: str) -> None:
    app = at(route)
    assert not app.error
    assert not any("this scenario runs on" in item.value for item in app.info)


def test_the_overview_has_every_chart_but_the_slices() -> None:
    app = at("")
    assert metrics(app)["Throughput"] == throughput(REFERENCE, {})
    assert metrics(app)["Cards a pool"] == "8"
    titles = [item.value for item in app.subheader]
    assert titles == [
        "Does it fit?", "When does each stage work?", "Where does the time go?",
        "Is it the memory or the arithmetic?",
    ]  # fmt: skip
    assert any("No measurement of the A100" in item.value for item in app.caption)


def test_sliders_are_the_chips_own_numbers() -> None:
    app = unfold(at(""), "hardware", "precision")
    assert not app.exception
    assert "open:mechanisms" not in app.session_state
    labels = [slider.label for slider in app.select_slider]
    assert "Achievable share of the peak (assumed)" in labels
    assert not any("MPI" in label or "recurrence" in label for label in labels)
    path = "hardware.memory_bandwidth_bytes_per_second"
    app.select_slider(key=f"knob:{path}").set_value(4e12).run()
    assert metrics(app)["Throughput"] == throughput(REFERENCE, {path: 4e12})


def test_an_own_chip_of_any_family_keeps_its_pages() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    chip = scenario(MT3000).chip_document().model_copy(update={"id": "mine", "name": "Mine"})
    app.session_state["scenario"] = scenario(MT3000).with_chip(chip)
    for route in ("inside", "slices", "attribution", "search", ""):
        to_page(app, route)
        assert not app.exception
        assert not app.error
    to_page(app, "inside")
    assert not app.info


# What to set on the engine


def recipe(s: Scenario) -> dict[str, str]:
    return dict(deploy.rows(export_document(s)["deploy"]))


def layers_of(pool: str) -> str:
    return f"{pool}: layers of the stages, counted from 1 as on every page"


@pytest.mark.parametrize("preset", [MT3000, ASCEND, GENERIC])
@pytest.mark.parametrize("stages", [2, deploy.MOST_STAGES])
def test_the_recipe_counts_layers_as_the_sentence_on_the_slowest_stage(
    preset: str, stages: int
) -> None:
    clusters = {"plan.tp_prefill": 1, "plan.tp_decode": 1, "workload.clusters_total": 4096}
    pipeline = {"plan.pp_prefill": stages, "plan.pp_decode": stages}
    s = scenario(preset).replacing({**clusters, **pipeline})
    told = slowest_stage_words(evaluate(s))
    match = re.search(r"stage (\d+) of \d+, layers (\d+) to (\d+)", told)
    assert match, told
    number, first, last = match.groups()
    assert recipe(s)[layers_of("prefill")].split(", ")[int(number) - 1] == f"{first}–{last}"


def test_the_recipe_of_any_engine() -> None:
    found = recipe(scenario(GENERIC))
    assert found["prefill: TP"] == "8"
    assert found[layers_of("decode")] == "1–80"
    assert found["ranks of a pool: prefill and decode"] == "0 to 7"
    assert found["limits: requests in flight"] == "64 requests"
    assert found["limits: tokens a prefill pass"] == "8,192 tokens"
    assert found["limits: memory fraction"] == "90.0 %"


def test_the_recipe_of_the_mt3000() -> None:
    found = recipe(scenario(MT3000))
    assert found["buffer bytes"] == "134 GB"
    assert found["ranks of a pool: buffer"] == "8 to 14"
    assert found[layers_of("decode")] == "1–10, 11–20, 21–30, 31–40"
    assert found["decode: the same, counted from 0 as in the file"] == "0–9, 10–19, 20–29, 30–39"
    assert found["kernels: products: M_g"] == "1,440 rows"
    assert found["kernels: products: K_2"] == "256 elements of the inner dimension"
    assert found["kernels: products: N_1"] == "256 columns"
    assert found["kernels: attention: method"] == "mt"
    assert found["kernels: launch"] == "unified"


def test_the_recipe_of_the_ascend_keeps_its_variable_as_it_is() -> None:
    found = recipe(scenario(ASCEND))
    assert found["environment: QWEN_COMM_OVERLAP_SLICES"] == "4"
    assert found["slice rule: slices"] == "4"
    assert not any("buffer" in name for name in found)


def test_many_stages_are_told_shortly() -> None:
    found = recipe(scenario("mt3000-llama2-70b", plan__pp_decode=80, plan__pp_prefill=7))
    assert found[layers_of("decode")] == "1, 2, 3, …, 80 (80 stages)"
    assert found[layers_of("prefill")].endswith("70–80 (7 stages)")


def test_the_share_page_shows_recipe_and_notes() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    to_page(app, "share")
    assert any("publishes neither its engine" in item.value for item in app.caption)
    table: Any = tables(app)[0]
    assert "kernels: products: M_2" in set(table["setting"])


def test_a_scenario_too_long_for_a_link_goes_by_file() -> None:
    app = opened(preset=f"{ASCEND}@1")
    s = scenario(ASCEND, name="🂡" * 200)
    third = {
        f"hardware.{name}": (float(item.minimum) + float(item.maximum)) / 3.000001
        for name, item in s.chip_document().quantities.items()
        if not s.chip_document().knob(name).whole
    }
    app.session_state["scenario"] = s.replacing({**third, "plan.micro_batch_decode": 24})
    to_page(app, "share")
    assert not app.exception
    assert "longer than 4000 characters; use the file" in app.info[0].value
    headings = [item.value for item in app.subheader]
    assert headings[0] == "Share link"
    assert "Exported file" in headings


@pytest.mark.parametrize("preset", PRESETS)
def test_what_the_pages_show_first_is_known_for_the_chip_of_every_preset(preset: str) -> None:
    now = scenario(preset)
    chip = now.chip_document()
    assert set(MAIN_HARDWARE[chip.family]) <= set(chip.quantities)
    assert set(FIRST[chip.family]) <= set(mappable_paths(now))
