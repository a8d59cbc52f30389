"""What people call their scenarios and numbers is shown on charts as it is: no tag, no link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import plotly.graph_objects as go
import pytest

from explorer.config.links import preset_scenario
from explorer.config.scenario import Scenario
from explorer.fidelity.report import fidelity_report
from explorer.plots.compare import (
    LONGEST_NAME,
    budget_bars,
    budget_figure,
    rooflines,
    rooflines_figure,
    time_bars,
    time_figure,
)
from explorer.plots.fidelity import parity_data, parity_figure
from explorer.plots.report import comparison_report
from explorer.plots.robustness import interval_figure, spans
from explorer.plots.space_map import map_figure
from explorer.plots.style import untagged
from explorer.plots.tornado import tornado_figure, tornado_rows
from explorer.search.objectives import THROUGHPUT
from explorer.search.robustness import interval
from explorer.search.sensitivity import sensitivity
from explorer.search.space_map import map_space
from explorer.serving.comparison import Candidate, compare

LINK, BOLD = '<a href="http://x.y">lnk</a>', "<b>x</b>"
SCENARIO = preset_scenario("mt3000-llama2-13b@1")
ASCEND = preset_scenario("ascend910a-qwen3.8-27b@1")


def texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from texts(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from texts(value)


def shown(figure: go.Figure) -> str:
    """Return every text of a figure; lines that the charts break themselves are no person's."""
    every = figure.to_dict()
    every["layout"].pop("template", None)
    return "\n".join(texts(every)).replace("<extra></extra>", "").replace("<br>", "\n")


def compared(*names: str) -> list[go.Figure]:
    candidates = [Candidate(name, SCENARIO) for name in names]
    return [
        time_figure(time_bars(candidates)),
        budget_figure(budget_bars(candidates)),
        rooflines_figure(rooflines(candidates)),
    ]


def hostile(scenario: Scenario) -> Scenario:
    """Return it on a chip of somebody's own, each of whose numbers is called by a link."""
    chip = scenario.chip_document()
    named = {
        name: item.model_copy(update={"label": f"{LINK} {name}", "unit": f"{item.unit}<i>"})
        for name, item in chip.quantities.items()
    }
    return scenario.with_chip(chip.model_copy(update={"id": "own", "quantities": named}))


def test_names_of_scenarios_are_no_markup() -> None:
    for figure in compared(LINK, BOLD):
        found = shown(figure)
        assert "<" not in found
        assert "&lt;b&gt;x&lt;/b&gt;" in found
        assert '&lt;a href="http://x.y"&gt;lnk' in found


@pytest.mark.parametrize("length", range(LONGEST_NAME - 5, LONGEST_NAME + 2))
def test_a_long_name_is_cut_between_its_letters(length: int) -> None:
    name = "n" * length + "<&>" + "m" * 9
    for figure in compared(name, "other"):
        assert untagged(name[: LONGEST_NAME - 1] + "…") in shown(figure)


def test_a_name_holds_no_variables_of_a_template() -> None:
    for figure in compared("%{x}", "other"):
        templates = {trace.hovertemplate for trace in figure.data if trace.hovertemplate}
        assert templates == {"%{customdata}<extra></extra>"}


def test_names_in_the_report_are_no_markup() -> None:
    candidates = [Candidate(LINK, SCENARIO), Candidate(BOLD, ASCEND)]
    _, _, body = comparison_report(compare(candidates)).partition("<body>")
    # Plotly's own data is JSON in which "<" is an escape of JSON, and is undone by the browser.
    drawn = body.replace(r"\u003c", "<").replace(r"\u003e", ">").replace(r"\u002f", "/")
    assert "<a href" not in drawn
    assert BOLD not in drawn


def test_labels_and_units_of_own_chips_are_no_markup() -> None:
    scenario = hostile(ASCEND)
    effects, found = sensitivity(scenario, THROUGHPUT), interval(scenario)
    hardware = [effect.slider.path for effect in effects.moving if "hardware" in effect.slider.path]
    figures = [
        tornado_figure(tornado_rows(effects, None)),
        interval_figure(spans(found, effects), "throughput", "tokens/s"),
        map_figure(map_space(scenario, THROUGHPUT, *hardware[:2], cells=5)),
    ]
    for figure in figures:
        assert "<" not in shown(figure)
        assert "&lt;a href" in shown(figure)


def test_names_of_measurements_are_no_markup() -> None:
    row = next(row for row in fidelity_report(()).rows if row.prediction is not None)
    own = replace(row, measurement=replace(row.measurement, id=LINK, chip=BOLD))
    found = shown(parity_figure(parity_data([own])))
    assert "<" not in found
    assert "&lt;b&gt;x&lt;/b&gt;" in found
    assert "&lt;a href" in found
