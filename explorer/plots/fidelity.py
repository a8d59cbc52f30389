"""Predicted over measured: one mark a row, within the band or outside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.errors import InputError
from explorer.config.presets import load_chip
from explorer.config.units import human, percent
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.report import Row
from explorer.plots.palette import MOSS, NEUTRAL, PLUM, SLATE, STEEL, TAN
from explorer.plots.style import base_figure, untagged

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
    "gemm_latency": (PLUM, "circle"),
    "attention_latency": (STEEL, "square"),
    "serving_throughput": (MOSS, "diamond"),
    "prefill_throughput": (TAN, "triangle-up"),
    "decode_throughput": (SLATE, "triangle-down"),
    "decode_step_time": (PLUM, "hourglass"),
    "phase_time": (STEEL, "cross"),
    "all_reduce_time": (MOSS, "x"),
    "ablation_gated_delta": (TAN, "hexagon"),
}
UNIT_OF = {"time": "s", "rate": "tokens/s"}
NAME_OF_UNIT = {"s": "times", "tokens/s": "rates"}
OTHER_MARK = (SLATE, "pentagon")
BEFORE_SYMBOL = "x-thin-open"


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
    points = tuple(_point(row) for row in worst[:most])
    unit = axis_unit([row.measurement for row in worst])
    return Parity(points, unit, max(len(worst) - most, 0))


def parity_figure(data: Parity, before: Sequence[ParityPoint] = (), height: int = 380) -> go.Figure:
    """Draw predicted / measured over measured, log axes, with the ±10 % band.

    Args:
        data: what is drawn by quantity.
        before: the same rows at another time, drawn as thin grey crosses behind them.
        height: pixels.
    """
    figure = base_figure(height, "parity")
    figure.add_hrect(1 - BAND, 1 + BAND, fillcolor=NEUTRAL, opacity=0.2, line_width=0)
    figure.add_hline(1, line={"color": NEUTRAL, "width": 1})
    if before:
        figure.add_scatter(
            x=[point.measured for point in before],
            y=[point.ratio for point in before],
            mode="markers",
            name="before",
            marker={
                "color": NEUTRAL,
                "symbol": BEFORE_SYMBOL,
                "size": 8,
                "line": {"width": 2, "color": NEUTRAL},
            },
            customdata=[point.text for point in before],
            hovertemplate="%{customdata}<extra></extra>",
        )
    for quantity, chip in dict.fromkeys((point.quantity, point.chip) for point in data.points):
        points = [
            point for point in data.points if (point.quantity, point.chip) == (quantity, chip)
        ]
        colour, symbol = MARKS.get(quantity, OTHER_MARK)
        figure.add_scatter(
            x=[point.measured for point in points],
            y=[point.ratio for point in points],
            mode="markers",
            name=untagged(quantity_label(quantity, (chip,))),
            marker={"color": colour, "symbol": symbol, "size": 9},
            customdata=[point.text for point in points],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title=f"measured [{data.unit}]", type="log", dtick=1, exponentformat="SI")
    ratios = [point.ratio for point in (*data.points, *before)]
    low, high = min([*ratios, 1 - BAND]), max([*ratios, 1 + BAND])
    marks = CLOSE_TICKS if low > CLOSE_TICKS[0] and high < CLOSE_TICKS[-1] else TICKS
    ticks = [tick for tick in marks if low / 2 <= tick <= high * 2]
    figure.update_yaxes(
        title="predicted / measured",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
    )
    return figure


def axis_unit(measurements: Iterable[Measurement]) -> str:
    """Return the unit of an axis of measured values; times and rates may share one."""
    units = {UNIT_OF[m.dimension] for m in measurements if m.dimension}
    if len(units) <= 1:
        return "".join(units)
    return ", ".join(f"{NAME_OF_UNIT[unit]} in {unit}" for unit in sorted(units))


CLOSE_TICKS = (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5)
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


def _point(row: Row) -> ParityPoint:
    predicted = row.prediction.value if row.prediction is not None else 0.0
    return parity_point(row.measurement, predicted, "predicted")


def parity_point(m: Measurement, predicted: float, word: str) -> ParityPoint:
    """Return the mark of a measurement and what is predicted of it [SI].

    Args:
        m: the measured value.
        predicted: the model's.
        word: what the prediction is called.
    """
    unit = UNIT_OF[m.dimension] if m.dimension else ""
    ratio = predicted / m.si_value
    values = f"measured {human(m.si_value, unit)}, {word} {human(predicted, unit)}"
    text = f"{untagged(m.id)}: {values}, {'+' if ratio >= 1 else ''}{percent(ratio - 1)}"
    return ParityPoint(m.quantity, m.chip, m.si_value, ratio, text)
