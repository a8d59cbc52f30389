"""Stage pipeline: batches through prefill stages, buffer and decode stages over time."""

from __future__ import annotations

import plotly.graph_objects as go

from explorer.config.units import human
from explorer.plots.palette import COMPARED, text_on
from explorer.plots.style import EDGE, SMALLEST_TEXT, base_figure
from explorer.serving.timeline import Timeline

ROOM_FOR_NUMBER = 0.04
"""Part of the whole time that a bar takes which bears a number."""


def pipeline_figure(timeline: Timeline, phases: tuple[str, ...] = ()) -> go.Figure:
    """Draw the timeline as bars, a colour and a number a batch, or a colour a named phase."""
    figure = base_figure(110 + 34 * len(timeline.rows), "pipeline")
    least = ROOM_FOR_NUMBER * max((span.end_seconds for span in timeline.spans), default=0.0)
    for batch in sorted({span.batch for span in timeline.spans}):
        spans = [span for span in timeline.spans if span.batch == batch]
        colour = COMPARED[(batch % len(phases) if phases else batch) % len(COMPARED)].colour
        group = batch % len(phases) if phases else batch
        name = phases[group] if phases else f"batch {batch + 1}"
        figure.add_bar(
            y=[span.row for span in spans],
            x=[span.end_seconds - span.start_seconds for span in spans],
            base=[span.start_seconds for span in spans],
            orientation="h",
            name=name,
            # A batch is named by the number on its bars.
            showlegend=batch < len(phases),
            legendgroup=name,
            marker={"color": colour, "line": EDGE},
            # A bar bears its batch's number where there is room for it.
            text=[
                "" if phases or span.end_seconds - span.start_seconds < least else str(batch + 1)
                for span in spans
            ],
            textposition="inside",
            insidetextanchor="middle",
            insidetextfont={"color": text_on(colour), "size": SMALLEST_TEXT},
            constraintext="none",
            customdata=[
                f"{name}: {span.what}, {human(span.start_seconds, 's')} to "
                f"{human(span.end_seconds, 's')}"
                for span in spans
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title="time since the first batch [s]", rangemode="tozero")
    figure.update_yaxes(
        categoryorder="array", categoryarray=list(timeline.rows), autorange="reversed", title=None
    )
    return figure
