"""Every mark of every chart says what it is: each page is opened and its charts are read."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from explorer.config.units import SIGNIFICANT
from explorer.plots.measured import MEASURED_SYMBOL
from explorer.search import front_text
from tests.benchmarks.steps import ROUTES, Route, mt3000_route, opened

WITHOUT_CHARTS = {"own", "share"}
VIEWS = ("Triple buffering", "Micro-kernel", "FP16", "Launches")
OPENED = (
    *(route for route in ROUTES if route.name not in WITHOUT_CHARTS),
    *(mt3000_route(view, "/inside", ("radio", view)) for view in VIEWS),
)
FRACTIONAL = re.compile(r"\d[\d,]*\.\d+")
MOST_FIGURES = {"tradeoffs": front_text.MOST_FIGURES}
"""Significant figures of a route's charts where they aren't the usual ones."""
WORD = re.compile(r"[a-zA-Z]{2}")


@cache
def charts_of(route: Route) -> list[dict[str, Any]]:
    app = opened(route)
    assert not app.exception
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def told(trace: dict[str, Any]) -> list[str]:
    """Return what the marks of a trace say; their own sentences, where they have some."""
    template = trace["hovertemplate"]
    data = trace.get("customdata")
    if data is None or "%{customdata" not in template:
        return [template]
    column = re.search(r"%\{customdata\[(\d+)\]", template)
    if column:
        data = [row[int(column[1])] for row in data]
    flat = [item if isinstance(item, str) else str(item) for item in _flat(data)]
    return [re.sub(r"%\{customdata[^}]*\}", text.replace("\\", ""), template) for text in flat]


def _flat(data: Any) -> list[Any]:
    if isinstance(data, list):
        return [leaf for part in data for leaf in _flat(part)]
    return [data]


@pytest.mark.parametrize("route", OPENED, ids=lambda route: route.name)
def test_hovering_reads_as_a_sentence(route: Route) -> None:
    charts = charts_of(route)
    assert charts
    most = MOST_FIGURES.get(route.name, SIGNIFICANT)
    for chart in charts:
        for trace in chart["data"]:
            if trace.get("hoverinfo") == "skip" or trace.get("x") == [None]:
                continue
            assert trace.get("hovertemplate", "").endswith("<extra></extra>"), trace.get("name")
            for sentence in told(trace):
                text = sentence.removesuffix("<extra></extra>")
                assert WORD.search(text), text
                for number in FRACTIONAL.findall(text):
                    assert len(re.sub("[,.]", "", number).lstrip("0")) <= most, text
                # A value of an axis in a template is rounded there and has its unit beside it.
                for place in re.findall(r"%\{[xy](?::[^}]*)?\}(.?)", text):
                    assert place in ("", " ", ":", ","), text


@pytest.mark.parametrize("route", OPENED, ids=lambda route: route.name)
def test_axes_name_what_they_show_and_marks_mean_one_thing(route: Route) -> None:
    for chart in charts_of(route):
        layout = chart["layout"]
        for axis in ("xaxis", "yaxis"):
            lines = layout[axis].get("categoryarray") or layout[axis].get("autorange") == "reversed"
            assert lines or layout[axis].get("title", {}).get("text"), axis
        size = layout["font"]["size"]
        assert size >= 12
        for trace in chart["data"]:
            symbol = trace.get("marker", {}).get("symbol")
            measured = "measured" in trace.get("name", "")
            if trace.get("mode") == "markers":
                assert (symbol == MEASURED_SYMBOL) == measured, trace.get("name")
        assert "<sub>" not in json.dumps(chart)
