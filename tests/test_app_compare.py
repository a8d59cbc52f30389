"""The Compare page, driven without a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.config.units import human, significant
from explorer.plots.compare import short
from explorer.search.best_plan import best_plan
from explorer.search.objectives import THROUGHPUT
from explorer.search.space import default_space
from explorer.serving.comparison import Candidate, compare
from explorer.serving.evaluate import evaluate
from explorer.ui import compare as compare_page
from explorer.ui.compare import BEST, CURRENT, OTHER_BEST, _words
from explorer.ui.compare_words import _times, lead
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
    assert "The best plan for these sliders reaches" in app.markdown[0].value
    assert "beside the present one" in app.markdown[1].value
    assert not tables(app)


def test_one_click_compares_with_the_best_plan() -> None:
    app = opened()
    own = app.session_state["scenario"]
    assert "first:preset" not in {button.key for button in app.button}
    app.button(key="first:best").click().run()
    (best,) = app.session_state["snapshots"].values()
    found = best_plan(default_space(own), THROUGHPUT)
    assert best == found.scenario
    assert app.session_state["scenario"] == own
    gain = significant(100 * (found.value / float(evaluate(own).objective("throughput")) - 1))
    first = app.markdown[0].value
    assert first.startswith("Most is delivered by **best plan**: ")
    assert f"{gain} % more than **what the sliders hold now**" in first
    assert "first:best" not in {button.key for button in app.button}


def test_a_best_plan_is_called_so_only_while_the_sliders_ask_for_it() -> None:
    app = opened()
    app.button(key="first:best").click().run()
    app.select_slider(key="knob:plan.tp_decode").set_value(2).run()
    assert "**best plan**" in app.markdown[0].value
    app.select_slider(key="knob:workload.output_tokens").set_value(256).run()
    assert "**earlier best plan**" in app.markdown[0].value
    assert "earlier best plan" in tables(app)[0].columns
    assert any(text.value == "earlier best plan" for text in app.text)
    app.select_slider(key="knob:workload.output_tokens").set_value(128).run()
    assert "**best plan**" in app.markdown[0].value
    app.button(key="remove:best plan").click().run()
    app = keep(app, "best plan")
    app.select_slider(key="knob:workload.output_tokens").set_value(256).run()
    assert "**best plan**" in app.markdown[0].value


@pytest.mark.parametrize("name", [BEST, OTHER_BEST, f"{OTHER_BEST} (2)", CURRENT])
def test_names_that_the_page_gives_are_whole_on_its_charts(name: str) -> None:
    assert short(name) == name


def test_sliders_that_moved_are_compared_with_the_preset_before_and_by_one_click() -> None:
    app = opened(plan__tp_decode="8")
    before = app.markdown[0].value
    assert "**the preset's own values**" in before
    assert "decode tensor parallelism (TP_D), 4 clusters against 8 clusters" in before
    app.button(key="first:preset").click().run()
    (kept,) = app.session_state["snapshots"].items()
    assert kept == (preset_scenario(MT3000).name, preset_scenario(MT3000))
    assert app.markdown[0].value == before.replace("the preset's own values", kept[0])


def test_who_is_best_for_what_is_told_from_the_figures() -> None:
    base = preset_scenario(MT3000)
    moves = {"a": {}, "b": {"plan.micro_batch_decode": 8}, "c": {"plan.pp_prefill": 1}}
    comparison = compare([Candidate(name, base.replacing(move)) for name, move in moves.items()])
    text = lead(comparison)
    rates, waits, each = (figure.values[:2] for figure in comparison.figures[:3])
    assert rates[0] and rates[1] and each[0] and each[1] and waits[0] == waits[1]
    times = f"{significant(rates[0] / rates[1])} times as much as **b**"
    assert f"Most is delivered by **a**: {human(rates[0], 'tokens/s')}, {times}." in text
    less = f"{human(each[1], 's')}, {significant(100 * (1 - each[1] / each[0]))} % less"
    assert f"The least time per output token ({less}) is that of **b**." in text
    assert "first token" not in text
    assert "**c** does not fit." in text
    assert "stages (PP_P), 1 stage in **c** against 2 stages in the others" in text


@pytest.mark.parametrize("others", [0, 1])
def test_each_lead_is_told_of_the_scenario_that_has_it(others: int) -> None:
    faster = {
        "workload.clusters_total": 144,
        "hardware.ddr_bandwidth_bytes_per_second": 120e9,
    }
    base = preset_scenario(MT3000)
    best = best_plan(default_space(base), THROUGHPUT).scenario
    kept = [Candidate("best plan", best), *[Candidate("preset", base)] * others]
    comparison = compare([*kept, Candidate("now", base.replacing(faster))])
    text = lead(comparison)
    most, *times = (
        (figure.values.index((min, max)[figure.more_is_better is True](figure.values)), figure)
        for figure in comparison.figures[:3]
    )
    assert f"Most is delivered by **{comparison.candidates[most[0]].name}**" in text
    for place, figure in times:
        sentence = next(s for s in text.split(". ") if human(figure.values[place], "s") in s)
        too = ", too" if place == most[0] else ""
        assert sentence.endswith(f" of **{comparison.candidates[place].name}**{too}")
    assert len({place for place, _ in times}) == 2
    # What the leader has besides follows at once.
    assert text.index(", too.") < text.index("time to first token")


def test_what_the_leader_has_too_is_told_before_what_others_have() -> None:
    base = preset_scenario(MT3000)
    none = compare([Candidate("a", base), Candidate("b", base)])
    values = {"ttft_seconds": (3.0, 1.0, 2.0), "tpot_seconds": (1.0, 2.0, 2.0)}
    figures = [replace(f, values=values[f.name]) for f in none.figures if f.name in values]
    names = ("a", "b", "c")
    text = " ".join(_times(figures, [f"**{name}**" for name in names], [0]))
    assert text == (
        "The least time per output token (1.00 s, 50.0 % less than **b**) is that of **a**, too. "
        "The least time to first token (1.00 s, 50.0 % less than **c**) is that of **b**."
    )


def test_values_of_several_scenarios_are_told_once_and_plans_that_do_not_fit_in_a_sentence() -> (
    None
):
    base = preset_scenario(MT3000)
    small = base.replacing({"plan.tp_decode": 1, "plan.pp_decode": 1})
    shared = base.replacing({"plan.pp_decode": 5})
    scenarios = {"best": shared, "what it is": base, "b": base, "small": small}
    text = lead(compare([Candidate(*item) for item in scenarios.items()]))
    assert "(TP_D), 1 cluster in **small** against 4 clusters in the others; " in text
    assert (
        "decode pipeline stages (PP_D), 5 stages in **best** against 1 stage in **small** against "
        "4 stages in the others." in text
    )
    assert " The plan of **small** does not fit. " in text


def test_scenarios_that_are_alike_have_no_winner() -> None:
    base = preset_scenario(MT3000)
    text = lead(compare([Candidate("a", base), Candidate("b", base)]))
    rate = human(float(evaluate(base).objective("throughput")), "tokens/s")
    assert text == f"All deliver the same: {rate}. They do not differ in any input."


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


def test_names_of_any_length_are_broken_on_this_page() -> None:
    style = (Path(compare_page.__file__).with_name("page.css")).read_text(encoding="utf-8")
    rule = next(line for line in style.splitlines() if f".st-key-{compare_page.BODY} " in line)
    assert "overflow-wrap: anywhere" in rule
    assert all(part in rule for part in ("p,", "th,", "stText"))
