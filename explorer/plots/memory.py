"""Memory budget: what fills each kind of cluster, and the scratchpads of the tile."""

from __future__ import annotations

from typing import NamedTuple

import plotly.graph_objects as go

from explorer.config.units import BINARY_BYTES, human
from explorer.costs.memory import MemoryBudget
from explorer.costs.tiling import Tile
from explorer.plots.style import BLUE, GREEN, GREY, ORANGE, PINK, SKY, base_figure
from explorer.serving.evaluate import Evaluation

FULL = 100.0
ROOM_FOR_TEXT = 1.45
PARTS = (
    ("weights", ORANGE),
    ("KV cache", PINK),
    ("recurrent state", SKY),
    ("runtime overhead", GREY),
    ("largest stage's surplus", GREEN),
    ("tile", BLUE),
)


class Bar(NamedTuple):
    """One bar: a capacity and the bytes of each part that fill it."""

    name: str
    limit_bytes: float
    parts: dict[str, float]
    unit: str = "B"

    @property
    def total_bytes(self) -> float:
        """All parts."""
        return sum(self.parts.values())


def memory_bars(evaluation: Evaluation, tile: Tile | None) -> tuple[Bar, ...]:
    """Return the bars of a single plan: pools, buffer, and SM and AM of the best tile."""
    unit = evaluation.inputs.scenario.chip_document().unit_name
    bars = [_budget_bar(f"decode {unit}", evaluation.decode_memory)]
    if evaluation.inputs.shared:
        bars = [_budget_bar(unit, evaluation.decode_memory)]
    else:
        bars.insert(0, _budget_bar(f"prefill {unit}", evaluation.prefill_memory))
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
    figure = base_figure(90 + 44 * len(bars), "memory")
    names = [bar.name for bar in bars]
    for part, colour in PARTS:
        sizes = [bar.parts.get(part, 0.0) for bar in bars]
        if not any(sizes):
            continue
        figure.add_bar(
            y=names,
            x=[_share(size, bar) for size, bar in zip(sizes, bars, strict=True)],
            orientation="h",
            name=part,
            marker={"color": colour},
            customdata=[human(size, bar.unit) for size, bar in zip(sizes, bars, strict=True)],
            hovertemplate=f"%{{y}}: {part} takes %{{customdata}}, %{{x:.1f}} %<extra></extra>",
        )
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
    figure.add_vline(x=FULL, line={"dash": "dash", "color": GREY})
    widest = max((_share(bar.total_bytes, bar) for bar in bars), default=FULL)
    figure.update_layout(barmode="stack")
    figure.update_xaxes(
        title="share of capacity", ticksuffix=" %", range=[0, max(FULL, widest) * ROOM_FOR_TEXT]
    )
    figure.update_yaxes(autorange="reversed", title=None)
    return figure


def _share(size: float, bar: Bar) -> float:
    return 100 * size / bar.limit_bytes if bar.limit_bytes else 0.0


def _budget_bar(name: str, budget: MemoryBudget) -> Bar:
    return Bar(
        name,
        float(budget.limit_bytes),
        {
            "weights": float(budget.params_bytes),
            "KV cache": float(budget.kv_bytes),
            "recurrent state": float(budget.state_bytes),
            "runtime overhead": float(budget.overhead_bytes),
            "largest stage's surplus": float(budget.imbalance_bytes),
        },
    )
