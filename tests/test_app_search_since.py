"""The Search page when it holds other settings than its last search was started with."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.search.job import SearchJob
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import Values, default_space
from explorer.search.staged import staged_plan
from explorer.search.study import SearchSettings
from explorer.search.vary import default_range, parse_vary
from explorer.search.verdict import at_most
from explorer.serving.evaluate import evaluate
from explorer.ui.tables import NO_BREAK
from tests.test_app_search import SMALL, finished, moved, order, place, search_page, words_of

MT3000 = preset_scenario("mt3000-llama2-7b@1")
ASCEND = preset_scenario("ascend910a-qwen3.8-27b@1")
BANDWIDTH = "hardware.ddr_bandwidth_bytes_per_second"
TP, TP_LABEL = "plan.tp_decode", "Decode tensor parallelism (TP_D)"
OTHER = "the settings below have changed since"


def done(scenario: Scenario, pinned: set[str], vary: dict[str, Values] | None = None) -> SearchJob:
    """Return a finished search of few plans."""
    space = default_space(scenario, frozenset(pinned), vary)
    settings = SearchSettings(CLUSTER_SECONDS_PER_TOKEN, trials=12, seed=1)
    job = SearchJob(space, settings, certified=True).start()
    assert job.wait(60)
    return job


@pytest.fixture(scope="module")
def few() -> SearchJob:
    return done(MT3000, SMALL)


@pytest.fixture(scope="module")
def whole() -> SearchJob:
    return done(MT3000, set())


@pytest.fixture(scope="module")
def ascend() -> SearchJob:
    return done(ASCEND, set())


def shown(job: SearchJob, scenario: Scenario = MT3000, **held: object) -> AppTest:
    """Return the page after a search, with what its controls hold now."""
    page = search_page(
        scenario=scenario, search_job=job, search_scenario=scenario, trials=12, **held
    )
    assert not page.exception
    return page


def holding(page: AppTest, **held: object) -> AppTest:
    for key, value in held.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception
    return page


def test_a_setting_that_is_pinned_or_freed_since_is_named_with_both_its_meanings(
    few: SearchJob,
) -> None:
    page = shown(few, pinned=sorted(SMALL))
    assert not page.info
    holding(page, pinned=[*sorted(SMALL - {"plan.pp_decode"}), TP])
    told = page.info[0].value
    assert OTHER in told
    assert re.search(
        rf"- \*\*{re.escape(TP_LABEL)}\*\*: searched: 1, 2, 4 … 32 clusters → kept at 4 ", told
    )
    assert re.search(r"stages \(PP_D\)\*\*: kept at 2 stages → searched: 1, 2, 3 … 32 stages", told)
    assert "Starting again uses the new ones." in told
    assert told.count("→") == 2
    assert place(page, "info: This result") < place(page, "markdown: **Optimal, proved over")
    holding(page, pinned=sorted(SMALL))
    assert not page.info


def test_a_range_that_is_typed_since_is_named_and_the_same_range_is_not(few: SearchJob) -> None:
    page = shown(few, pinned=sorted(SMALL), **{f"range:{TP}": "2:8"})
    assert f"**{TP_LABEL}**: searched: 1, 2, 4 … 32 clusters" in page.info[0].value
    assert "→ searched: 2, 4, 8 clusters" in page.info[0].value
    holding(page, **{f"range:{TP}": "1:32"})
    assert few.space.candidates(TP) == (1, 2, 4, 8, 16, 32)
    assert not page.info
    holding(page, **{f"range:{TP}": "nonsense"})
    assert TP in page.error[0].value
    assert not page.info
    assert page.button(key="apply")


def test_a_number_of_the_machine_that_is_searched_since_or_no_more_is_named(
    few: SearchJob,
) -> None:
    page = shown(few, pinned=sorted(SMALL), further=[BANDWIDTH])
    assert "kept at 30.0 GB/s → searched: 15.0 GB/s, " in page.info[0].value
    assert page.info[0].value.endswith("looks among those that the settings below leave.")


def test_the_range_around_a_searched_number_follows_a_slider_but_not_the_plan_found() -> None:
    around = dict([parse_vary(MT3000, f"{BANDWIDTH}={default_range(MT3000, BANDWIDTH)}")])
    page = shown(done(MT3000, SMALL, around), pinned=sorted(SMALL), further=[BANDWIDTH])
    assert not page.info
    page.button(key="apply").click().run()
    assert page.session_state["scenario"].value(BANDWIDTH) > MT3000.value(BANDWIDTH)
    assert not page.info
    moved(page, **{BANDWIDTH.replace(".", "__"): 50e9})
    assert "searched: 15.0 GB/s, " in page.info[0].value
    assert "→ searched: 25.0 GB/s, " in page.info[0].value


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("limits.ttft_seconds", 30.0, "none → 30.0 s"),
        ("limits.memory_headroom_fraction", 0.1, "→ 10.0 %"),
        ("workload.clusters_total", 36, "72 clusters → 36 clusters"),
        (
            "limits.budget",
            f"{BANDWIDTH} <= 2",
            "Budget across the machine none → hardware.ddr_bandwidth",
        ),
    ],
)
def test_a_constraint_that_is_set_since_is_named(
    few: SearchJob, path: str, value: object, told: str
) -> None:
    page = moved(shown(few, pinned=sorted(SMALL)), **{path.replace(".", "__"): value})
    assert not page.exception
    assert "the sliders have moved since: " in page.info[0].value
    assert told in page.info[0].value.replace(NO_BREAK, " ")
    assert OTHER not in page.info[0].value


def test_another_effort_is_told_and_leaves_the_answer_where_it_is(few: SearchJob) -> None:
    page = shown(few, pinned=sorted(SMALL))
    assert "another effort" not in words_of(page)
    holding(page, trials=1500, sampler="random", bound_seconds=5.0)
    text = words_of(page)
    assert "Trials 12 → 1,500, Sampler automatic → random, Seconds to tighten a bound " in text
    assert "Starting again uses it" in text
    assert not page.info
    assert place(page, "subheader: Optimal, proved over") < place(page, "radio")


def test_starting_again_uses_the_new_settings_and_ends_the_remark(few: SearchJob) -> None:
    page = shown(few, pinned=[*sorted(SMALL), TP])
    assert OTHER in page.info[0].value
    page.button(key="search").click().run()
    finished(page)
    assert not page.exception
    assert not page.info
    assert page.session_state["search_job"].space.axis(TP) is None


def test_a_search_of_the_ascend_is_told_in_cards(ascend: SearchJob) -> None:
    page = shown(ascend, ASCEND)
    assert not page.info
    holding(page, pinned=[TP])
    assert "→ kept at 4 cards" in page.info[0].value
    assert "card-seconds per token" in page.info[0].value
    # A choice holds a name, whatever its options are called, and a script the address.
    said = [words for words in order(page) if not words.startswith(("radio: ", "html: "))]
    assert not [words for words in said if "cluster" in words.lower()]


@pytest.mark.parametrize("scenario", [MT3000, ASCEND], ids=["mt3000", "ascend"])
def test_the_loss_of_the_staged_plan_stays_when_it_is_put_on_the_sliders(
    request: pytest.FixtureRequest, scenario: Scenario
) -> None:
    job = request.getfixturevalue("whole" if scenario is MT3000 else "ascend")
    page = shown(job, scenario)
    unit = scenario.chip_document().unit_name
    objective = CLUSTER_SECONDS_PER_TOKEN.on(unit)
    staged = staged_plan(scenario).scenario
    assert staged is not None
    value = float(evaluate(staged).objective(objective.name))
    reached = human(value, objective.unit)
    gap = at_most(100 * objective.gap(value, job.status().best_value))
    expected = (
        f"By {unit}-seconds per token it reaches {reached} and so loses **{gap} %** against the "
        "best plan."
    )
    assert expected in words_of(page)
    page.button(key="apply_staged").click().run()
    assert page.session_state["scenario"].plan == staged.plan
    assert expected in words_of(page)
    page.button(key="apply").click().run()
    assert page.session_state["scenario"] == job.status().best
    # The staged procedure begins with the prefill micro-batch of the sliders, now the best one.
    there = " against the best plan.", "it is as good as the best plan found."
    assert any(told in words_of(page) for told in there)

    moved(page, workload__output_tokens=100)
    text = words_of(page)
    assert expected not in text
    name = f"{scenario.model_document().name} on {scenario.chip_document().name}"
    assert f"The search was of **{name}** before the sliders moved: by " in text
    assert f"the staged plan for that reaches {reached} and so loses **{gap} %**" in text


def test_a_staged_plan_that_was_out_of_reach_of_a_search_is_said_to_be_better(
    few: SearchJob,
) -> None:
    text = words_of(shown(few, pinned=sorted(SMALL)))
    staged = staged_plan(MT3000).scenario
    assert staged is not None
    value = float(evaluate(staged).objective(CLUSTER_SECONDS_PER_TOKEN.name))
    better = value < few.status().best_value
    assert ("better than the best plan found: the search kept settings" in text) == better
