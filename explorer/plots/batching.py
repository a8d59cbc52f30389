"""Throughput and latency against the decode batch, from one broadcast evaluation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.scenario import Scenario, knob_at
from explorer.config.sizes import caches_tokens
from explorer.config.units import human
from explorer.costs.arrays import ZERO, Array, Mask, choose, total
from explorer.costs.memory import attended_tokens, kv_bytes_per_token_layer, stage_read_bytes
from explorer.plots.palette import COMPARED, KV_CACHE, Look
from explorer.plots.style import base_figure, tick_text
from explorer.serving.evaluate import Evaluation, evaluate

BATCH_PATH = "plan.micro_batch_decode"
STEPS = (1, 1.5)
SECOND_TICKS = [step * 10.0**power for power in range(-3, 7) for step in (1, 2, 5)]
LOG_TICKS = [1, 4, 16, 64, 256, 1024, 4096]


class Batching(NamedTuple):
    """One line of each figure against the decode micro-batch.

    Attributes:
        micro_batch: requests of one micro-batch.
        batch: B, all micro-batches of a pool.
        throughput: B N / T_latency [tokens/s] of a pool.
        latency_seconds: T_latency, prefill and decode of one batch after each other.
        kv_bytes, weight_bytes: KV cache and weights read in one decode step on a stage.
        fits: whether the plan keeps every constraint; where not, the other figures say nothing.
        crossing: micro-batch at which KV traffic is above that of the weights, None beyond range.
    """

    micro_batch: tuple[int, ...]
    batch: tuple[float, ...]
    throughput: tuple[float, ...]
    latency_seconds: tuple[float, ...]
    kv_bytes: tuple[float, ...]
    weight_bytes: tuple[float, ...]
    fits: tuple[bool, ...]
    crossing: int | None


def micro_batches(scenario: Scenario) -> tuple[int, ...]:
    """Return the sizes to try: powers of two, one between each, and the scenario's own."""
    knob = knob_at(scenario, BATCH_PATH)
    most = int(knob.maximum) if knob is not None else 1
    powers = range(most.bit_length())
    sizes = {int(2**power * step) for power in powers for step in STEPS}
    own = int(scenario.plan.micro_batch_decode)
    return tuple(sorted(size for size in {*sizes, own} if size <= most))


def batching_data(scenario: Scenario) -> Batching:
    """Return throughput, latency and traffic over decode micro-batches, one evaluation."""
    sizes = micro_batches(scenario)
    evaluation = evaluate(scenario.replacing({BATCH_PATH: np.asarray(sizes)}))
    latency = evaluation.prefill_seconds / evaluation.inputs.dp_prefill + evaluation.decode_seconds
    kv, weights = step_traffic(evaluation)

    def spread(values: Array) -> tuple[float, ...]:
        return tuple(float(value) for value in np.broadcast_to(values, len(sizes)))

    return Batching(
        sizes,
        spread(evaluation.batch),
        spread(evaluation.batch_tokens / latency),
        spread(latency),
        spread(kv),
        spread(weights),
        tuple(bool(fits) for fits in np.broadcast_to(evaluation.feasible, len(sizes))),
        _crossing(scenario, sizes, np.broadcast_to(kv > weights, len(sizes))),
    )


def _crossing(scenario: Scenario, sizes: tuple[int, ...], over: Mask) -> int | None:
    """Return the least micro-batch whose caches outweigh the weights, exact between two sizes."""
    if not over.any():
        return None
    first = int(over.argmax())
    low = sizes[first - 1] + 1 if first else sizes[0]
    between = np.arange(low, sizes[first] + 1)
    kv, weights = step_traffic(evaluate(scenario.replacing({BATCH_PATH: between})))
    return int(between[int(np.broadcast_to(kv > weights, between.shape).argmax())])


def step_traffic(evaluation: Evaluation) -> tuple[Array, Array]:
    """Return bytes of KV cache and of weights that the slowest stage reads in a decode step.

    Activations are neither. Of the input embedding a step reads a row a request: left out. Of
    experts it reads those that a request passes.
    """
    i, shares = evaluation.inputs, evaluation.decode_shares
    seconds = [evaluation.machine.decode_stage(share).seconds for share in shares]
    slowest = np.stack(np.broadcast_arrays(*seconds)).argmax(axis=0)
    a_token = i.micro_batch_decode * kv_bytes_per_token_layer(i.model, i.tp_decode, i.kv_bytes)
    tokens = {
        kind: attended_tokens(i.model, kind, i.mean_context_tokens) if caches_tokens(kind) else ZERO
        for kind in i.model.kinds
    }
    kv = [
        total([count * tokens[kind] for kind, count in share.layers.items()]) * a_token
        for share in shares
    ]
    weights = [
        stage_read_bytes(i.model, share, i.micro_batch_decode, i.tp_decode, i.weight_bytes)
        for share in shares
    ]
    return choose(slowest, kv), choose(slowest, weights)


def throughput_figure(data: Batching) -> go.Figure:
    """Draw throughput against the micro-batches at which the plan fits."""
    figure = base_figure(270, "batching")
    _fitting_lines(figure, data, data.throughput, COMPARED[0], "tokens/s")
    _mark_crossing(figure, data)
    figure.update_yaxes(title="B N / T_latency [tokens/s]", rangemode="tozero")
    return figure


def latency_figure(data: Batching) -> go.Figure:
    """Draw the time of one batch against the micro-batches at which the plan fits."""
    figure = base_figure(270, "latency")
    _fitting_lines(figure, data, data.latency_seconds, COMPARED[0], "s")
    _mark_crossing(figure, data)
    figure.update_yaxes(
        title="T_latency [s]",
        type="log",
        tickvals=SECOND_TICKS,
        ticktext=[tick_text(seconds) for seconds in SECOND_TICKS],
    )
    return figure


def _fitting_lines(
    figure: go.Figure, data: Batching, values: tuple[float, ...], look: Look, unit: str
) -> None:
    points = range(len(values))
    figure.add_scatter(
        x=[data.micro_batch[i] for i in points],
        y=[values[i] if data.fits[i] else None for i in points],
        mode="lines+markers",
        line=look.line,
        marker={"size": 5},
        showlegend=False,
        customdata=[
            f"micro-batch {data.micro_batch[i]}, B = {data.batch[i]:,.0f}: {human(values[i], unit)}"
            if data.fits[i]
            else f"micro-batch {data.micro_batch[i]} does not fit"
            for i in points
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(title="decode micro-batch [requests]", type="log", tickvals=LOG_TICKS)


def _mark_crossing(figure: go.Figure, data: Batching) -> None:
    if data.crossing is not None:
        figure.add_vline(x=data.crossing, line={"dash": "dash", "color": KV_CACHE})
