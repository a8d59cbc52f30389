"""The accuracy table: no model may get worse, or stop predicting a row that it used to predict.

After a change that is meant to move errors, write the table anew and commit it with the change:

    .venv/bin/python -m tests.test_fidelity_accuracy
"""

from __future__ import annotations

import json
from pathlib import Path

from explorer.fidelity.report import FidelityReport, fidelity_report

TABLE = Path(__file__).with_name("accuracy.json")
WORSE_BY = 0.003
WORSE_BY_SHARE = 0.03


def accuracy(report: FidelityReport) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return mean errors by quantity and signed errors by row, in percent."""
    quantities = {
        f"{quantity}, plan searched for" if searched else quantity: {
            "mape": percent(item.mape),
            "left_out_mape": percent(item.left_out_mape),
        }
        for (quantity, searched), item in report.parts.items()
    }
    rows = {row.measurement.id: percent(row.error) for row in report.rows}
    return {"quantities": quantities, "rows": {"error": rows}}


def percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 2)


def test_no_quantity_got_worse() -> None:
    known = json.loads(TABLE.read_text(encoding="utf-8"))["quantities"]
    now = accuracy(fidelity_report())["quantities"]
    worse = []
    for quantity, errors in known.items():
        for name, before in errors.items():
            after = now.get(quantity, {}).get(name)
            allowed = before * (1 + WORSE_BY_SHARE) + 100 * WORSE_BY
            if after is None or after > allowed:
                worse.append(f"{quantity} {name}: {before} % before, {after} % now")
    assert worse == [], "; ".join(worse)


def test_no_row_is_lost() -> None:
    known = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]["error"]
    now = accuracy(fidelity_report())["rows"]["error"]
    lost = [row for row, error in known.items() if error is not None and now.get(row) is None]
    assert lost == []
    assert set(now) == set(known), "new rows: write the table anew"


if __name__ == "__main__":
    table = accuracy(fidelity_report())
    TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
