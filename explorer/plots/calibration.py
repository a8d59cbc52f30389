"""Predicted over measured before and after a calibration."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.fidelity.calibration import Calibration
from explorer.plots.fidelity import Parity, ParityPoint, axis_unit, parity_figure, parity_point

MOST_ROWS = 90
"""Each row is two marks, and a chart should stay under 200."""


class BeforeAfter(NamedTuple):
    """The rows with the chip as it was, and with the fitted constants."""

    before: tuple[ParityPoint, ...]
    after: Parity


def before_after(calibration: Calibration, most: int = MOST_ROWS) -> BeforeAfter:
    """Return the used rows twice, those that were worst before first when there are too many."""
    used = sorted(calibration.used, key=lambda row: -abs(row.error(row.before) or 0.0))
    drawn = used[:most]
    before = tuple(parity_point(row.measurement, row.before or 0.0, "before") for row in drawn)
    after = tuple(parity_point(row.measurement, row.after or 0.0, "calibrated") for row in drawn)
    unit = axis_unit([row.measurement for row in drawn])
    return BeforeAfter(before, Parity(after, unit, len(used) - len(drawn)))


def before_after_figure(data: BeforeAfter) -> go.Figure:
    """Draw the rows before (thin crosses) and after, log axes, with the ±10 % band."""
    return parity_figure(data.after, data.before, height=340)
