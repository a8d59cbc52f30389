"""What launches take of a pass, and how evenly attention spreads over the DSPs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.scenario import Scenario, knob_at
from explorer.costs.arrays import Array
from explorer.costs.terms import Bound, Stage
from explorer.plots.palette import COMPARED, NEUTRAL
from explorer.plots.style import base_figure
from explorer.serving.evaluate import evaluate

PERCENT = 100
LAUNCH_MODES = {
    "per_head": ("each head", COMPARED[2]),
    "per_operator": ("each operator", COMPARED[1]),
    "unified": ("one a pass", COMPARED[0]),
}
LAST_POWER = {"batch": 9, "prompt": 14}
"""Powers of two up to 512 requests and 16 384 tokens."""
TITLES = {"batch": "micro-batch [requests]", "prompt": "prompt [tokens]"}
UNITS = {"batch": "requests", "prompt": "tokens"}
TICKS = [4**power for power in range(8)]


class LaunchLine(NamedTuple):
    """One launch mode: share of a pass that launches take, at each size that fits."""

    mode: str
    sizes: tuple[int, ...]
    shares: tuple[float, ...]


class LaunchShares(NamedTuple):
    """Lines of the three modes, against ``batch`` or ``prompt``."""

    against: str
    decode: bool
    lines: tuple[LaunchLine, ...]


def launch_seconds(stage: Stage) -> Array:
    """Return the launches of one pass [s]."""
    return stage.seconds_by_bound().get(Bound.LAUNCH, np.zeros(()))


def launch_data(scenario: Scenario, decode: bool, against: str) -> LaunchShares:
    """Return each mode's share of a pass against that pool's micro-batch or the prompt.

    Sizes at which the plan does not fit are left out.
    """
    pool = "decode" if decode else "prefill"
    path = f"plan.micro_batch_{pool}" if against == "batch" else "workload.prompt_tokens"
    knob = knob_at(scenario, path)
    powers = (2**power for power in range(LAST_POWER[against] + 1))
    sizes = tuple(size for size in powers if knob is None or size <= knob.maximum)
    lines = []
    for mode in LAUNCH_MODES:
        changes = {"kernel.launch": mode, path: np.asarray(sizes)}
        evaluation = evaluate(scenario.replacing(changes))
        stage = evaluation.decode_stage if decode else evaluation.prefill_stage
        shares = np.broadcast_to(launch_seconds(stage) / stage.seconds, len(sizes))
        fits = np.broadcast_to(evaluation.feasible, len(sizes))
        kept = [(size, float(s)) for size, s, fit in zip(sizes, shares, fits, strict=True) if fit]
        lines.append(
            LaunchLine(mode, tuple(size for size, _ in kept), tuple(share for _, share in kept))
        )
    return LaunchShares(against, decode, tuple(lines))


def launch_figure(data: LaunchShares) -> go.Figure:
    """Draw the share of a pass that launches take, one line a mode."""
    figure = base_figure(270, f"launches {data.against}")
    for line in data.lines:
        name, look = LAUNCH_MODES[line.mode]
        figure.add_scatter(
            x=line.sizes,
            y=[PERCENT * share for share in line.shares],
            mode="lines+markers",
            name=name,
            line=look.line,
            marker={"size": 6, "symbol": look.symbol},
            hovertemplate=(
                f"launches for {name} take %{{y:.3g}} % at %{{x:,}} {UNITS[data.against]}"
                "<extra></extra>"
            ),
        )
    figure.update_xaxes(title=TITLES[data.against], type="log", tickvals=TICKS)
    what = "decode step" if data.decode else "prefill pass"
    figure.update_yaxes(title=f"share of a {what}", ticksuffix=" %", rangemode="tozero")
    return figure


class Balance(NamedTuple):
    """Share of DSP time that works in attention, for each number of requests."""

    requests: tuple[int, ...]
    by_head: tuple[float, ...]
    by_rows: tuple[float, ...]


def balance_figure(balance: Balance) -> go.Figure:
    """Draw whole heads against row blocks as what goes round the DSPs."""
    figure = base_figure(270, "balance")
    lines = (
        ("whole heads", balance.by_head, COMPARED[1]),
        ("row blocks", balance.by_rows, COMPARED[0]),
    )
    for name, shares, look in lines:
        figure.add_scatter(
            x=balance.requests,
            y=[PERCENT * share for share in shares],
            mode="lines+markers",
            name=name,
            line=look.line,
            marker={"size": 6, "symbol": look.symbol},
            hovertemplate=f"{name} keep %{{y:.3g}} % busy with %{{x}} requests<extra></extra>",
        )
    figure.update_xaxes(title="requests attended to together", dtick=4)
    figure.update_yaxes(title="DSP time that works", ticksuffix=" %", range=[0, 1.05 * PERCENT])
    figure.add_hline(y=PERCENT, line={"dash": "dot", "color": NEUTRAL})
    return figure
