"""A figure that is written down as it is drawn, and checked by Plotly only when it is read.

Plotly checks every property when it is set, which takes ten times as long as writing it down; for a
page whose slider moves that is most of the server's work. So the properties are kept as they
come, in the form that a browser reads. Whoever asks for Plotly's own parts (``figure.data``,
``figure.layout``, an export) gets them, checked as always; a test holds that both are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import plotly.graph_objects as go
import plotly.io as pio
from plotly.colors import get_colorscale

Properties = dict[str, Any]

WITH_UNDERSCORE = ("error_x", "error_y", "paper_bgcolor", "plot_bgcolor")
"""Names in which an underscore does not lead to a property of a property."""

IN_FULL: dict[str, Callable[[str], Any]] = {
    "title": lambda text: {"text": text},
    "colorscale": lambda name: _even([colour for _, colour in get_colorscale(name)]),
}
"""Properties that Plotly takes as one word or text, and sends in full."""

AXIS = re.compile(r"([xy])axis\d*")


class Drawing(go.Figure):  # type: ignore[misc]  # Plotly has no types
    """A Plotly figure, a few of whose methods only write down what they are given.

    Every other method and property of a figure works: the first use of one makes the figure of
    what was written down, and from then on it is an ordinary one.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        """Begin a figure.

        Args:
            layout: properties of Plotly's layout, both axes among them.
        """
        self.__dict__["_drawn"] = {"data": [], "layout": written(layout)}

    def __getattr__(self, name: str) -> Any:
        """Make the figure when the first of its own parts is asked for."""
        if "_drawn" not in self.__dict__:
            raise AttributeError(name)
        self._make()
        return getattr(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a property of the figure."""
        self._make()
        super().__setattr__(name, value)

    def _make(self) -> None:
        drawn = self.__dict__.pop("_drawn", None)
        if drawn is not None:
            super().__init__(data=drawn["data"], layout=drawn["layout"])

    def __reduce__(self) -> tuple[Any, tuple[Properties]]:
        """Copy and pickle as the ordinary figure that it is."""
        return go.Figure, (self.to_dict(),)

    def to_dict(self) -> Properties:
        """Return the figure as a browser reads it, with Plotly's template of the day."""
        drawn = self._written()
        if drawn is None:
            made: Properties = super().to_dict()
            return made
        layout = dict(drawn["layout"])
        if pio.templates.default:
            layout.setdefault("template", _template(pio.templates.default))
        return {"data": [dict(trace) for trace in drawn["data"]], "layout": layout}

    def add_scatter(self, **properties: Any) -> Drawing:
        """Add lines or points."""
        return self._add_trace("scatter", properties)

    def add_bar(self, **properties: Any) -> Drawing:
        """Add bars."""
        return self._add_trace("bar", properties)

    def add_heatmap(self, **properties: Any) -> Drawing:
        """Add a map of colours."""
        return self._add_trace("heatmap", properties)

    def add_annotation(self, **properties: Any) -> Drawing:
        """Add a text."""
        return self._add_to_list("annotations", properties)

    def add_shape(self, **properties: Any) -> Drawing:
        """Add a shape in the coordinates of the axes."""
        return self._add_to_list("shapes", properties)

    def add_vline(self, x: Any, **properties: Any) -> Drawing:
        """Add a line from the bottom to the top; a text beside it is an annotation of its own."""
        span = {"x0": x, "x1": x, "y0": 0, "y1": 1, "xref": "x", "yref": "y domain"}
        return self._add_to_list("shapes", {"type": "line", **span, **properties})

    def add_hline(self, y: Any, **properties: Any) -> Drawing:
        """Add a line from side to side."""
        return self._add_hspan("line", y, y, properties)

    def add_hrect(self, y0: Any, y1: Any, **properties: Any) -> Drawing:
        """Add a band from side to side."""
        return self._add_hspan("rect", y0, y1, properties)

    def _add_hspan(self, kind: str, y0: Any, y1: Any, properties: Properties) -> Drawing:
        span = {"x0": 0, "x1": 1, "y0": y0, "y1": y1, "xref": "x domain", "yref": "y"}
        return self._add_to_list("shapes", {"type": kind, **span, **properties})

    def update_layout(self, **properties: Any) -> Drawing:
        """Set properties of the layout, and keep the others."""
        drawn = self._written()
        if drawn is None:
            super().update_layout(**properties)
        else:
            _merge(drawn["layout"], written(properties))
        return self

    def update_xaxes(self, **properties: Any) -> Drawing:
        """Set properties of the horizontal axes, and keep the others."""
        return self._update_axes("x", properties)

    def update_yaxes(self, **properties: Any) -> Drawing:
        """Set properties of the vertical axes, and keep the others."""
        return self._update_axes("y", properties)

    def _written(self) -> dict[str, Any] | None:
        """Return what was written down; None once it has become a figure."""
        drawn: dict[str, Any] | None = self.__dict__.get("_drawn")
        return drawn

    def _add_trace(self, kind: str, properties: Properties) -> Drawing:
        drawn = self._written()
        if drawn is None:
            super().add_trace({"type": kind, **properties})
        else:
            drawn["data"].append({"type": kind, **written(properties)})
        return self

    def _add_to_list(self, name: str, properties: Properties) -> Drawing:
        drawn = self._written()
        if drawn is None:
            self.layout[name] = (*self.layout[name], properties)
        else:
            drawn["layout"].setdefault(name, []).append(written(properties))
        return self

    def _update_axes(self, letter: str, properties: Properties) -> Drawing:
        drawn = self._written()
        if drawn is None:
            getattr(super(), f"update_{letter}axes")(**properties)
            return self
        for name, axis in drawn["layout"].items():
            match = AXIS.fullmatch(name)
            if match and match[1] == letter:
                _merge(axis, written(properties))
        return self


def written(properties: Mapping[str, Any]) -> Properties:
    """Return properties in the form that a browser reads.

    ``line_width=0`` becomes ``line={"width": 0}``, a title that is a text becomes one with a
    text, the name of a colour scale its colours, and what is None is left out.
    """
    result: Properties = {}
    for name, value in properties.items():
        if value is None:
            continue
        head, _, rest = name.partition("_")
        if rest and not name.startswith(WITH_UNDERSCORE):
            _merge(result, {head: written({rest: value})})
        elif isinstance(value, Mapping):
            _merge(result, {name: written(value)})
        elif isinstance(value, str) and name in IN_FULL:
            _merge(result, {name: IN_FULL[name](value)})
        else:
            _merge(result, {name: value})
    return result


def _merge(into: Properties, more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


@lru_cache(maxsize=8)
def _template(name: str) -> Properties:
    template: Properties = pio.templates[name].to_plotly_json()
    return template


def _even(colours: list[str]) -> list[list[Any]]:
    return [[place / (len(colours) - 1), colour] for place, colour in enumerate(colours)]
