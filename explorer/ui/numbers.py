"""The expander "Numbers behind the page": terms with formulas, inputs, kinds and sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from explorer.chips.formulas import Symbol, Unfolding
from explorer.config.scenario import Scenario
from explorer.config.units import human
from explorer.costs.terms import Bound, Stage
from explorer.fidelity.measurements import Measurement
from explorer.plots.style import NAME_OF_BOUND, words
from explorer.serving.export import source_documents
from explorer.ui.folded import folded
from explorer.ui.tables import show_table
from explorer.ui.text import plain

FOLLOWS, SET = "derived", "scenario"
KIND_AND_SOURCE = "kind and source"
WHOLE = "together"


def numbers_behind(draw: Callable[[], None]) -> None:
    """Draw what ``draw`` draws in an expander; nothing of it is built while that is closed."""
    with folded("Numbers behind the page", "numbers") as is_open:
        if is_open:
            draw()


def terms_and_inputs(unfolding: Unfolding, seconds: Mapping[str, Mapping[str, float]]) -> None:
    """Show terms with their formulas, and the inputs that are no numbers of the machine.

    Args:
        unfolding: formulas and symbols.
        seconds: seconds by term in one or more columns, by the column's heading.
    """
    rows = [
        {
            "term": words(name),
            **{heading: human(part.get(name), "s") for heading, part in seconds.items()},
            "formula of the work": written(formula.expression),
        }
        for name, formula in unfolding.formulas.items()
    ]
    rest = dict.fromkeys(name for part in seconds.values() for name in part)
    rows += [
        {
            "term": words(name),
            **{heading: human(part.get(name), "s") for heading, part in seconds.items()},
            "formula of the work": "–",
        }
        for name in rest
        if name not in unfolding.formulas and any(part.get(name) for part in seconds.values())
    ]
    show_table(rows)
    notes: dict[str, list[str]] = {}
    for name, formula in unfolding.formulas.items():
        if formula.note:
            notes.setdefault(formula.note, []).append(words(name))
    for note, names in notes.items():
        st.caption(f"{', '.join(names)}: {plain(note)}.")
    own = {name: item for name, item in unfolding.symbols.items() if not _of_machine(item)}
    show_table(
        [
            {
                "input": f"**{plain(name)}**: {item.meaning}",
                "value": human(float(item.value), item.unit),
                KIND_AND_SOURCE: plain(
                    f"{SET}: {item.path}" if item.path else f"{FOLLOWS}: {item.source}"
                ),
            }
            for name, item in own.items()
        ]
    )


def machine_numbers(unfoldings: Sequence[Unfolding], scenario: Scenario) -> None:
    """Show every number of the machine that some formulas hold: value, kind and source."""
    found = {
        name: item
        for unfolding in unfoldings
        for name, item in unfolding.symbols.items()
        if _of_machine(item)
    }
    sources = source_documents(scenario)
    show_table(
        [
            {
                "number": f"**{plain(name)}**: {plain(item.meaning)}",
                "value": human(float(item.value), item.unit),
                KIND_AND_SOURCE: _provenance(sources[item.path]),
            }
            for name, item in found.items()
        ]
    )


def stage_terms(stage: Stage, scenario: Scenario) -> None:
    """Show the terms of a stage whose formulas are not written out, and the machine's numbers."""
    show_table(
        [
            {
                "term": words(term.name),
                "seconds": human(float(term.seconds), "s"),
                "bytes": human(float(term.bytes), "B"),
                "MACs": human(float(term.macs), "MAC"),
                "bound by": NAME_OF_BOUND[Bound(int(term.bound_by))],
                "kinds of its numbers": ", ".join(sorted(term.kinds)),
            }
            for term in stage.terms
            if float(term.seconds) > 0
        ]
    )
    chip = scenario.chip_document()
    sources = source_documents(scenario)
    show_table(
        [
            {
                "number": plain(quantity.label),
                "value": human(
                    float(sources[f"hardware.{name}"]["value"]),
                    quantity.display_unit or quantity.unit,
                ),
                KIND_AND_SOURCE: _provenance(sources[f"hardware.{name}"]),
            }
            for name, quantity in chip.quantities.items()
        ]
    )


def measured_rows(rows: Sequence[Measurement]) -> None:
    """Show measured values as published, each with its source."""
    show_table(
        [
            {
                "measured at": plain(
                    ", ".join(f"{name} {text}" for name, text in row.conditions.items())
                ),
                "value": f"{row.value:,g} {row.unit}",
                "row and source": plain(f"{row.id}: {row.source}"),
            }
            for row in rows
        ]
    )


def exposed(stage: Stage) -> dict[str, float]:
    """Return the exposed seconds of a stage's terms, and of all together."""
    return {
        **{term.name: float(term.seconds) for term in stage.terms},
        WHOLE: float(stage.seconds),
    }


def worked(stage: Stage) -> dict[str, float]:
    """Return the seconds that each term's resource works; they need not add up."""
    return {term.name: float(term.busy_seconds) for term in stage.terms}


def written(expression: str) -> str:
    """Return a formula for people."""
    return plain(expression.replace(" * ", " × ").replace(" / ", " ÷ ").replace(" - ", " − "))


def _provenance(source: Mapping[str, object]) -> str:
    return plain(f"{source['kind']}: {source['source']}")


def _of_machine(item: Symbol) -> bool:
    return item.path.startswith("hardware.")
