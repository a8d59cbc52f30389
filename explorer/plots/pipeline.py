"""Stage pipeline: batches through prefill stages, buffer and decode stages over time."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.style import BATCH_COLOURS, base_figure
from explorer.serving.timeline import Timeline


def pipeline_figure(timeline: Timeline, phases: tuple[str, ...] = ()) -> go.Figure:
    """Draw the timeline as bars, one colour a batch (or a phase, when those are named)."""
    figure = base_figure(110 + 34 * len(timeline.rows), "pipeline")
    for batch in sorted({span.batch for span in timeline.spans}):
        spans = [span for span in timeline.spans if span.batch == batch]
        group = batch % len(phases) if phases else batch
        name = phases[group] if phases else f"batch {batch + 1}"
        figure.add_bar(
            y=[span.row for span in spans],
            x=[span.end_seconds - span.start_seconds for span in spans],
            base=[span.start_seconds for span in spans],
            orientation="h",
            name=name,
            showlegend=not phases or batch < len(phases),
            legendgroup=name,
            marker={
                "color": BATCH_COLOURS[group % len(BATCH_COLOURS)],
                "line": {"width": 1, "color": "white"},
            },
            text=[
                f"{name}: {span.what}, {human(span.start_seconds, 's')} to "
                f"{human(span.end_seconds, 's')}"
                for span in spans
            ],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="time since the first batch [s]", rangemode="tozero")
    figure.update_yaxes(
        categoryorder="array", categoryarray=list(timeline.rows), autorange="reversed", title=None
    )
    return figure
