"""Page "Fidelity": predictions against measurements, published and one's own."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from explorer.config.presets import load_chip
from explorer.config.units import human, percent, significant
from explorer.fidelity.fit import FitResult
from explorer.fidelity.measurements import COLUMNS, SEARCHED, parse_measurements
from explorer.fidelity.report import FidelityReport, Row, Summary, fidelity_report
from explorer.plots.fidelity import (
    UNIT_OF,
    chip_label,
    parity_data,
    parity_figure,
    quantity_label,
)
from explorer.ui import own_rows, state, uploads
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.own_rows import OWN
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
UPLOAD, SHOW = "measurements", "fidelity_quantity"
REFUSED = "measurements_refused"
OPENED_FOR, OF_CHIP = "fidelity_chip", "chip:"
EVERYTHING = "everything"
MINE = "my own rows"
ROWS_SHOWN_HEIGHT = 380
ONE_REQUEST = "serving one request at a time"
TOLD = (
    "gemm_latency",
    "attention_latency",
    "serving_throughput",
    "prefill_throughput",
    "decode_throughput",
)


def page() -> None:
    """Draw the page; its numbers depend on models and measurements, its order on the chip."""
    st.header("Can I believe it?", anchor=False)
    chip = state.scenario().chip_document().id
    own: tuple[str, bytes] | None = st.session_state.get(OWN)
    shipped = _report("", b"")
    report = _report(*own) if own is not None else shipped
    st.markdown(_sentence(shipped, chip))
    st.table(_summary_table(shipped, chip), hide_index=True)
    st.caption(
        "Mean of |predicted − measured| / measured. Left out: each row is predicted by a model "
        "refitted without it; slopes read off the Ascend's profile are measured, not fitted, and "
        "stay. Plain roofline: the longer of arithmetic at peak and compulsory "
        "traffic at full bandwidth. Sliders do not change these numbers; those of the scenario's "
        "chip come first."
    )
    mine = FidelityReport(report.rows[len(shipped.rows) :], ())
    if own is not None:
        _own_summary(mine, chip)
    _rows(report, mine.rows if own is not None else None, chip)
    _upload(own)
    _fitted(report, chip)
    _not_modelled(report)


@st.cache_data(max_entries=8, show_spinner="Comparing the models with every measurement …")
def _report(name: str, content: bytes) -> FidelityReport:
    return fidelity_report(parse_measurements(content, name) if name else ())


def _sentence(report: FidelityReport, chip: str) -> str:
    """Return the mean errors chip by chip, the scenario's own first."""
    told: dict[str, list[str]] = {}
    for quantity, searched in _ordered(report, chip):
        if quantity in TOLD and not searched:
            name = ONE_REQUEST if quantity == SEARCHED else quantity_label(quantity)
            mape = _percent(report.parts[quantity, False].mape)
            chips = " and the ".join(map(chip_label, _chips(report, quantity)))
            told.setdefault(chips, []).append(f"{name} within **{mape}**")
    parts = [f"on the {chips} {', '.join(items)}" for chips, items in told.items()]
    text = f"In the mean, the models come this close to what was measured: {'; '.join(parts)}."
    searched_parts = [item for (_, best), item in report.parts.items() if best]
    if not searched_parts or searched_parts[0].mape is None:
        return text
    return (
        f"{text} Where a paper does not say which plan it ran, the model's best plan is "
        f"**{_percent(searched_parts[0].mape)}** away from it."
    )


def _chips(report: FidelityReport, quantity: str) -> tuple[str, ...]:
    """Return the chips that a quantity was measured on, in order of first appearance."""
    found = (m.chip for row in report.rows if (m := row.measurement).quantity == quantity)
    return tuple(dict.fromkeys(found))


def _ordered(report: FidelityReport, chip: str) -> list[tuple[str, bool]]:
    """Return the parts of a report, those of a chip first."""
    return sorted(report.parts, key=lambda part: chip not in _chips(report, part[0]))


def _summary_table(report: FidelityReport, chip: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "what": _part_label(report, *part),
                "rows": _counted(report.parts[part]),
                "mean error": _percent(report.parts[part].mape),
                "left out": _percent(report.parts[part].left_out_mape),
                "worst row": _percent(report.parts[part].worst),
                "plain roofline": _percent(report.parts[part].naive_mape),
            }
            for part in _ordered(report, chip)
        ]
    )


def _own_summary(mine: FidelityReport, chip: str) -> None:
    st.subheader("How far from your own rows?", anchor=False)
    if not mine.rows:
        st.markdown("Every row of your file is a published one.")
        return
    st.table(_summary_table(mine, chip), hide_index=True)
    st.caption("Your rows only; the table of published measurements above leaves them out.")


def _part_label(report: FidelityReport, quantity: str, searched: bool) -> str:
    label = quantity_label(quantity)
    if quantity == SEARCHED:
        label = "serving, plan not given: the model's best" if searched else ONE_REQUEST
    chips = " and the ".join(map(chip_label, _chips(report, quantity)))
    return plain(_capital(f"{label}, {chips}"))


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _counted(item: Summary) -> str:
    missing = item.rows - item.modelled
    return f"{item.rows}, {missing} not modelled" if missing else str(item.rows)


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else percent(fraction)


def _rows(report: FidelityReport, own: Sequence[Row] | None, chip: str) -> None:
    st.subheader("Row by row", anchor=False)
    quantities = dict.fromkeys(quantity for quantity, _ in _ordered(report, chip))
    chips = sorted({row.measurement.chip for row in report.rows}, key=lambda name: name != chip)
    own_chip = [f"{OF_CHIP}{name}" for name in chips if name == chip]
    mine = [MINE] if own is not None else []
    options = list(dict.fromkeys([*own_chip, EVERYTHING, *mine, *quantities]))
    first = options[0]
    if st.session_state.get(OPENED_FOR) != chip and st.session_state.get(SHOW) != MINE:
        st.session_state[SHOW] = first
    st.session_state[OPENED_FOR] = chip
    if st.session_state.get(SHOW) not in options:
        st.session_state[SHOW] = first
    chosen = st.selectbox(
        "Show",
        options,
        format_func=lambda name: _option_label(report, name),
        key=SHOW,
        persist_state="session",
    )
    rows = _chosen(report.rows, chosen, own)
    data = parity_data(rows)
    if data.points:
        chart(
            parity_figure(data),
            "parity",
            "Predicted over measured against the measured value, with the ±10 % band",
        )
    if data.left_over:
        st.caption(f"The {data.left_over:,} rows of least error are not drawn.")
    st.dataframe(
        _row_table(rows),
        hide_index=True,
        height=ROWS_SHOWN_HEIGHT,
        key="fidelity_rows",
        placeholder="–",
        column_config={
            "error": st.column_config.NumberColumn(format="%+.1f %%"),
            "row": st.column_config.TextColumn(width="medium"),
            "how": st.column_config.TextColumn(width="large"),
        },
    )
    _flags(rows)


def _option_label(report: FidelityReport, name: str) -> str:
    """Return an option of the filter in words: a chip, everything, or a quantity and its chip."""
    if name.startswith(OF_CHIP):
        return f"Everything on the {chip_label(name.removeprefix(OF_CHIP))}"
    if name in (EVERYTHING, MINE):
        return _capital(name)
    return _capital(quantity_label(name, _chips(report, name)))


def _chosen(rows: Sequence[Row], chosen: str, own: Sequence[Row] | None) -> list[Row]:
    if chosen == EVERYTHING:
        return list(rows)
    if chosen.startswith(OF_CHIP):
        return [row for row in rows if row.measurement.chip == chosen.removeprefix(OF_CHIP)]
    if chosen == MINE:
        return list(own or ())
    return [row for row in rows if row.measurement.quantity == chosen]


def _row_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the rows, the largest error first, those without a prediction last."""
    ordered = sorted(rows, key=lambda row: -1.0 if row.error is None else abs(row.error))
    return pd.DataFrame(
        [
            {
                "error": None if row.error is None else 100 * row.error,
                "row": row.measurement.id,
                "measured": _value(row, row.measurement.si_value),
                "predicted": _value(row, row.prediction.value if row.prediction else None),
                "how": row.basis or row.reason,
                "source": row.measurement.source,
            }
            for row in reversed(ordered)
        ],
        columns=["error", "row", "measured", "predicted", "how", "source"],
    )


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


def _upload(own: tuple[str, bytes] | None) -> None:
    st.subheader("Your own measurements", anchor=False)
    st.caption(
        f"A CSV file with the columns {', '.join(COLUMNS)}; conditions are written "
        "dtype=fp16;m=4096;k=4096;n=1024. Nothing is fitted to it here (Bring your own does that), "
        "and it stays in this session."
    )
    st.file_uploader(
        "Measurements",
        type=["csv"],
        key=UPLOAD,
        max_upload_size=LARGEST_UPLOAD_MB,
        on_change=_uploaded,
    )
    uploads.show_refused(REFUSED)
    if own is not None:
        st.text(f"{own[0]} has a table of its own above, and its rows are among those listed.")
        st.button("Leave it out again", key="forget_measurements", on_click=own_rows.forget_file)


def _uploaded() -> None:
    if own_rows.take_upload(UPLOAD, REFUSED):
        st.session_state[SHOW] = MINE


def _fitted(report: FidelityReport, chip: str) -> None:
    st.subheader("Which numbers were fitted, and to what", anchor=False)
    fits = sorted(report.fits, key=lambda fit: fit.spec.chip != chip)
    st.table(pd.DataFrame([row for fit in fits for row in _fit_rows(fit)]), hide_index=True)
    st.caption(
        "Range: the least and the largest value over refits without a row, or without all rows "
        "of one size, method or precision. Everything else is published, measured, derived or "
        "assumed, as said beside its slider."
    )
    with folded("Errors on whole groups that were left out", "groups") as is_open:
        if is_open:
            st.table(
                pd.DataFrame([row for fit in fits for row in _group_rows(fit)]),
                hide_index=True,
            )


def _fit_rows(fit: FitResult) -> list[dict[str, str]]:
    quantities = load_chip(fit.spec.chip).quantities
    return [
        {
            "number": quantities[name].label,
            "value": human(quantities[name].value, quantities[name].unit),
            "range": " to ".join(
                dict.fromkeys(human(end, quantities[name].unit) for end in fit.spread(name))
            ),
            "fitted to": f"{len(fit.rows)} rows, {fit.spec.name}: {quantities[name].source}",
        }
        for name in fit.constants
    ]


def _group_rows(fit: FitResult) -> list[dict[str, str]]:
    rows = []
    for key in dict.fromkeys(fold.key for fold in fit.by_group):
        folds = [fold for fold in fit.by_group if fold.key == key]
        held = fit.spec.held.get(key, ())
        labels = [load_chip(fit.spec.chip).quantities[name].label for name in held]
        rows.append(
            {
                "model": fit.spec.name,
                "without one": key,
                "mean error on it (worst row)": ", ".join(
                    f"{f.value}: {_percent(f.mape)} ({_percent(f.worst)})" for f in folds
                ),
                "kept": ", ".join(labels) or "–",
            }
        )
    return rows


def _not_modelled(report: FidelityReport) -> None:
    rows = report.not_modelled
    if not rows:
        return
    st.subheader("What is not modelled, and why", anchor=False)
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row.measurement.id)
    st.dataframe(
        pd.DataFrame(
            [{"why": reason, "rows": ", ".join(ids)} for reason, ids in by_reason.items()]
        ),
        hide_index=True,
        key="not_modelled",
        column_config={"why": st.column_config.TextColumn(width="large")},
    )
