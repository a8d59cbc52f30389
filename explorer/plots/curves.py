"""Lines over the rows of a prefill pass: few points that follow the true curve, and a mark."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from explorer.config.units import human
from explorer.costs.arrays import Array, Codes
from explorer.plots.palette import NEUTRAL

SHORTEST, LONGEST = 256, 8192
FINE = 600
MOST_TICKS = 7
SAME_CURVE = 1e-3
"""Share of a chart's height within which a line counts as the curve."""
MARGIN = 1.07


def fine_rows(present: int, edges: Sequence[int] = ()) -> Codes:
    """Return many rows from the shortest to the longest pass drawn, and some more.

    Args:
        present: rows of the scenario's own pass; the range reaches to it.
        edges: rows where curves jump; those within the range are among the rows returned.
    """
    low, high = min(SHORTEST, present), max(LONGEST, present)
    spread = np.geomspace(low, high, FINE).round().astype(np.int64)
    inside = [row for row in edges if low <= row <= high]
    found: Codes = np.unique([*spread, *inside, present])
    return found


def thinned(rows: Codes, values: Array, most: int) -> Codes:
    """Return indices of points whose straight lines, over log rows, follow a curve.

    The ends come first; then, again and again, the point that is farthest from the lines, until
    none is off by more than a thousandth of the curve's height or ``most`` points are chosen.
    """
    x, y = np.log(rows), np.asarray(values, dtype=np.float64)
    allowed = SAME_CURVE * max(float(np.ptp(y)), np.finfo(np.float64).tiny)
    chosen = [0, rows.size - 1] if rows.size > 1 else [0]
    away = np.abs(y - np.interp(x, x[chosen], y[chosen]))
    while len(chosen) < min(most, rows.size):
        farthest = int(away.argmax())
        if away[farthest] <= allowed:
            break
        place = bisect(chosen, farthest)
        chosen.insert(place, farthest)
        # Only the lines to its two neighbours are new.
        knees, part = chosen[place - 1 : place + 2], slice(chosen[place - 1], chosen[place + 1] + 1)
        away[part] = np.abs(y[part] - np.interp(x[part], x[knees], y[knees]))
    found: Codes = np.asarray(chosen, dtype=np.int64)
    return found


def log_row_axis(figure: go.Figure, rows: Codes) -> None:
    """Give a figure an axis of rows with powers of two as ticks."""
    low, high = int(rows.min()), int(rows.max())
    powers = np.arange(np.ceil(np.log2(low)), np.floor(np.log2(high)) + 1)
    step = max(int(np.ceil(powers.size / MOST_TICKS)), 1)
    ticks = [int(2**power) for power in powers[::-1][::step][::-1]]
    figure.update_xaxes(
        title="rows of a prefill pass",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:,}" for tick in ticks],
        range=[np.log10(low / MARGIN), np.log10(high * MARGIN)],
    )


def mark_present(figure: go.Figure, rows: int, height: float | None = None) -> None:
    """Draw where the scenario's own pass stands on an axis of rows.

    ``height`` is where words stand, as a share of the picture's, away from the lines; None for
    a chart below one that has them.
    """
    figure.add_vline(rows, line={"color": NEUTRAL, "width": 1, "dash": "dot"})
    if height is None:
        return
    right = rows > np.sqrt(SHORTEST * LONGEST)
    figure.add_annotation(
        x=float(np.log10(rows)),
        y=height,
        yref="paper",
        text=f"now: {human(float(rows), 'rows')}",
        showarrow=False,
        xanchor="right" if right else "left",
        xshift=-4 if right else 4,
        font={"size": 12},
    )
