"""The ``fidelity`` command: its document and its text."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from explorer.config.presets import load_chip
from explorer.config.units import percent, significant
from explorer.fidelity.fit import FitResult
from explorer.fidelity.measurements import SEARCHED, read_measurements
from explorer.fidelity.report import FidelityReport, Row, Summary, fidelity_report

FIDELITY_SCHEMA = "explorer.fidelity/1"
WORST_ROWS = 2
GROUP_KEYS = (
    ("gemm_latency", "dtype"),
    ("attention_latency", "method"),
    ("serving_throughput", "stage"),
    ("phase_time", "phase"),
)
HEADINGS = ("rows", "modelled", "mean", "median", "worst", "left out", "roofline")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE.csv",
        help="predict further measurements too, never fit to them; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the report's document and its text; raises InputError for a file that is no good."""
    further = [row for path in options.data for row in read_measurements(path)]
    report = fidelity_report(further)
    return fidelity_document(report), fidelity_text(report)


def fidelity_document(report: FidelityReport) -> dict[str, Any]:
    """Return the report as JSON values; errors are fractions of the measured value."""
    return {
        "schema": FIDELITY_SCHEMA,
        "rows": [_row(row) for row in report.rows],
        "summary": {quantity: asdict(item) for quantity, item in report.summary.items()},
        "groups": {
            f"{quantity}.{key}": {
                value: asdict(item) for value, item in report.groups(quantity, key).items()
            }
            for quantity, key in GROUP_KEYS
        },
        "speed_ups": {item.name: asdict(item) for item in report.speed_ups},
        "fits": [_fit(fit) for fit in report.fits],
    }


def fidelity_text(report: FidelityReport) -> str:
    """Return the report as text, the errors by quantity first."""
    parts = (
        _summary_lines(report),
        _group_lines(report),
        _worst_lines(report),
        _fit_lines(report),
        _flag_lines(report),
        _not_modelled_lines(report),
    )
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def error_text(fraction: float | None, signed: bool = False) -> str:
    """Return a fraction as a percentage, ``-`` for a missing one."""
    if fraction is None:
        return "-"
    sign = "+" if signed and fraction >= 0 else ""
    return f"{sign}{percent(fraction)}"


def _row(row: Row) -> dict[str, Any]:
    m = row.measurement
    return {
        "id": m.id,
        "file": m.file,
        "chip": m.chip,
        "model": m.model or None,
        "quantity": m.quantity,
        "conditions": dict(m.conditions),
        "measured": m.value,
        "predicted": row.predicted,
        "unit": m.unit,
        "error": row.error,
        "left_out_error": row.left_out_error,
        "naive_error": row.naive_error,
        "reason": row.reason or None,
        "basis": row.basis or None,
        "extrapolated": row.extrapolated,
        "above_bound": row.above_bound,
        "source": m.source,
    }


def _fit(fit: FitResult) -> dict[str, Any]:
    quantities = load_chip(fit.spec.chip).quantities
    constants = {}
    for name, refit in fit.constants.items():
        lowest, highest = fit.spread(name)
        constants[name] = {
            "value": quantities[name].value,
            "unit": quantities[name].unit,
            "refit": refit,
            "lowest": lowest,
            "highest": highest,
            "source": quantities[name].source,
        }
    return {
        "name": fit.spec.name,
        "chip": fit.spec.chip,
        "rows": [row.id for row in fit.rows],
        "constants": constants,
        "left_out_mape": sum(fold.mape for fold in fit.by_row) / len(fit.by_row),
        "left_out_groups": [
            {
                "condition": fold.key,
                "value": fold.value,
                "rows": len(fold.rows),
                "mape": fold.mape,
                "worst": fold.worst,
                "held": list(fit.spec.held.get(fold.key, ())),
            }
            for fold in fit.by_group
        ],
    }


def _summary_lines(report: FidelityReport) -> list[str]:
    lines = ["Absolute error, predicted against measured", "", _columns("", HEADINGS)]
    lines += [_columns(name, _cells(item)) for name, item in report.summary.items()]
    lines += [
        "",
        "left out: each row predicted by a refit without it; roofline: peak and bandwidth alone",
        "slopes read off the Ascend's profile are measured, not fitted: left out keeps them",
    ]
    return lines


def _group_lines(report: FidelityReport) -> list[str]:
    lines = ["By group"]
    for quantity, key in GROUP_KEYS:
        for value, item in report.groups(quantity, key).items():
            lines.append(_columns(f"{quantity} {value}", _cells(item)))
    lines += [
        _columns(f"serving, plan {'searched for' if searched else 'given'}", _cells(item))
        for (quantity, searched), item in report.parts.items()
        if quantity == SEARCHED
    ]
    lines += [
        f"  speed-up {found.name}: measured {significant(found.measured)}, predicted "
        f"{significant(found.predicted)} in the mean of {found.pairs} pairs, error "
        f"{error_text(found.mape)}"
        for found in report.speed_ups
    ]
    return lines


def _cells(item: Summary) -> tuple[str, ...]:
    shares = (item.mape, item.median, item.worst, item.left_out_mape, item.naive_mape)
    return (str(item.rows), str(item.modelled), *map(error_text, shares))


def _columns(name: str, cells: tuple[str, ...]) -> str:
    return f"  {name:36}" + "".join(f"{cell:>10}" for cell in cells)


def _worst_lines(report: FidelityReport) -> list[str]:
    lines = ["Worst rows of each quantity"]
    for quantity in report.summary:
        rows = [row for row in report.worst if row.measurement.quantity == quantity]
        lines += map(_row_line, rows[:WORST_ROWS])
    return lines


def _row_line(row: Row) -> str:
    m = row.measurement
    basis = f"  ({row.basis})" if row.basis else ""
    return (
        f"  {error_text(row.error, signed=True):>9}  {m.id}: measured {significant(m.value)}, "
        f"predicted {significant(row.predicted or 0.0)} {m.unit}{basis}"
    )


def _fit_lines(report: FidelityReport) -> list[str]:
    lines = ["Fitted numbers (from refits without a row or a group: lowest to highest)"]
    for fit in report.fits:
        quantities = load_chip(fit.spec.chip).quantities
        lines.append(f"  {fit.spec.name}: {len(fit.rows)} rows of {fit.spec.chip}")
        for name in fit.constants:
            ends = " to ".join(f"{end:.4g}" for end in fit.spread(name))
            lines.append(f"    {name} = {quantities[name].value:.4g} ({ends})")
        for key in dict.fromkeys(fold.key for fold in fit.by_group):
            folds = ", ".join(
                f"{fold.value} {error_text(fold.mape)} ({error_text(fold.worst)})"
                for fold in fit.by_group
                if fold.key == key
            )
            held = fit.spec.held.get(key, ())
            kept = f" ({', '.join(held)} kept)" if held else ""
            lines.append(f"    without one {key}{kept}, mean (worst) error on it: {folds}")
    lines += [
        f"  {chip}: {name} is fitted, no refit covers it" for chip, name in report.not_refitted
    ]
    return lines


def _flag_lines(report: FidelityReport) -> list[str]:
    beyond = [row.measurement.id for row in report.rows if row.extrapolated]
    above = [row.measurement.id for row in report.rows if row.above_bound]
    lines = []
    if beyond:
        lines.append(f"Extrapolated, outside what was fitted or measured: {', '.join(beyond)}")
    if above:
        lines.append(f"Measured above what peak and bandwidth allow: {', '.join(above)}")
    return lines


def _not_modelled_lines(report: FidelityReport) -> list[str]:
    rows = report.not_modelled
    if not rows:
        return []
    return ["Not modelled", *(f"  {row.measurement.id}: {row.reason}" for row in rows)]
