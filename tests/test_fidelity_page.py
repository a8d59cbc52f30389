"""The page of predictions against measurements, without a browser and with one."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from explorer.fidelity.listing import HEADER as LISTED
from explorer.fidelity.listing import rows_csv
from explorer.fidelity.measurements import COLUMNS, measurements_csv, parse_measurements
from explorer.fidelity.report import FidelityReport, fidelity_report
from explorer.plots.fidelity import MARKS, parity_data, parity_figure, quantity_label
from tests.browser import charts_drawn, open_page, settle
from tests.tables import tables

APP = str(Path(__file__).parent.parent / "app.py")
HEADER = ",".join(COLUMNS)
HOSTILE = "<b>*own*</b>&"
OWN = (
    f"{HEADER}\n{HOSTILE},mt3000,,gemm_latency,dtype=fp16;m=2048;k=11008;n=4096,20,ms,mine\n"
    "own-2,mt3000,,*odd* <i>one</i>,a=1,3,apples,mine\n"
)


@pytest.fixture(scope="module")
def report() -> FidelityReport:
    return fidelity_report()


def fidelity_page(preset: str = "mt3000-llama2-13b@1", **session: object) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.query_params["preset"] = preset
    app.run()
    # Pages that are functions have no file to switch to: the page's hash is what a click sends.
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "fidelity"
    )
    for key, value in session.items():
        app.session_state[key] = value
    return app.run()


def test_the_errors_come_first(report: FidelityReport) -> None:
    app = fidelity_page()
    assert not app.exception
    sentence = app.main.markdown[0].value
    mape = report.summary["gemm_latency"].mape
    assert mape is not None
    assert f"matrix products within **{100 * mape:.1f} %**" in sentence
    table = tables(app)[0]
    assert list(table["what"])[:1] == ["Matrix products, MT-3000"]
    assert "Decode rate, Ascend 910A" in list(table["what"])
    assert "Serving one request at a time, MT-3000" in list(table["what"])


@pytest.mark.parametrize(
    ("preset", "chip", "name", "first"),
    [
        ("ascend910a-qwen3.8-27b@1", "ascend910a", "Ascend 910A", "Prefill rate, Ascend 910A"),
        ("mt3000-llama2-7b@1", "mt3000", "MT-3000", "Matrix products, MT-3000"),
    ],
)
def test_the_page_opens_with_the_rows_of_the_scenarios_chip(
    report: FidelityReport, preset: str, chip: str, name: str, first: str
) -> None:
    app = fidelity_page(preset)
    assert not app.exception
    assert tables(app)[0]["what"][0] == first
    assert app.main.markdown[0].value.startswith(
        f"In the mean, the models come this close to what was measured: on the {name} "
    )
    shown = app.selectbox(key="fidelity_quantity")
    assert shown.options[0] == f"Everything on the {name}"
    assert shown.value == f"chip:{chip}"
    ids = {row.measurement.id for row in report.rows if row.measurement.chip == chip}
    assert set(app.dataframe[0].value["row"]) == ids


def test_names_in_filter_and_legend_say_which_chip_and_quantity(report: FidelityReport) -> None:
    app = fidelity_page()
    options = app.selectbox(key="fidelity_quantity").options
    assert "Prefill rate on the Ascend 910A" in options
    assert "Decode rate on the Ascend 910A" in options
    assert "Matrix products on the MT-3000" in options
    names = {trace.name for trace in parity_figure(parity_data(report.rows)).data}
    assert {"prefill rate on the Ascend 910A", "attention on the MT-3000"} <= names


def test_another_chip_opens_with_its_own_rows_and_a_choice_stays() -> None:
    app = fidelity_page()
    app.selectbox(key="fidelity_quantity").set_value("attention_latency").run()
    app.selectbox(key="preset_choice").set_value("mt3000-llama2-7b@1").run()
    assert app.selectbox(key="fidelity_quantity").value == "attention_latency"
    # Choosing a preset renews the sidebar's widgets, and with them their keys.
    app.selectbox(key="preset_choice#1").set_value("ascend910a-qwen3.8-27b@1").run()
    assert app.selectbox(key="fidelity_quantity").value == "chip:ascend910a"


def test_the_filter_leaves_one_quantity(report: FidelityReport) -> None:
    app = fidelity_page()
    app.selectbox(key="fidelity_quantity").set_value("attention_latency").run()
    assert not app.exception
    frame = app.dataframe[0].value
    assert len(frame) == report.summary["attention_latency"].rows
    sizes = frame["error"].abs()
    assert sizes.is_monotonic_decreasing


def test_what_tells_whether_rows_can_be_believed_stands_first(report: FidelityReport) -> None:
    app = fidelity_page(**{"open:fidelity_how": True})
    assert not app.exception
    frame = app.dataframe[0].value
    assert list(frame.columns) == ["error", "measured", "predicted", "row"]
    assert all(" " not in value for value in (*frame["measured"], *frame["predicted"]))
    figures = next(part.value for part in app.markdown if part.value.startswith("| what"))
    assert "7.0\u00a0%" in figures
    assert not re.search(r"\d %", figures)
    explained = next(table for table in tables(app) if "how" in table.columns)
    assert explained["row"].map(lambda text: text.replace("\\", "")).tolist() == list(frame["row"])
    missing = tables(app)[-1]
    assert missing.columns.tolist() == ["why", "rows"]
    assert all(row.measurement.id in missing["rows"].str.cat() for row in report.not_modelled)


def test_the_download_holds_every_row_with_all_that_is_known_of_it(report: FidelityReport) -> None:
    listed = list(csv.DictReader(StringIO(rows_csv(report.rows))))
    assert tuple(listed[0]) == LISTED
    assert [row["id"] for row in listed] == [row.measurement.id for row in report.rows]
    for text, row in zip(listed, report.rows, strict=True):
        assert text["source"] == row.measurement.source
        assert text["how"] == (row.basis or row.reason)
        assert float(text["value"]) == row.measurement.value
        if row.error is None:
            assert text["predicted"] == text["error"] == ""
            continue
        ratio = float(text["predicted"]) / float(text["value"])
        assert float(text["error"]) == pytest.approx(ratio - 1)
        assert row.error == pytest.approx(ratio - 1)
    hostile = fidelity_report(parse_measurements(OWN.encode(), "own.csv")).rows[-2:]
    assert [row["id"] for row in csv.DictReader(StringIO(rows_csv(hostile)))] == [HOSTILE, "own-2"]


def test_what_is_downloaded_is_brought_again(report: FidelityReport) -> None:
    """The download's first columns are a file of measurements, in units that one may have."""
    listed = list(csv.reader(StringIO(rows_csv(report.rows))))
    assert tuple(listed[0][: len(COLUMNS)]) == COLUMNS
    cut = StringIO()
    csv.writer(cut).writerows(cells[: len(COLUMNS)] for cells in listed)
    again = parse_measurements(cut.getvalue().encode(), "again.csv")
    for row, old in zip(again, (row.measurement for row in report.rows), strict=True):
        assert row.si_value == old.si_value
        assert replace(row, unit=old.unit).content == old.content
    assert {row.unit for row in again if row.dimension == "rate"} == {"tokens/s"}
    app = fidelity_page()
    assert {"fidelity_csv", "measurements_csv"} <= {part.key for part in app.get("download_button")}
    alone = measurements_csv(row.measurement for row in report.rows)
    app.file_uploader(key="measurements").set_value(("m.csv", alone.encode(), "text/csv")).run()
    assert not app.exception
    assert not [text.value for text in app.text if text.value.startswith("⚠")]


def test_own_rows_join_and_leave() -> None:
    app = fidelity_page(own_measurements=("own.csv", OWN.encode()))
    assert not app.exception
    app.selectbox(key="fidelity_quantity").set_value("my own rows").run()
    assert list(app.dataframe[0].value["row"]) == [HOSTILE, "own-2"]
    # Tables read Markdown: text of a file is escaped there.
    own = tables(app)[1]
    assert list(own["what"]) == ["Matrix products, MT-3000", r"\*odd\* \<i\>one\</i\>, MT-3000"]
    plain = fidelity_page()
    assert tables(app)[0].equals(tables(plain)[0])
    assert app.main.markdown[0].value == plain.main.markdown[0].value
    app.button(key="forget_measurements").click().run()
    assert not app.exception
    app.selectbox(key="fidelity_quantity").set_value("everything").run()
    assert len(app.dataframe[0].value) == 125


def test_a_bad_upload_is_refused_beside_its_box_and_changes_nothing() -> None:
    app = fidelity_page()
    app.file_uploader(key="measurements").upload("bad.csv", b"id,chip\n1,2\n", "text/csv")
    app.run()
    assert not app.exception
    notices = [text.value for text in app.text if text.value.startswith("⚠")]
    assert len(notices) == 1
    assert "expected the header" in notices[0]
    app.selectbox(key="fidelity_quantity").set_value("everything").run()
    assert len(app.dataframe[0].value) == 125
    assert not app.session_state["notices"]
    app.file_uploader(key="measurements").set_value(("own.csv", OWN.encode(), "text/csv")).run()
    assert not [text.value for text in app.text if text.value.startswith("⚠")]
    assert len(app.dataframe[0].value) == 2


def test_an_upload_is_predicted() -> None:
    app = fidelity_page()
    app.file_uploader(key="measurements").upload("own.csv", OWN.encode(), "text/csv")
    app.run()
    assert not app.exception
    assert list(app.dataframe[0].value["row"]) == [HOSTILE, "own-2"]


def test_the_chart_holds_every_modelled_row(report: FidelityReport) -> None:
    data = parity_data(report.rows)
    assert len(data.points) == sum(item.modelled for item in report.summary.values())
    assert data.left_over == 0
    assert data.unit == "times in s, rates in tokens/s"
    figure = parity_figure(data)
    assert sum(len(trace.x) for trace in figure.data) == len(data.points)
    point = data.points[0]
    assert point.ratio == pytest.approx(1 + (report.worst[0].error or 0.0))


def test_the_chart_keeps_the_worst_of_too_many(report: FidelityReport) -> None:
    data = parity_data(report.rows, most=5)
    assert len(data.points) == 5
    assert data.left_over == len(report.worst) - 5
    worst = [1 + (row.error or 0.0) for row in report.worst[:5]]
    assert [point.ratio for point in data.points] == pytest.approx(worst)


def test_ids_do_not_become_tags_in_the_chart() -> None:
    rows = fidelity_report(parse_measurements(OWN.encode(), "own.csv")).rows
    texts = [point.text for point in parity_data(rows).points if "own" in point.text]
    assert len(texts) == 1
    assert "<" not in texts[0]


def test_every_quantity_has_a_mark_and_a_name() -> None:
    assert len(set(MARKS.values())) == len(MARKS)
    assert all("_" not in quantity_label(quantity) for quantity in (*MARKS, "of_a_stranger"))


@pytest.mark.browser
def test_the_page_and_an_upload_in_a_browser(page: Page, app_url: str) -> None:
    page.set_default_timeout(60_000)
    open_page(page, f"{app_url}/fidelity")
    expect(page.get_by_role("heading", name="Can I believe it?")).to_be_visible()
    expect(page.get_by_text("In the mean, the models come this close")).to_be_visible(
        timeout=60_000
    )
    settle(page)
    charts_drawn(page)
    page.locator("input[type=file]").set_input_files(
        {"name": "own.csv", "mimeType": "text/csv", "buffer": OWN.encode()}
    )
    expect(page.get_by_text("own.csv has a table of its own above")).to_be_visible()
    settle(page)
