"""The search page, without a browser and with one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from tests.browser import charts_drawn, go_to, open_page, settle

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


def test_a_budget_that_is_none_is_refused_in_words() -> None:
    app = search_page(**{"open:searched": True})
    app.text_input(key="limit:budget").set_value("cheap").run()
    assert app.session_state["scenario"].limits.budget is None
    assert any("limits.budget = cheap" in text.value for text in app.text)
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
    table = next(t.value for t in app.table if "from the floor" in t.value.columns)
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
