"""The Search page with a storage: what it records, and what another window sees of it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.space import varied_space
from explorer.search.storage import open_storage
from explorer.search.studies import begin_or_resume, join, stored_studies
from explorer.search.study import SearchSettings
from explorer.ui import search_studies
from explorer.ui.text import plain
from tests.test_app_search import SMALL, finished, search_page
from tests.test_search_shared import account_is_exact, foreign

SCENARIO = preset_scenario("mt3000-llama2-13b@1").replacing({"workload.prompt_tokens": 300})
SPACE = varied_space(SCENARIO, {"plan.tp_decode": (4, 8), "plan.pp_decode": tuple(range(1, 20))})
HOSTILE = "<b>*mine*</b> $x$"
SETTINGS = SearchSettings(THROUGHPUT, trials=10, seed=1, sampler="random")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal that the app is started with."""
    path = tmp_path / "searches.journal"
    monkeypatch.setenv("EXPLORER_STORAGE", str(path))
    return path


def texts(app: AppTest) -> str:
    """Return all that a person reads on the page beside tables and charts."""
    parts = (app.caption, app.markdown, app.info, app.error, app.warning, app.code, app.subheader)
    return "\n".join(str(element.value) for part in parts for element in part)


def keys(app: AppTest) -> set[str]:
    widgets = (*app.button, *app.text_input, *app.selectbox)
    return {str(widget.key) for widget in widgets}


def study_box(app: AppTest) -> Any:
    return app.selectbox(key="watched_study")


def test_without_a_storage_nothing_is_asked_or_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXPLORER_STORAGE", raising=False)
    app = search_page()
    assert not app.exception
    assert not keys(app) & {"study_name", "watched_study", "storage_again"}
    assert "Recorded searches" not in texts(app)


def test_a_search_of_the_page_is_recorded_and_seen_in_another_window(journal: Path) -> None:
    one = search_page(pinned=sorted(SMALL), trials=12)
    assert "holds no search yet" in texts(one)
    one.button(key="search").click().run()
    finished(one)
    assert not one.exception
    name = study_box(one).value
    assert name.startswith("mt3000-llama2-7b-")
    assert "This window's own search, shown above." in texts(one)
    account_is_exact(open_storage(str(journal)), 12)

    two = search_page()
    assert study_box(two).value == name
    assert "**Best of 12 trials** for Llama-2 7B on MT-3000" in texts(two)
    assert "12 trials" in texts(two)
    assert "by 1 worker." in texts(two)
    two.button(key="apply_study").click().run()
    assert not two.exception
    assert two.session_state["scenario"].plan == one.session_state["search_job"].status().best.plan


def test_the_sliders_take_a_recorded_search_with_what_it_was_made_for(journal: Path) -> None:
    best = begin_or_resume(open_storage(str(journal)), "a", SPACE, SETTINGS).run().best
    app = search_page()
    app.button(key="apply_study").click().run()
    assert app.session_state["scenario"] == best
    assert app.session_state["preset"] == "mt3000-llama2-13b@1"
    assert app.button(key="apply_study").disabled


def test_the_objective_of_a_study_is_in_the_words_of_its_own_chip(journal: Path) -> None:
    storage = open_storage(str(journal))
    cards = varied_space(preset_scenario("ascend910a-qwen3.8-27b@1"), {"plan.tp_decode": (2, 4)})
    settings = replace(SETTINGS, objective=CLUSTER_SECONDS_PER_TOKEN, trials=2)
    begin_or_resume(storage, "cards", cards, settings)
    begin_or_resume(storage, "clusters", SPACE, settings)
    found, _ = stored_studies(storage)
    assert {study.name: study.objective for study in found} == {
        "cards": "card-seconds per token",
        "clusters": "cluster-seconds per token",
    }
    app = search_page(watched_study="cards")
    assert ", card-seconds per token, 2 trials." in texts(app)


def test_a_study_is_watched_while_others_work_on_it(journal: Path) -> None:
    storage = open_storage(str(journal))
    begin_or_resume(storage, "a & 'b'", SPACE, SETTINGS)
    count = iter(range(100))
    app = search_page()
    assert "python -m explorer worker --study 'a & '\"'\"'b'\"'\"''" in app.code[0].value
    join(storage, "a & 'b'").run(stopped=lambda: next(count) == 4)
    app.run()
    assert not app.exception
    assert "Best so far" in texts(app)
    assert "4 trials, " in texts(app)
    join(storage, "a & 'b'").run()
    app.run()
    assert "**Best of 10 trials**" in texts(app)
    assert "by 2 workers." in texts(app)
    assert not app.code


def test_markup_in_a_study_name_is_shown_letter_by_letter(journal: Path) -> None:
    storage = open_storage(str(journal))
    for name in (HOSTILE, f"{HOSTILE}2"):
        begin_or_resume(storage, name, SPACE, SETTINGS)
    app = search_page()
    assert not app.exception
    assert HOSTILE in study_box(app).options
    words = "\n".join(str(part.value) for part in (*app.caption, *app.markdown, *app.warning))
    assert HOSTILE not in words
    app.text_input(key="study_name").set_value(HOSTILE).run()
    app.button(key="search").click().run()
    finished(app)
    shown = "\n".join(str(part.value) for part in (*app.error, *app.markdown, *app.caption))
    assert plain(HOSTILE) in shown
    assert HOSTILE not in shown


def test_a_stopped_search_of_the_page_goes_on_under_its_name(journal: Path) -> None:
    app = search_page(trials=40, pinned=sorted(SMALL), study_name="mine")
    job = None
    app.button(key="search").click().run()
    job = app.session_state["search_job"]
    while job.status().done < 3:
        time.sleep(0.01)
    app.button(key="stop").click().run()
    assert job.wait(60)
    app.run()
    done = job.status().done
    assert job.status().state == "stopped"
    app.button(key="search").click().run()
    finished(app)
    assert app.session_state["search_job"].status().state == "done"
    account_is_exact(open_storage(str(journal)), 40)
    assert 3 <= done < 40


def test_two_windows_work_on_one_study_of_the_same_name(journal: Path) -> None:
    windows = [search_page(trials=20, pinned=sorted(SMALL), study_name="ours") for _ in range(2)]
    for window in windows:
        window.button(key="search").click().run()
    found = [finished(window).session_state["search_job"].status() for window in windows]
    assert [status.state for status in found] == ["done", "done"]
    assert found[0].best == found[1].best
    account_is_exact(open_storage(str(journal)), 20)


def test_another_search_under_a_known_name_is_refused(journal: Path) -> None:
    begin_or_resume(open_storage(str(journal)), "<b>a</b>", SPACE, SETTINGS)
    app = search_page(study_name="<b>a</b>", trials=7)
    app.button(key="search").click().run()
    finished(app)
    assert not app.exception
    assert "The search failed: study = \\<b\\>a\\</b\\>: exists with" in app.error[0].value


def test_studies_of_others_are_counted_and_never_opened(journal: Path) -> None:
    storage = open_storage(str(journal))
    foreign(storage, "theirs")
    app = search_page()
    assert "holds no search yet" in texts(app)
    assert "1 further study there" in texts(app)
    begin_or_resume(storage, "mine", SPACE, SETTINGS)
    foreign(storage, "future", {"schema": "explorer.study/2"})
    app.run()
    assert study_box(app).options == ["mine"]
    assert "2 further studies there" in texts(app)


def test_a_study_of_other_models_is_named_as_such(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = begin_or_resume(open_storage(str(journal)), "a", SPACE, SETTINGS)
    found = search._study.user_attrs["explorer"]
    search._study.set_user_attr("explorer", {**found, "stage_seconds": [1.0, 2.0]})
    app = search_page()
    assert not app.exception
    assert "models give other times" in app.error[0].value
    assert "apply_study" not in keys(app)


def test_a_storage_that_cannot_be_opened_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "later"
    monkeypatch.setenv("EXPLORER_STORAGE", str(folder / "searches.journal"))
    app = search_page()
    assert not app.exception
    assert "No such file" in app.error[0].value
    folder.mkdir()
    app.run()
    assert "No such file" in app.error[0].value
    app.button(key="storage_again").click().run()
    assert "holds no search yet" in texts(app)


def test_a_storage_lost_while_it_is_watched_is_one_sentence(journal: Path) -> None:
    begin_or_resume(open_storage(str(journal)), "a", SPACE, SETTINGS)
    app = search_page()
    content = journal.read_bytes()
    journal.write_bytes(content + b"damage\nmore damage\n")
    app.run()
    assert not app.exception
    assert "not a journal of studies, or damaged" in app.error[0].value
    journal.write_bytes(content)
    app.button(key="storage_again").click().run()
    assert study_box(app).value == "a"


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPLORER_STORAGE", "postgresql://me:secret@127.0.0.1:1/db")
    app = search_page()
    assert not app.exception
    assert "refused" in app.error[0].value
    assert "secret" not in app.error[0].value + app.text_input(key="study_name").help


def test_a_search_begun_here_shows_itself_once_it_is_there(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_or_resume(open_storage(str(journal)), "older", SPACE, SETTINGS)
    app = search_page(pinned=sorted(SMALL), trials=2, study_name="newer")
    assert study_box(app).value == "older"
    app.button(key="search").click().run()
    finished(app)
    assert study_box(app).value == "newer"
    study_box(app).set_value("older").run()
    assert study_box(app).value == "older"
    assert "python -m explorer worker --study older" in app.code[0].value


def test_names_are_made_up_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_studies.state, "preset", lambda: "mt3000-llama2-7b@1")
    names = {search_studies._made_up_name() for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("mt3000-llama2-7b-") and len(name) <= 40 for name in names)
