"""Figures that are written down: the same as Plotly's own, and accepted by it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
import pytest

from explorer.plots.drawing import AXIS as AXIS_NAME
from explorer.plots.drawing import Drawing
from explorer.plots.style import base_figure
from tests.benchmarks.steps import ROUTES, opened

STEPS: dict[str, Callable[[Any], Any]] = {
    "scatter": lambda figure: figure.add_scatter(
        x=[1.0, 2.0], y=(3, None), mode="lines", line_color="red", marker={"line_width": 2}
    ),
    "bar": lambda figure: figure.add_bar(
        x=[0.5], y=["a"], base=None, orientation="h", error_x={"array": [1]}, marker_line_width=0
    ),
    "heatmap": lambda figure: figure.add_heatmap(
        z=[[1.0, None], [2.0, 3.0]],
        colorscale="Cividis",
        colorbar={"title": "rate", "title_side": "right"},
    ),
    "annotation": lambda figure: figure.add_annotation(x=1, y="a", text="here", font_size=12),
    "shape": lambda figure: figure.add_shape(type="path", path="M 0 0 L 1 1", line={"width": 1}),
    "vline": lambda figure: figure.add_vline(x=2.5, line={"dash": "dot"}),
    "hline": lambda figure: figure.add_hline(1, line_color="grey", line_width=1),
    "hrect": lambda figure: figure.add_hrect(0.9, 1.1, opacity=0.2, line_width=0),
    "layout": lambda figure: figure.update_layout(
        barmode="stack", plot_bgcolor="white", xaxis={"title": "rows"}, legend_y=1.1
    ),
    "xaxes": lambda figure: figure.update_xaxes(title="time [s]", type="log", range=[0, 1]),
    "yaxes": lambda figure: figure.update_yaxes(title=None, title_standoff=4, tickvals=[1, 2]),
}


def as_sent(figure: go.Figure) -> Any:
    """Return a figure as the browser gets it, the order of properties left out."""
    return json.loads(pio.to_json(figure, validate=False))


def ordinary() -> go.Figure:
    """Return the project's empty figure as Plotly makes it."""
    return go.Figure(layout=base_figure(300, "view").to_dict()["layout"])


@pytest.mark.parametrize("name", STEPS)
def test_each_step_writes_down_what_plotly_makes_of_it(name: str) -> None:
    drawn, made = base_figure(300, "view"), ordinary()
    assert STEPS[name](drawn) is drawn
    STEPS[name](made)
    assert as_sent(drawn) == as_sent(made)


def test_all_steps_in_turn_are_what_plotly_makes_of_them() -> None:
    drawn, made = base_figure(300, "view"), ordinary()
    for step in STEPS.values():
        step(drawn)
        step(made)
    sent = as_sent(drawn)
    assert sent == as_sent(made)
    assert len(drawn.data) == len(made.data) == 3
    assert as_sent(drawn) == sent, "reading Plotly's own parts changes nothing"


def test_drawing_goes_on_after_plotlys_own_parts_were_read() -> None:
    drawn, made = base_figure(300, "view"), ordinary()
    assert drawn.layout.height == 300
    for step in STEPS.values():
        step(drawn)
        step(made)
    assert as_sent(drawn) == as_sent(made)


def test_a_drawing_knows_the_other_methods_of_a_figure() -> None:
    drawn = base_figure(300, "view").add_bar(x=[1], y=[2])
    drawn.add_trace(go.Scatter(x=[1], y=[1]))
    drawn.update_traces(opacity=0.5)
    assert [trace.opacity for trace in drawn.data] == [0.5, 0.5]
    drawn.layout.height = 200
    assert as_sent(drawn)["layout"]["height"] == 200


def test_a_copy_is_an_ordinary_figure() -> None:
    drawn = base_figure(300, "view").add_bar(x=[1], y=[2])
    copied = copy.deepcopy(drawn)
    assert type(copied) is go.Figure
    assert as_sent(copied) == as_sent(drawn)


def test_arrays_are_sent_as_their_numbers() -> None:
    drawn = base_figure(300, "view").add_scatter(x=np.array([1, 2]), y=np.array([0.5, np.nan]))
    trace = as_sent(drawn)["data"][0]
    assert (trace["x"], trace["y"]) == ([1, 2], [0.5, None])


def test_plotly_refuses_what_was_written_down_wrong_when_it_is_read() -> None:
    drawn = base_figure(300, "view").add_bar(x=[1], colour="red")
    with pytest.raises(ValueError, match="colour"):
        _ = drawn.data


def test_a_name_that_no_figure_has_is_refused() -> None:
    drawn: Drawing = base_figure(300, "view")
    with pytest.raises(AttributeError):
        _ = drawn.no_such_part


@pytest.mark.parametrize(
    "route", [r for r in ROUTES if r.name != "search"], ids=lambda route: route.name
)
def test_every_figure_of_a_page_is_one_that_plotly_accepts(route: Any) -> None:
    for chart in opened(route).get("plotly_chart"):
        figure = json.loads(chart.proto.spec)
        assert as_sent(go.Figure(figure)) == figure
        axes = [part for name, part in figure["layout"].items() if AXIS_NAME.fullmatch(name)]
        assert len(axes) >= 2
        assert all(axis["separatethousands"] for axis in axes), "texts have 1,024"
        assert all(axis["minexponent"] > 4 for axis in axes), "texts have 10,000 and not 10k"
