"""Long work of a page: a button that starts it, a bar that follows it, its result when it is done.

A session holds at most one task a section. Its result belongs to what it was started for, told by a
fingerprint; when the sliders have moved on, it is offered again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from explorer.config.errors import InputError
from explorer.config.scenario import Scenario
from explorer.search.background import Task, Work
from explorer.search.space import Space
from explorer.search.turns import searches_at_once
from explorer.ui import state
from explorer.ui.presence import leaving
from explorer.ui.text import plain

Result = TypeVar("Result")
POLL_SECONDS = 1.0
Prepared = tuple[str, Work[Any]]


def offered(
    key: str, fingerprint: str, label: str, prepare: Callable[[], Prepared], doing: str
) -> Any:
    """Draw the button of a section, or how far it is; return its result once it has one.

    Args:
        key: the section.
        fingerprint: what the page now asks for.
        label: what to write on the button.
        prepare: gives the fingerprint and the work of a click: what was handed to the button when
            it was drawn may be older than a slider that moved just before the click.
        doing: what the numbers of its progress count, such as ``plans``.
    """
    held = _held(key)
    mine = held is not None and held[0] == fingerprint
    task = held[1] if held is not None and mine else None
    status = None if task is None else task.status()
    running = status is not None and not status.finished
    if status is None or status.state != "done":
        with st.container(horizontal=True):
            st.button(
                label,
                key=f"start:{key}",
                on_click=_start,
                args=(key, prepare),
                disabled=running,
                type="primary",
            )
            if running:
                st.button("Stop", key=f"stop:{key}", on_click=_stop, args=(key,))
    if held is not None and not mine:
        st.caption("What is asked for has changed since the last result.")
    if running:
        st.fragment(_follow, run_every=POLL_SECONDS)(key, doing)
        return None
    if status is None:
        return None
    if status.error:
        st.error(f"This failed: {plain(status.error)}")
    elif status.state == "stopped":
        reached = status.result is not None
        st.caption(
            "Stopped early: what was reached by then is shown." if reached else "Stopped early."
        )
    return status.result


def fingerprint_of(scenario: Scenario, *more: object) -> str:
    """Return a text that differs where a scenario or anything else differs."""
    return json.dumps([scenario.to_json(), *map(str, more)], sort_keys=True)


def space_fingerprint(space: Space, *more: object) -> str:
    """Return a text that is the same wherever in its space the plan stands."""
    first = space.scenario([axis.values[0] for axis in space.axes])
    axes = [(axis.name, axis.values) for axis in space.axes]
    return fingerprint_of(first, axes, *more)


def waiting_words(ahead: int) -> str:
    """Return why a search has not begun: how many others must end before it."""
    if not ahead:
        return "About to begin"
    others = "another search" if ahead == 1 else f"{ahead:,} other searches"
    return (
        f"Waiting for {others} to end: this app runs at most "
        f"{searches_at_once()} at once, in the order in which they were asked for"
    )


def _held(key: str) -> tuple[str, Task[Any]] | None:
    held: tuple[str, Task[Any]] | None = st.session_state.get(f"task:{key}")
    return held


def _start(key: str, prepare: Callable[[], Prepared]) -> None:
    _stop(key)
    try:
        fingerprint, work = prepare()
    except InputError as error:
        state.notice(error.problems, "Nothing was started")
        return
    st.session_state[f"task:{key}"] = (fingerprint, Task(work, leaving()).start())


def _stop(key: str) -> None:
    held = _held(key)
    if held is not None:
        held[1].stop()


def _follow(key: str, doing: str) -> None:
    """Draw how far a task is; reruns alone, and the page once when the task ends."""
    held = _held(key)
    if held is None:
        return
    status = held[1].status()
    if status.finished:
        st.rerun()
    if status.state == "waiting":
        st.progress(0.0, waiting_words(status.ahead))
        return
    if not status.total:
        st.caption(f"{status.done:,} {doing} so far")
        return
    st.progress(
        min(status.done / status.total, 1.0), f"{status.done:,} of {status.total:,} {doing}"
    )
