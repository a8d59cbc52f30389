"""The Pipeline page, driven without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer.cli import main
from explorer.config.links import preset_scenario
from explorer.config.presets import scenario_presets
from explorer.config.units import human
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation import simulate
from explorer.serving.simulation_plan import SimulationPlan
from explorer.serving.trace import parse_trace
from explorer.ui import story
from tests.tables import tables
from tests.test_app_pages import APP, metrics, unfold

MT3000, ASCEND = "mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"
PATIENCE = 60.0
TRACE = b"arrival_seconds,prompt_tokens,output_tokens\n0,100,20\n1.5,400,100\n2,30,1\n9,512,128\n"


def opened(preset: str = MT3000, **parameters: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.query_params["preset"] = preset
    for key, value in parameters.items():
        app.query_params[key.replace("__", ".")] = value
    app.run()
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "pipeline"
    )
    return app.run()


def said(app: AppTest) -> str:
    return "\n".join(element.value for element in (*app.markdown, *app.caption, *app.text))


def with_trace(app: AppTest, content: bytes) -> AppTest:
    unfold(app, "trace")
    app.file_uploader(key="trace_upload").set_value(("requests.csv", content, "text/csv"))
    return app.run()


def asked_for(app: AppTest, section: str) -> AppTest:
    """Press the button of a section and wait for what it starts."""
    app.button(key=f"start:{section}").click().run()
    assert app.session_state[f"task:{section}"][1].wait(PATIENCE)
    return app.run()


@pytest.mark.parametrize(
    "preset", [f"{preset.id}@{preset.version}" for preset in scenario_presets()]
)
def test_the_page_opens_on_every_preset_with_an_answer(preset: str) -> None:
    app = opened(preset)
    assert not app.exception
    assert app.markdown[0].value.startswith("**The plan holds at ")
    assert len(app.get("plotly_chart")) == 3


def test_page_and_command_give_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    app = opened(simulation__rate_requests_per_second="7.5", simulation__requests="3000")
    preset = MT3000.partition("@")[0]
    assert main(["simulate", preset, "--rate", "7.5", "--requests", "3000", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = metrics(app)
    assert shown["Throughput"] == human(document["throughput_tokens_per_second"], "tokens/s")
    for name, part in (("median", "p50"), ("99 in 100", "p99")):
        assert shown[f"First token, {name}"] == human(document["ttft_seconds"][part], "s")
        assert shown[f"Each token, {name}"] == human(document["tpot_seconds"][part], "s")
    assert shown["Buffer at its fullest"] == human(document["buffer"]["peak_bytes"], "B")


def test_what_runs_out_of_memory_has_no_speed_and_says_when() -> None:
    app = opened(simulation__arrivals="saturated", simulation__policy="unbounded")
    scenario = preset_scenario(MT3000).replacing(
        {"simulation.arrivals": "saturated", "simulation.policy": "unbounded"}
    )
    buffer = simulate(scenario).buffer
    assert buffer is not None
    assert human(buffer.out_of_memory_seconds, "s") in app.markdown[0].value
    assert set(metrics(app)) == {"Buffer at its fullest"}


def test_the_policies_are_compared_on_the_same_arrivals() -> None:
    app = unfold(opened(simulation__arrivals="saturated"), "policies")
    assert not app.exception
    table = tables(app)[-1].set_index("policy")
    assert list(table["out of memory"].str.startswith("after")) == [False, True, False]
    assert table["throughput"].iloc[1] == "–"
    assert "There is none" not in said(opened(ASCEND))


def test_a_trace_takes_the_place_of_made_up_arrivals() -> None:
    app = with_trace(opened(), TRACE)
    assert not app.exception
    expected = simulate(preset_scenario(MT3000), parse_trace(TRACE, "requests.csv"))
    assert metrics(app)["First token, median"] == human(expected.ttft.p50, "s")
    assert "4 requests over 9.00 s" in said(app)
    app.button(key="forget_trace").click().run()
    assert metrics(app)["First token, median"] != human(expected.ttft.p50, "s")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n1,2\n", "requests.csv line 1"),
        (TRACE + b"8,10,10\n", "line 6 arrival_seconds"),
        (TRACE + b"10,ten,10\n", "line 6 prompt_tokens"),
        (TRACE + b"10,10,0\n", "line 6 output_tokens"),
        (TRACE + b"10,600,100\n", "line 6"),
        (b"PK\x03\x04" + bytes(200), "requests.csv"),
        (b"", "requests.csv"),
    ],
)
def test_a_bad_trace_names_its_place_and_changes_nothing(content: bytes, words: str) -> None:
    before = metrics(opened())
    app = with_trace(opened(), content)
    assert not app.exception
    assert words in said(app)
    assert metrics(app) == before


def test_markup_in_the_name_of_a_trace_is_shown_letter_by_letter() -> None:
    name = "<b>*mine*</b> $x$.csv"
    for content in (TRACE, TRACE + b"10,ten,10\n"):
        app = unfold(opened(), "trace")
        app.file_uploader(key="trace_upload").set_value((name, content, "text/csv"))
        app.run()
        assert not app.exception
        assert name in "\n".join(element.value for element in app.text)
        marked = "\n".join(element.value for element in (*app.markdown, *app.caption, *app.error))
        assert name not in marked


def test_a_trace_longer_than_a_later_context_is_said() -> None:
    app = with_trace(opened(), TRACE)
    app.session_state["scenario"] = preset_scenario(MT3000).replacing(
        {"workload.prompt_tokens": 100, "workload.max_context_tokens": 400}
    )
    app.run()
    assert not app.exception
    assert "requests.csv line 3" in "\n".join(error.value for error in app.error)


def test_the_largest_rate_and_the_least_clusters_are_found_when_asked_for() -> None:
    app = unfold(opened(simulation__requests="1500", limits__ttft_seconds="20"), "rates")
    assert "largest rate that holds" not in said(app)
    asked_for(app, "largest_rate")
    assert "The largest rate that holds is **" in said(app)
    app.button(key="set_rate").click().run()
    assert app.markdown[0].value.startswith("**The plan holds at ")
    asked_for(app, "least_clusters")
    assert "are the least that hold" in said(app)
    app.button(key="set_clusters").click().run()
    assert not app.exception
    assert app.markdown[0].value.startswith("**The plan holds at ")


def test_the_least_are_asked_for_in_the_words_of_the_machine() -> None:
    app = unfold(opened(preset="ascend910a-qwen3.8-27b@1"), "rates")
    assert "What rate does it carry, and with how few cards?" in [e.label for e in app.expander]
    assert app.button(key="start:least_clusters").label.startswith("Find the fewest cards for ")


def test_many_requests_are_simulated_beside_the_page_and_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = opened(simulation__requests="8000000")
    assert app.markdown[0].value.startswith("**8,000,000 requests take a while**. They are ")
    assert not app.metric
    app.button(key="start:simulation").click().run()
    task = app.session_state["task:simulation"][1]
    app.button(key="stop:simulation").click().run()
    assert task.wait(PATIENCE)
    assert (task.status().state, task.status().result) == ("stopped", None)
    assert "Stopped early." in said(app.run())
    monkeypatch.setattr("explorer.ui.pipeline_run.MOST_WITH_THE_PAGE", 4999)
    few = asked_for(opened(simulation__requests="5000"), "simulation")
    assert not few.exception
    assert few.session_state["task:simulation"][1].status().done == 5000
    expected = simulate(preset_scenario(MT3000).replacing({"simulation.requests": 5000}))
    assert metrics(few)["First token, median"] == human(expected.ttft.p50, "s")
    assert "Three runs of so many requests are not made here" in said(unfold(few, "policies"))


def test_how_long_a_long_run_takes_is_told_from_the_last_short_one() -> None:
    app = opened(simulation__requests="1000")
    requests, seconds = app.session_state["simulation_pace"]
    assert requests == 1000
    app.text_input(key="exact").set_value("simulation.requests = 8000000").run()
    told = f", {human(8000 * seconds, 's')} at the pace of the last 1,000 requests here. They are "
    assert app.markdown[0].value.startswith(f"**8,000,000 requests take a while**{told}")


def test_a_plan_that_does_not_fit_is_not_simulated() -> None:
    app = opened(plan__tp_decode="1", plan__pp_decode="1")
    assert "nothing to simulate" in app.error[0].value
    assert not app.metric
    app.button(key="fit:best_plan").click().run()
    assert not app.error
    assert metrics(app)["Throughput"] != "–"


def test_one_slider_that_makes_a_plan_fit_is_one_click_away() -> None:
    app = opened(plan__pp_prefill="1")
    app.button(key="fit:plan.pp_prefill").click().run()
    assert app.session_state["scenario"].plan.pp_prefill == 2
    assert not app.error
    assert metrics(app)["Throughput"] != "–"


def test_where_no_plan_fits_the_way_to_the_search_is_shown() -> None:
    app = opened(limits__tpot_seconds="0.0001")
    assert "a search says what excludes them" in said(app)
    labels = [link.proto.label for link in app.get("page_link")]
    assert story.QUESTIONS[story.SEARCH] in labels


def test_every_folded_part_opens() -> None:
    app = unfold(opened(), "stages", "policies", "rates", "equations", "simulation", "trace")
    assert not app.exception
    assert "Eq. 21" in said(app)


def test_the_readme_names_the_page() -> None:
    readme = (Path(APP).parent / "README.md").read_text(encoding="utf-8")
    assert "| Pipeline |" in readme


def test_a_slider_of_a_long_range_shows_some_of_its_whole_numbers() -> None:
    app = unfold(opened(), "simulation")
    seeds = app.select_slider(key="knob:simulation.seed").options
    assert len(seeds) < 200
    assert seeds[:4] == ["0 (seed)", "1 (seed)", "2 (seed)", "3 (seed)"]


def test_every_rate_says_what_it_counts() -> None:
    """The rate asked for, the arrivals as drawn, and the output: three numbers, none the other."""
    scenario = preset_scenario(MT3000)
    run = simulate(scenario)
    asked = human(SimulationPlan(scenario, evaluate(scenario), None).rate, "requests/s")
    drawn = human(run.speed.offered_requests_per_second, "requests/s")
    assert asked != drawn
    app = unfold(opened(), "rates", "equations")
    assert not app.exception
    assert app.markdown[0].value.startswith(f"**The plan holds at {drawn} arriving, ")
    assert f"The rate asked for is {asked}" in said(app)
    assert f"drawn for it arrive at {drawn}" in said(app)
    label = app.button(key="start:least_clusters").label
    assert label == f"Find the fewest clusters for the {asked} asked for"
    lines = next(part.value for part in app.markdown if "Little's law" in part.value).split("\n")
    assert lines[0].startswith(f"- arrivals, from the first request to the last: {drawn}")
    assert human(run.speed.load, "fraction") in lines[0]
    assert human(run.speed.tokens_per_second, "tokens/s") in lines[1]
    assert human(run.speed.requests_per_second, "requests/s") in lines[1]
    assert "below" in lines[2]
    assert "no error of the equations" in said(app)


def test_arrivals_that_come_as_asked_for_are_not_said_twice() -> None:
    for chosen in ("constant", "saturated"):
        app = unfold(opened(simulation__arrivals=chosen), "equations")
        assert not app.exception
        assert "The rate asked for is" not in said(app)
        assert ("arrivals, from the first request" in said(app)) == (chosen == "constant")
