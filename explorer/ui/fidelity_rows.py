"""The Fidelity page row by row: which rows, how far each is off, and how it was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from explorer.config.units import human, significant
from explorer.fidelity.listing import rows_csv
from explorer.fidelity.measurements import measurements_csv
from explorer.fidelity.report import FidelityReport, Row
from explorer.plots.fidelity import (
    UNIT_OF,
    chip_label,
    parity_data,
    parity_figure,
    quantity_label,
)
from explorer.plots.style import capital
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.tables import show_table, unbroken
from explorer.ui.text import plain

SHOW = "fidelity_quantity"
OPENED_FOR, OF_CHIP = "fidelity_chip", "chip:"
EVERYTHING = "everything"
MINE = "my own rows"
ROWS_SHOWN_HEIGHT = 380
ERROR_FORMAT = "%+.1f %%"
FIGURE_PIXELS, CELL_PIXELS = 6.1, 16
"""Width of a character of the table, and of what is left free around a cell's text."""
MOST_EXPLAINED = 100


def chips_of(report: FidelityReport, quantity: str) -> tuple[str, ...]:
    """Return the chips that a quantity was measured on, in order of first appearance."""
    found = (m.chip for row in report.rows if (m := row.measurement).quantity == quantity)
    return tuple(dict.fromkeys(found))


def row_by_row(
    report: FidelityReport, own: Sequence[Row] | None, chip: str, quantities: Sequence[str]
) -> None:
    """Draw the rows that are chosen, as a chart and as a table.

    Args:
        report: all rows.
        own: those of a file of one's own; None without one.
        chip: of the scenario: its rows are shown first.
        quantities: to choose from, in this order.
    """
    st.subheader("Row by row", anchor=False)
    rows = _chosen(report.rows, _choice(report, own is not None, chip, quantities), own)
    data = parity_data(rows)
    if data.points:
        chart(
            parity_figure(data),
            "parity",
            "Predicted over measured against the measured value, with the ±10 % band",
        )
    if data.left_over:
        st.caption(f"The {data.left_over:,} rows of least error are not drawn.")
    ordered = _worst_first(rows)
    table = _row_table(ordered)
    st.dataframe(
        table,
        hide_index=True,
        height=ROWS_SHOWN_HEIGHT,
        key="fidelity_rows",
        placeholder="–",
        column_config={
            "error": st.column_config.NumberColumn(
                format=ERROR_FORMAT, width=_width("error", [ERROR_FORMAT % e for e in table.error])
            ),
            "measured": st.column_config.TextColumn(width=_width("measured", table.measured)),
            "predicted": st.column_config.TextColumn(width=_width("predicted", table.predicted)),
        },
    )
    _flags(rows)
    _explained(ordered)
    _downloads(ordered)


def _downloads(rows: Sequence[Row]) -> None:
    with st.container(horizontal=True):
        st.download_button(
            "These rows (CSV)",
            data=lambda: rows_csv(rows),
            file_name="fidelity-rows.csv",
            mime="text/csv",
            on_click="ignore",
            key="fidelity_csv",
            help="With conditions, error left out and of a plain roofline, how each was predicted, "
            "and its source.",
        )
        st.download_button(
            "Measured values alone (CSV)",
            data=lambda: measurements_csv(row.measurement for row in rows),
            file_name="measurements.csv",
            mime="text/csv",
            on_click="ignore",
            key="measurements_csv",
            help="The columns that a file of your own has: put your rows in place of these.",
        )
    st.caption("The file to fill in and bring back is that of the measured values alone.")


def _choice(report: FidelityReport, has_own: bool, chip: str, quantities: Sequence[str]) -> str:
    """Ask which rows to show; those of another chip open with it, one's own stay."""
    chips = sorted({row.measurement.chip for row in report.rows}, key=lambda name: name != chip)
    own_chip = [f"{OF_CHIP}{name}" for name in chips if name == chip]
    mine = [MINE] if has_own else []
    options = list(dict.fromkeys([*own_chip, EVERYTHING, *mine, *quantities]))
    first = options[0]
    if st.session_state.get(OPENED_FOR) != chip and st.session_state.get(SHOW) != MINE:
        st.session_state[SHOW] = first
    st.session_state[OPENED_FOR] = chip
    if st.session_state.get(SHOW) not in options:
        st.session_state[SHOW] = first
    return str(
        st.selectbox(
            "Show",
            options,
            format_func=lambda name: _option_label(report, name),
            key=SHOW,
            persist_state="session",
        )
    )


def _option_label(report: FidelityReport, name: str) -> str:
    """Return an option of the filter in words: a chip, everything, or a quantity and its chip."""
    if name.startswith(OF_CHIP):
        return f"Everything on the {chip_label(name.removeprefix(OF_CHIP))}"
    if name in (EVERYTHING, MINE):
        return capital(name)
    return capital(quantity_label(name, chips_of(report, name)))


def _chosen(rows: Sequence[Row], chosen: str, own: Sequence[Row] | None) -> list[Row]:
    if chosen == EVERYTHING:
        return list(rows)
    if chosen.startswith(OF_CHIP):
        return [row for row in rows if row.measurement.chip == chosen.removeprefix(OF_CHIP)]
    if chosen == MINE:
        return list(own or ())
    return [row for row in rows if row.measurement.quantity == chosen]


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    """Return rows by their error, the largest first, those without a prediction last."""
    return sorted(rows, key=lambda row: 1.0 if row.error is None else -abs(row.error))


def _row_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return what tells whether rows can be believed, and which they are."""
    return pd.DataFrame(
        [
            {
                "error": None if row.error is None else 100 * row.error,
                "measured": unbroken(_value(row, row.measurement.si_value)),
                "predicted": unbroken(
                    _value(row, row.prediction.value if row.prediction else None)
                ),
                "row": row.measurement.id,
            }
            for row in rows
        ],
        columns=["error", "measured", "predicted", "row"],
    )


def _width(heading: str, texts: Iterable[str]) -> int:
    """Return the pixels that a column needs, so that the names of rows get all that is left."""
    return round(CELL_PIXELS + FIGURE_PIXELS * max(map(len, (heading, *texts))))


def _explained(rows: Sequence[Row]) -> None:
    with folded(
        "How each row was predicted, and where it was published", "fidelity_how"
    ) as is_open:
        if not is_open:
            return
        if rows:
            show_table(
                [
                    {
                        "row": plain(row.measurement.id),
                        "how": plain(row.basis or row.reason) or "–",
                        "source": plain(row.measurement.source),
                    }
                    for row in rows[:MOST_EXPLAINED]
                ]
            )
        if len(rows) > MOST_EXPLAINED:
            st.caption(f"{len(rows) - MOST_EXPLAINED:,} more rows are in the download.")


def _value(row: Row, value: float | None) -> str:
    dimension = row.measurement.dimension
    if dimension is None and value is not None:
        return f"{significant(value)} {row.measurement.unit}"
    return human(value, UNIT_OF[dimension] if dimension else "")


def _flags(rows: Sequence[Row]) -> None:
    above = [row.measurement.id for row in rows if row.above_bound]
    beyond = [row.measurement.id for row in rows if row.extrapolated]
    if above:
        st.text(f"Measured faster than peak and bandwidth allow: {', '.join(above)}.")
    if beyond:
        st.text(f"Extrapolated, outside what was fitted or measured: {', '.join(beyond)}.")
