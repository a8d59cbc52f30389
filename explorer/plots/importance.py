"""How much each choice of a plan explains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import significant
from explorer.plots.palette import PLUM
from explorer.plots.style import base_figure

ROW_PIXELS, FRAME_PIXELS = 36, 70


class Share(NamedTuple):
    """One choice: its name and the part that it explains, 0 to 1."""

    label: str
    share: float


def importance_figure(shares: Sequence[Share], title: str) -> go.Figure:
    """Draw the shares as bars, in the order given from the top."""
    figure = base_figure(FRAME_PIXELS + ROW_PIXELS * len(shares), "importance")
    figure.add_bar(
        orientation="h",
        y=[item.label for item in shares],
        x=[100 * item.share for item in shares],
        marker={"color": PLUM},
        text=[f"{significant(100 * item.share)} %" for item in shares],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y} explains %{text}<extra></extra>",
    )
    most = max((100 * item.share for item in shares), default=1.0)
    figure.update_xaxes(title=title, ticksuffix=" %", range=[0, 1.15 * most or 1.0])
    figure.update_yaxes(autorange="reversed")
    return figure
