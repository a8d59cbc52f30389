"""Page "Fidelity": predictions against measurements, published and one's own."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from explorer.config.presets import load_chip
from explorer.config.units import human, significant
from explorer.fidelity.fit import FitResult
from explorer.fidelity.measurements import COLUMNS, parse_measurements
from explorer.fidelity.report import FidelityReport, Row, Summary, fidelity_report
from explorer.plots.fidelity import UNIT_OF, parity_data, parity_figure, quantity_label
from explorer.ui import own_rows
from explorer.ui.own_rows import OWN
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
UPLOAD, SHOW = "measurements", "fidelity_quantity"
REFUSED = "measurements_refused"
ASCEND = "ascend910a"
EVERYTHING = "everything"
MINE = "my own rows"
ROWS_SHOWN_HEIGHT = 380
ONE_REQUEST = "serving one request at a time"
TOLD = {
    "gemm_latency": "matrix products",
    "attention_latency": "attention",
    "serving_throughput": ONE_REQUEST,
    "prefill_throughput": "prefill on the Ascend",
    "decode_throughput": "its decode",
}


def page() -> None:
    """Draw the page; it depends on the models and the measurements, not on the sliders."""
    st.header("Can I believe it?", anchor=False)
    own: tuple[str, bytes] | None = st.session_state.get(OWN)
    shipped = _report("", b"")
    report = _report(*own) if own is not None else shipped
    st.markdown(_sentence(shipped))
    st.table(_summary_table(shipped), hide_index=True)
    st.caption(
        "Mean of |predicted − measured| / measured. Left out: each row is predicted by a model "
        "refitted without it; slopes read off the Ascend's profile are measured, not fitted, and "
        "stay. Plain roofline: the longer of arithmetic at peak and compulsory "
        "traffic at full bandwidth. Sliders do not change this page."
    )
    mine = FidelityReport(report.rows[len(shipped.rows) :], ())
    if own is not None:
        _own_summary(mine)
    _rows(report, mine.rows if own is not None else None)
    _upload(own)
    _fitted(report)
    _not_modelled(report)


@st.cache_data(max_entries=8, show_spinner="Comparing the models with every measurement …")
def _report(name: str, content: bytes) -> FidelityReport:
    return fidelity_report(parse_measurements(content, name) if name else ())


def _sentence(report: FidelityReport) -> str:
    told = [
        f"{name} within **{_percent(report.parts[quantity, False].mape)}**"
        for quantity, name in TOLD.items()
        if (quantity, False) in report.parts
    ]
    searched = [item for (_, best), item in report.parts.items() if best]
    text = f"In the mean, the models predict {', '.join(told)} of what was measured"
    if not searched or searched[0].mape is None:
        return f"{text}."
    return (
        f"{text}; where a paper does not say which plan it ran, the model's best plan is "
        f"**{_percent(searched[0].mape)}** away from it."
    )


def _summary_table(report: FidelityReport) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "what": _part_label(report, quantity, searched),
                "rows": _counted(item),
                "mean error": _percent(item.mape),
                "left out": _percent(item.left_out_mape),
                "worst row": _percent(item.worst),
                "plain roofline": _percent(item.naive_mape),
            }
            for (quantity, searched), item in report.parts.items()
        ]
    )


def _own_summary(mine: FidelityReport) -> None:
    st.subheader("How far from your own rows?", anchor=False)
    if not mine.rows:
        st.markdown("Every row of your file is a published one.")
        return
    st.table(_summary_table(mine), hide_index=True)
    st.caption("Your rows only; the table of published measurements above leaves them out.")


def _part_label(report: FidelityReport, quantity: str, searched: bool) -> str:
    label = plain(quantity_label(quantity))
    if quantity == "serving_throughput":
        label = "serving, plan not given: the model's best" if searched else ONE_REQUEST
    part = (quantity, searched)
    rows = [row for row in report.rows if (row.measurement.quantity, row.searched) == part]
    if {row.measurement.chip for row in rows} == {ASCEND}:
        label += " on the Ascend"
    return label[0].upper() + label[1:]


def _counted(item: Summary) -> str:
    missing = item.rows - item.modelled
    return f"{item.rows}, {missing} not modelled" if missing else str(item.rows)


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else f"{100 * fraction:.1f} %"


def _rows(report: FidelityReport, own: Sequence[Row] | None) -> None:
    st.subheader("Row by row", anchor=False)
    options = [EVERYTHING, *([MINE] if own is not None else []), *report.summary]
    if st.session_state.get(SHOW) not in options:
        st.session_state[SHOW] = EVERYTHING
    chosen = st.selectbox(
        "Show",
        options,
        format_func=lambda name: quantity_label(name).capitalize(),
        key=SHOW,
        persist_state="session",
    )
    rows = _chosen(report.rows, chosen, own)
    data = parity_data(rows)
    if data.points:
        st.plotly_chart(
            parity_figure(data),
            key="parity",
            width="stretch",
            alt="Predicted over measured against the measured value, with the ±10 % band",
        )
    if data.left_over:
        st.caption(f"The {data.left_over:,} rows of least error are not drawn.")
    st.dataframe(
        _row_table(rows),
        hide_index=True,
        height=ROWS_SHOWN_HEIGHT,
        key="fidelity_rows",
        column_config={
            "error": st.column_config.NumberColumn(format="%+.1f %%"),
            "row": st.column_config.TextColumn(width="medium"),
            "how": st.column_config.TextColumn(width="large"),
        },
    )
    _flags(rows)


def _chosen(rows: Sequence[Row], chosen: str, own: Sequence[Row] | None) -> list[Row]:
    if chosen == EVERYTHING:
        return list(rows)
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
    for reason in st.session_state.get(REFUSED, ()):
        st.text(f"⚠ {reason}")
    if own is not None:
        st.text(f"{own[0]} has a table of its own above, and its rows are among those listed.")
        st.button("Leave it out again", key="forget_measurements", on_click=own_rows.forget_file)


def _uploaded() -> None:
    if own_rows.take_upload(UPLOAD, REFUSED):
        st.session_state[SHOW] = MINE


def _fitted(report: FidelityReport) -> None:
    st.subheader("Which numbers were fitted, and to what", anchor=False)
    st.table(pd.DataFrame([row for fit in report.fits for row in _fit_rows(fit)]), hide_index=True)
    st.caption(
        "Range: the least and the largest value over refits without a row, or without all rows "
        "of one size, method or precision. Everything else is published, measured, derived or "
        "assumed, as said beside its slider."
    )
    with st.expander("Errors on whole groups that were left out"):
        st.table(
            pd.DataFrame([row for fit in report.fits for row in _group_rows(fit)]),
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
            "fitted to": f"{len(fit.rows)} rows: {fit.spec.name}",
            "source": quantities[name].source,
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
                "mean error on it": ", ".join(f"{f.value}: {_percent(f.mape)}" for f in folds),
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
