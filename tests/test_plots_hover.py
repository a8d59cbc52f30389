"""Every mark of every chart says what it is: each page is opened and its charts are read."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.plots.measured import MEASURED_SYMBOL
from tests.browser import ROOT

MT3000, ASCEND = "mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"
OPENED = (
    ("", MT3000), ("", ASCEND), ("sensitivity", MT3000), ("pipeline", MT3000), ("inside", MT3000),
    ("slices", ASCEND), ("attribution", ASCEND), ("fidelity", MT3000), ("compare", MT3000),
)  # fmt: skip
FRACTIONAL = re.compile(r"\d[\d,]*\.\d+")
MOST_FIGURES = 3
WORD = re.compile(r"[a-zA-Z]{2}")


@cache
def charts_of(path: str, preset: str) -> list[dict[str, Any]]:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.query_params["preset"] = preset
    app.run()
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == path
    )
    app.run()
    if path == "compare":
        app.button(key="keep").click().run()
    assert not app.exception
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def told(trace: dict[str, Any]) -> list[str]:
    """Return what the marks of a trace say; their own sentences, where they have some."""
    template = trace["hovertemplate"]
    data = trace.get("customdata")
    if data is None or "%{customdata" not in template:
        return [template]
    flat = [item if isinstance(item, str) else str(item) for item in _flat(data)]
    return [re.sub(r"%\{customdata[^}]*\}", text.replace("\\", ""), template) for text in flat]


def _flat(data: Any) -> list[Any]:
    if isinstance(data, list):
        return [leaf for part in data for leaf in _flat(part)]
    return [data]


@pytest.mark.parametrize(("path", "preset"), OPENED)
def test_hovering_reads_as_a_sentence(path: str, preset: str) -> None:
    charts = charts_of(path, preset)
    assert charts
    for chart in charts:
        for trace in chart["data"]:
            if trace.get("hoverinfo") == "skip" or trace.get("x") == [None]:
                continue
            assert trace.get("hovertemplate", "").endswith("<extra></extra>"), trace.get("name")
            for sentence in told(trace):
                text = sentence.removesuffix("<extra></extra>")
                assert WORD.search(text), text
                for number in FRACTIONAL.findall(text):
                    assert len(re.sub("[,.]", "", number).lstrip("0")) <= MOST_FIGURES, text
                # A value of an axis in a template is rounded there and has its unit beside it.
                for place in re.findall(r"%\{[xy](?::[^}]*)?\}(.?)", text):
                    assert place in ("", " ", ":", ","), text


@pytest.mark.parametrize(("path", "preset"), OPENED)
def test_axes_name_what_they_show_and_marks_mean_one_thing(path: str, preset: str) -> None:
    for chart in charts_of(path, preset):
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
