"""Predicted over measured: one mark a row, within the band or outside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.errors import InputError
from explorer.config.presets import load_chip
from explorer.config.units import human
from explorer.fidelity.report import Row
from explorer.plots.style import BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, YELLOW, base_figure

MOST_POINTS = 200
BAND = 0.1
LABELS = {
    "gemm_latency": "matrix products",
    "attention_latency": "attention",
    "serving_throughput": "serving rate",
    "prefill_throughput": "prefill rate",
    "decode_throughput": "decode rate",
    "decode_step_time": "decode step time",
    "phase_time": "prefill phases",
    "all_reduce_time": "all-reduce time",
    "ablation_gated_delta": "recurrence kernel",
}
MARKS = {
    "gemm_latency": (BLUE, "circle"),
    "attention_latency": (ORANGE, "square"),
    "serving_throughput": (RED, "diamond"),
    "prefill_throughput": (GREEN, "triangle-up"),
    "decode_throughput": (PINK, "triangle-down"),
    "decode_step_time": (PINK, "star"),
    "phase_time": (SKY, "cross"),
    "all_reduce_time": (YELLOW, "x"),
    "ablation_gated_delta": (GREY, "hexagon"),
}
UNIT_OF = {"time": "s", "rate": "tokens/s"}
NAME_OF_UNIT = {"s": "times", "tokens/s": "rates"}
OTHER_MARK = (GREY, "circle-open")


class ParityPoint(NamedTuple):
    """One row: what was measured [s or tokens/s], and the model's value over it."""

    quantity: str
    chip: str
    measured: float
    ratio: float
    text: str


class Parity(NamedTuple):
    """Rows to draw, the unit of their values, and how many rows did not find room."""

    points: tuple[ParityPoint, ...]
    unit: str
    left_over: int


def parity_data(rows: Sequence[Row], most: int = MOST_POINTS) -> Parity:
    """Return the rows that have a prediction, the worst first when there are too many."""
    modelled = [row for row in rows if row.prediction is not None and row.error is not None]
    worst = sorted(modelled, key=lambda row: -abs(row.error or 0.0))
    units = {UNIT_OF[row.measurement.dimension] for row in worst if row.measurement.dimension}
    points = tuple(_point(row) for row in worst[:most])
    return Parity(points, _axis_unit(units), max(len(worst) - most, 0))


def parity_figure(data: Parity) -> go.Figure:
    """Draw predicted / measured over measured, log axes, with the ±10 % band."""
    figure = base_figure(380, "parity")
    figure.add_hrect(1 - BAND, 1 + BAND, fillcolor=GREEN, opacity=0.15, line_width=0)
    figure.add_hline(1, line={"color": GREY, "width": 1})
    for quantity, chip in dict.fromkeys((point.quantity, point.chip) for point in data.points):
        points = [
            point for point in data.points if (point.quantity, point.chip) == (quantity, chip)
        ]
        colour, symbol = MARKS.get(quantity, OTHER_MARK)
        figure.add_scatter(
            x=[point.measured for point in points],
            y=[point.ratio for point in points],
            mode="markers",
            name=_untagged(quantity_label(quantity, (chip,))),
            marker={"color": colour, "symbol": symbol, "size": 9, "opacity": 0.85},
            customdata=[point.text for point in points],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title=f"measured [{data.unit}]", type="log", dtick=1, exponentformat="SI")
    ratios = [point.ratio for point in data.points]
    low, high = min([*ratios, 0.5]), max([*ratios, 2.0])
    ticks = [tick for tick in TICKS if low / 2 <= tick <= high * 2]
    figure.update_yaxes(
        title="predicted / measured",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    return figure


def _axis_unit(units: set[str]) -> str:
    if len(units) <= 1:
        return "".join(units)
    return ", ".join(f"{NAME_OF_UNIT[unit]} in {unit}" for unit in sorted(units))


TICKS = (0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.1, 1.5, 2, 3, 5, 10, 100)


def quantity_label(quantity: str, chips: Sequence[str] = ()) -> str:
    """Return a quantity's name for people, and on which chips it was measured."""
    name = LABELS.get(quantity, quantity.replace("_", " "))
    return f"{name} on the {' and the '.join(map(chip_label, chips))}" if chips else name


def chip_label(chip: str) -> str:
    """Return a chip's name; of one that is no preset, its id."""
    try:
        return load_chip(chip).name
    except InputError:
        return chip


def _untagged(text: str) -> str:
    """Return text as Plotly shows it: it reads a subset of HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _point(row: Row) -> ParityPoint:
    m = row.measurement
    unit = UNIT_OF[m.dimension] if m.dimension else ""
    predicted = row.prediction.value if row.prediction is not None else 0.0
    values = f"measured {human(m.si_value, unit)}, predicted {human(predicted, unit)}"
    text = f"{_untagged(m.id)}: {values}, {100 * (row.error or 0.0):+.1f} %"
    return ParityPoint(m.quantity, m.chip, m.si_value, 1 + (row.error or 0.0), text)
