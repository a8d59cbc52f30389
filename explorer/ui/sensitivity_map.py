"""Section "Where does what limit?": the answer over any two sliders."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from explorer.config.scenario import Scenario, knob_at
from explorer.config.units import human, significant
from explorer.plots.space_map import MISFIT, map_figure, regions
from explorer.search.certificate import Progress, Stopped
from explorer.search.objectives import Objective
from explorer.search.space import default_space
from explorer.search.space_map import SpaceMap, followed_map, map_space, mappable_paths
from explorer.ui import asked, background, state
from explorer.ui.charts import chart
from explorer.ui.text import plain

ACROSS, UP, FOLLOWS, SECTION = "map:x", "map:y", "map:follows", "map"
FIRST = {
    "mt3000": ("hardware.ddr_bandwidth_bytes_per_second", "plan.micro_batch_decode"),
    "ascend910a": ("workload.prompt_tokens", "plan.micro_batch_decode"),
    "generic": ("hardware.memory_bandwidth_bytes_per_second", "plan.micro_batch_decode"),
}
AS_IS, FOLLOWED = "the plan as it is", "the best plan in each cell"


def section(scenario: Scenario, objective: Objective) -> None:
    """Draw the section."""
    st.subheader("Where does what limit?", anchor=False)
    paths = mappable_paths(scenario)
    chosen = _choices(scenario, paths)
    if chosen is None:
        return
    x, y = chosen
    if st.session_state[FOLLOWS] == AS_IS:
        found: SpaceMap | None = map_space(scenario, objective, x, y)
    else:
        found = background.offered(
            SECTION,
            background.space_fingerprint(default_space(scenario), objective.name, x, y),
            "Draw the map",
            _prepare,
            "cells",
        )
    if found is None:
        st.markdown("Each cell of this map is a search of its own.")
        return
    st.markdown(sentence(found))
    chart(
        map_figure(found),
        "space_map",
        "The answer over two sliders, with regions of what limits it",
    )
    st.caption(
        "Colour: the answer, bright is good. Lines: where another resource begins to limit. "
        "Hatched: does not fit, each reason with its own strokes. A slider on a logarithmic scale "
        "goes from a 16th to 16 times its present value, in even steps of ratio."
    )


def sentence(found: SpaceMap) -> str:
    """Return what the map says: the largest regions, and where the answer is best."""
    total = found.values.size
    every = regions(found)
    fitting = [region for region in every if region.code < MISFIT]
    if not fitting:
        return "Nothing on this map fits."
    parts = [f"{region.name} on {significant(100 * region.cells / total)} %" for region in fitting]
    misfit = total - sum(region.cells for region in fitting)
    tail = f"; {significant(100 * misfit / total)} % does not fit" if misfit else ""
    place = np.nanargmin if found.objective.minimised else np.nanargmax
    row, column = np.unravel_index(int(place(found.values)), found.values.shape)
    best = human(float(found.values[row, column]), found.objective.unit)
    at = (
        f"{plain(found.x.label)} {human(float(found.x.values[column]), found.x.unit)} and "
        f"{plain(found.y.label)} {human(float(found.y.values[row]), found.y.unit)}"
    )
    return f"What limits on this map: **{', '.join(parts[:4])}**{tail}. Best: {best}, at {at}."


def _choices(scenario: Scenario, paths: tuple[str, ...]) -> tuple[str, str] | None:
    first = FIRST[scenario.chip_document().family]
    for key, path in zip((ACROSS, UP), first, strict=True):
        # Another chip has other sliders: a choice that it lacks gives way.
        if st.session_state.get(key) not in paths:
            st.session_state[key] = path
    columns = st.columns(2)
    x, y = (
        column.selectbox(
            label,
            paths,
            key=key,
            format_func=lambda path: _label(scenario, path),
            persist_state="session",
        )
        for column, label, key in zip(
            columns, ("Along the map", "Up the map"), (ACROSS, UP), strict=True
        )
    )
    st.segmented_control(
        "Show",
        (AS_IS, FOLLOWED),
        default=AS_IS,
        key=FOLLOWS,
        format_func=lambda word: word[0].upper() + word[1:],
        required=True,
        persist_state="session",
    )
    if x == y:
        st.info("Choose two different sliders.")
        return None
    return x, y


def _prepare() -> background.Prepared:
    held = st.session_state
    objective = asked.asked()
    space, x, y = default_space(state.scenario()), held[ACROSS], held[UP]

    def work(progress: Progress, stopped: Stopped) -> Any:
        return followed_map(space, objective, x, y, progress=progress, stopped=stopped)

    return background.space_fingerprint(space, objective.name, x, y), work


def _label(scenario: Scenario, path: str) -> str:
    knob = knob_at(scenario, path)
    return path if knob is None else knob.label
