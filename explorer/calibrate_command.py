"""The ``calibrate`` command: constants of a chip fitted to measurements of one's own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from explorer.config.chip import Chip
from explorer.config.errors import refuse
from explorer.config.files import chip_from
from explorer.config.presets import load_chip, versions_of
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
from explorer.fidelity.effects import Pair
from explorer.fidelity.intervals import CONFIDENCE
from explorer.fidelity.measurements import Measurement, read_measurements
from explorer.fidelity_command import error_text
from explorer.outfile import json_text, write_text

CALIBRATION_SCHEMA = "explorer.calibration/1"
MOST_OFFERED = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--data",
        action="append",
        required=True,
        metavar="FILE.csv",
        help="measurements to fit to; may be repeated",
    )
    parser.add_argument(
        "--chip",
        metavar="ID|FILE",
        help="where the constants start; needed where the rows are of several chips",
    )
    parser.add_argument(
        "--constants",
        metavar="A,B,...",
        help="fit these; without it, those fitted or assumed that the rows determine",
    )
    parser.add_argument("--out", metavar="FILE", help="write the calibrated chip to a file")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the calibration's document and its text.

    Raises:
        InputError: for a file, chip or constant that cannot be used, or with ``--out`` when
            nothing could be fitted.
    """
    rows = [row for path in options.data for row in read_measurements(path)]
    chip = _chip(options.chip) if options.chip else chip_of(rows)
    names = () if options.constants is None else tuple(options.constants.split(","))
    calibration = calibrate(rows, chip, [name.strip() for name in names])
    if options.out is not None:
        write_text(options.out, json_text(chip_document(calibrated_chip(calibration))))
    return calibration_document(calibration), calibration_text(calibration)


def chip_of(rows: Sequence[Measurement]) -> Chip:
    """Return the one chip preset that some rows are of; raises InputError."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.chip] = counts.get(row.chip, 0) + 1
    known = [name for name in counts if name in versions_of("chips")]
    if len(known) == 1:
        return load_chip(known[0])
    if not known:
        names = ", ".join(list(counts)[:4])
        accepted = f"no row is of a preset ({', '.join(versions_of('chips'))}); name one"
        raise refuse("--chip", names, accepted)
    found = " and ".join(f"{counts[name]} of {name}" for name in known)
    raise refuse("--chip", "", f"the rows are of several chips ({found}); name one")


def chip_document(chip: Chip) -> dict[str, Any]:
    """Return a chip as JSON values."""
    return chip.model_dump(mode="json", by_alias=True)


def _chip(reference: str) -> Chip:
    """Return the chip of a preset (``id`` or ``id@version``) or of a file."""
    found = chip_from(reference)
    return load_chip(found) if isinstance(found, str) else found


def calibration_document(calibration: Calibration) -> dict[str, Any]:
    """Return a calibration as JSON values; errors are fractions of the measured value."""
    base = calibration.chip
    fitted = bool(calibration.constants)
    return {
        "schema": CALIBRATION_SCHEMA,
        "headline": headline(calibration),
        "chip": f"{base.id}@{base.version}",
        "files": list(calibration.files),
        "summary": {
            "rows": len(calibration.rows),
            "used": len(calibration.used),
            "constants": len(calibration.constants),
            "mape_before": calibration.mean_error("before"),
            "mape_after": calibration.mean_error("after"),
            "left_out_mape": calibration.mean_error("left_out"),
            "folds": calibration.folds,
        },
        "confidence": CONFIDENCE,
        "assumes": ASSUMES,
        "constants": [_constant(calibration, index) for index in range(len(calibration.constants))],
        "not_fitted": dict(calibration.not_fitted),
        "also_determined": list(calibration.offered),
        "alike": [_pair(pair) for pair in calibration.alike],
        "traded": [_pair(pair) for pair in calibration.traded],
        "odd_rows": list(calibration.odd),
        "warnings": list(warnings(calibration)),
        "rows": [_row(row) for row in calibration.rows],
        "calibrated": chip_document(calibrated_chip(calibration)) if fitted else None,
    }


def _constant(calibration: Calibration, index: int) -> dict[str, Any]:
    constant = calibration.constants[index]
    knob, interval = calibration.chip.knob(constant.name), constant.interval
    return {
        "name": constant.name,
        "label": knob.label,
        "unit": knob.unit,
        "before": constant.before,
        "value": constant.value,
        "low": interval.low,
        "high": interval.high,
        "jackknife_low": interval.jackknife_low,
        "jackknife_high": interval.jackknife_high,
        "at_bound": interval.at or None,
        "minimum": knob.minimum,
        "maximum": knob.maximum,
        "degrees_of_freedom": interval.degrees,
        "rows": list(constant.rows),
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {"constants": [pair.first, pair.second], "correlation": pair.correlation}


def _row(row: CalibratedRow) -> dict[str, Any]:
    m = row.measurement

    def shown(predicted: float | None) -> float | None:
        return None if predicted is None else predicted / m.unit_size

    return {
        "id": m.id,
        "file": m.file,
        "quantity": m.quantity,
        "conditions": dict(m.conditions),
        "measured": m.value,
        "unit": m.unit,
        "before": shown(row.before),
        "after": shown(row.after),
        "left_out": shown(row.left_out),
        "error_before": row.error(row.before),
        "error_after": row.error(row.after),
        "left_out_error": row.error(row.left_out),
        "identifies": dict(row.effects),
        "reason": row.reason or None,
        "note": row.note or None,
    }


def calibration_text(calibration: Calibration) -> str:
    """Return a calibration as text, the outcome first."""
    parts = (
        [headline(calibration)],
        _constant_lines(calibration),
        [f"  ! {warning}" for warning in warnings(calibration)],
        _row_lines(calibration),
        _not_fitted_lines(calibration),
        _not_used_lines(calibration),
    )
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _constant_lines(calibration: Calibration) -> list[str]:
    if not calibration.constants:
        return []
    table = [
        (
            "#",
            "constant",
            "before",
            "fitted",
            f"{100 * CONFIDENCE:.0f} % interval",
            "jackknife",
            "rows",
        )
    ]
    for number, constant in enumerate(calibration.constants, start=1):
        unit = calibration.chip.quantities[constant.name].unit
        table.append(
            (
                str(number),
                constant.name,
                human(constant.before, unit),
                human(constant.value, unit),
                interval_text(calibration, constant),
                jackknife_text(calibration, constant),
                str(len(constant.rows)),
            )
        )
    return [*_columns(table), "", f"  {ASSUMES}"]


def _columns(table: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _row_lines(calibration: Calibration) -> list[str]:
    """Return each used row with its errors and the constants that it says something of."""
    numbers = {item.name: i for i, item in enumerate(calibration.constants, start=1)}
    table = [("row", "before", "after", "left out", "identifies, and its percent for 1 % of #")]
    for row in calibration.used:
        effects = sorted(row.effects.items(), key=lambda item: -abs(item[1]))
        table.append(
            (
                row.measurement.id,
                error_text(row.error(row.before), signed=True),
                error_text(row.error(row.after), signed=True),
                error_text(row.error(row.left_out), signed=True),
                ", ".join(f"#{numbers[name]} {effect:+.2f}" for name, effect in effects) or "-",
            )
        )
    return _columns(table)


def _not_fitted_lines(calibration: Calibration) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in calibration.not_fitted.items():
        by_reason.setdefault(reason, []).append(name)
    lines = [f"  {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
    lines += [
        f"  hard to tell apart, correlation {correlation:.2f}: {first}, {second}"
        for first, second, correlation in calibration.alike
        if not {first, second} & calibration.not_fitted.keys()
    ]
    if calibration.offered:
        names = ",".join(calibration.offered[:MOST_OFFERED])
        lines.append(f"  measured or derived, and determined too; to fit them: --constants {names}")
    return ["Not fitted", *lines] if lines else []


def _not_used_lines(calibration: Calibration) -> list[str]:
    rows = calibration.not_used
    if not rows:
        return []
    return ["Not used", *(f"  {row.measurement.id}: {row.reason}" for row in rows)]
