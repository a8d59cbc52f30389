"""Utilisation of micro-kernels against the depth K2 that one call runs over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.costs.kernel import KernelPlan
from explorer.plots.palette import NEUTRAL, look
from explorer.plots.style import base_figure

DEPTHS = tuple(
    float(depth) for depth in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
)
PERCENT = 100


class Utilisation(NamedTuple):
    """One kernel: shares of its multiply-add slots at each of ``DEPTHS``."""

    name: str
    shares: tuple[float, ...]


def utilisation_data(plans: dict[str, KernelPlan]) -> tuple[Utilisation, ...]:
    """Return the utilisation of each kernel against K2, ramp included."""
    depths = np.asarray(DEPTHS)
    return tuple(
        Utilisation(name, tuple(float(share) for share in plan.utilisation_at(depths)))
        for name, plan in plans.items()
    )


def utilisation_figure(lines: tuple[Utilisation, ...], chosen_depth: float) -> go.Figure:
    """Draw a line a kernel, and the depth that the chip uses."""
    figure = base_figure(330, "utilisation")
    for index, line in enumerate(lines):
        figure.add_scatter(
            x=DEPTHS,
            y=[PERCENT * share for share in line.shares],
            mode="lines",
            name=line.name,
            line=look(index).line,
            hovertemplate=(
                f"{line.name} uses %{{y:.3g}} % of the slots at K2 = %{{x:,}}<extra></extra>"
            ),
        )
    figure.add_vline(x=chosen_depth, line={"dash": "dot", "color": NEUTRAL})
    figure.update_xaxes(
        title="K2, steps of K in one call (dotted: in use)",
        type="log",
        tickvals=[8, 32, 128, 512, 2048],
    )
    figure.update_yaxes(
        title="multiply-add slots used", ticksuffix=" %", range=[0, PERCENT], nticks=6
    )
    return figure
