"""A map over two sliders: the answer as colour, what limits it as regions, misfits hatched.

Cells have the same size whatever the sliders' scales are, so that the map is one picture, and
outlines and hatching are one path each: a chart that follows a slider has few elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.costs.arrays import Codes
from explorer.costs.terms import Bound
from explorer.plots.palette import NEUTRAL
from explorer.plots.style import NAME_OF_BOUND, PRESENT_MARK, base_figure, untagged
from explorer.search.space_map import FITS, SEVERAL, MapAxis, SpaceMap
from explorer.serving.constraints import CONSTRAINTS
from explorer.serving.evaluate import DECODE_CODE_OFFSET

TICKS, MOST_UP = 8, 12
SMALLEST_NAMED = 0.025
"""Share of the map from which a region is named on it."""

LETTER_WIDTH, NAME_HEIGHT = 0.023, 0.1
"""Part of a map on a narrow page that a letter takes along it, and a name up it."""

REASON_WORDS = {
    "context": "context too short",
    "prefill_memory": "prefill memory",
    "decode_memory": "decode memory",
    "buffer": "buffer too small",
    "clusters": "too few clusters",
    "placement": "placement",
    "tile": "tile larger than its memory",
    "ttft": "first token too late",
    "tpot": "output tokens too slow",
    "budget": "over the budget",
}
SEVERAL_WORDS = "no plan fits"
MISFIT = 1000
"""Added to a reason, so that it is a region beside those of the limits."""

Stroke = tuple[float, float, float, float]
STROKES: dict[str, tuple[Stroke, ...]] = {
    "/": ((-0.5, -0.5, 0.5, 0.5),),
    "\\": ((-0.5, 0.5, 0.5, -0.5),),
    "-": ((-0.5, 0.0, 0.5, 0.0),),
    "|": ((0.0, -0.5, 0.0, 0.5),),
    "x": ((-0.5, -0.5, 0.5, 0.5), (-0.5, 0.5, 0.5, -0.5)),
}
HATCHES = tuple(STROKES)
"""Strokes within a cell (x, y to x, y) that mark a reason, in the order they are used."""


class Region(NamedTuple):
    """One region: its code, its name, its cells, and where its name is written (x, y)."""

    code: int
    name: str
    cells: int
    at: tuple[int, int]


def region_codes(found: SpaceMap) -> Codes:
    """Return one code a cell [y, x]: what limits it, or ``MISFIT`` and more where nothing fits."""
    return np.where(found.reasons == FITS, found.limits, MISFIT + 2 + found.reasons)


def regions(found: SpaceMap) -> tuple[Region, ...]:
    """Return the regions, the largest first; each is named at one of its cells.

    That is near its middle, but on no other name's row close to it, nor on the sliders' row.
    """
    codes = region_codes(found)
    counts = {int(code): int(np.count_nonzero(codes == code)) for code in np.unique(codes)}
    height, width = codes.shape
    taken: list[tuple[int, int]] = []
    if found.x.now is not None and found.y.now is not None:
        taken.append((found.x.now, found.y.now))
    result = []
    for code in sorted(counts, key=lambda code: -counts[code]):
        rows, columns = np.nonzero(codes == code)
        away = (
            np.abs(rows - np.median(rows)) / height + np.abs(columns - np.median(columns)) / width
        )
        room = _name_width(region_name(code)) * width
        for x, y in taken:
            near = (np.abs(columns - x) < room) & (np.abs(rows - y) < max(1, NAME_HEIGHT * height))
            away = away + near
        at = int(away.argmin())
        place = (int(columns[at]), int(rows[at]))
        if counts[code] >= SMALLEST_NAMED * codes.size:
            taken.append(place)
        result.append(Region(code, region_name(code), counts[code], place))
    return tuple(result)


def region_name(code: int) -> str:
    """Return the name of a region, such as ``decode: weights`` or ``prefill memory``."""
    if code >= MISFIT:
        reason = code - MISFIT - 2
        return SEVERAL_WORDS if reason == SEVERAL else REASON_WORDS[CONSTRAINTS[reason]]
    pool = "decode" if code >= DECODE_CODE_OFFSET else "prefill"
    return f"{pool}: {NAME_OF_BOUND[Bound(code % DECODE_CODE_OFFSET)]}"


def _name_width(name: str) -> float:
    """Return the part of the map that a name takes along it, a line for the pool."""
    return LETTER_WIDTH * max(map(len, _name_lines(name)))


def _name_lines(name: str) -> list[str]:
    pool, colon, rest = name.partition(": ")
    return [f"{pool}:", rest] if colon else [name]


def map_figure(found: SpaceMap) -> go.Figure:
    """Draw the map."""
    figure = base_figure(520, "space_map")
    codes = region_codes(found)
    _add_values(figure, found, codes)
    _add_hatching(figure, codes)
    _add_outlines(figure, codes)
    _add_names(figure, found)
    _add_present(figure, found)
    figure.update_xaxes(
        title=untagged(found.x.label),
        **_ticks(found.x, TICKS),
        range=[-0.5, len(found.x.values) - 0.5],
    )
    figure.update_yaxes(
        title=untagged(found.y.label),
        **_ticks(found.y, MOST_UP),
        range=[-0.5, len(found.y.values) - 0.5],
    )
    figure.update_xaxes(showgrid=False, zeroline=False)
    figure.update_yaxes(showgrid=False, zeroline=False)
    return figure


def outline(codes: Codes) -> str:
    """Return the edges between cells of different codes as one SVG path; empty without any."""
    strokes: list[Stroke] = []
    rows, columns = np.nonzero(codes[:, 1:] != codes[:, :-1])
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        strokes.append((column + 0.5, row - 0.5, column + 0.5, row + 0.5))
    rows, columns = np.nonzero(codes[1:] != codes[:-1])
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        strokes.append((column - 0.5, row + 0.5, column + 0.5, row + 0.5))
    return _path(strokes)


def hatching(cells: Iterable[tuple[int, int]], shape: str) -> str:
    """Return strokes across some cells (row, column) as one SVG path."""
    strokes = [
        (column + x0, row + y0, column + x1, row + y1)
        for row, column in cells
        for x0, y0, x1, y1 in STROKES[shape]
    ]
    return _path(strokes)


def _path(strokes: Iterable[Stroke]) -> str:
    return "".join(f"M{x0:g},{y0:g}L{x1:g},{y1:g}" for x0, y0, x1, y1 in strokes)


def sentences(found: SpaceMap) -> list[list[str]]:
    """Return for each cell [y, x] what it holds, in one sentence."""
    x, y, codes, unit = found.x, found.y, region_codes(found), found.objective.unit
    names = {int(code): region_name(int(code)) for code in np.unique(codes)}
    across = [untagged(f"{x.label} {human(float(value), x.unit)}") for value in x.values]
    down = [untagged(f"{y.label} {human(float(value), y.unit)}") for value in y.values]

    def holds(code: int, value: float) -> str:
        if code >= MISFIT:
            return f"does not fit, {names[code]}"
        return f"{human(value, unit)}, limited by {names[code]}"

    return [
        [
            f"{across[column]}, {down[row]}:<br>{holds(code, value)}"
            for column, (code, value) in enumerate(zip(line, values, strict=True))
        ]
        for row, (line, values) in enumerate(
            zip(codes.tolist(), found.values.tolist(), strict=True)
        )
    ]


def _add_values(figure: go.Figure, found: SpaceMap, codes: Codes) -> None:
    values = np.where(codes < MISFIT, found.values, np.nan)
    logs = np.log10(np.where(values > 0, values, np.nan))
    known = logs[~np.isnan(logs)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    places = np.linspace(low, high, 5) if high > low else np.array([low])
    figure.add_heatmap(
        z=[[None if math.isnan(value) else value for value in row] for row in logs.tolist()],
        zmin=low,
        zmax=high if high > low else low + 1,
        colorscale="Cividis",
        # Bright is good, whichever way the objective runs.
        reversescale=found.objective.minimised,
        hoverongaps=True,
        customdata=sentences(found),
        hovertemplate="%{customdata}<extra></extra>",
        colorbar={
            "title": {"text": found.objective.unit, "side": "right"},
            "tickvals": places.tolist(),
            "ticktext": [significant(10**place) for place in places.tolist()],
            "thickness": 14,
        },
        showscale=bool(known.size),
    )


def _add_hatching(figure: go.Figure, codes: Codes) -> None:
    misfits = [int(code) for code in np.unique(codes) if code >= MISFIT]
    for number, code in enumerate(misfits):
        shape = HATCHES[number % len(HATCHES)]
        rows, columns = np.nonzero(codes == code)
        cells = zip(rows.tolist(), columns.tolist(), strict=True)
        figure.add_shape(
            type="path",
            path=hatching(cells, shape),
            line={"color": NEUTRAL, "width": 1},
        )
        # A path's own entry in the legend is a hexagon, which says nothing.
        figure.add_scatter(
            x=[None],
            y=[None],
            mode="lines",
            name=f"does not fit: {region_name(code)} ({shape})",
            line={"color": NEUTRAL, "width": 1},
        )


def _add_outlines(figure: go.Figure, codes: Codes) -> None:
    path = outline(codes)
    for colour, width in (("white", 4), ("black", 1.5)) if path else ():
        figure.add_shape(type="path", path=path, line={"color": colour, "width": width})


def _add_names(figure: go.Figure, found: SpaceMap) -> None:
    last = len(found.x.values) - 1
    for region in regions(found):
        if region.cells >= SMALLEST_NAMED * found.values.size:
            # A name at an edge would lie on the axis.
            half = min(_name_width(region.name), 1) * last / 2
            figure.add_annotation(
                x=min(max(region.at[0], half), last - half),
                y=region.at[1],
                text="<br>".join(_name_lines(region.name)),
                showarrow=False,
                font={"size": 12, "color": "black"},
                bgcolor="rgba(255,255,255,0.82)",
                borderpad=2,
            )


def _add_present(figure: go.Figure, found: SpaceMap) -> None:
    if found.x.now is None or found.y.now is None:
        return
    figure.add_scatter(
        x=[found.x.now],
        y=[found.y.now],
        mode="markers",
        name="the sliders",
        marker=PRESENT_MARK,
        customdata=[sentences(found)[found.y.now][found.x.now]],
        hovertemplate="the sliders: %{customdata}<extra></extra>",
    )


def _ticks(axis: MapAxis, most: int) -> dict[str, Sequence[object]]:
    count = len(axis.values)
    places = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
    return {
        "tickvals": places.tolist(),
        "ticktext": [
            untagged(human(float(axis.values[place]), axis.unit)) for place in places.tolist()
        ],
    }
