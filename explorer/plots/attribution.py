"""What owns the wall: shares of a prefill pass against its rows, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.chips.ascend910a import Ascend910a
from explorer.config.knobs import scenario_knobs
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.costs.arrays import Array, Codes
from explorer.plots.curves import fine_rows, log_row_axis, mark_present, thinned
from explorer.plots.measured import add_measured
from explorer.plots.palette import (
    ACTIVATIONS,
    COMMUNICATION,
    COMPUTE,
    HOST,
    ISSUE,
    KV_CACHE,
    NEUTRAL,
    Dash,
)
from explorer.plots.style import base_figure
from explorer.serving.evaluate import evaluate
from explorer.serving.slice_study import jump_rows, rows_of_a_pass
from explorer.serving.stages import slowest_prefill_share

MOST_POINTS = 26
"""Points of one of at most seven lines: with measured ones under 200 a chart."""
PROMPT, ONE_PROMPT = "workload.prompt_tokens", {"plan.micro_batch_prefill": 1}
PHASE_OF_TERM = {
    "gated_delta": "gated_delta",
    "full_attention": "full_attention",
    "projections": "projections",
    "collectives_fixed": "tp_all_reduce",
    "all_reduce_bytes": "tp_all_reduce",
    "norms": "norms",
    "host_issue_wait": "host_issue_wait",
}
"""Phases that the overlapped pass's terms belong to; all further terms are ``other``."""
PHASE_WORDS = {
    "gated_delta": "recurrence",
    "full_attention": "full attention",
    "projections": "projections",
    "tp_all_reduce": "all-reduces",
    "norms": "norms",
    "other": "rest",
    "host_issue_wait": "waiting for the host",
}
PHASE_LOOKS: dict[str, tuple[str, Dash]] = {
    "gated_delta": (ISSUE, "dash"),
    "full_attention": (KV_CACHE, "dot"),
    "projections": (COMPUTE, "solid"),
    "tp_all_reduce": (COMMUNICATION, "dashdot"),
    "norms": (ACTIVATIONS, "longdash"),
    "other": (NEUTRAL, "longdashdot"),
    "host_issue_wait": (HOST, "solid"),
}
"""The colour of the resource that most of a phase is of, and a dash."""


class Profile(NamedTuple):
    """Seconds of each phase over rows; ``whole`` is what shares are of."""

    rows: Codes
    seconds: dict[str, Array]
    whole: Array

    def share(self, phase: str) -> Array:
        """Return a phase's share of the whole, over rows."""
        found: Array = self.seconds[phase] / self.whole
        return found


class Crossing(NamedTuple):
    """Rows from which one phase takes longer than another."""

    rows: int
    larger: str
    smaller: str


class MeasuredPhase(NamedTuple):
    """One measured phase of a device-synced pass, and its share of the measured stack."""

    rows: int
    phase: str
    seconds: float
    share: float


def profile_rows(scenario: Scenario) -> Codes:
    """Return rows of the passes that a profile is drawn over, the scenario's own among them."""
    longest = int(scenario_knobs()[PROMPT].maximum)
    return fine_rows(min(rows_of_a_pass(scenario), longest), jump_rows(scenario))


def overlapped_profile(scenario: Scenario, rows: Codes) -> Profile:
    """Return the phases of the pass as it runs: exposed times, which add up to the wall.

    With pipeline stages it is the pass through the slowest of them, at each number of rows.
    """
    stage = evaluate(scenario.replacing({PROMPT: rows, **ONE_PROMPT})).prefill_stage
    seconds = {name: np.zeros(rows.shape) for name in PHASE_WORDS}
    for term in stage.terms:
        seconds[PHASE_OF_TERM.get(term.name, "other")] += term.seconds
    return Profile(rows, seconds, np.broadcast_to(stage.seconds, rows.shape))


def synced_profile(scenario: Scenario, rows: Codes) -> Profile | None:
    """Return the phases of the serial pass when every scope drains the device; shares of the stack.

    With pipeline stages of the one that is slowest as it runs, as on the other view. None for a
    machine without such a profile.
    """
    evaluation = evaluate(scenario.replacing({PROMPT: rows, **ONE_PROMPT}))
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return None
    found = machine.synced_profile(slowest_prefill_share(evaluation))
    seconds = {name: np.broadcast_to(part, rows.shape) for name, part in found.phases.items()}
    return Profile(rows, seconds, np.broadcast_to(found.stack_seconds, rows.shape))


def synced_now(scenario: Scenario) -> Profile | None:
    """Return the device-synced profile of the scenario's own pass, one number of rows.

    None for a machine without such a profile.
    """
    evaluation = evaluate(scenario)
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return None
    found = machine.synced_profile(slowest_prefill_share(evaluation))
    seconds = {name: np.atleast_1d(part) for name, part in found.phases.items()}
    rows: Codes = np.asarray([rows_of_a_pass(scenario)], dtype=np.int64)
    return Profile(rows, seconds, np.atleast_1d(found.stack_seconds))


def synced_and_running(scenario: Scenario) -> tuple[float, float] | None:
    """Return the serial pass's wall at the scenario's rows: device-synced, and as it runs [s]."""
    evaluation = evaluate(scenario.replacing({"plan.slices": 1}))
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return None
    synced = machine.synced_profile(slowest_prefill_share(evaluation)).wall_seconds
    return float(synced), float(evaluation.prefill_stage.seconds)


def crossings(profile: Profile) -> tuple[Crossing, ...]:
    """Return where the largest phases overtake one another, in order of rows.

    ``profile`` should hold many rows; each crossing is told at the first row that is past it.
    """
    found = []
    names = [name for name, part in profile.seconds.items() if name != "other" and part.max() > 0]
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            above = profile.seconds[one] > profile.seconds[other]
            for place in np.flatnonzero(above[1:] != above[:-1]) + 1:
                larger, smaller = (one, other) if above[place] else (other, one)
                found.append(Crossing(int(profile.rows[place]), larger, smaller))
    return tuple(sorted(found))


def attribution_figure(
    profile: Profile, measured: Sequence[MeasuredPhase], present: int
) -> go.Figure:
    """Draw a line of shares for each phase, and measured shares as open circles.

    ``present`` are the rows of the scenario's own pass. Lines hold the points that they need.
    """
    figure = base_figure(400, "attribution")
    for name, seconds in profile.seconds.items():
        if not np.any(seconds > 0):
            continue
        (colour, dash), words = PHASE_LOOKS[name], PHASE_WORDS[name]
        whole = 100 * profile.share(name)
        shown = thinned(profile.rows, whole, MOST_POINTS)
        rows_shown, share = profile.rows[shown], whole[shown]
        figure.add_scatter(
            x=rows_shown.tolist(),
            y=share.tolist(),
            mode="lines",
            name=words,
            legendgroup=name,
            line={"color": colour, "dash": dash, "width": 2},
            customdata=[
                f"{words}, {human(float(rows), 'rows')}: {human(float(part), 's')}, "
                f"{significant(float(value))} %"
                for rows, part, value in zip(rows_shown, seconds[shown], share, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
        points = [point for point in measured if point.phase == name]
        add_measured(
            figure,
            [point.rows for point in points],
            [100 * point.share for point in points],
            [
                f"{words}, measured at {human(float(point.rows), 'rows')}: "
                f"{human(point.seconds, 's')}, {significant(100 * point.share)} %"
                for point in points
            ],
            f"{words}, measured",
            colour,
            legendgroup=name,
            showlegend=False,
        )
    mark_present(figure, present, 0.48)
    log_row_axis(figure, profile.rows)
    figure.update_yaxes(title="share", ticksuffix=" %", rangemode="tozero")
    return figure
