"""A simulated service drawn: cache over time, stages over time, waiting, and what stages did."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.plots.palette import CAPACITY, NEUTRAL, Look
from explorer.plots.style import (
    BUFFER,
    DECODE,
    EDGE,
    IDLE_SHAPE,
    PAUSED,
    PAUSED_SHAPE,
    PREFILL,
    base_figure,
    hatched,
)
from explorer.serving.simulation_results import (
    Histogram,
    Simulation,
    StageSpan,
    StageUse,
)

GIGA = 1e9
MOST_GANTT_ROWS = 14
MOST_STAGES = 12
KIND_LOOKS = {"prefill": (PREFILL, ""), "blocked": (PAUSED, PAUSED_SHAPE), "decode": (DECODE, "")}
KIND_NAMES = {
    "prefill": "prefill computes",
    "blocked": "prefill paused: finished, but nothing takes it",
    "decode": "decode",
}
PLACES = (("prefill", PREFILL), ("buffer", BUFFER), ("decode", DECODE))


def gantt_window_seconds(simulation: Simulation) -> float:
    """Return until when every stage's bars were kept: later, a gap would look like idling."""
    ends: dict[str, float] = {}
    for span in simulation.spans:
        ends[span.pool] = max(ends.get(span.pool, 0.0), span.end_seconds)
    return min(ends.values(), default=0.0)


class GanttRow(NamedTuple):
    """One line of the Gantt and its bars."""

    name: str
    spans: tuple[StageSpan, ...]


def row_name(span: StageSpan) -> str:
    """Return the words of the line that a bar stands in."""
    if span.pool == "prefill":
        return f"prefill {span.pipeline}, stage {span.stage}"
    if span.pool == "cards":
        return f"cards, stage {span.stage}" if span.stage else f"cards, slot {span.pipeline}"
    return f"decode, slot {span.pipeline}" if not span.stage else f"decode, stage {span.stage}"


def gantt_rows(simulation: Simulation) -> tuple[tuple[GanttRow, ...], int]:
    """Return the lines that are drawn and how many more there are.

    Of many prefill stages the first and last of each pipeline are drawn.
    """
    found: dict[str, list[StageSpan]] = {}
    order: dict[str, tuple[bool, int, int]] = {}
    window = gantt_window_seconds(simulation)
    spans = [span for span in simulation.spans if span.start_seconds < window]
    last_stage = max((span.stage for span in spans), default=0)
    for span in spans:
        name = row_name(span)
        found.setdefault(name, []).append(span)
        order[name] = (span.pool == "decode", span.pipeline, span.stage)
    names = sorted(found, key=lambda name: order[name])
    inner = [name for name in names if 1 < order[name][2] < last_stage]
    if len(names) > MOST_GANTT_ROWS:
        names = [name for name in names if name not in inner]
    shown = names[:MOST_GANTT_ROWS]
    return tuple(GanttRow(name, tuple(found[name])) for name in shown), len(found) - len(shown)


def gantt_figure(rows: tuple[GanttRow, ...], window_seconds: float) -> go.Figure:
    """Draw what each stage did in a window from the start, a colour and pattern a kind."""
    figure = base_figure(110 + 30 * len(rows), "simulation_gantt")
    for kind, (look, shape) in KIND_LOOKS.items():
        spans = [(row.name, span) for row in rows for span in row.spans if span.kind == kind]
        if not spans:
            continue
        figure.add_bar(
            y=[name for name, _ in spans],
            x=[span.end_seconds - span.start_seconds for _, span in spans],
            base=[span.start_seconds for _, span in spans],
            orientation="h",
            name=KIND_NAMES[kind],
            marker={
                "color": look.colour,
                "line": EDGE,
                "pattern": hatched(look.colour, shape),
            },
            customdata=[
                f"{name}: {KIND_NAMES[kind]}, micro-batch {span.micro_batch + 1} of "
                f"{human(float(span.requests), 'requests')}, {human(span.start_seconds, 's')} to "
                f"{human(span.end_seconds, 's')}"
                for name, span in spans
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(
        barmode="overlay",
        xaxis={"title": "time since the start [s]", "range": [0.0, window_seconds]},
        yaxis={
            "categoryorder": "array",
            "categoryarray": [row.name for row in rows],
            "autorange": "reversed",
        },
    )
    return figure


def occupancy_figure(simulation: Simulation) -> go.Figure:
    """Draw the cache that one pool's buffer holds over time, its limit, and what else it holds."""
    figure = base_figure(300, "simulation_occupancy")
    occupancy = simulation.occupancy
    if occupancy is None:
        return figure
    held = {
        "prefill": occupancy.prefill_bytes,
        "buffer": occupancy.buffer_bytes,
        "decode": occupancy.decode_bytes,
    }
    shared = simulation.buffer is None
    for place, look in PLACES:
        if not held[place].any():
            continue
        name = f"in {place}, on the cards" if shared else f"in {place}"
        figure.add_scatter(
            x=occupancy.seconds.tolist(),
            y=(held[place] / GIGA).tolist(),
            mode="lines",
            name=name,
            line={**look.line, "shape": "hv"},
            customdata=[
                f"{human(float(size), 'B')} {name} at {human(float(seconds), 's')}"
                for seconds, size in zip(occupancy.seconds, held[place], strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    buffer = simulation.buffer
    if buffer is not None and buffer.limit_bytes > 0:
        limit = f"the buffer clusters hold {human(buffer.limit_bytes, 'B')}"
        figure.add_scatter(
            x=[0.0, float(occupancy.seconds[-1])],
            y=[buffer.limit_bytes / GIGA] * 2,
            mode="lines",
            name=limit,
            line={"color": CAPACITY, "width": 3, "dash": "longdash"},
            hovertemplate=f"{limit}<extra></extra>",
        )
    if buffer is not None and buffer.out_of_memory_seconds is not None:
        moment = human(buffer.out_of_memory_seconds, "s")
        figure.add_scatter(
            x=[buffer.out_of_memory_seconds],
            y=[buffer.limit_bytes / GIGA],
            mode="markers",
            name=f"out of memory after {moment}",
            marker={"symbol": "x", "size": 12, "color": CAPACITY},
            hovertemplate=f"the buffer is full after {moment}<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "time since the start [s]", "rangemode": "tozero"},
        yaxis={"title": "KV cache and state of one pool [GB]", "rangemode": "tozero"},
    )
    return figure


def waiting_figure(simulation: Simulation) -> go.Figure:
    """Draw which share of the requests waited at most how long, in each place."""
    figure = base_figure(280, "simulation_waiting")
    waiting = simulation.waiting
    parts: tuple[tuple[str, Histogram, Look], ...] = (
        ("for prefill to start", waiting.queue, PREFILL),
        ("for room in the buffer", waiting.blocked, PAUSED),
        ("in the buffer, for decode", waiting.buffer, BUFFER),
    )
    for name, histogram, look in parts:
        if not histogram.total_seconds > 0:
            continue
        shares = 100 * histogram.counts.cumsum() / histogram.counts.sum()
        figure.add_scatter(
            x=histogram.edges_seconds.tolist(),
            y=[0.0, *shares.tolist()],
            mode="lines",
            name=name,
            line=look.line,
            customdata=[
                f"{significant(share)} % of the requests waited at most "
                f"{human(float(edge), 's')} {name}"
                for edge, share in zip(histogram.edges_seconds, (0.0, *shares), strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "waiting time of a request [s]", "rangemode": "tozero"},
        yaxis={"title": "requests that waited at most so long", "ticksuffix": " %"},
    )
    return figure


def stage_label(use: StageUse) -> str:
    """Return the words of a stage."""
    if use.pool == "prefill":
        return f"prefill {use.pipeline}, stage {use.stage}"
    return f"{use.pool}, stage {use.stage}"


def utilisation_figure(stages: tuple[StageUse, ...]) -> go.Figure:
    """Draw what stages did with their time: computing, paused, idle."""
    shown = stages[:MOST_STAGES]
    figure = base_figure(100 + 28 * len(shown), "simulation_stages")
    labels = [stage_label(use) for use in shown]
    parts = (
        ("computes", [use.busy_fraction for use in shown], PREFILL.colour, ""),
        (
            "paused by backpressure",
            [use.blocked_fraction for use in shown],
            PAUSED.colour,
            PAUSED_SHAPE,
        ),
        ("idle", [use.idle_fraction for use in shown], NEUTRAL, IDLE_SHAPE),
    )
    for name, shares, colour, pattern in parts:
        figure.add_bar(
            y=labels,
            x=[100 * share for share in shares],
            orientation="h",
            name=name,
            marker={"color": colour, "pattern": hatched(colour, pattern)},
            customdata=[
                f"{label} {name}: {significant(100 * share)} % of the time"
                for label, share in zip(labels, shares, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        xaxis={"title": "share of the run", "ticksuffix": " %", "range": [0, 100]},
        yaxis={
            "categoryorder": "array",
            "categoryarray": labels,
            "autorange": "reversed",
        },
    )
    return figure
