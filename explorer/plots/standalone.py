"""One chart as an HTML file of its own, which opens anywhere without a network."""

from __future__ import annotations

import html

import plotly.graph_objects as go
from plotly.io import to_html

TEMPLATE = "plotly_white"


def standalone_html(figure: go.Figure, title: str) -> str:
    """Return the file: the figure on white, Plotly with it, and what it shows above it."""
    drawn = go.Figure(figure).update_layout(template=TEMPLATE)
    chart = to_html(
        drawn,
        include_plotlyjs=True,
        full_html=False,
        config={"displaylogo": False, "responsive": True},
    )
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        "<style>body { font-family: sans-serif; margin: 1.5rem; }</style></head>"
        f"<body><h1>{name}</h1>{chart}</body></html>\n"
    )
