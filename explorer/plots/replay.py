"""The replay of a prefill pass: events of a window of layers on the host and the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.chips.ascend910a import Ascend910a
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.costs.timeline import COMPUTE, HOST, LANES, LINK, SETUP, Event
from explorer.plots import palette
from explorer.plots.style import base_figure, hatched
from explorer.serving.evaluate import evaluate
from explorer.serving.stages import slowest_prefill_share

LANE_WORDS = {
    HOST: "host issues",
    COMPUTE: "device computes",
    SETUP: "all-reduce, fixed part",
    LINK: "all-reduce, bytes",
}
KIND_LOOKS = {
    "host issue": (palette.HOST, ""),
    "recurrence": (palette.ISSUE, "x"),
    "full attention": (palette.KV_CACHE, "."),
    "projections": (palette.COMPUTE, ""),
    "norms and rest": (palette.ACTIVATIONS, "-"),
    "all-reduces": (palette.COMMUNICATION, ""),
}
"""Colours as on the chart of shares; patterns for what meets on one lane."""
KIND_OF_OPERATOR = {
    "gated_delta": "recurrence",
    "full_attention": "full attention",
    "sliding_attention": "full attention",
    "norm": "norms and rest",
    "other": "norms and rest",
}
MOST_EVENTS = 190


class Window(NamedTuple):
    """Events of some layers, as drawn; ``seconds`` is the wall of the whole pass or stage."""

    first: int
    last: int
    events: tuple[Event, ...]
    seconds: float


class Scopes(NamedTuple):
    """Sums of the host's spans of one pass, by level of nesting [s]."""

    operators: float
    layers: float
    whole: float


def replay_window(scenario: Scenario, first: int, layers: int) -> Window | None:
    """Return the events of ``layers`` layers from ``first``, fewer where they are too many.

    With pipeline stages they are those of the slowest, and so are layers and time. None for a
    machine without a replay.
    """
    evaluation = evaluate(scenario)
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return None
    one = machine.prefill_pass(slowest_prefill_share(evaluation))
    found = one.replay(first, first + layers)
    while len(found.events) > MOST_EVENTS and layers > 1:
        layers -= 1
        found = one.replay(first, first + layers)
    return Window(first, first + layers, found.events, found.seconds)


def host_scopes(scenario: Scenario) -> Scopes | None:
    """Return what nested host spans of the whole pass add up to; None without a replay."""
    evaluation = evaluate(scenario)
    machine = evaluation.machine
    if not isinstance(machine, Ascend910a):
        return None
    events = machine.prefill_pass(slowest_prefill_share(evaluation)).replay().events
    host = [event for event in events if event.lane == HOST]
    by_layer: dict[int, list[Event]] = {}
    for event in host:
        by_layer.setdefault(event.layer, []).append(event)
    spans = [_span(part) for part in by_layer.values()]
    return Scopes(sum(event.end - event.start for event in host), sum(spans), _span(host))


def replay_figure(window: Window) -> go.Figure:
    """Draw the events as bars on four lanes."""
    figure = base_figure(290, "replay")
    for kind, (colour, shape) in KIND_LOOKS.items():
        events = [event for event in window.events if _kind(event) == kind]
        if not events:
            continue
        figure.add_bar(
            y=[LANE_WORDS[event.lane] for event in events],
            x=[event.end - event.start for event in events],
            base=[event.start for event in events],
            orientation="h",
            name=kind,
            marker={"color": colour, "line": {"width": 0}, "pattern": hatched(colour, shape)},
            text=[_told(event) for event in events],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="time since the pass began [s]")
    figure.update_yaxes(
        categoryorder="array",
        categoryarray=[LANE_WORDS[lane] for lane in LANES],
        autorange="reversed",
        title=None,
    )
    return figure


def _kind(event: Event) -> str:
    if event.lane == COMPUTE:
        return KIND_OF_OPERATOR.get(event.what, "projections")
    return "host issue" if event.lane == HOST else "all-reduces"


def _told(event: Event) -> str:
    return (
        f"{event.what}, layer {event.layer + 1}, slice {event.slice + 1}: "
        f"{human(event.start, 's')} to {human(event.end, 's')}, "
        f"{human(event.end - event.start, 's')}"
    )


def _span(events: Sequence[Event]) -> float:
    if not events:
        return 0.0
    return max(event.end for event in events) - min(event.start for event in events)
