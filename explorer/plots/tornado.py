"""A tornado: how far the answer moves when one slider is halved or doubled, the rest fixed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import human, significant
from explorer.plots.palette import STEEL, TAN
from explorer.plots.style import (
    ASSUMED_KINDS,
    PLAN_SHAPE,
    SMALLEST_TEXT,
    base_figure,
    hatched,
    untagged,
)
from explorer.search.sensitivity import Effect, Outcome, Sensitivity
from explorer.search.sliders import Setting

MOST_ROWS = 12
ROW_PIXELS, FRAME_PIXELS = 36, 110
NOT_FIT = "does not fit"


class Bar(NamedTuple):
    """One bar: its change as a fraction (0 where there is none), what stands beside it, a hover."""

    change: float
    text: str
    sentence: str


class TornadoRow(NamedTuple):
    """One slider: its name, and by series the bar of the lower and of the higher value."""

    label: str
    low: tuple[Bar | None, ...]
    high: tuple[Bar | None, ...]


SERIES = ("plan as it is", "best plan")


def tornado_rows(
    as_is: Sensitivity | None, followed: Sensitivity | None, most: int = MOST_ROWS
) -> tuple[TornadoRow, ...]:
    """Return the sliders with the largest effect in either series, the largest first.

    Either may be None, not both: a plan that does not fit has no answer to move.
    """
    series = [one for one in (as_is, followed) if one is not None]
    spans: dict[str, float] = {}
    for one in series:
        for effect in one.moving:
            path = effect.slider.path
            spans[path] = max(spans.get(path, 0.0), effect.span)
    ranked = sorted(spans, key=lambda path: -spans[path])[:most]
    rows = []
    for path in ranked:
        effects = [None if one is None else one.effect(path) for one in (as_is, followed)]
        known = next(effect for effect in effects if effect is not None)
        rows.append(
            TornadoRow(
                _label(known),
                tuple(_bar(e, None if e is None else e.low) for e in effects),
                tuple(_bar(e, None if e is None else e.high) for e in effects),
            )
        )
    return tuple(rows)


def tornado_figure(rows: Sequence[TornadoRow]) -> go.Figure:
    """Draw two bars a slider and series: the lower value, the higher one; the best plan striped."""
    drawn = [i for i in range(len(SERIES)) if any(row.low[i] or row.high[i] for row in rows)]
    figure = base_figure(FRAME_PIXELS + ROW_PIXELS * max(len(drawn), 1) * len(rows), "tornado")
    labels = [row.label for row in rows]
    for i in drawn:
        for name, colour in (("lower", STEEL), ("higher", TAN)):
            bars = [row.high[i] if name == "higher" else row.low[i] for row in rows]
            figure.add_bar(
                orientation="h",
                y=labels,
                x=[0.0 if bar is None else 100 * bar.change for bar in bars],
                name=f"{name} value, {SERIES[i]}",
                offsetgroup=f"{i}{name}",
                marker={"color": colour, "pattern": hatched(colour, PLAN_SHAPE if i else "")},
                text=["" if bar is None else bar.text for bar in bars],
                textposition="outside",
                textfont={"size": SMALLEST_TEXT},
                constraintext="none",
                cliponaxis=False,
                customdata=[
                    f"{row.label.partition('<br>')[0]}: there is no {name} value"
                    if bar is None
                    else bar.sentence
                    for row, bar in zip(rows, bars, strict=True)
                ],
                hovertemplate="%{customdata}<extra></extra>",
            )
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(title="change of the answer", ticksuffix=" %", **_room(rows))
    figure.update_yaxes(autorange="reversed")
    return figure


def setting_text(setting: Setting, unit: str) -> str:
    """Return where a slider stands, for people."""
    return setting.upper() if isinstance(setting, str) else human(float(setting), unit)


def percent(change: float) -> str:
    """Return a relative change with its sign, such as ``+38 %``; ``-`` for none."""
    if math.isnan(change):
        return "–"
    if abs(change) < LEAST_SHOWN:
        return "0 %"
    return f"{'+' if change > 0 else '−'}{significant(100 * abs(change))} %"


LEAST_SHOWN = 5e-5


def _room(rows: Sequence[TornadoRow]) -> dict[str, object]:
    """Return a range with room for the text beside the longest bars."""
    changes = [100 * bar.change for row in rows for bar in (*row.low, *row.high) if bar is not None]
    low, high = min([*changes, 0.0]), max([*changes, 0.0])
    margin = 0.3 * max(high - low, 1.0)
    return {"range": [low - margin, high + margin]}


def _label(effect: Effect) -> str:
    slider = effect.slider
    ends = [setting_text(end, slider.unit) for end in (slider.low, slider.high) if end is not None]
    kind = f", {slider.kind}" if slider.kind in ASSUMED_KINDS else ""
    return f"{untagged(slider.label)}{kind}<br>{untagged(' or '.join(ends))}"


def _bar(effect: Effect | None, outcome: Outcome | None) -> Bar | None:
    if effect is None or outcome is None:
        return None
    slider = effect.slider
    moved = untagged(
        f"{slider.label} {setting_text(outcome.setting, slider.unit)} instead of "
        f"{setting_text(slider.now, slider.unit)}"
    )
    change = effect.change(outcome)
    if math.isnan(change):
        because = ", ".join(name.replace("_", " ") for name in outcome.broken)
        return Bar(0.0, NOT_FIT, f"{moved}: {NOT_FIT}{f' ({because})' if because else ''}")
    return Bar(change, percent(change), f"{moved}: {percent(change)}")
