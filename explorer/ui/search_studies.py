"""Searches that a storage keeps: recorded from the page, watched from any window."""

from __future__ import annotations

import secrets
import shlex
import time
from functools import lru_cache

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.plots.search import search_figure, search_trace
from explorer.search.job import Progress, Search, thinned
from explorer.search.objectives import Objective
from explorer.search.shared import SharedSearch
from explorer.search.space import Space
from explorer.search.storage import (
    STORAGE_VARIABLE,
    Storage,
    open_storage,
    shown_address,
    storage_address,
)
from explorer.search.studies import (
    LONGEST_NAME,
    StoredStudy,
    begin_or_resume,
    join,
    stored_studies,
)
from explorer.search.study import SearchResult, SearchSettings, Stopped
from explorer.serving.evaluate import evaluate
from explorer.ui import state
from explorer.ui.charts import chart
from explorer.ui.search_answer import plan_figures
from explorer.ui.text import plain

NAME, OWN, FRESH = "study_name", "own_study", "fresh_study"
WATCHED, WATCH, LOST = "watched_study", "study_watch", "storage_lost"
POLL_SECONDS = 2.0
MOMENT_SECONDS = 0.3


def name_field() -> None:
    """Ask for the name under which the next search is recorded, where there is a storage."""
    address = storage_address()
    if address is None:
        return
    st.text_input(
        "Study name",
        max_chars=LONGEST_NAME,
        placeholder="made up when left empty",
        key=NAME,
        help=f"The search is recorded in {plain(shown_address(address))}. The same name and the "
        "same search: it is gone on with, together with all who work on it.",
        persist_state="session",
    )


def recorder() -> Search | None:
    """Return what runs the next search in the storage, None where it stays in memory."""
    address = storage_address()
    if address is None:
        return None
    name = (st.session_state.get(NAME) or "").strip() or _made_up_name()
    st.session_state[OWN] = st.session_state[FRESH] = name

    def recorded(
        space: Space, settings: SearchSettings, progress: Progress, stopped: Stopped
    ) -> SearchResult:
        return begin_or_resume(_storage(address), name, space, settings).run(progress, stopped)

    return recorded


def section() -> None:
    """List the searches in the storage that the app was started with, and show one of them."""
    address = storage_address()
    if address is None:
        return
    st.subheader("Recorded searches", anchor=False)
    if LOST in st.session_state:
        _say_that_it_is_lost()
        return
    try:
        _list(_storage(address))
    except InputError as error:
        _lose(error)
        _say_that_it_is_lost()


def _list(storage: Storage) -> None:
    ours, others = stored_studies(storage)
    if not ours:
        st.info(f"{plain(storage.label)} holds no search yet.")
    else:
        _choose({study.name: study for study in ours})
        _show(storage, st.session_state[WATCHED])
    if others:
        count = f"{len(others)} further {'study' if len(others) == 1 else 'studies'}"
        st.caption(f"{count} there: made by other programs or other versions of this one.")


def _choose(about: dict[str, StoredStudy]) -> None:
    """Ask which study to show; one that was just begun here shows itself."""
    held = st.session_state
    if held.get(FRESH) in about:
        held[WATCHED] = held.pop(FRESH)
    if held.get(WATCHED) not in about:
        held[WATCHED] = next(iter(about))
    st.selectbox(
        "Study",
        options=list(about),
        key=WATCHED,
        help="The newest first.",
        persist_state="session",
    )
    study = about[held[WATCHED]]
    st.caption(f"{plain(study.title)}, {plain(study.objective)}, {study.trials:,} trials.")


def _show(storage: Storage, name: str) -> None:
    try:
        search = _watch(storage, name)
    except InputError as error:
        if any(problem.field == "storage" for problem in error.problems):
            raise
        st.error(plain(str(error)))
        return
    if name == st.session_state.get(OWN):
        st.caption(f"This window's own search, shown above. {_who(search, search.result())}")
        return
    running = search.done < search.settings.trials
    st.fragment(_picture, run_every=POLL_SECONDS if running else None)()


def _watch(storage: Storage, name: str) -> SharedSearch:
    """Return this window's view of a study, read anew."""
    search: SharedSearch | None = st.session_state.get(WATCH)
    if search is None or search.storage is not storage or search.name != name:
        search = join(storage, name)
        st.session_state[WATCH] = search
    search.refresh()
    return search


def _picture() -> None:
    """Draw the watched study; reruns alone while it grows, the page once when it is complete."""
    search: SharedSearch = st.session_state[WATCH]
    was_complete = search.done == search.settings.trials
    try:
        search.refresh()
        if search.done < search.settings.trials:
            _progress(search)
    except InputError as error:
        _lose(error)
        st.rerun()
    result = search.result()
    if result.best is not None:
        _best(result, result.best)
    elif not result.stopped:
        st.warning(f"No feasible plan in {result.trials:,} trials.")
    if result.history:
        objective = _in_its_words(result)
        trace = search_trace(thinned(list(result.history)), None)
        figure = search_figure(trace, objective.label, objective.unit)
        chart(
            figure,
            "study_trace",
            "How the shared search went: each trial and the best so far",
        )
    st.caption(_who(search, result))
    if not result.stopped and not was_complete:
        st.rerun()


def _progress(search: SharedSearch) -> None:
    trials, running = search.settings.trials, search.running
    words = f"{search.done:,} of {trials:,} trials, {running} running now"
    st.progress(search.done / trials, words)
    if _nobody_works_on(search):
        st.caption(
            "No worker is at it now. This goes on with it, on any machine where "
            f"{plain(STORAGE_VARIABLE)} names this storage:"
        )
        command = f"python -m explorer worker --study {shlex.quote(search.name)}"
        st.code(command, language=None)


def _nobody_works_on(search: SharedSearch) -> bool:
    """Look twice: between two trials of a worker none runs for a moment."""
    before = (search.running, search.done)
    if search.running == 0:
        time.sleep(MOMENT_SECONDS)
        search.refresh()
    return search.running == 0 and before == (0, search.done)


def _best(result: SearchResult, best: Scenario) -> None:
    word = "Best so far" if result.stopped else f"Best of {result.trials:,} trials"
    chip, model = best.chip_document().name, best.model_document().name
    st.markdown(f"**{word}** for {plain(model)} on {plain(chip)}")
    plan_figures(_in_its_words(result), result.best_value, evaluate(best))
    clicked = st.button(
        "Put this search's plan on the sliders",
        key="apply_study",
        help="With the workload and the hardware that it was made for.",
        disabled=best == state.scenario(),
    )
    if clicked:
        state.replace(best)
        # The button stands in a fragment, whose own rerun would leave the sliders as they were.
        st.rerun()


def _in_its_words(result: SearchResult) -> Objective:
    return result.objective.on(result.space.base.chip_document().unit_name)


def _who(search: SharedSearch, result: SearchResult) -> str:
    workers = human(len(search.workers), "workers")
    count = sum(len(slot) - 1 for slot in search.account.slots.values())
    again = f" {human(count, 'trials')} tried again after their worker had ended." if count else ""
    return (
        f"{result.trials:,} trials, {result.feasible_trials:,} feasible, "
        f"{result.distinct_plans:,} distinct plans, by {workers}.{again}"
    )


def _made_up_name() -> str:
    preset = state.preset().partition("@")[0]
    return f"{preset}-{time.strftime('%m%d-%H%M')}-{secrets.token_hex(4)}"


@lru_cache(maxsize=1)
def _storage(address: str) -> Storage:
    """Return the storage, opened once for all windows; a failure is not remembered."""
    return open_storage(address)


def _lose(error: InputError) -> None:
    st.session_state[LOST] = str(error)
    _storage.cache_clear()


def _say_that_it_is_lost() -> None:
    st.error(plain(st.session_state[LOST]))
    st.button("Try again", on_click=_try_again, key="storage_again")


def _try_again() -> None:
    del st.session_state[LOST]
