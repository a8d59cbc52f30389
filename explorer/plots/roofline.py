"""Roofline: the roofs of the chip and a point for every operator of prefill and decode."""

from __future__ import annotations

import math
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.costs.arrays import scalar
from explorer.costs.roofline import attainable_macs_per_second, intensity_threshold
from explorer.costs.terms import Bound, Term
from explorer.costs.tiling import Tile
from explorer.plots.palette import CAPACITY, NEUTRAL, Dash
from explorer.plots.style import (
    COLOUR_OF_BOUND,
    NAME_OF_BOUND,
    SYMBOL_OF_COLOUR,
    base_figure,
    resource,
    words,
)
from explorer.serving.evaluate import Evaluation

OPEN = {"prefill": "", "decode": "-open"}
FAR_RIGHT = 5
"""Ratio to a roof's bend from which a label below the flat roof keeps off the sloping one."""
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")


class Point(NamedTuple):
    """One operator: its intensity, the rate it reaches, and what binds it."""

    pool: str
    name: str
    intensity: float
    macs_per_second: float
    seconds: float
    bound: Bound


class RoofLine(NamedTuple):
    """One roof as three corners, and the intensity where it turns flat."""

    name: str
    intensities: tuple[float, ...]
    macs_per_second: tuple[float, ...]
    threshold: float


class Roofline(NamedTuple):
    """Everything that the chart shows."""

    roofs: tuple[RoofLine, ...]
    points: tuple[Point, ...]
    tile: Point | None


def roofline_data(evaluation: Evaluation, tile: Tile | None) -> Roofline:
    """Return roofs, operators of one pass of each pool, and the best single-level tile."""
    points = [
        point
        for pool, stage in (
            ("prefill", evaluation.prefill_stage),
            ("decode", evaluation.decode_stage),
        )
        for term in stage.terms
        if (point := _point(pool, term)) is not None
    ]
    tile_point = _tile_point(evaluation, tile)
    intensities = [point.intensity for point in points]
    thresholds = [
        float(intensity_threshold(roof.peak_macs_per_second, roof.bandwidth_bytes_per_second))
        for roof in evaluation.machine.roofs
    ]
    low = 10 ** math.floor(math.log10(min([*intensities, 0.5])))
    high = 10 ** math.ceil(math.log10(max([*intensities, *thresholds]) * 1.5))
    roofs = []
    for roof, threshold in zip(evaluation.machine.roofs, thresholds, strict=True):
        corners = (low, threshold, high)
        rates = tuple(
            float(
                attainable_macs_per_second(
                    scalar(corner), roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
                )
            )
            for corner in corners
        )
        roofs.append(RoofLine(roof.name, corners, rates, threshold))
    return Roofline(tuple(roofs), tuple(points), tile_point)


def roofline_figure(data: Roofline) -> go.Figure:
    """Draw the chart on log axes; hover reads as a sentence."""
    figure = base_figure(430, "roofline")
    for roof, dash in zip(data.roofs, DASHES, strict=False):
        figure.add_scatter(
            x=roof.intensities,
            y=roof.macs_per_second,
            mode="lines",
            name=f"{roof.name} roof",
            line={"color": NEUTRAL, "dash": dash, "width": 2},
            hovertemplate=(
                f"{roof.name}: at most {human(roof.macs_per_second[-1], 'MAC/s')}, "
                f"from {significant(roof.threshold)} MAC/B on<extra></extra>"
            ),
        )
    longest = {
        max((p for p in data.points if p.pool == pool), key=lambda p: p.seconds, default=None)
        for pool in OPEN
    }
    flat_from = max((roof.threshold for roof in data.roofs), default=0.0)
    for name in dict.fromkeys(resource(point.bound) for point in data.points):
        mine = [point for point in data.points if resource(point.bound) == name]
        _add_points(figure, mine, name, longest, flat_from)
    if data.tile is not None:
        figure.add_scatter(
            x=[data.tile.intensity],
            y=[data.tile.macs_per_second],
            mode="markers",
            name="single-level tile, FP32",
            marker={"symbol": "hourglass", "size": 13, "color": CAPACITY},
            hovertemplate=(
                f"{data.tile.name}: {significant(data.tile.intensity)} MAC/B, at most "
                f"{human(data.tile.macs_per_second, 'MAC/s')}<extra></extra>"
            ),
        )
    figure.update_xaxes(type="log", title="intensity [MAC/B]", dtick=1)
    figure.update_yaxes(
        type="log", title="rate [MAC/s] (1 MAC = 2 FLOP)", exponentformat="SI", dtick=1
    )
    return figure


def _add_points(
    figure: go.Figure,
    points: list[Point],
    name: str,
    longest: set[Point | None],
    flat_from: float,
) -> None:
    colour = COLOUR_OF_BOUND[points[0].bound]
    symbol = SYMBOL_OF_COLOUR[colour]
    figure.add_scatter(
        x=[point.intensity for point in points],
        y=[point.macs_per_second for point in points],
        mode="markers+text",
        name=name,
        marker={
            "symbol": [symbol + OPEN[point.pool] for point in points],
            "size": 12,
            "color": colour,
            "line": {"width": 2, "color": colour},
        },
        text=[words(point.name) if point in longest else "" for point in points],
        textposition=[_label_place(point, flat_from) for point in points],
        customdata=[
            f"{point.pool} {words(point.name)}: {human(point.macs_per_second, 'MAC/s')} at "
            f"{significant(point.intensity)} MAC/B, {human(point.seconds, 's')} a pass, "
            f"bound by {NAME_OF_BOUND[point.bound]}"
            for point in points
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _label_place(point: Point, flat_from: float) -> str:
    """Return on which side of an operator its name is off the roofs, which bend at the latest."""
    if point.intensity >= FAR_RIGHT * flat_from:
        return "bottom center"
    return "top left" if point.pool == "prefill" else "bottom right"


def _point(pool: str, term: Term) -> Point | None:
    macs, moved, seconds = float(term.macs), float(term.bytes), float(term.busy_seconds)
    if macs <= 0 or moved <= 0 or seconds <= 0:
        return None
    return Point(pool, term.name, macs / moved, macs / seconds, seconds, Bound(int(term.bound_by)))


def _tile_point(evaluation: Evaluation, tile: Tile | None) -> Point | None:
    if tile is None:
        return None
    roof = evaluation.machine.roofs[0]
    rate = attainable_macs_per_second(
        scalar(tile.intensity), roof.peak_macs_per_second, roof.bandwidth_bytes_per_second
    )
    name = f"best single-level tile {tile.m} × {tile.k} × {tile.n}"
    return Point("tile", name, tile.intensity, float(rate), 0.0, Bound.ACTIVATIONS)
