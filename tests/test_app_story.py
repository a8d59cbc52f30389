"""The way through the pages, and taking changes back."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.links import preset_scenario
from explorer.search.objectives import THROUGHPUT
from explorer.search.sensitivity import hardware_sensitivity, sensitivity, strongest
from explorer.serving.targets import rate_of, solve
from explorer.ui import story
from explorer.ui.history import MOST_STEPS, History, Standing
from tests.scenarios import ASCEND, MT3000
from tests.test_app_pages import opened, to_page

PROMPT = "workload.prompt_tokens"


def standing(prompt_tokens: int) -> Standing:
    return Standing(preset_scenario(MT3000).replacing({PROMPT: prompt_tokens}), MT3000)


def chain(values: Iterable[int]) -> tuple[History, Standing]:
    history, now = History(), standing(512)
    for value in values:
        after = standing(value)
        history, now = history.changed(now, after), after
    return history, now


@given(st.lists(st.sampled_from([128, 256, 384, 512]), max_size=8))
@settings(deadline=None, max_examples=50)
def test_all_changes_taken_back_and_done_again_end_where_they_began(values: list[int]) -> None:
    history, last = chain(values)
    now, seen = last, [last]
    while history.past:
        history, now = history.undone(now)
        seen.append(now)
    assert now == standing(512)
    for expected in reversed(seen[:-1]):
        history, now = history.redone(now)
        assert now == expected
    assert (now, history.future) == (last, ())


def test_a_change_after_an_undo_ends_what_could_be_done_again() -> None:
    history, now = chain([256, 384])
    history, now = history.undone(now)
    assert history.future
    assert history.changed(now, standing(128)).future == ()


def test_a_change_of_nothing_is_no_step_and_the_oldest_steps_are_forgotten() -> None:
    history, now = chain([256])
    assert history.changed(now, now) is history
    history, _ = chain(range(100, 100 + MOST_STEPS + 5))
    assert len(history.past) == MOST_STEPS
    assert history.past[0].words == "Prompt length 104 tokens → 105 tokens"


def test_a_step_names_the_model_before_the_numbers_that_follow_it() -> None:
    other = Standing(preset_scenario("mt3000-llama2-7b@1"), "mt3000-llama2-7b@1")
    step = History().changed(standing(512), other).past[0]
    assert step.words == "Model Llama-2 13B → Llama-2 7B"


def test_undo_brings_back_sliders_preset_and_files_of_ones_own() -> None:
    app = opened()
    app.select_slider(key="knob:workload.prompt_tokens").set_value(384).run()
    choice = app.selectbox(key="preset_choice")
    choice.set_value("ascend910a-qwen3.8-27b@1").run()
    assert app.session_state["preset"] == "ascend910a-qwen3.8-27b@1"
    app.button(key="undo").click().run()
    assert app.session_state["preset"] == "mt3000-llama2-13b@1"
    assert app.session_state["scenario"].workload.prompt_tokens == 384
    app.button(key="undo").click().run()
    assert app.session_state["scenario"] == preset_scenario(MT3000)
    assert app.button(key="undo").disabled
    app.button(key="redo").click().run()
    assert app.session_state["scenario"].workload.prompt_tokens == 384
    assert not app.exception


def test_reset_is_a_change_that_can_be_taken_back() -> None:
    app = opened()
    app.select_slider(key="knob:workload.prompt_tokens").set_value(384).run()
    app.button(key="reset").click().run()
    assert app.session_state["scenario"] == preset_scenario(MT3000)
    app.button(key="undo").click().run()
    assert app.session_state["scenario"].workload.prompt_tokens == 384


@pytest.mark.parametrize("preset", [MT3000, ASCEND, "a100-llama2-70b@1"])
def test_every_page_leads_on_and_none_to_a_page_without_an_answer(preset: str) -> None:
    family = preset_scenario(preset).chip_document().family
    reached, edge = set(), {story.OVERVIEW}
    while edge:
        here = edge.pop()
        reached.add(here)
        after = story.questions_after(here, family)
        assert here not in after
        edge |= set(after) - reached
        without = {path for path, only in story.ONE_FAMILY.items() if only != family}
        assert not without & {*after, *story.answered_by(here, family)}
    every = {path for path in story.LEADS_TO if story.ONE_FAMILY.get(path, family) == family}
    assert every - reached <= {story.INSIDE}


def test_links_at_the_end_of_each_page_are_of_pages_that_are_there() -> None:
    app = opened()
    for path in story.LEADS_TO:
        to_page(app, path)
        assert not app.exception
        labels = [link.proto.label for link in app.get("page_link")]
        after = [story.QUESTIONS[next_] for next_ in story.questions_after(path, "mt3000")]
        assert labels[-len(after) :] == after


@pytest.mark.parametrize("preset", [MT3000, ASCEND, "a100-llama2-70b@1"])
def test_the_strongest_lever_is_the_one_that_the_whole_study_finds(preset: str) -> None:
    scenario = preset_scenario(preset)
    quick = strongest(hardware_sensitivity(scenario, THROUGHPUT))
    whole = strongest(sensitivity(scenario, THROUGHPUT))
    assert quick is not None
    assert whole is not None
    assert quick[0].slider == whole[0].slider
    assert quick[1] == whole[1]
    path, outcome = quick[0].slider.path, quick[1]
    moved = rate_of(scenario.replacing({path: outcome.setting}), "service")
    assert float(moved) == pytest.approx(outcome.value, rel=1e-12)


def test_what_all_pools_need_for_a_target_reaches_it() -> None:
    scenario = preset_scenario(MT3000)
    solution = solve(scenario, "service", 2000.0)
    assert solution.wall_seconds * 2000.0 == pytest.approx(solution.rows)
    assert {"workload.clusters_total", "hardware.ddr_bandwidth_bytes_per_second"} <= {
        lever.path for lever in solution.alone
    }
    for lever in solution.alone:
        if not lever.path.endswith("*") and lever.needed is not None:
            whole = isinstance(scenario.value(lever.path), int)
            value = int(lever.needed) if whole else lever.needed
            assert float(rate_of(scenario.replacing({lever.path: value}), "service")) >= 2000.0
