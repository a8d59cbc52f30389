"""Section "Measurements": constants fitted to a person's own rows, and the chip that they make."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from explorer.config.chip import Chip
from explorer.config.errors import InputError
from explorer.config.presets import load_chip, scenario_presets, versions_of
from explorer.config.units import human
from explorer.fidelity.calibrated import (
    ASSUMES,
    calibrated_chip,
    headline,
    interval_text,
    jackknife_text,
    warnings,
)
from explorer.fidelity.calibration import CalibratedRow, Calibration, calibrate
from explorer.fidelity.intervals import CONFIDENCE
from explorer.fidelity.measurements import COLUMNS, Measurement
from explorer.fidelity.selection import fittable
from explorer.outfile import json_text
from explorer.plots.calibration import before_after, before_after_figure
from explorer.plots.fidelity import UNIT_OF
from explorer.ui import own_profile, own_rows, state, uploads
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.tables import show_table
from explorer.ui.text import plain

LARGEST_UPLOAD_MB = 4
UPLOAD, REFUSED = "own:data", "own:data refused"
CHIP, CONSTANTS, USED = "own:calibrated chip", "own:constants", "own:used chip"
ROWS_HEIGHT = 320
MOST_OFFERED = 6


def section() -> None:
    """Draw the section: the outcome first, then where it comes from, then what to bring."""
    files = own_rows.own_files()
    if not files:
        st.markdown(
            "Bring measurements of your machine: the numbers of the cost model that they "
            "determine are **fitted to them**, with intervals and the error on rows left out."
        )
    else:
        _calibrated(own_rows.own_measurements(files))
    left, right = st.columns(2)
    with left:
        _upload()
    with right:
        own_profile.paste()


def _calibrated(rows: Sequence[Measurement]) -> None:
    answer = st.container()
    chips = _chips(rows)
    if not chips:
        found = ", ".join(dict.fromkeys(row.chip for row in rows))
        known = ", ".join(versions_of("chips"))
        answer.error(plain(f"No row is of a chip that is modelled: {found}. Known: {known}."))
        return
    left, right = st.columns(2)
    with left:
        chip = _chosen_chip(chips)
    with right:
        names = _chosen_constants(chip)
    try:
        calibration = _calibration(
            own_rows.own_files(), chip.model_dump_json(by_alias=True), tuple(names)
        )
    except InputError as error:
        answer.error(plain(f"Nothing was fitted. {error}"))
        return
    with answer:
        _outcome(calibration)
    with folded("Row by row: what each says of which constant", "own rows") as is_open:
        if is_open:
            _rows(calibration)
    with folded("What is not fitted, and rows that are not used", "own reasons") as is_open:
        if is_open:
            _reasons(calibration)


@st.cache_data(max_entries=16, show_spinner="Fitting the constants to your rows …")
def _calibration(
    files: tuple[tuple[str, bytes], ...], chip: str, names: tuple[str, ...]
) -> Calibration:
    rows = own_rows.own_measurements(files)
    return calibrate(rows, Chip.model_validate_json(chip), names)


def _chips(rows: Sequence[Measurement]) -> dict[str, Chip]:
    """Return the chips that the rows may be of, by id: that of most rows first."""
    counts = Counter(row.chip for row in rows)
    present = state.scenario().chip_document()
    found: dict[str, Chip] = {}
    for name, _ in counts.most_common():
        if name in versions_of("chips"):
            preset = load_chip(name)
            if present.family == preset.family:
                found.setdefault(present.id, present)
            found.setdefault(preset.id, preset)
        elif name == present.id:
            found.setdefault(present.id, present)
    return found


def _chosen_chip(chips: Mapping[str, Chip]) -> Chip:
    options = list(chips)
    present = state.scenario().chip_document().id
    if st.session_state.get(CHIP) not in options:
        st.session_state[CHIP] = present if present in options else options[0]
    chosen = st.selectbox(
        "Start from",
        options,
        key=CHIP,
        format_func=lambda name: f"{plain(chips[name].name)} ({name})",
        persist_state="session",
        help="The constants start at this chip's values and keep to its ranges.",
    )
    return chips[str(chosen)]


def _chosen_constants(chip: Chip) -> list[str]:
    options = fittable(chip, named=True)
    kept = [name for name in st.session_state.get(CONSTANTS, ()) if name in options]
    st.session_state[CONSTANTS] = kept
    chosen = st.multiselect(
        "Constants",
        options,
        key=CONSTANTS,
        format_func=lambda name: f"{chip.quantities[name].label} ({chip.quantities[name].kind})",
        placeholder="those that the rows determine",
        persist_state="session",
        help="Without a choice: of those fitted or assumed, as few as the rows determine. Named "
        "ones may be measured or derived too.",
    )
    return [str(name) for name in chosen]


def _outcome(calibration: Calibration) -> None:
    st.subheader(plain(_sentence(calibration)), anchor=False)
    if not calibration.constants:
        _offered(calibration)
        return
    show_table(_constants(calibration))
    for warning in warnings(calibration):
        st.text(f"⚠ {warning[0].upper()}{warning[1:]}.")
    data = before_after(calibration)
    chart(
        before_after_figure(data),
        "own_parity",
        "Predicted over measured before and after the calibration, with the ±10 % band",
    )
    if data.after.left_over:
        st.caption(f"The {data.after.left_over:,} rows of least error are not drawn.")
    _take(calibration)
    st.caption(ASSUMES)
    _offered(calibration)


def _sentence(calibration: Calibration) -> str:
    text = headline(calibration)
    return f"Your {text}."


def _constants(calibration: Calibration) -> pd.DataFrame:
    table = []
    for constant in calibration.constants:
        quantity = calibration.chip.quantities[constant.name]
        table.append(
            {
                "constant": plain(quantity.label),
                "before": plain(f"{human(constant.before, quantity.unit)}, {quantity.kind}"),
                "fitted": plain(human(constant.value, quantity.unit)),
                f"{100 * CONFIDENCE:.0f} % interval": plain(interval_text(calibration, constant)),
                "jackknife": plain(jackknife_text(calibration, constant)),
                "rows": str(len(constant.rows)),
            }
        )
    return pd.DataFrame(table)


def _offered(calibration: Calibration) -> None:
    if calibration.offered:
        labels = [calibration.chip.quantities[name].label for name in calibration.offered]
        more = f" and {len(labels) - MOST_OFFERED} more" if len(labels) > MOST_OFFERED else ""
        st.caption(
            plain(
                "Your rows also determine numbers that were measured or derived; choose them "
                f"under Constants to fit them: {', '.join(labels[:MOST_OFFERED])}{more}."
            )
        )


def _take(calibration: Calibration) -> None:
    chip = calibrated_chip(calibration)
    with st.container(horizontal=True):
        st.button(
            "Use this chip",
            key="use_calibrated",
            type="primary",
            on_click=_use,
            args=(chip,),
            disabled=state.scenario().chip_document() == chip,
            help="Plan, workload and model stay; changes of the machine's sliders are dropped.",
        )
        st.download_button(
            "Download as JSON",
            data=json_text(chip.model_dump(mode="json", by_alias=True)),
            file_name=f"{chip.id}.json",
            mime="application/json",
            on_click="ignore",
            key="download_calibrated",
            help="A chip document with the sources of its fitted numbers.",
        )
    if st.session_state.get(USED) == chip.id and state.scenario().chip_document() == chip:
        st.text(f"{chip.name} is on the sliders now.")


def _use(chip: Chip) -> None:
    """Put the calibrated chip into the scenario; one of another machine takes its first preset."""
    if state.scenario().chip_document().family != chip.family:
        same = (
            preset
            for preset in scenario_presets()
            if load_chip(str(preset.scenario["chip"])).family == chip.family
        )
        preset = next(same)
        state.load_preset(f"{preset.id}@{preset.version}")
    try:
        state.replace(state.scenario().with_chip(chip))
    except InputError as error:
        state.notice(error.problems, "The chip was not used")
        return
    st.session_state[USED] = chip.id


def _rows(calibration: Calibration) -> None:
    st.dataframe(
        pd.DataFrame([_row(calibration, row) for row in calibration.used]),
        hide_index=True,
        height=ROWS_HEIGHT,
        key="own_row_table",
        placeholder="–",
        column_config={
            **{
                name: st.column_config.NumberColumn(format="%+.1f %%")
                for name in ("error before", "after", "left out")
            },
            "row": st.column_config.TextColumn(width="medium"),
            "says something of": st.column_config.TextColumn(width="large"),
        },
    )
    st.caption(
        "Behind each constant: by how many percent the prediction moves when the constant moves "
        "by one. Left out: predicted by a fit without the row."
    )


def _row(calibration: Calibration, row: CalibratedRow) -> dict[str, object]:
    effects = sorted(row.effects.items(), key=lambda item: -abs(item[1]))
    labels = {
        item.name: calibration.chip.quantities[item.name].label for item in calibration.constants
    }
    m = row.measurement
    return {
        "row": m.id,
        "measured": human(m.si_value, UNIT_OF[m.dimension] if m.dimension else ""),
        "error before": _percent(row, row.before),
        "after": _percent(row, row.after),
        "left out": _percent(row, row.left_out),
        "says something of": "; ".join(f"{labels[name]} {e:+.2f}" for name, e in effects) or "–",
    }


def _percent(row: CalibratedRow, predicted: float | None) -> float | None:
    error = row.error(predicted)
    return None if error is None else 100 * error


def _reasons(calibration: Calibration) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in calibration.not_fitted.items():
        by_reason.setdefault(reason, []).append(calibration.chip.quantities[name].label)
    for row in calibration.not_used:
        by_reason.setdefault(row.reason, []).append(row.measurement.id)
    for first, second, correlation in calibration.alike:
        labels = [calibration.chip.quantities[name].label for name in (first, second)]
        reason = f"effects that correlate by {correlation:.2f}"
        by_reason.setdefault(reason, []).append(" and ".join(labels))
    if not by_reason:
        st.text("Every row is used.")
        return
    table = [
        {"why": _named(calibration, reason), "which": "; ".join(which)}
        for reason, which in by_reason.items()
    ]
    st.dataframe(
        pd.DataFrame(table),
        hide_index=True,
        key="own_reasons",
        column_config={
            "why": st.column_config.TextColumn(width="large"),
            "which": st.column_config.TextColumn(width="large"),
        },
    )


def _named(calibration: Calibration, text: str) -> str:
    """Return a reason with labels in place of the names of constants."""
    quantities = calibration.chip.quantities
    return re.sub(
        r"[a-z][a-z0-9_]+",
        lambda word: quantities[word[0]].label if word[0] in quantities else word[0],
        text,
    )


def _upload() -> None:
    st.subheader("A file of measurements", anchor=False)
    st.caption(
        f"A CSV file with the columns {', '.join(COLUMNS)}; conditions are written "
        "dtype=fp16;m=4096;k=4096;n=1024. It stays in this session."
    )
    st.file_uploader(
        "Measurements",
        type=["csv"],
        key=UPLOAD,
        max_upload_size=LARGEST_UPLOAD_MB,
        on_change=_uploaded,
    )
    uploads.show_refused(REFUSED)
    own = st.session_state.get(own_rows.OWN)
    if own is not None:
        st.text(f"{own[0]} is used.")
        st.button("Leave the file out again", key="forget_own_file", on_click=own_rows.forget_file)


def _uploaded() -> None:
    own_rows.take_upload(UPLOAD, REFUSED)
