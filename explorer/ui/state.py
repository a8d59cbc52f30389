"""What a browser session holds: one scenario, the preset it started from, and notices.

The scenario is the only truth. Widgets show it and change one value of it through a callback, so
a value that no widget touched keeps every digit, whatever page is open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from explorer.chips.inputs import Inputs
from explorer.chips.registry import machine_of
from explorer.config.errors import InputError, Problem
from explorer.config.files import scenario_from_json
from explorer.config.links import (
    DEFAULT_PRESET,
    OWN_DOCUMENT,
    link_query,
    open_pairs,
    pinned_reference,
    preset_scenario,
)
from explorer.config.presets import scenario_presets
from explorer.config.scenario import Scenario
from explorer.serving.evaluate import Evaluation
from explorer.serving.report import broken_constraints, violation_message
from explorer.ui.history import History, Standing
from explorer.ui.text import plain

SCENARIO, PRESET, NOTICES, GENERATION = "scenario", "preset", "notices", "generation"
HISTORY = "history"
NOTICES_ON = "notices_on"
MOST_NOTICES = 8


@dataclass(frozen=True)
class Notice:
    """A message that stays on top of every page.

    Attributes:
        sentence: what it says.
        place: what it was said of, such as one box; empty for a message that none replaces.
        leaves: whether it goes when the person leaves the page.
    """

    sentence: str
    place: str
    leaves: bool


def start() -> None:
    """Open the link in the address bar when the session is new."""
    if SCENARIO in st.session_state:
        return
    pairs = [(key, value) for key in st.query_params for value in st.query_params.get_all(key)]
    opened = open_pairs(pairs, DEFAULT_PRESET)
    st.session_state[SCENARIO] = opened.scenario
    st.session_state[PRESET] = opened.preset
    st.session_state[NOTICES] = ()
    st.session_state[GENERATION] = 0
    st.session_state[HISTORY] = History()
    notice(opened.problems, "The link was opened without these parts")


def scenario() -> Scenario:
    """Return the scenario of this session."""
    value: Scenario = st.session_state[SCENARIO]
    return value


def preset() -> str:
    """Return the preset, with version, that the scenario is compared with."""
    value: str = st.session_state[PRESET]
    return value


def baseline() -> Scenario:
    """Return the preset's own scenario."""
    return preset_scenario(preset())


def apply(changes: Mapping[str, object]) -> None:
    """Change some values, or say why not and keep everything as it was.

    What is said replaces what was said of the same values before.

    A number of the machine that is moved back to what the chip has is no longer one's own, unless
    the preset sets it.
    """
    now = scenario()
    quantities = now.chip_document().quantities
    moved_back = {
        f"hardware.{name}": None
        for name in now.hardware
        if name not in baseline().hardware
        and changes.get(f"hardware.{name}") == quantities[name].value
    }
    try:
        _set(usable(now.replacing({**changes, **moved_back})), preset())
    except InputError as error:
        notice(error.problems, "Nothing was changed", place=" ".join(changes))


def usable(new: Scenario) -> Scenario:
    """Return a scenario whose chip the models can read; raises InputError for another.

    A chip of one's own may lack a number, or allow zero where a model divides.
    """
    machine_of(Inputs(new))
    return new


def replace(new: Scenario, compared_with: str | None = None) -> None:
    """Put another scenario on the sliders.

    Args:
        new: the scenario.
        compared_with: the preset, with version, to compare it with; by default the present one
            where it has the same chip and model, else the first that has.

    Raises:
        InputError: as ``usable``; then nothing is changed.
    """
    wanted = usable(new)
    kept = compared_with or preset()
    same = [
        f"{item.id}@{item.version}"
        for item in scenario_presets()
        if (item.scenario["chip"], item.scenario["model"]) == (new.chip, new.model)
    ]
    _set(wanted, same[0] if same and kept not in same else kept)
    _renew_widgets()


def load_preset(reference: str) -> None:
    """Start afresh from a preset."""
    pinned = pinned_reference(reference)
    _set(preset_scenario(pinned), pinned)
    _renew_widgets()


def history() -> History:
    """Return the last changes of this session."""
    value: History = st.session_state[HISTORY]
    return value


def undo() -> None:
    """Take the last change back."""
    if history().past:
        _go(*history().undone(_standing()))


def redo() -> None:
    """Do the change again that was last taken back."""
    if history().future:
        _go(*history().redone(_standing()))


def _standing() -> Standing:
    return Standing(scenario(), preset())


def _set(new: Scenario, compared_with: str) -> None:
    after = Standing(new, compared_with)
    st.session_state[HISTORY] = history().changed(_standing(), after)
    _close_notices()
    _stand(after)


def _go(changed: History, there: Standing) -> None:
    st.session_state[HISTORY] = changed
    _stand(there)
    _renew_widgets()


def _stand(there: Standing) -> None:
    st.session_state[SCENARIO], st.session_state[PRESET] = there.scenario, there.preset


def widget_key(name: str) -> str:
    """Return the key of a widget that shows a value of the scenario.

    A scenario that is replaced as a whole gets new widgets: an old slider in the browser still
    holds the words of its former options, and would send them back.
    """
    generation: int = st.session_state[GENERATION]
    return f"{name}#{generation}" if generation else name


def _renew_widgets() -> None:
    st.session_state[GENERATION] += 1


def keep_in_address_bar(page: str) -> None:
    """Write the share link into the address bar, so that a reload opens the same scenario.

    Replaces the entry in the browser's history: no slider move becomes a step of Back.
    """
    query = share_query() or f"preset={preset()}&{OWN_DOCUMENT}=yes"
    target = json.dumps(f"?{query}").replace("<", "\\u003c")
    script = f"history.replaceState(history.state, '', location.pathname + {target});"
    st.html(f"<script>{script} // {page}</script>", unsafe_allow_javascript=True)


def import_file(content: bytes, name: str) -> bool:
    """Put an imported file on the sliders; say what is wrong with it otherwise."""
    try:
        replace(scenario_from_json(content, name))
    except InputError as error:
        notice(error.problems, "The file was not opened", place="upload", leaves=True)
        return False
    return True


def share_query() -> str | None:
    """Return the query of a link to this scenario, or None where only a file can hold it."""
    try:
        return link_query(scenario(), preset())
    except InputError:
        return None


def why_no_link() -> str:
    """Return why there is no link to this scenario; empty where there is one."""
    try:
        link_query(scenario(), preset())
    except InputError as error:
        return str(error)
    return ""


def notice(problems: Iterable[Problem], lead: str, place: str = "", leaves: bool = False) -> None:
    """Keep messages until the person closes them, or the next change succeeds.

    Args:
        problems: what is wrong; without any, nothing is said.
        lead: what came of it, which each message begins with.
        place: where it was entered: what was said of the same place before is taken away.
        leaves: whether the messages go when the person leaves the page.
    """
    every = tuple(f"{lead}: {problem.sentence()}." for problem in problems)
    sentences = every[:MOST_NOTICES]
    if len(every) > MOST_NOTICES:
        sentences = (*sentences, f"{lead}: and {len(every) - MOST_NOTICES} more.")
    new = (Notice(sentence, place, leaves) for sentence in sentences)
    known = (item for item in _notices() if not place or item.place != place)
    st.session_state[NOTICES] = tuple(dict.fromkeys((*known, *new)))


def show_notices(page: str = "") -> None:
    """Show kept messages as text, never as markup, with a button that closes them.

    Args:
        page: the page that is drawn; what belongs to another one is taken away.
    """
    if st.session_state.get(NOTICES_ON, page) != page:
        st.session_state[NOTICES] = tuple(item for item in _notices() if not item.leaves)
    st.session_state[NOTICES_ON] = page
    if not _notices():
        return
    with st.container(border=True, key="notices"):
        for item in _notices():
            st.text(f"⚠ {item.sentence}")
        st.button("Close these messages", on_click=_close_notices, key="close_notices")


def _notices() -> tuple[Notice, ...]:
    kept: tuple[Notice, ...] = st.session_state.get(NOTICES, ())
    return kept


def _close_notices() -> None:
    st.session_state[NOTICES] = ()


def says_that_it_does_not_fit(
    evaluation: Evaluation, so: str = "there is no speed to show"
) -> bool:
    """Say why a plan breaks its constraints, and what follows; return whether it does."""
    if evaluation.feasible:
        return False
    messages = " ".join(map(violation_message, broken_constraints(evaluation)))
    st.error(f"**This plan does not fit, so {so}.** {plain(messages)}")
    return True


def widget_value(key: str) -> Any:
    """Return what a keyed widget holds."""
    return st.session_state[key]
