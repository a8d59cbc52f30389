"""A comparison as one HTML file that opens anywhere without a network."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.io import to_html
from plotly.offline import get_plotlyjs

from explorer import __version__
from explorer.config.errors import InputError
from explorer.config.links import link_query, nearest_preset
from explorer.config.presets import load_chip
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.report import fidelity_report
from explorer.plots.compare import (
    budget_bars,
    budget_figure,
    rooflines,
    rooflines_figure,
    time_bars,
    time_figure,
)
from explorer.plots.fidelity import quantity_label
from explorer.plots.style import joined
from explorer.serving.comparison import Comparison, FigureRow
from explorer.serving.export import source_documents

TEMPLATE = Path(__file__).with_name("report.html")
TITLE = "Scenarios compared"
SAME = 5e-4


@dataclass(frozen=True)
class Table:
    """Rows of text under column names; the template escapes every cell."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Chart(NamedTuple):
    """One figure with its words; ``html`` is made by plotly."""

    title: str
    caption: str
    fields: str
    html: Markup


def comparison_report(comparison: Comparison) -> str:
    """Return the whole report; names and values in it are escaped, whatever they hold."""
    names = tuple(candidate.name for candidate in comparison.candidates)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.globals["table"] = _table
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    sources = [reproducing_source(i, c.scenario) for i, c in enumerate(comparison.candidates)]
    return template.render(
        title=TITLE,
        version=__version__,
        plotly_script=Markup("<script>{}</script>").format(Markup(get_plotlyjs())),
        lead=f"{joined(names)}, by the same models.",
        figures=Table(("", *names), tuple(map(_figure_row, comparison.figures))),
        misfits=[pair for pair in zip(names, comparison.misfits, strict=True) if pair[1]],
        inputs=Table(
            ("input", "path", *names),
            tuple((row.label, row.path, *row.values) for row in comparison.inputs),
        ),
        charts=_charts(comparison),
        compare_command=f"python -m explorer compare {' '.join(sources)}",
        open_commands="\n".join(f"python -m explorer open {source} --json" for source in sources),
        errors=[(name, _errors(name)) for name in _chips(comparison)],
        sources=[(c.name, _sources(c.scenario)) for c in comparison.candidates],
        scenarios=[
            (c.name, scenario_file(i), json.dumps(c.scenario.pinned().to_json(), indent=2))
            for i, c in enumerate(comparison.candidates)
        ],
    )


def scenario_file(number: int) -> str:
    """Return the name that the report gives to a scenario's file."""
    return f"scenario-{number + 1}.json"


def reproducing_source(number: int, scenario: Scenario) -> str:
    """Return what to give to a command: a link, or the file where no link can hold it."""
    try:
        return shlex.quote(f"?{link_query(scenario, nearest_preset(scenario))}")
    except InputError:
        return scenario_file(number)


def _table(table: Table) -> Markup:
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in table.columns)
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row)
        )
        for row in table.rows
    )
    return Markup("<table><tr>{}</tr>{}</table>").format(head, rows)


def _figure_row(row: FigureRow) -> tuple[str, ...]:
    return (row.label, *figure_texts(row))


def figure_texts(row: FigureRow) -> list[str]:
    """Return the values of a figure with unit, and the ratio to the first where it is not 1."""
    texts = []
    for value, ratio in zip(row.values, row.ratios, strict=True):
        text = human(value, row.unit)
        if ratio is not None and abs(ratio - 1) >= SAME:
            text += f" ({significant(ratio)}×)"
        texts.append(text)
    return texts


def _charts(comparison: Comparison) -> list[Chart]:
    candidates = comparison.candidates
    charts = []
    times, named = time_bars(candidates), rooflines(candidates)
    if times:
        charts.append(
            _chart(
                "Where does the time of a batch go?",
                "Prefill and decode of one batch, by what binds the time.",
                "evaluation.stages",
                time_figure(times),
            )
        )
    charts.append(
        _chart(
            "What fills the memory?",
            "Shares of each capacity; past 100 % a plan does not fit.",
            "evaluation.memory",
            budget_figure(budget_bars(candidates)),
        )
    )
    if named:
        charts.append(
            _chart(
                "Is it the memory or the arithmetic?",
                "Filled marks: prefill; open ones: decode.",
                "macs, bytes and busy_seconds in evaluation.stages",
                rooflines_figure(named),
            )
        )
    return charts


def _chart(title: str, caption: str, fields: str, figure: go.Figure) -> Chart:
    html = to_html(figure, include_plotlyjs=False, full_html=False)
    return Chart(title, caption, fields, Markup(html))


def _chips(comparison: Comparison) -> Sequence[str]:
    chips = [candidate.scenario.chip_document().name for candidate in comparison.candidates]
    return list(dict.fromkeys(chips))


def _errors(chip_name: str) -> Table:
    """Return the errors of the shipped measurements of one chip."""
    report = fidelity_report(())
    rows = []
    for (quantity, searched), item in report.parts.items():
        mine = [
            row
            for row in report.rows
            if (row.measurement.quantity, row.searched) == (quantity, searched)
        ]
        if not mine or _chip_title(mine[0].measurement.chip) != chip_name:
            continue
        label = quantity_label(quantity) + (", the model's best plan" if searched else "")
        rows.append(
            (
                label,
                str(item.rows),
                *(
                    "–" if error is None else f"{significant(100 * error)} %"
                    for error in (item.mape, item.worst, item.left_out_mape)
                ),
            )
        )
    return Table(("what", "rows", "mean error", "worst", "left out"), tuple(rows))


def _chip_title(chip: str) -> str:
    return load_chip(chip).name


def _sources(scenario: Scenario) -> Table:
    return Table(
        ("number", "value", "kind", "source"),
        tuple(
            (name, human(float(item["value"]), item["unit"]), item["kind"], item["source"])
            for name, item in source_documents(scenario).items()
        ),
    )
