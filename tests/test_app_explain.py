"""The pages Trade-offs and Sensitivity, and the interval on the Overview, without a browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.knobs import scenario_knobs
from explorer.config.links import preset_scenario
from explorer.config.scenario import knob_at
from explorer.config.units import human
from explorer.plots.pareto import front_view
from explorer.search.best_plan import best_plan
from explorer.search.front_text import row_text, row_texts
from explorer.search.measures import measures_named
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT, Objective
from explorer.search.pareto import ParetoFront, ParetoPoint
from explorer.search.robustness import interval
from explorer.search.space import Space, default_space
from explorer.serving.evaluate import evaluate
from explorer.ui.tradeoff_words import answer
from tests.scenarios import ASCEND, MT3000, PRESETS

SEVEN_B = "mt3000-llama2-7b"
PATIENCE = 120


def page_app(module: str) -> None:
    # The function is run as a script of its own, so that its imports stand in it.
    import importlib  # noqa: PLC0415

    import streamlit as st  # noqa: PLC0415

    from explorer.ui import state  # noqa: PLC0415

    st.set_page_config(layout="wide")
    state.start()
    importlib.import_module(f"explorer.ui.{module}").page()
    state.show_notices()


def opened(module: str, preset: str, **parameters: str) -> AppTest:
    app = AppTest.from_function(page_app, kwargs={"module": module}, default_timeout=PATIENCE)
    app.query_params["preset"] = preset
    for key, value in parameters.items():
        app.query_params[key.replace("__", ".")] = value
    app.run()
    assert not app.exception
    return app


def text_of(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.warning, *app.error)
    return "\n".join(item.value for item in parts)


def finished(app: AppTest, section: str, **changes: Any) -> AppTest:
    """Press the button of a section and wait for its result."""
    app.button(key=f"start:{section}").click().run()
    _, task = app.session_state[f"task:{section}"]
    assert task.wait(PATIENCE)
    app.run()
    assert not app.exception
    assert task.status().state == "done", task.status().error
    return app


def front_of(app: AppTest) -> ParetoFront:
    front: ParetoFront = app.session_state["task:pareto"][1].status().result
    return front


# Trade-offs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "pool"), [(SEVEN_B, "4 pools of **15 clusters**"), (ASCEND, "1 pool of **4 cards**")]
)
def test_where_the_sliders_stand_comes_first_and_nothing_is_searched_for_it(
    preset: str, pool: str
) -> None:
    app = opened("tradeoffs", preset)
    assert "task:pareto" not in app.session_state
    now = evaluate(app.session_state["scenario"])
    first, second = (item.value for item in app.markdown[:2])
    assert f"**{human(float(now.objective('throughput')), 'tokens/s')}**" in first
    assert f"**{human(float(now.ttft_seconds), 's')}** to the first token" in first
    assert pool in first
    assert "what less time per output token would cost in throughput" in second


def test_a_plan_that_does_not_fit_has_nothing_to_trade_and_says_why() -> None:
    app = opened("tradeoffs", MT3000, plan__pp_prefill="1")
    first = app.markdown[0].value
    assert first.startswith("**The plan on the sliders does not fit**")
    assert "needs 27.1 GB; the limit is 20.0 GB" in first
    finished(app, "pareto")
    assert app.markdown[0].value.endswith("The plan on the sliders does not fit.")


def front_of_figures(names: Sequence[str], *figures: tuple[float, ...]) -> ParetoFront:
    scenario = preset_scenario(ASCEND)
    measures = tuple(measure.on("card") for measure in measures_named(names, scenario))
    points = tuple(ParetoPoint(figure, ()) for figure in figures)
    return ParetoFront(measures, Space(scenario, ()), points, 9, 9, exact=True, seconds=1.0)


@pytest.mark.parametrize(
    ("names", "figures", "words"),
    [
        (
            ("throughput", "ttft"),
            ((100.0, 9.0), (95.0, 6.0), (50.0, 3.0)),
            "**33.3 % less time to first token costs 5.00 % of the throughput**: from 100 tokens/s "
            "at 9.00 s to 95 tokens/s at 6.00 s. At the least time to first token it is 50 "
            "tokens/s at 3.00 s.",
        ),
        (
            ("throughput", "tpot"),
            ((100.0, 9.0), (50.0, 3.0)),
            "**66.7 % less time per output token costs 50.0 % of the throughput**: from 100 "
            "tokens/s at 9.00 s to 50 tokens/s at 3.00 s. Of 9",
        ),
        (
            ("clusters", "throughput"),
            ((1.0, 10.0), (4.0, 30.0)),
            "**3.00 times the throughput costs 4.00 times the cards of a pool**: from 1 card a "
            "pool at 10 tokens/s to 4 cards a pool at 30 tokens/s.",
        ),
        (
            ("throughput", "clusters"),
            ((30.0, 4.0), (27.0, 2.0)),
            "**50.0 % fewer cards of a pool cost 10.0 % of the throughput**",
        ),
        (
            ("throughput", "tpot", "ttft"),
            ((30.0, 1.0, 8.0), (30.0, 2.0, 4.0)),
            "**50.0 % less time to first token costs 2.00 times the time per output token**: from "
            "1.00 s at 8.00 s to 2.00 s at 4.00 s.",
        ),
        (
            ("ttft", "tpot", "clusters"),
            ((1.4701, 0.122, 11.0), (1.4702, 0.225, 7.0), (1.4703, 0.44, 5.0)),
            "**54.5 % fewer cards of a pool cost 3.61 times the time per output token**: from 122 "
            "ms at 11 cards a pool to 440 ms at 5 cards a pool. Of 9",
        ),
        (
            ("throughput", "ttft"),
            ((100.02, 3.001), (100.01, 3.0)),
            "**There is nothing to trade**: one plan is the best in each, throughput 100 tokens/s, "
            "time to first token 3.00 s.",
        ),
        (
            ("throughput", "ttft"),
            ((100.0, 9.0), (95.0, 8.999), (50.0, 3.0)),
            "**66.7 % less time to first token costs 50.0 % of the throughput**",
        ),
        (
            ("ttft", "tpot", "clusters"),
            ((1.0, 1.0, 2.0), (1.0, 2.0, 1.0), (2.0, 1.0, 1.0)),
            "**No two of these measures are traded for each other**: for any two of them one plan "
            "is the best in both. Of 9",
        ),
        (
            ("throughput", "ttft"),
            ((100.0, 3.0),),
            "**There is nothing to trade**: one plan is the best in each, throughput 100 tokens/s, "
            "time to first token 3.00 s. Of 9 feasible plans, **1 plan** is beaten by no other.",
        ),
    ],
)
def test_the_trade_is_told_in_numbers(
    names: Sequence[str], figures: tuple[tuple[float, ...], ...], words: str
) -> None:
    assert answer(front_of_figures(names, *figures), None).startswith(words)


def test_neighbours_in_the_table_do_not_read_alike() -> None:
    front = front_of_figures(
        ("throughput", "tpot"),
        (241.0, 0.1342),
        (187.2, 0.12904),
        (187.1, 0.12901),
        (125.0, 0.1290000001),
        (97.0, 0.125),
    )
    assert [row_texts(front, place) for place in range(5)] == [
        ["241 tokens/s", "134 ms"],
        ["187.2 tokens/s", "129.04 ms"],
        ["187.1 tokens/s", "129.01 ms"],
        ["125 tokens/s", "129.00 ms"],
        ["97 tokens/s", "125 ms"],
    ]
    assert row_text(front, 3) == "throughput 125 tokens/s, time per output token 129.00 ms"
    told = [point.sentence for point in front_view(front).points]
    assert told == [row_text(front, place) for place in range(5)]


def test_what_five_figures_do_not_tell_apart_takes_three() -> None:
    front = front_of_figures(("ttft", "tpot"), (1.0, 2.0000001), (2.0, 2.0))
    assert [row_texts(front, place)[1] for place in range(2)] == ["2.00 s", "2.00 s"]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (None, "The plan on the sliders does not fit."),
        ((95.0, 6.0), "None of them beats the plan on the sliders."),
        ((95.0, 9.0), "(throughput 95 tokens/s, time to first token 9.00 s) is beaten by **2** of"),
        ((49.0, 3.0), "is beaten by **1** of them."),
    ],
)
def test_plans_that_beat_the_sliders_are_counted(own: tuple[float, float], words: str) -> None:
    front = front_of_figures(("throughput", "ttft"), (100.0, 9.0), (95.0, 6.0), (50.0, 3.0))
    assert words in answer(front, own)


@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_the_trade_offs_are_found_and_a_click_puts_one_on_the_sliders(preset: str) -> None:
    app = finished(opened("tradeoffs", preset), "pareto")
    front = front_of(app)
    text = text_of(app)
    assert f"Of {front.feasible:,} feasible plans, **{len(front.points)} plans**" in text
    assert human(front.points[0].figures[0], "tokens/s") in text
    place = len(front.points) - 1
    app.session_state["pareto_chart"] = {
        "selection": {"points": [{"customdata": [place, ""]}], "point_indices": [place]}
    }
    app.run()
    assert not app.exception
    applied = app.session_state["scenario"]
    assert applied.plan == front.scenario(front.points[place]).plan
    assert float(evaluate(applied).objective("throughput")) == front.points[place].figures[0]
    # The front belongs to the machine and the workload, not to the plan that stands on it.
    assert front_of(app) is front
    assert f"**{len(front.points)} plans**" in text_of(app)


def test_a_selection_is_applied_once_and_again_after_it_was_cleared() -> None:
    app = finished(opened("tradeoffs", SEVEN_B), "pareto")
    front = front_of(app)
    picked = {"selection": {"points": [{"customdata": [1, ""]}], "point_indices": [1]}}
    app.session_state["pareto_chart"] = picked
    app.run()
    moved = app.session_state["scenario"].replacing({"plan.dp_prefill": 9})
    app.session_state["scenario"] = moved
    app.run()
    assert app.session_state["scenario"] == moved
    app.session_state["pareto_chart"] = {"selection": {"points": [], "point_indices": []}}
    app.run()
    app.session_state["pareto_chart"] = picked
    app.run()
    assert app.session_state["scenario"].plan == front.scenario(front.points[1]).plan


def test_the_same_without_a_mouse_and_with_other_measures() -> None:
    app = opened("tradeoffs", ASCEND)
    app.multiselect(key="tradeoff:measures:card").set_value(["ttft", "throughput", "tpot"]).run()
    finished(app, "pareto")
    front = front_of(app)
    assert [measure.name for measure in front.measures] == ["ttft", "throughput", "tpot"]
    app.selectbox(key="pareto_choice").set_value(2).run()
    app.button(key="pareto_apply").click().run()
    assert not app.exception
    assert app.session_state["scenario"].plan == front.scenario(front.points[2]).plan


def test_sliders_that_moved_ask_for_a_new_front() -> None:
    app = finished(opened("tradeoffs", ASCEND), "pareto")
    moved = app.session_state["scenario"].replacing({"workload.prompt_tokens": 1024})
    app.session_state["scenario"] = moved
    app.run()
    assert "What is asked for has changed since the last result." in text_of(app)
    assert "beaten by no other" not in text_of(app)
    finished(app, "pareto")
    assert "beaten by no other" in text_of(app)


def test_too_few_measures_and_one_that_does_not_exist_are_told() -> None:
    app = opened("tradeoffs", SEVEN_B, workload__output_tokens="1")
    assert "Time per output token cannot be traded here" in text_of(app).replace("*", "")
    assert "pareto" not in text_of(app)
    app.multiselect(key="tradeoff:measures:cluster").set_value(["ttft"]).run()
    assert "at least 2 measures" in text_of(app)
    assert not app.exception


def test_the_measures_are_in_the_words_of_the_chip_and_a_choice_outlives_it() -> None:
    app = opened("tradeoffs", ASCEND)
    choice = app.multiselect(key="tradeoff:measures:card")
    assert (choice.value, choice.options[-1]) == (["throughput", "tpot"], "Cards of a pool")
    choice.set_value(["ttft", "clusters"]).run()
    for preset, unit in ((SEVEN_B, "cluster"), (ASCEND, "card")):
        app.session_state["scenario"] = preset_scenario(preset)
        app.run()
        assert not app.exception
        there = app.multiselect(key=f"tradeoff:measures:{unit}")
        assert there.value == ["ttft", "clusters"]
        assert there.options[-1] == f"{unit.capitalize()}s of a pool"
        assert f"fewer {unit}s of a pool" in text_of(app)


def test_nothing_to_trade_says_which_limit_excludes_everything() -> None:
    app = finished(opened("tradeoffs", SEVEN_B, limits__tpot_seconds="0.0001"), "pareto")
    assert "No plan is feasible" in text_of(app)
    assert "No plan keeps: tpot" in text_of(app)


# Sensitivity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_the_answer_comes_first_on_every_preset(preset: str) -> None:
    app = opened("sensitivity", preset)
    first = next(item.value for item in app.markdown)
    assert "with the best plan before and after" in first
    lead = "Halving" if preset == ASCEND else "Doubling "
    assert first.startswith(lead)


def test_the_answer_is_what_single_evaluations_and_searches_say() -> None:
    base = preset_scenario(MT3000)
    path = "hardware.ddr_bandwidth_bytes_per_second"
    twice = base.replacing({path: 60e9})
    stays = float(evaluate(twice).objective("throughput") / evaluate(base).objective("throughput"))
    best = [best_plan(default_space(one), THROUGHPUT).value for one in (base, twice)]
    own = float(evaluate(base).objective("throughput"))
    text = next(item.value for item in opened("sensitivity", MT3000).markdown)
    for ratio in (stays, best[1] / best[0], best[0] / own):
        assert f"+{100 * (ratio - 1):.1f} %" in text


def test_the_answers_are_in_the_words_of_the_chip_and_a_choice_outlives_it() -> None:
    app = opened("sensitivity", ASCEND)
    radio = app.radio(key="sensitivity:objective:card")
    assert radio.options == ["Throughput of all cards", "Card-seconds per token"]
    radio.set_value("cluster_seconds_per_token").run()
    app.button_group(key="sensitivity:section").set_value("Assumed constants").run()
    assert not app.exception
    said = " ".join(part.value for part in app.main.markdown)
    assert "card-seconds per token" in said
    assert "card s/token" in said
    assert "cluster" not in said.lower()
    app.session_state["scenario"] = preset_scenario(SEVEN_B)
    app.run()
    assert not app.exception
    there = app.radio(key="sensitivity:objective:cluster")
    assert there.value == "cluster_seconds_per_token"
    assert there.options == ["Throughput of all clusters", "Cluster-seconds per token"]


@pytest.mark.parametrize(("preset", "answer"), [(SEVEN_B, 1), (ASCEND, 0)])
def test_each_section_opens_and_only_the_chosen_one_is_built(preset: str, answer: int) -> None:
    app = opened("sensitivity", preset)
    unit = preset_scenario(preset).chip_document().unit_name
    app.radio(key=f"sensitivity:objective:{unit}").set_value(
        ("throughput", "cluster_seconds_per_token")[answer]
    ).run()
    questions = {
        "Sliders": "What are half and double of each slider worth?",
        "Map": "Where does what limit?",
        "Assumed constants": "What do the assumed constants leave open?",
        "Choices of the plan": "Which choice of the plan matters?",
    }
    for section, question in questions.items():
        app.button_group(key="sensitivity:section").set_value(section).run()
        assert not app.exception
        shown = {item.value for item in app.subheader}
        assert question in shown
        assert not shown & (set(questions.values()) - {question})


def test_the_map_of_each_cell_importance_and_regret_come_from_the_background() -> None:
    app = opened("sensitivity", ASCEND)
    app.button_group(key="sensitivity:section").set_value("Map").run()
    app.selectbox(key="map:x").set_value("plan.pp_decode").run()
    app.selectbox(key="map:y").set_value("plan.tp_decode").run()
    assert "What limits on this map" in text_of(app)
    app.button_group(key="map:follows").set_value("the best plan in each cell").run()
    assert "a search of its own" in text_of(app)
    finished(app, "map")
    assert "What limits on this map" in text_of(app)
    app.button_group(key="sensitivity:section").set_value("Assumed constants").run()
    finished(app, "regret")
    assert "At **0 of 36** sets of constants this plan is the best" in text_of(app)
    app.button_group(key="sensitivity:section").set_value("Choices of the plan").run()
    finished(app, "importance")
    assert "explains" in text_of(app)
    assert "18,560 feasible plans" in text_of(app)


def test_the_same_slider_twice_is_no_map() -> None:
    app = opened("sensitivity", SEVEN_B)
    app.button_group(key="sensitivity:section").set_value("Map").run()
    app.selectbox(key="map:x").set_value("plan.pp_decode").run()
    app.selectbox(key="map:y").set_value("plan.pp_decode").run()
    assert "two different sliders" in text_of(app)


def test_a_plan_that_does_not_fit_has_no_speed_but_the_rest_works() -> None:
    app = opened("sensitivity", SEVEN_B, plan__micro_batch_decode="512")
    text = text_of(app)
    assert "**This plan does not fit**" in text
    assert "the best plan for these sliders reaches" in text
    assert "there is no speed to show" in text
    assert any((button.key or "").startswith("fit:plan.") for button in app.button)
    app.button_group(key="sensitivity:section").set_value("Map").run()
    assert "What limits on this map" in text_of(app)
    app.button_group(key="sensitivity:section").set_value("Assumed constants").run()
    assert "there is no speed to show" in text_of(app)
    assert not app.exception


@pytest.mark.parametrize(("page", "preset"), [("attribution", MT3000), ("slices", ASCEND)])
def test_where_a_plan_has_no_speed_one_click_puts_one_that_has(page: str, preset: str) -> None:
    app = opened(page, preset, plan__micro_batch_decode="512")
    assert "there is no speed to show" in text_of(app)
    app.button(key="fit:best_plan").click().run()
    assert evaluate(app.session_state["scenario"]).feasible
    assert "there is no speed to show" not in text_of(app)


@pytest.mark.parametrize("path", scenario_knobs())
def test_controls_speak_of_cards_where_the_chip_has_cards(path: str) -> None:
    knob = knob_at(preset_scenario(ASCEND), path)
    assert knob is not None
    assert "cluster" not in f"{knob.label} {knob.unit} {knob.raising}".lower()
    here = knob_at(preset_scenario(MT3000), path)
    assert here is not None
    assert "card" not in f"{here.label} {here.unit} {here.raising}".lower().replace("discard", "")


@pytest.mark.parametrize("objective", [THROUGHPUT, CLUSTER_SECONDS_PER_TOKEN])
def test_one_click_puts_the_plan_on_the_sliders_that_is_best_by_the_answer_asked_for(
    objective: Objective,
) -> None:
    app = opened("sensitivity", MT3000, plan__pp_prefill="1")
    app.radio(key="sensitivity:objective:cluster").set_value(objective.name).run()
    app.button(key="fit:best_plan").click().run()
    best = best_plan(default_space(preset_scenario(MT3000)), objective)
    assert best.scenario is not None
    assert app.session_state["scenario"].plan == best.scenario.plan
    assert not app.error
    assert "with the best plan before and after" in app.markdown[0].value


def test_the_answer_asked_for_stays_on_another_chip_in_its_own_words() -> None:
    app = opened("sensitivity", MT3000)
    assert "throughput of all clusters" in app.markdown[0].value
    app.radio(key="sensitivity:objective:cluster").set_value("cluster_seconds_per_token").run()
    app.session_state["scenario"] = preset_scenario(ASCEND)
    app.run()
    choice = app.radio(key="sensitivity:objective:card")
    assert choice.value == "cluster_seconds_per_token"
    assert choice.options == ["Throughput of all cards", "Card-seconds per token"]
    assert "card-seconds per token" in app.markdown[0].value
    app.session_state["scenario"] = preset_scenario(MT3000)
    app.radio(key="sensitivity:objective:card").set_value("throughput").run()
    assert app.radio(key="sensitivity:objective:cluster").value == "throughput"
    assert not app.exception


def test_nothing_fits_at_all() -> None:
    app = opened("sensitivity", SEVEN_B, limits__tpot_seconds="0.0001")
    assert "Neither this plan nor any other fits" in text_of(app)
    assert "a search says what excludes them" in text_of(app)
    assert "fit:best_plan" not in {button.key for button in app.button}
    app.button_group(key="sensitivity:section").set_value("Map").run()
    assert "Nothing on this map fits" in text_of(app)
    app.button_group(key="sensitivity:section").set_value("Choices of the plan").run()
    finished(app, "importance")
    assert "No plan is feasible" in text_of(app)


# Overview -------------------------------------------------------------------------------------


def test_what_is_left_open_stands_beside_the_headline() -> None:
    found = interval(preset_scenario(MT3000))
    text = text_of(opened("explore", MT3000))
    assert "**What is left open.**" in text
    assert f"{human(found.low, 'tokens/s')} to {human(found.high, 'tokens/s')}" in text
    assert "do not change the throughput" in text_of(opened("explore", ASCEND))
    assert "at 27.2 % of the points tried this plan does not fit (prefill memory)" in text_of(
        opened("explore", "mt3000-llama-30b")
    )
    assert "left open" not in text_of(opened("explore", MT3000, plan__pp_prefill="1"))
