"""Page "What owns the wall?": shares of a prefill pass, its replay, and what a target takes."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.comparable import comparable_passes, why_not_comparable
from explorer.plots.attribution import (
    PHASE_WORDS,
    MeasuredPhase,
    attribution_figure,
    overlapped_profile,
    profile_rows,
    synced_profile,
)
from explorer.plots.replay import host_scopes, replay_figure, replay_window
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.slice_study import rows_of_a_pass
from explorer.serving.stages import slowest_prefill_share, slowest_stage_words
from explorer.ui import ascend_numbers, conflicts, numbers, recurrence, state, story, targets
from explorer.ui.attribution_words import (
    crossing_sentence,
    owner_sentence,
    synced_owner_sentence,
    synced_sentence,
)
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.plan_remarks import remarks
from explorer.ui.remedies import remedies
from explorer.ui.tables import show_table
from explorer.ui.text import plain

SYNCED, OVERLAPPED = "Device-synced", "As it runs"
FAMILY = "ascend910a"
VIEW, FIRST_LAYER = "attribution:view", "attribution:layer"
WINDOW_LAYERS, OPENING_LAYER = 4, 5
THE_WALL = "The wall: the time of the whole prefill pass, as a clock on the wall measures it."
SAME_TIME = 1e-9
SCOPES_SHORT, WALL_SHORT = 2.77, 1.25
SCOPES_LONG, WALL_LONG = 8.41, 3.95
"""Sums of nested host scopes and the walls they were taken in [s], as section 5.1 prints them."""


def page() -> None:
    """Draw the page for this session's scenario."""
    scenario = state.scenario()
    ascend = scenario.chip_document().family == FAMILY
    st.header("What owns the wall?" if ascend else "What would a target take?", anchor=False)
    evaluation = evaluate(scenario)
    if state.says_that_it_does_not_fit(evaluation):
        remedies(scenario)
        return
    if not ascend:
        st.markdown(owner_sentence(scenario))
        remarks(evaluation)
        chip = scenario.chip_document()
        st.info(
            f"The profile by length and the replay are the Ascend 910A's; this is the "
            f"{plain(chip.name)}. Where its time goes, operator by operator, is told here:"
        )
        story.elsewhere(story.ATTRIBUTION, chip.family)
        targets.section(scenario)
        numbers.numbers_behind(lambda: numbers.stage_terms(evaluation.prefill_stage, scenario))
        return
    modelled = scenario.measured.prefill_seconds is None
    view = st.session_state.get(VIEW, OVERLAPPED) if modelled else OVERLAPPED
    st.markdown((synced_owner_sentence if view == SYNCED else owner_sentence)(scenario))
    st.caption(THE_WALL)
    remarks(evaluation)
    if modelled:
        _shares(scenario)
        _replay(scenario, evaluation)
        with folded("Why do nested host spans over-count?", "scopes") as is_open:
            if is_open:
                _nested_spans(scenario)
        recurrence.section(scenario)
    targets.section(scenario, measured_tables(scenario))
    conflicts.section(scenario)
    numbers.numbers_behind(lambda: ascend_numbers.show(evaluation))


def measured_tables(scenario: Scenario) -> tuple[tuple[int, dict[str, float]], ...]:
    """Return the longest measured device-synced table that is comparable, if there is one."""
    return tuple(sorted(_tables(scenario).items()))[-1:]


def measured_phases(scenario: Scenario) -> tuple[MeasuredPhase, ...]:
    """Return each comparable measured phase with its share of the measured stack."""
    return tuple(
        MeasuredPhase(rows, phase, seconds, seconds / table["stack"])
        for rows, table in _tables(scenario).items()
        if "stack" in table
        for phase, seconds in table.items()
        if phase in PHASE_WORDS
    )


def _tables(scenario: Scenario) -> dict[int, dict[str, float]]:
    tables: dict[int, dict[str, float]] = {}
    for row in comparable_passes(scenario):
        if row.quantity == "phase_time":
            rows = int(row.conditions["rows"])
            tables.setdefault(rows, {})[row.conditions["phase"]] = row.si_value
    return tables


def _shares(scenario: Scenario) -> None:
    st.subheader("Who owns it at which length?", anchor=False)
    view = st.segmented_control(
        "Pass",
        (OVERLAPPED, SYNCED),
        default=OVERLAPPED,
        key=VIEW,
        required=True,
        help="As it runs: exposed times of the overlapped pass with the scenario's slices. "
        "Device-synced: serial, every scope drains the device, so that phases add up.",
    )
    make = synced_profile if view == SYNCED else overlapped_profile
    profile = make(scenario, profile_rows(scenario))
    if profile is None:
        return
    measured = measured_phases(scenario) if view == SYNCED else ()
    st.markdown(crossing_sentence(profile))
    chart(
        attribution_figure(profile, measured, rows_of_a_pass(scenario)),
        "attribution",
        "Share of each phase against the rows of a prefill pass",
    )
    st.caption(_shares_caption(scenario, view == SYNCED, bool(measured)))
    st.markdown(synced_sentence(scenario))


def _shares_caption(scenario: Scenario, synced: bool, measured: bool) -> str:
    """Return what the lines are shares of, and where measured ones are."""
    stage = ", of the slowest stage at each length" if int(scenario.plan.pp_prefill) > 1 else ""
    if not synced:
        return (
            f"Lines: predicted exposed time as a share of the wall{stage}, for one prompt a pass. "
            "No running pass was measured phase by phase; Device-synced shows what was."
        )
    lines = f"Lines: predicted share of the stack{stage}, for one prompt a pass."
    if not measured:
        return f"{lines} {plain(why_not_comparable(scenario))}"
    return f"{lines} Open circles: measured, each over the stack of its own run."


def _replay(scenario: Scenario, evaluation: Evaluation) -> None:
    st.subheader("Where does each layer wait?", anchor=False)
    layers = int(slowest_prefill_share(evaluation).layer_count)
    last = layers - WINDOW_LAYERS + 1
    first = 1
    if last > 1:
        first = st.slider(
            "First layer shown",
            1,
            last,
            value=min(OPENING_LAYER, last),
            key=f"{FIRST_LAYER}:{layers}",
        )
    window = replay_window(scenario, int(first) - 1, min(WINDOW_LAYERS, layers))
    if window is None or not window.events:
        return
    chart(
        replay_figure(window),
        "replay",
        "Replay of some layers: host issue, device, fixed part and bytes of all-reduces",
    )
    stage = slowest_stage_words(evaluation)
    of = f"the slowest stage ({stage})" if stage else "the pass"
    shown = f"Layers {window.first + 1} to {window.last}" if layers > 1 else "The only layer"
    beyond = float(evaluation.prefill_stage.seconds) - window.seconds
    but = (
        f", but for {human(beyond, 's')} of sending on to the next stage"
        if beyond > SAME_TIME * window.seconds
        else ""
    )
    st.caption(
        f"{shown} of {of} as it runs, {human(window.seconds, 's')}, replayed event by event; the "
        f"terms of the page add up to the same time{but}. The host runs ahead where its bars end "
        "before the device's. Equal issue times of a layer's operators are assumed."
    )


def _nested_spans(scenario: Scenario) -> None:
    scopes = host_scopes(scenario)
    if scopes is None or scopes.whole <= 0:
        return
    total = scopes.operators + scopes.layers + scopes.whole
    st.markdown(
        f"A host profile adds up spans that contain one another. In this replay the operators' "
        f"spans alone are {human(scopes.operators, 's')}; with the layers around them and the "
        f"whole around those, the sum is **{human(total, 's')}, "
        f"{significant(total / scopes.whole)} times** the host's own time. The report's runs "
        f"summed {SCOPES_SHORT} s of scopes in a {WALL_SHORT} s wall "
        f"({significant(SCOPES_SHORT / WALL_SHORT)} times) and {SCOPES_LONG} s in {WALL_LONG} s "
        f"({significant(SCOPES_LONG / WALL_LONG)} times), so none of its ar.* spans is the time of "
        "a collective."
    )
    levels = (
        (scopes.operators, "operators and slices"),
        (scopes.layers, "layers"),
        (scopes.whole, "the pass" if int(scenario.plan.pp_prefill) == 1 else "the stage"),
    )
    show_table(_scope_table(levels))
    st.caption("Sums of the report: Ascend TP Collective Overlap section 5.1.")


def _scope_table(levels: Sequence[tuple[float, str]]) -> list[dict[str, str]]:
    rows, running = [], 0.0
    for seconds, name in levels:
        running += seconds
        rows.append(
            {"spans of": name, "sum": human(seconds, "s"), "running sum": human(running, "s")}
        )
    return rows
