"""Prefill time against the number of all-reduce slices: a race between host and device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.plots.palette import COMPUTE, HOST, NEUTRAL
from explorer.plots.style import base_figure
from explorer.serving.evaluate import evaluate

COUNTS = tuple(range(1, 17))
HOST_TERM = "host_issue_wait"


class SlicePoint(NamedTuple):
    """One slice count: when the host has issued the pass, when the device alone is done."""

    slices: int
    host_seconds: float
    device_seconds: float
    rows_per_second: float


class SliceSweep(NamedTuple):
    """The counts tried for one prompt length, and the one that the scenario's setting gives."""

    rows: int
    points: tuple[SlicePoint, ...]
    chosen_seconds: float
    best: SlicePoint


def slice_sweep(scenario: Scenario) -> SliceSweep:
    """Return prefill passes of this scenario at each slice count, through ``evaluate``."""
    counts = np.asarray(COUNTS, dtype=np.int64)
    swept = evaluate(scenario.replacing({"plan.slices": counts})).prefill_stage
    host = next(term for term in swept.terms if term.name == HOST_TERM)
    wall = np.broadcast_to(swept.seconds, counts.shape)
    waiting = np.broadcast_to(host.seconds, counts.shape)
    issued = np.broadcast_to(host.busy_seconds, counts.shape)
    rows = int(scenario.plan.micro_batch_prefill * scenario.workload.prompt_tokens)
    points = tuple(
        SlicePoint(
            count,
            float(issued[i]),
            float(wall[i] - waiting[i]),
            rows / float(wall[i]),
        )
        for i, count in enumerate(COUNTS)
        # A count that the engine refuses runs serially and issues no more than one slice does.
        if count == 1 or issued[i] > issued[0]
    )
    chosen = float(evaluate(scenario).prefill_stage.seconds)
    best = max(points, key=lambda point: point.rows_per_second)
    return SliceSweep(rows, points, chosen, best)


def slices_figure(sweep: SliceSweep) -> go.Figure:
    """Draw host and device times as lines, and the pass, which ends after both, as marks."""
    figure = base_figure(300, "slices")
    counts = [str(point.slices) for point in sweep.points]
    lines = (
        (
            "host has issued everything",
            [point.host_seconds for point in sweep.points],
            HOST,
            "dash",
        ),
        (
            "device has finished",
            [point.device_seconds for point in sweep.points],
            COMPUTE,
            "solid",
        ),
    )
    for name, seconds, colour, dash in lines:
        figure.add_scatter(
            x=counts,
            y=seconds,
            mode="lines",
            name=name,
            line={"color": colour, "dash": dash, "width": 2},
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=counts,
        y=[sweep.rows / point.rows_per_second for point in sweep.points],
        mode="markers",
        name="pass takes",
        marker={"color": NEUTRAL, "size": 11, "symbol": "square"},
        customdata=[
            f"{human(float(point.slices), 'slices')}: "
            f"{significant(point.rows_per_second)} tokens/s, host issue "
            f"{human(point.host_seconds, 's')}, device {human(point.device_seconds, 's')}"
            for point in sweep.points
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(title="slices of each all-reduce (1 = serial)", type="category")
    figure.update_yaxes(title="prefill pass [s]", rangemode="tozero")
    return figure
