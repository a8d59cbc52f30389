"""The search page, without a browser and with one."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Element

from explorer.config.links import preset_scenario
from explorer.config.units import human, significant
from explorer.search.best_plan import best_plan
from explorer.search.certificate import certify
from explorer.search.job import JobStatus, SearchJob
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.space import default_space
from explorer.search.study import SearchSettings
from explorer.serving.evaluate import evaluate
from explorer.ui import search_first
from tests.browser import charts_drawn, go_to, open_page, settle
from tests.tables import tables

APP = str(Path(__file__).parent.parent / "app.py")
SMALL = {
    "plan.pp_prefill",
    "plan.pp_decode",
    "plan.dp_prefill",
    "plan.micro_batch_prefill",
}


def search_page(**session: object) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    app.query_params["preset"] = "mt3000-llama2-7b@1"
    app.run()
    # Pages that are functions have no file to switch to: the page's hash is what a click sends.
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "search"
    )
    for key, value in session.items():
        app.session_state[key] = value
    return app.run()


def finished(app: AppTest) -> AppTest:
    job = app.session_state["search_job"]
    assert job.wait(60)
    return app.run()


def test_a_small_search_is_proved_and_applied() -> None:
    app = search_page(pinned=sorted(SMALL), trials=40)
    app.button(key="search").click().run()
    finished(app)
    assert not app.exception
    assert any("proved over" in heading.value for heading in app.subheader)
    words = "\n".join(part.value for part in app.markdown)
    assert "**What is left open.**" in words
    assert "**1,760 tokens/s** (THInfer" in words
    app.button(key="apply").click().run()
    scenario = preset_scenario("mt3000-llama2-7b@1")
    optimum = certify(default_space(scenario, frozenset(SMALL)), CLUSTER_SECONDS_PER_TOKEN)
    applied = evaluate(app.session_state["scenario"])
    value = float(applied.objective("cluster_seconds_per_token"))
    assert value == pytest.approx(optimum.optimum, rel=0.05)
    assert value < float(evaluate(scenario).objective("cluster_seconds_per_token"))


def test_nothing_feasible_names_the_constraint() -> None:
    app = search_page(pinned=sorted(SMALL), trials=5)
    app.session_state["scenario"] = app.session_state["scenario"].replacing(
        {"workload.max_context_tokens": 600}
    )
    app.run()
    app.button(key="search").click().run()
    finished(app)
    assert "context" in app.warning[0].value
    assert not any(button.key == "apply" for button in app.button)


def test_nothing_feasible_offers_the_nearest_plan_that_fits() -> None:
    app = search_page(
        pinned=[*sorted(SMALL), "plan.tp_decode", "plan.micro_batch_decode"], trials=3
    )
    app.session_state["scenario"] = app.session_state["scenario"].replacing(
        {"workload.clusters_total": 9}
    )
    app.run()
    app.button(key="search").click().run()
    finished(app)
    assert "No feasible plan, proved" in app.warning[0].value
    assert "**clusters**" in app.warning[0].value
    app.button(key="apply_nearest").click().run()
    assert not app.exception
    assert bool(evaluate(app.session_state["scenario"]).feasible)


def test_a_machine_and_its_plan_are_searched_under_a_budget() -> None:
    bandwidth, memory = "hardware.ddr_bandwidth_bytes_per_second", "hardware.memory_bytes"
    app = search_page(
        pinned=sorted(SMALL),
        further=[bandwidth, memory],
        trials=30,
        **{f"range:{memory}": "1e10:4e10", "open:searched": True, "enumerate_up_to": 100},
    )
    app.text_input(key="limit:budget").set_value(f"{bandwidth} + {memory} <= 2.5").run()
    assert app.session_state["scenario"].limits.budget is not None
    assert any("costs 2 of 2.50" in caption.value for caption in app.caption)
    assert any("bounds the optimum" in caption.value for caption in app.caption)
    app.button(key="search").click().run()
    finished(app)
    assert not app.exception
    job = app.session_state["search_job"]
    best = job.status().best
    assert len(job.space.axis(bandwidth)) == len(job.space.axis(memory)) == 9
    assert best.value(bandwidth) / 30e9 + best.value(memory) / 20e9 <= 2.5
    assert any("plans by bounds" in heading.value for heading in app.subheader)
    app.button(key="apply").click().run()
    assert app.session_state["scenario"].value(bandwidth) == best.value(bandwidth)
    assert app.session_state["scenario"].plan == best.plan


@pytest.mark.parametrize("text", ["8:1", "1:8:0", "nonsense", "1:4096"])
def test_a_range_that_is_none_stops_no_page(text: str) -> None:
    app = search_page(**{"range:plan.pp_decode": text})
    assert "plan.pp_decode" in app.error[0].value
    assert app.button(key="search").disabled
    assert not app.exception


def test_a_budget_that_is_none_is_refused_in_words_which_the_next_refusal_replaces() -> None:
    app = search_page(**{"open:searched": True})
    app.text_input(key="limit:budget").set_value("cheap").run()
    assert app.session_state["scenario"].limits.budget is None
    assert any("limits.budget = cheap" in text.value for text in app.text)
    app.text_input(key="limit:budget").set_value("dear").run()
    said = [text.value for text in app.text if "limits.budget" in text.value]
    assert len(said) == 1
    assert "limits.budget = dear" in said[0]
    assert not app.exception


def test_rank_solved_settings_plain_study_and_staged_loss_are_said() -> None:
    app = search_page(pinned=["plan.pp_prefill", "plan.pp_decode"], trials=20)
    app.button(key="search").click().run()
    finished(app)
    text = " ".join(item.value for item in (*app.markdown, *app.caption))
    assert "The plan on the sliders was number" in text
    assert "Solved exactly inside each trial" in text
    assert "TPE alone, with all 4 settings to choose and as many trials, reached" in text
    assert "against the best plan" in text


def test_samplers_are_compared_in_the_background() -> None:
    app = search_page(pinned=sorted(SMALL), trials=6, **{"open:compare": True})
    app.button(key="start:compare").click().run()
    assert app.session_state["task:compare"][1].wait(60)
    app.run()
    assert not app.exception
    table = next(table for table in tables(app) if "from the floor" in table.columns)
    assert {"TPE", "NSGA-II", "random", "TPE alone"} <= set(table["sampler"])
    assert any(caption.value.startswith("Left out: sampler = brute") for caption in app.caption)


def test_two_windows_search_on_their_own() -> None:
    one = search_page(pinned=sorted(SMALL), trials=25)
    two = search_page(pinned=sorted(SMALL), trials=15, objective="throughput")
    for app in (one, two):
        app.button(key="search").click().run()
    for app, trials in ((one, 25), (two, 15)):
        finished(app)
        assert not app.exception
        status = app.session_state["search_job"].status()
        assert status.state == "done"
        assert status.result.trials == trials
    assert one.session_state["search_job"] is not two.session_state["search_job"]


def test_a_setting_of_another_chip_is_forgotten() -> None:
    app = search_page(further=["hardware.sm_bytes"], **{"open:searched": True})
    app.session_state["scenario"] = preset_scenario("ascend910a-qwen3.8-27b@1")
    app.run()
    assert not app.exception
    assert app.multiselect(key="further").value == []


def test_the_staged_plan_can_be_put_on_the_sliders() -> None:
    app = search_page()
    app.button(key="apply_staged").click().run()
    assert not app.exception
    plan = app.session_state["scenario"].plan
    assert plan != preset_scenario("mt3000-llama2-7b@1").plan
    assert bool(evaluate(app.session_state["scenario"]).feasible)


def test_stop_ends_a_long_search() -> None:
    app = search_page(trials=5000)
    app.button(key="search").click().run()
    job = app.session_state["search_job"]
    while job.status().done < 3:
        time.sleep(0.01)
    app.button(key="stop").click().run()
    assert job.wait(10)
    assert job.status().state == "stopped"
    assert job.status().done < 5000


def test_raw_eq22_is_shown_as_the_trap_it_is() -> None:
    app = search_page(objective="eq22")
    app.button(key="trap").click().run()
    assert "batch of 1 request:" in app.warning[0].value


def order(app: AppTest) -> list[str]:
    """Return what the page shows, from the top: the kind of each element with its words."""
    elements = (element for element in app.main if isinstance(element, Element))
    return [f"{element.type}: {getattr(element, 'value', '')}" for element in elements]


def place(app: AppTest, beginning: str) -> int:
    """Return where on the page the first element is that begins so."""
    return next(i for i, words in enumerate(order(app)) if words.startswith(beginning))


def moved(app: AppTest, **changes: object) -> AppTest:
    app.session_state["scenario"] = app.session_state["scenario"].replacing(
        {path.replace("__", "."): value for path, value in changes.items()}
    )
    return app.run()


class At:
    """A job as it was in another state."""

    def __init__(self, job: SearchJob, **changes: object) -> None:
        self._job, self._changes = job, changes

    def __getattr__(self, name: str) -> object:
        return getattr(self._job, name)

    def status(self) -> JobStatus:
        return replace(self._job.status(), **self._changes)


@pytest.fixture(scope="module")
def small_job() -> SearchJob:
    """A finished search of few plans."""
    scenario = preset_scenario("mt3000-llama2-7b@1")
    space = default_space(scenario, frozenset(SMALL))
    settings = SearchSettings(CLUSTER_SECONDS_PER_TOKEN, trials=12, seed=1)
    job = SearchJob(space, settings, certified=True, plain=True).start()
    assert job.wait(60)
    return job


def with_job(job: SearchJob, **changes: object) -> AppTest:
    """Return the page with a search that was started for what is on its sliders."""
    scenario = preset_scenario("mt3000-llama2-7b@1")
    return search_page(
        pinned=sorted(SMALL), search_job=At(job, **changes), search_scenario=scenario
    )


def words_of(app: AppTest) -> str:
    parts = (app.markdown, app.caption, app.info)
    return "\n".join(str(element.value) for part in parts for element in part)


def test_a_plan_on_the_sliders_is_said_to_be_there_and_a_move_to_be_one(
    small_job: SearchJob,
) -> None:
    app = with_job(small_job)
    assert "have moved since" not in words_of(app)
    assert "is on the sliders." not in words_of(app)
    app.button(key="apply").click().run()
    assert not app.exception
    assert "**This plan is on the sliders.**" in words_of(app)
    assert "have moved since" not in words_of(app)
    assert app.button(key="apply").disabled
    assert not app.info

    moved(app, plan__tp_decode=2)
    assert "moved since, but nothing that decides which plan is best" in words_of(app)
    assert not app.button(key="apply").disabled
    assert not app.info

    moved(app, workload__prompt_tokens=100)
    assert "The sliders have moved since: this is the best plan for how they were." in words_of(app)
    assert "Prompt length 512 tokens → 100 tokens" in app.info[0].value
    assert "on the sliders." not in words_of(app)


def test_a_pinned_setting_that_moves_asks_for_another_plan(small_job: SearchJob) -> None:
    app = moved(with_job(small_job), plan__dp_prefill=3)
    assert "Prefill pipelines (DP_P)" in app.info[0].value


@pytest.mark.parametrize("state", ["done", "searching"])
def test_a_result_of_another_machine_is_said_to_be_one_before_it_is_shown(
    small_job: SearchJob, state: str
) -> None:
    app = with_job(small_job, state=state)
    app.session_state["scenario"] = preset_scenario("ascend910a-qwen3.8-27b@1")
    app.run()
    assert not app.exception
    said = "This result is" if state == "done" else "This search is"
    information = app.info[0].value
    assert information.startswith(f"{said} of **Llama-2 7B on MT-3000**, for **cluster-seconds")
    assert "the sliders now hold **Qwen3.8-27B on Ascend 910A**" in information
    fresh, told = place(app, "markdown: The best plan for these"), place(app, "info: This")
    assert fresh < told < place(app, "markdown: **Optimal, proved over")
    assert "card s/token" in order(app)[fresh]


def test_a_result_by_another_objective_is_said_to_be_one(small_job: SearchJob) -> None:
    app = with_job(small_job)
    app.radio(key="objective:cluster").set_value("throughput").run()
    assert not app.exception
    assert "the objective is now **throughput of all clusters**" in app.info[0].value
    assert "tokens/s**; the present one" in order(app)[place(app, "markdown: The best plan")]
    app.radio(key="objective:cluster").set_value("cluster_seconds_per_token").run()
    assert not app.info
    assert place(app, "subheader: Optimal, proved over") < place(app, "radio")


@pytest.mark.parametrize("state", ["searching", "certifying", "done", "stopped"])
def test_the_answer_stands_above_what_is_asked(small_job: SearchJob, state: str) -> None:
    proof = {} if state == "done" else {"proof": None}
    app = with_job(small_job, state=state, **proof)
    assert not app.exception
    first, headline = place(app, "header") + 1, place(app, "subheader")
    assert headline < place(app, "radio") < place(app, "markdown: | setting")
    if state in ("searching", "certifying"):
        assert order(app)[first].startswith("progress")
        assert order(app)[headline] == "subheader: Best so far, not proved"
        assert "apply" not in {button.key for button in app.button}
    else:
        assert headline == first


def test_a_proved_plan_can_be_taken_while_the_sampler_alone_still_runs(
    small_job: SearchJob,
) -> None:
    app = with_job(small_job, state="comparing", plain=None, done=5, total=12)
    assert place(app, "subheader: Optimal, proved over") == place(app, "header") + 1
    assert "What still runs only tells" in words_of(app)
    app.button(key="apply").click().run()
    assert not app.exception
    assert app.session_state["scenario"].plan == small_job.status().best.plan


def test_the_objective_is_in_words_and_in_the_units_of_the_chip() -> None:
    app = search_page()
    assert "Cluster-seconds per token" in app.radio(key="objective:cluster").options
    assert not any("Clu_pool" in caption.value for caption in app.caption)
    assert "Clu_pool" in app.radio(key="objective:cluster").help
    assert any(caption.value.startswith("What an output token costs") for caption in app.caption)
    app.radio(key="objective:cluster").set_value("throughput").run()
    app.session_state["scenario"] = preset_scenario("ascend910a-qwen3.8-27b@1")
    app.run()
    radio = app.radio(key="objective:card")
    assert radio.value == "throughput"
    assert radio.options[0] == "Card-seconds per token"
    assert not any("luster" in option for option in radio.options)
    radio.set_value("eq22").run()
    assert not app.exception
    text = words_of(app)
    assert "card s**" in text
    assert "card-seconds** a token" in text
    assert "cluster-seconds" not in text.lower()


def test_clusters_that_the_best_plan_leaves_idle_are_counted() -> None:
    app = search_page(trials=10)
    app.button(key="search").click().run()
    finished(app)
    best = evaluate(app.session_state["search_job"].status().best)
    idle = float(best.idle_clusters)
    assert idle > 0
    scenario = preset_scenario("mt3000-llama2-7b@1")
    most = best_plan(default_space(scenario), THROUGHPUT).value
    own = float(best.objective("throughput"))
    text = words_of(app)
    assert f"It leaves **{idle:.0f} of 72 clusters idle**" in text
    assert f"its best plan reaches {human(most, 'tokens/s')}" in text
    assert f"**{significant(100 * (most / own - 1))} % more**" in text


def test_what_a_large_space_reaches_by_the_other_objective_is_left_open(
    small_job: SearchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_first, "MOST_LOOKED_THROUGH", 1)
    idle = float(evaluate(small_job.status().best).idle_clusters)
    text = words_of(with_job(small_job))
    assert idle > 0
    assert f"It leaves **{idle:.0f} of 72 clusters idle**" in text
    assert "its best plan reaches" not in text


@pytest.mark.parametrize("preset", ["mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"])
def test_the_staged_procedure_is_told_in_numbers_for_people(preset: str) -> None:
    app = search_page()
    app.session_state["scenario"] = preset_scenario(preset)
    app.run()
    table = next(table for table in tables(app) if "why" in table.columns)
    words = " ".join(map(str, table.to_numpy().ravel()))
    assert not re.search(r"\de[+-]?\d|\b\d+: \d|[1-9]\d*\.\d{4}", words)
    unit = preset_scenario(preset).chip_document().unit_name
    assert f"in {unit}-seconds: " in words
    assert " stage" in str(table["chosen"].tolist())


@pytest.mark.browser
def test_search_stop_and_apply_in_a_browser(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/search")
    page.get_by_text("What is searched, within which limits").click()
    page.get_by_label("Trials").fill("5000")
    page.get_by_label("Trials").press("Enter")
    settle(page)
    page.get_by_role("button", name="Start the search").click()
    expect(page.get_by_text("of 5,000 trials")).to_be_visible()
    expect(page.get_by_role("heading", name="Best so far, not proved")).to_be_visible()
    page.get_by_role("button", name="Stop the search").click()
    expect(page.get_by_role("heading", name="Best until stopped")).to_be_visible()

    page.get_by_label("Trials").fill("60")
    page.get_by_label("Trials").press("Enter")
    settle(page)
    page.get_by_role("button", name="Start the search").click()
    expect(page.get_by_role("heading", name="proved over 40,960,000 plans")).to_be_visible()
    settle(page)
    charts_drawn(page)
    page.get_by_role("button", name="Put this plan on the sliders").click()
    settle(page)
    assert "plan." in page.url
    go_to(page, "Share", "Bring and take")
    link = page.get_by_test_id("stCode").locator("code").first.inner_text()
    assert "plan." in link
