"""Page "What owns the wall?": shares of a prefill pass, its replay, and what a target takes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.attribution import (
    FINE,
    PHASE_WORDS,
    Crossing,
    MeasuredPhase,
    Profile,
    attribution_figure,
    crossings,
    grid,
    overlapped_profile,
    synced_and_running,
    synced_profile,
)
from explorer.plots.replay import host_scopes, replay_figure, replay_window
from explorer.plots.style import words
from explorer.serving.evaluate import evaluate
from explorer.ui import conflicts, recurrence, state, targets
from explorer.ui.text import plain

SYNCED, OVERLAPPED = "Device-synced", "As it runs"
FAMILY = "ascend910a"
VIEW, FIRST_LAYER = "attribution:view", "attribution:layer"
WINDOW_LAYERS = 4
MOST_CROSSINGS = 4
SCOPES_SHORT, WALL_SHORT = 2.77, 1.25
SCOPES_LONG, WALL_LONG = 8.41, 3.95
"""Sums of nested host scopes and the walls they were taken in [s], as section 5.1 prints them."""


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    st.header("What owns the wall?", anchor=False)
    evaluation = evaluate(scenario)
    if state.says_that_it_does_not_fit(evaluation):
        return
    st.markdown(owner_sentence(scenario))
    if scenario.chip_document().family != FAMILY:
        chip = plain(scenario.chip_document().name)
        st.info(f"The profile by length and the replay are the Ascend 910A's; this is the {chip}.")
        targets.section(scenario)
        return
    for note in evaluation.machine.notes():
        st.caption(f"Note: {plain(note)}")
    if scenario.measured.prefill_seconds is None:
        _shares(scenario)
        _replay(scenario)
        _scopes(scenario)
        recurrence.section(scenario)
    targets.section(scenario, measured_tables(scenario))
    conflicts.section(scenario)


def owner_sentence(scenario: Scenario) -> str:
    """Return which term of one prefill pass is the largest, and the two after it."""
    stage = evaluate(scenario).prefill_stage
    rows = float(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)
    wall = float(stage.seconds)
    terms = sorted(stage.terms, key=lambda term: -float(term.seconds))
    first, *rest = [(words(term.name), float(term.seconds)) for term in terms[:3]]
    after = " and ".join(
        f"{name[0].lower()}{name[1:]} {human(seconds, 's')} ({significant(100 * seconds / wall)} %)"
        for name, seconds in rest
        if seconds > 0
    )
    tail = f"; then {after}" if after else ""
    return (
        f"Of a prefill pass of {human(rows, 'rows')}, {human(wall, 's')}, the largest part is "
        f"**{first[0][0].lower()}{first[0][1:]}: {human(first[1], 's')}, "
        f"{significant(100 * first[1] / wall)} %**{tail}."
    )


def measured_tables(scenario: Scenario) -> tuple[tuple[int, dict[str, float]], ...]:
    """Return the longest measured device-synced table of this chip and model, if there is one."""
    tables = _tables(scenario)
    return tuple(sorted(tables.items()))[-1:]


def measured_phases(scenario: Scenario) -> tuple[MeasuredPhase, ...]:
    """Return each measured phase with its share of the measured stack."""
    return tuple(
        MeasuredPhase(rows, phase, seconds, seconds / table["stack"])
        for rows, table in _tables(scenario).items()
        if "stack" in table
        for phase, seconds in table.items()
        if phase in PHASE_WORDS
    )


def _tables(scenario: Scenario) -> dict[int, dict[str, float]]:
    chip, model = scenario.chip_document().id, scenario.model_document().id
    tables: dict[int, dict[str, float]] = {}
    for row in shipped_measurements():
        if (row.chip, row.model, row.quantity) == (chip, model, "phase_time"):
            rows = int(row.conditions["rows"])
            tables.setdefault(rows, {})[row.conditions["phase"]] = row.si_value
    return tables


def _shares(scenario: Scenario) -> None:
    st.subheader("Who owns it at which length?", anchor=False)
    view = st.segmented_control(
        "Pass",
        (SYNCED, OVERLAPPED),
        default=SYNCED,
        key=VIEW,
        required=True,
        help="Device-synced: serial, every scope drains the device, so that phases add up. "
        "As it runs: exposed times of the overlapped pass with the scenario's slices.",
    )
    make = synced_profile if view == SYNCED else overlapped_profile
    profile, fine = make(scenario, grid()), make(scenario, grid(FINE))
    if profile is None or fine is None:
        return
    measured = measured_phases(scenario) if view == SYNCED else ()
    st.markdown(crossing_sentence(fine))
    st.plotly_chart(
        attribution_figure(profile, measured),
        key="attribution",
        width="stretch",
        alt="Share of each phase against the rows of a prefill pass",
    )
    if measured:
        st.caption(
            "Lines: predicted share of the stack. Open circles: measured, each over the stack "
            "of its own run."
        )
    st.markdown(synced_sentence(scenario))


def crossing_sentence(profile: Profile) -> str:
    """Return who is largest at both ends, and where the largest phases cross."""
    ends = []
    for place in (0, -1):
        name = max(profile.seconds, key=lambda item: float(profile.seconds[item][place]))
        share = significant(100 * float(profile.share(name)[place]))
        rows = human(float(profile.rows[place]), "rows")
        ends.append(f"at {rows} the {PHASE_WORDS[name]} ({share} %)")
    met = [item for item in crossings(profile) if not _minor(item)]
    told = "; ".join(
        f"{PHASE_WORDS[item.larger]} above {PHASE_WORDS[item.smaller]} from {item.rows:,} rows"
        for item in met[:MOST_CROSSINGS]
    )
    tail = f" Crossings: {told}." if told else " No two of the large phases cross between."
    return f"Largest: {ends[0]}, {ends[1]}.{tail}"


def _minor(crossing: Crossing) -> bool:
    return "norms" in (crossing.larger, crossing.smaller)


def synced_sentence(scenario: Scenario) -> str:
    """Return by how much a device-synced pass is longer than the same serial pass as it runs."""
    walls = synced_and_running(scenario)
    if walls is None:
        return ""
    synced, running = walls
    rows = float(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)
    if synced < running and _tables(scenario):
        return (
            f"**Synced against running.** The profile says nothing of {human(rows, 'rows')}: its "
            f"shortest pass had {min(_tables(scenario)):,} rows, and carried on to so few it would "
            "be shorter than the pass as it runs, which cannot be."
        )
    return (
        f"**Synced against running.** At {human(rows, 'rows')} the serial pass takes "
        f"{human(synced, 's')} when every scope drains the device, and {human(running, 's')} as "
        f"it runs: {human(synced - running, 's')} of the profile is issue and drain that the "
        "running pass hides. The profile's slopes hold for the running pass, its fixed terms "
        "do not."
    )


def _replay(scenario: Scenario) -> None:
    st.subheader("Where does each layer wait?", anchor=False)
    layers = scenario.model_shape().layers
    first = st.slider(
        "First layer shown",
        1,
        max(layers - WINDOW_LAYERS + 1, 2),
        value=min(5, max(layers - WINDOW_LAYERS + 1, 2)),
        key=FIRST_LAYER,
    )
    window = replay_window(scenario, int(first) - 1, WINDOW_LAYERS)
    if window is None or not window.events:
        st.info("This stage has no such layers.")
        return
    st.plotly_chart(
        replay_figure(window),
        key="replay",
        width="stretch",
        alt="Replay of some layers: host issue, device, fixed part and bytes of all-reduces",
    )
    st.caption(
        f"Layers {window.first + 1} to {window.last} of one pass of {human(window.seconds, 's')}, "
        "replayed event by event; the wall is the same number as above. The host runs ahead where "
        "its bars end before the device's. Equal issue times of a layer's operators are assumed."
    )


def _scopes(scenario: Scenario) -> None:
    scopes = host_scopes(scenario)
    if scopes is None or scopes.whole <= 0:
        return
    st.subheader("Why do nested host spans over-count?", anchor=False)
    total = scopes.operators + scopes.layers + scopes.whole
    st.markdown(
        f"A host profile adds up spans that contain one another. In this replay the operators' "
        f"spans alone are {human(scopes.operators, 's')}; with the layers around them and the pass "
        f"around those, the sum is **{human(total, 's')}, {significant(total / scopes.whole)} "
        "times** the host's own time. The report's runs summed "
        f"{SCOPES_SHORT} s of scopes in a {WALL_SHORT} s wall "
        f"({significant(SCOPES_SHORT / WALL_SHORT)} times) and {SCOPES_LONG} s in {WALL_LONG} s "
        f"({significant(SCOPES_LONG / WALL_LONG)} times), so none of its ar.* spans is the time of "
        "a collective."
    )
    st.table(_scope_table(((scopes.operators, "operators and slices"), (scopes.layers, "layers"),
                           (scopes.whole, "the pass"))), hide_index=True)  # fmt: skip
    st.caption("Sums of the report: Ascend TP Collective Overlap section 5.1.")


def _scope_table(levels: Sequence[tuple[float, str]]) -> pd.DataFrame:
    rows, running = [], 0.0
    for seconds, name in levels:
        running += seconds
        rows.append(
            {"spans of": name, "sum": human(seconds, "s"), "running sum": human(running, "s")}
        )
    return pd.DataFrame(rows)
