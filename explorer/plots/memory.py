"""Memory budget: what fills each kind of cluster, and the scratchpads of the tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import BINARY_BYTES, human, significant
from explorer.costs.memory import MemoryBudget
from explorer.costs.tiling import Tile
from explorer.plots.palette import CAPACITY, KV_CACHE, NEUTRAL, WEIGHTS, text_on
from explorer.plots.style import (
    ASSUMED_KINDS,
    ASSUMED_SHAPE,
    SMALLEST_TEXT,
    add_assumed_key,
    base_figure,
    hatched,
)
from explorer.serving.evaluate import Evaluation

FULL = 100.0
PERCENT_A_LETTER = 4.5
"""Share of a capacity that a letter takes where the page is narrow and no bar is above 100 %."""
ROOM_FOR_TEXT = 1.45
LEGEND_AND_AXIS = 130
"""Height of three lines of a legend and of the axis [px]; with less they overlap."""
OVERHEAD = "runtime overhead"
PARTS = (
    ("weights", WEIGHTS, ""),
    ("KV cache", KV_CACHE, ""),
    ("recurrent state", KV_CACHE, "."),
    (OVERHEAD, NEUTRAL, ""),
    ("largest stage's surplus", WEIGHTS, "x"),
    ("tile", CAPACITY, ""),
)
"""Parts in the order they are stacked, with colour and pattern."""


class Bar(NamedTuple):
    """One bar: a capacity, the bytes of each part that fill it, and which parts are assumed."""

    name: str
    limit_bytes: float
    parts: dict[str, float]
    unit: str = "B"
    assumed: frozenset[str] = frozenset()

    @property
    def total_bytes(self) -> float:
        """All parts."""
        return sum(self.parts.values())


def memory_bars(evaluation: Evaluation, tile: Tile | None) -> tuple[Bar, ...]:
    """Return the bars of a single plan: pools, buffer, and SM and AM of the best tile."""
    unit = evaluation.inputs.scenario.chip_document().unit_name
    assumed = _assumed_parts(evaluation)
    bars = [_budget_bar(f"decode {unit}", evaluation.decode_memory, assumed)]
    if evaluation.inputs.shared:
        bars = [_budget_bar(unit, evaluation.decode_memory, assumed)]
    else:
        bars.insert(0, _budget_bar(f"prefill {unit}", evaluation.prefill_memory, assumed))
        clusters = float(evaluation.buffer_clusters)
        limit = clusters * float(evaluation.limit_bytes)
        kv_bytes = min(float(evaluation.buffer_kv_bytes), limit) if limit else 0.0
        name = f"buffer, {human(clusters, unit + ('' if clusters == 1 else 's'))}"
        bars.append(Bar(name, limit, {"KV cache": kv_bytes}))
    if tile is not None:
        scenario = evaluation.inputs.scenario
        for name, used in (("sm_bytes", tile.sm_bytes), ("am_bytes", tile.am_bytes)):
            capacity = float(scenario.value(f"hardware.{name}"))
            label = f"tile in {name[:2].upper()}"
            bars.append(Bar(label, capacity, {"tile": float(used)}, BINARY_BYTES))
    return tuple(bars)


def memory_figure(bars: tuple[Bar, ...]) -> go.Figure:
    """Draw the bars as shares of their limits; 100 % is full."""
    figure = base_figure(LEGEND_AND_AXIS + 44 * len(bars), "memory")
    names = [bar.name for bar in bars]
    add_parts(figure, names, bars)
    for bar in bars:
        used, limit = human(bar.total_bytes, bar.unit), human(bar.limit_bytes, bar.unit)
        figure.add_annotation(
            y=bar.name,
            x=max(_share(bar.total_bytes, bar), FULL),
            text=f"{used} of {limit}",
            showarrow=False,
            xanchor="left",
            xshift=8,
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(
        title="share of capacity", ticksuffix=" %", range=[0, _widest(bars) * ROOM_FOR_TEXT]
    )
    figure.update_yaxes(autorange="reversed", title=None)
    return figure


def add_parts(figure: go.Figure, labels: Sequence[str], bars: Sequence[Bar]) -> None:
    """Add to a figure the parts of some bars as shares of their limits.

    Args:
        figure: horizontal bars, stacked.
        labels: where each bar stands.
        bars: as many.
    """
    a_letter = PERCENT_A_LETTER * _widest(bars) / FULL
    for part, colour, shape in PARTS:
        sizes = [bar.parts.get(part, 0.0) for bar in bars]
        if not any(sizes):
            continue
        shares = [_share(size, bar) for size, bar in zip(sizes, bars, strict=True)]
        figure.add_bar(
            y=labels,
            x=shares,
            orientation="h",
            name=part,
            marker={
                "color": colour,
                "pattern": {
                    **hatched(colour, ""),
                    "shape": [ASSUMED_SHAPE if part in bar.assumed else shape for bar in bars],
                },
            },
            text=[part if share >= a_letter * len(part) else "" for share in shares],
            textposition="inside",
            textangle=0,
            insidetextanchor="middle",
            insidetextfont={"color": text_on(colour), "size": SMALLEST_TEXT},
            constraintext="none",
            customdata=[
                f"{label}: {part} takes {human(size, bar.unit)} of "
                f"{human(bar.limit_bytes, bar.unit)}, {significant(share)} %"
                for label, size, share, bar in zip(labels, sizes, shares, bars, strict=True)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    if any(bar.parts.get(part) for bar in bars for part in bar.assumed):
        add_assumed_key(figure)
    figure.add_vline(x=FULL, line={"dash": "dash", "width": 2, "color": CAPACITY})


def _share(size: float, bar: Bar) -> float:
    return 100 * size / bar.limit_bytes if bar.limit_bytes else 0.0


def _widest(bars: Sequence[Bar]) -> float:
    """Return the length of the longest bar, or of a full one if that is longer [%]."""
    return max((FULL, *(_share(bar.total_bytes, bar) for bar in bars)))


def _assumed_parts(evaluation: Evaluation) -> frozenset[str]:
    scenario = evaluation.inputs.scenario
    number = scenario.chip_document().quantities.get("overhead_bytes")
    if number is None or "overhead_bytes" in scenario.hardware:
        return frozenset()
    return frozenset({OVERHEAD}) if number.kind in ASSUMED_KINDS else frozenset()


def _budget_bar(name: str, budget: MemoryBudget, assumed: frozenset[str]) -> Bar:
    return Bar(
        name,
        float(budget.limit_bytes),
        {
            "weights": float(budget.params_bytes),
            "KV cache": float(budget.kv_bytes),
            "recurrent state": float(budget.state_bytes),
            OVERHEAD: float(budget.overhead_bytes),
            "largest stage's surplus": float(budget.imbalance_bytes),
        },
        assumed=assumed,
    )
