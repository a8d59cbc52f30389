"""Page "Which of these?": two to four scenarios side by side."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer.config.errors import InputError, printable
from explorer.config.files import scenario_from_json
from explorer.config.links import open_link, preset_scenario
from explorer.config.presets import scenario_presets
from explorer.config.scenario import Scenario
from explorer.plots.compare import (
    budget_bars,
    budget_figure,
    rooflines,
    rooflines_figure,
    time_bars,
    time_figure,
)
from explorer.plots.report import comparison_report, figure_texts
from explorer.plots.style import lowered, words
from explorer.search.objectives import THROUGHPUT
from explorer.serving.comparison import (
    FEWEST,
    MOST,
    Candidate,
    Comparison,
    compare,
    comparison_csv,
    different_inputs,
)
from explorer.ui import state
from explorer.ui.best_plan import with_best_plan
from explorer.ui.charts import chart
from explorer.ui.compare_words import lead
from explorer.ui.folded import folded
from explorer.ui.search_first import best_possible
from explorer.ui.tables import show_table
from explorer.ui.text import plain

KEPT, CURRENT, BEST = "snapshots", "what the sliders hold now", "best plan"
OTHER_BEST = "earlier best plan"
BEST_NAME, BEST_PATHS = "best_plan_name", "best_plan_paths"
NOT_PLANNED_FOR = "simulation."
"""What no plan is chosen for: when requests arrive, and who waits."""
BODY = "compared"
LONGEST_NAME = 60
NAME_WIDTH = 220
LARGEST_UPLOAD_MB = 4


def page() -> None:
    """Draw the page for this session's scenario and those that were put beside it."""
    st.header("Which of these?", anchor=False)
    # Names are of any length: page.css breaks them in here.
    with st.container(key=BODY):
        _compared()


def _compared() -> None:
    answer = st.container()
    _choose()
    candidates = _candidates()
    if len(candidates) < FEWEST:
        with answer:
            _first_comparison(state.scenario())
        return
    comparison = compare(candidates)
    with answer:
        st.markdown(lead(comparison))
    _figures(comparison)
    _inputs(comparison)
    _charts(candidates)
    _take(comparison)


def _first_comparison(scenario: Scenario) -> None:
    """Say where the sliders stand, and offer what is worth comparing them with."""
    own = state.baseline()
    moved = bool(different_inputs([own, scenario]))
    if moved:
        beside = [Candidate("the preset's own values", own), Candidate(CURRENT, scenario)]
        st.markdown(lead(compare(beside)))
    else:
        st.markdown(best_possible(scenario, THROUGHPUT))
    st.markdown(
        "Put one to three scenarios beside the present one, to see what differs, what each "
        "delivers, and where time and memory go: keep it and move the sliders, or add a preset, a "
        "link or a file."
    )
    with st.container(horizontal=True):
        if moved:
            st.button(
                "Compare with the preset's own values",
                key="first:preset",
                type="primary",
                on_click=_keep_preset,
            )
        if _best(scenario) not in (None, scenario):
            st.button(
                "Compare with the best plan",
                key="first:best",
                type="secondary" if moved else "primary",
                on_click=_keep_best,
            )


def _best(scenario: Scenario) -> Scenario | None:
    found = with_best_plan(scenario, THROUGHPUT).plan
    return scenario.replacing(found) if found else None


def _is_best_now(best: Scenario) -> bool:
    """Return whether what was kept as the best plan was looked for with the sliders' values."""
    searched: frozenset[str] = st.session_state[BEST_PATHS]
    moved = {row.path for row in different_inputs([best, state.scenario()])} - searched
    return all(path.startswith(NOT_PLANNED_FOR) for path in moved)


def _choose() -> None:
    kept = _kept()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Keep the present scenario as",
            key="snapshot_name",
            placeholder=f"scenario {len(kept) + 1}",
            max_chars=LONGEST_NAME,
            width=280,
        )
        st.button("Keep", key="keep", on_click=_keep_current, disabled=_full())
    for name in list(kept):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(_called(name), width=NAME_WIDTH)
            st.button("Put on the sliders", key=f"use:{name}", on_click=_use, args=(name,))
            st.button("Remove", key=f"remove:{name}", on_click=_remove, args=(name,))
    with folded("Add a preset, a link or a file", "compare_add") as is_open:
        if is_open:
            _add()
    if _full():
        st.caption(f"{MOST} scenarios are the most that fit side by side; remove one to add one.")


def _add() -> None:
    presets = {f"{item.id}@{item.version}": item.title for item in scenario_presets()}
    st.selectbox(
        "Preset",
        options=list(presets),
        index=None,
        key="add_preset",
        format_func=lambda reference: presets[reference],
        on_change=_add_preset,
        disabled=_full(),
    )
    st.text_input(
        "Link",
        key="add_link",
        placeholder="?preset=mt3000-llama2-13b@1&plan.tp_decode=8",
        on_change=_add_link,
        disabled=_full(),
    )
    st.file_uploader(
        "Exported file or scenario",
        type=["json"],
        key="add_file",
        max_upload_size=LARGEST_UPLOAD_MB,
        on_change=_add_file,
        disabled=_full(),
    )


def _kept() -> dict[str, Scenario]:
    kept: dict[str, Scenario] = st.session_state.setdefault(KEPT, {})
    return kept


def _full() -> bool:
    return len(_kept()) >= MOST - 1


def _candidates() -> list[Candidate]:
    kept = [Candidate(_called(name), scenario) for name, scenario in _kept().items()]
    return [*kept, Candidate(CURRENT, state.scenario())]


def _called(name: str) -> str:
    """Return the name of a kept scenario; the best plan's says when it is no longer that."""
    if name != st.session_state.get(BEST_NAME) or _is_best_now(_kept()[name]):
        return name
    return _free(OTHER_BEST)


def _free(name: str) -> str:
    """Return a name that no kept scenario has, and not that of the sliders."""
    free, count = name, 1
    while free in _kept() or free == CURRENT:
        count += 1
        free = f"{name} ({count})"
    return free


def _keep(name: str, scenario: Scenario) -> None:
    """Keep a scenario under a name that no other one has."""
    if _full():
        return
    st.session_state[KEPT] = {**_kept(), _free(name): scenario}


def _keep_current() -> None:
    typed = printable(str(state.widget_value("snapshot_name"))).strip()[:LONGEST_NAME]
    _keep(typed or f"scenario {len(_kept()) + 1}", state.scenario())
    st.session_state["snapshot_name"] = ""


def _keep_preset() -> None:
    _keep(state.baseline().name, state.baseline())


def _keep_best() -> None:
    now = state.scenario()
    found = with_best_plan(now, THROUGHPUT).plan
    if found:
        st.session_state[BEST_NAME], st.session_state[BEST_PATHS] = _free(BEST), frozenset(found)
        _keep(BEST, now.replacing(found))


def _use(name: str) -> None:
    if name in _kept():
        state.replace(_kept()[name])


def _remove(name: str) -> None:
    if name == st.session_state.get(BEST_NAME):
        del st.session_state[BEST_NAME]
    st.session_state[KEPT] = {key: value for key, value in _kept().items() if key != name}


def _add_preset() -> None:
    reference = state.widget_value("add_preset")
    if reference is not None:
        _keep(preset_scenario(reference).name, preset_scenario(reference))
        st.session_state["add_preset"] = None


def _add_link() -> None:
    text = str(state.widget_value("add_link")).strip()
    if not text:
        return
    try:
        opened = open_link(text, state.preset())
    except InputError as error:
        state.notice(error.problems, "The link was not added", place="add_link", leaves=True)
        return
    if any(problem.field == "preset" for problem in opened.problems):
        state.notice(opened.problems[:1], "The link was not added", place="add_link", leaves=True)
        return
    state.notice(
        opened.problems, "The link was added without these parts", place="add_link", leaves=True
    )
    _keep(opened.scenario.name, opened.scenario)
    st.session_state["add_link"] = ""


def _add_file() -> None:
    uploaded = state.widget_value("add_file")
    if uploaded is None:
        return
    name = printable(uploaded.name) or "file"
    try:
        scenario = scenario_from_json(uploaded.getvalue(), name)
    except InputError as error:
        state.notice(error.problems, "The file was not added", place="add_file", leaves=True)
        return
    _keep(name.removesuffix(".json"), scenario)


def _figures(comparison: Comparison) -> None:
    st.subheader("What does each deliver?", anchor=False)
    names = [plain(candidate.name) for candidate in comparison.candidates]
    rows = [
        {"": row.label, **dict(zip(names, figure_texts(row), strict=True))}
        for row in comparison.figures
    ]
    limits = dict(zip(names, map(_words, comparison.bottlenecks), strict=True))
    rows.append({"": "Limited by", **limits})
    show_table(rows)
    for name, misfit in zip(names, comparison.misfits, strict=True):
        if misfit:
            st.caption(f"The plan of {name} does not fit: {plain(misfit)}")
    st.caption("In brackets: the ratio to the first.")


def _words(bottleneck: str) -> str:
    pool, found, bound = bottleneck.partition(":")
    return f"{pool}: {lowered(words(bound))}" if found else bottleneck.replace("_", " ")


def _inputs(comparison: Comparison) -> None:
    st.subheader("What differs between them?", anchor=False)
    if not comparison.inputs:
        st.markdown("Nothing: these scenarios are the same.")
        return
    names = [plain(candidate.name) for candidate in comparison.candidates]
    rows = [
        {"": row.label, **dict(zip(names, map(plain, row.values), strict=True))}
        for row in comparison.inputs
        if row.everywhere
    ]
    if rows:
        show_table(rows)
    elsewhere = len(comparison.inputs) - len(rows)
    if elsewhere:
        st.caption(
            f"{elsewhere} more numbers that only one kind of chip has are in the table and the "
            "report below."
        )


def _charts(candidates: Sequence[Candidate]) -> None:
    bars = time_bars(candidates)
    st.subheader("Where does the time of a batch go?", anchor=False)
    if bars:
        chart(
            time_figure(bars),
            "compare_times",
            "Time of one batch in prefill and decode of each scenario, by what binds it",
        )
    else:
        st.info("None of these plans fits, so there are no times.")
    st.subheader("What fills the memory?", anchor=False)
    chart(
        budget_figure(budget_bars(candidates)),
        "compare_memory",
        "Weights, KV cache and overhead of each scenario as a share of capacity",
    )
    named = rooflines(candidates)
    if named:
        st.subheader("Is it the memory or the arithmetic?", anchor=False)
        chart(
            rooflines_figure(named),
            "compare_roofline",
            "Rooflines of all scenarios with a mark for each operator",
        )
        st.caption("Filled marks: prefill; open ones: decode. Left of a bend, memory limits.")


def _take(comparison: Comparison) -> None:
    st.subheader("Take it with me", anchor=False)
    with st.container(horizontal=True):
        st.download_button(
            "Table (CSV)",
            data=lambda: comparison_csv(comparison),
            file_name="comparison.csv",
            mime="text/csv",
            on_click="ignore",
            key="compare_csv",
        )
        st.download_button(
            "Report (HTML)",
            data=lambda: comparison_report(comparison),
            file_name="comparison.html",
            mime="text/html",
            on_click="ignore",
            key="compare_html",
        )
    st.caption(
        "The report is one file of about 5 MB that opens without a network: figures, inputs, "
        "sources, errors of the models, and under each figure the command that reproduces it."
    )
