"""Page "Fidelity": predictions against measurements, published and one's own."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.config.presets import load_chip
from explorer.config.units import human, percent
from explorer.fidelity.fit import FitResult
from explorer.fidelity.measurements import COLUMNS, SEARCHED, parse_measurements
from explorer.fidelity.report import FidelityReport, Summary, fidelity_report
from explorer.plots.fidelity import chip_label, quantity_label
from explorer.plots.style import capital
from explorer.ui import own_rows, state, uploads
from explorer.ui.fidelity_rows import MINE, SHOW, chips_of, row_by_row
from explorer.ui.folded import folded
from explorer.ui.own_rows import OWN
from explorer.ui.tables import show_table
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
UPLOAD, REFUSED = "measurements", "measurements_refused"
MOST_NAMED = 20
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
    show_table(_summary_table(shipped, chip))
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
    quantities = dict.fromkeys(quantity for quantity, _ in _ordered(report, chip))
    row_by_row(report, mine.rows if own is not None else None, chip, list(quantities))
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
            chips = " and the ".join(map(chip_label, chips_of(report, quantity)))
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


def _ordered(report: FidelityReport, chip: str) -> list[tuple[str, bool]]:
    """Return the parts of a report, those of a chip first."""
    return sorted(report.parts, key=lambda part: chip not in chips_of(report, part[0]))


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
    show_table(_summary_table(mine, chip))
    st.caption("Your rows only; the table of published measurements above leaves them out.")


def _part_label(report: FidelityReport, quantity: str, searched: bool) -> str:
    label = quantity_label(quantity)
    if quantity == SEARCHED:
        label = "serving, plan not given: the model's best" if searched else ONE_REQUEST
    chips = " and the ".join(map(chip_label, chips_of(report, quantity)))
    return plain(capital(f"{label}, {chips}"))


def _counted(item: Summary) -> str:
    missing = item.rows - item.modelled
    return f"{item.rows}, {missing} not modelled" if missing else str(item.rows)


def _percent(fraction: float | None) -> str:
    return "–" if fraction is None else percent(fraction)


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
    show_table([row for fit in fits for row in _fit_rows(fit)])
    st.caption(
        "Range: the least and the largest value over refits without a row, or without all rows "
        "of one size, method or precision. Everything else is published, measured, derived or "
        "assumed, as said beside its slider."
    )
    with folded("Errors on whole groups that were left out", "groups") as is_open:
        if is_open:
            show_table([row for fit in fits for row in _group_rows(fit)])


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
    show_table([{"why": plain(reason), "rows": _named(ids)} for reason, ids in by_reason.items()])


def _named(ids: list[str]) -> str:
    more = f" and {len(ids) - MOST_NAMED:,} more" if len(ids) > MOST_NAMED else ""
    return plain(", ".join(ids[:MOST_NAMED])) + more
