"""The section of measurements: what a file or a pasted profile changes, without a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer.fidelity.calibration import calibrate
from explorer.fidelity.measurements import measurements_csv, parse_measurements
from explorer.plots.calibration import before_after, before_after_figure
from explorer.serving.evaluate import evaluate
from explorer.ui.text import plain
from tests.tables import tables
from tests.test_fidelity_calibration import (
    FACTOR,
    KERNELS,
    MT3000,
    OF_KERNELS,
    made,
    recurrences,
)
from tests.test_fidelity_profile_text import PLAIN, RESULT

APP = str(Path(__file__).parent.parent / "app.py")
ROWS = made(MT3000, KERNELS, OF_KERNELS, noise=0.01, seed=4)
MINE = measurements_csv(ROWS).encode()
SLOW = measurements_csv(recurrences([1.5, 1.5, 1.5])).encode()
HOSTILE = "<b>*mine*</b>"


def own_page(app: AppTest | None = None) -> AppTest:
    app = app or AppTest.from_file(APP, default_timeout=120).run()
    # Pages that are functions have no file to switch to: the page's hash is what a click sends.
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "own"
    )
    app.session_state["own"] = "Measurements"
    return app.run()


def uploaded(content: bytes, name: str = "mine.csv") -> AppTest:
    app = own_page()
    app.file_uploader(key="own:data").upload(name, content, "text/csv")
    return app.run()


def warned(app: AppTest) -> list[str]:
    return [text.value for text in app.text if text.value.startswith("⚠")]


def outcome(app: AppTest) -> str:
    return app.main.subheader[0].value


def test_without_rows_the_page_says_what_they_would_do() -> None:
    app = own_page()
    assert not app.exception
    assert "fitted to them" in app.main.markdown[0].value
    assert not tables(app)


def test_the_outcome_comes_first_then_the_constants() -> None:
    app = uploaded(MINE)
    assert not app.exception
    found = calibrate(ROWS, MT3000)
    before, after = (f"{100 * found.mean_error(w):.1f} %" for w in ("before", "after"))
    assert outcome(app).startswith(
        f"Your 48 rows change 3 constants of MT-3000; mean error from {before} to {after}"
    )
    table = tables(app)[0]
    assert list(table["constant"]) == [
        plain(MT3000.quantities[name].label) for name in (c.name for c in found.constants)
    ]
    assert not warned(app)


def test_reasons_and_rows_are_there_when_opened() -> None:
    app = uploaded(MINE)
    assert not app.dataframe
    app.session_state["open:own rows"] = True
    app.session_state["open:own reasons"] = True
    app.run()
    assert not app.exception
    rows, reasons = (frame.value for frame in app.dataframe)
    assert list(rows["row"]) == [row.id for row in ROWS]
    assert MT3000.quantities["attention_round_seconds"].label in rows["says something of"].iloc[-1]
    assert "no row depends on it" in list(reasons["why"])


def test_the_chip_is_used_and_the_plan_stays() -> None:
    app = uploaded(MINE)
    plan = app.session_state["scenario"].plan
    app.button(key="use_calibrated").click().run()
    assert not app.exception
    used = app.session_state["scenario"]
    assert used.chip.id == "mt3000-calibrated-mine"
    assert used.plan == plan
    assert used.chip.quantities["attention_round_seconds"].kind == "fitted"
    assert app.button(key="use_calibrated").disabled
    # From the calibrated chip on, nothing moves any more.
    app.selectbox(key="own:calibrated chip").set_value("mt3000-calibrated-mine").run()
    assert not app.exception
    assert outcome(app).startswith("Your 48 rows agree with MT-3000, calibrated")


def test_rows_of_another_machine_bring_its_preset() -> None:
    app = uploaded(SLOW)
    assert "Ascend 910A" in outcome(app)
    app.button(key="use_calibrated").click().run()
    assert not app.exception
    used = app.session_state["scenario"]
    assert used.chip.family == "ascend910a"
    assert used.value(f"hardware.{FACTOR}") == pytest.approx(1.5, rel=1e-9)
    assert evaluate(used).feasible.all()


def test_named_constants_are_fitted_instead() -> None:
    app = uploaded(MINE)
    app.multiselect(key="own:constants").set_value(["gemm_mixed_stream_efficiency"]).run()
    assert not app.exception
    assert len(tables(app)[0]) == 1
    app.multiselect(key="own:constants").set_value([]).run()
    assert len(tables(app)[0]) == 3


def test_a_bad_file_is_refused_with_line_and_column_and_changes_nothing() -> None:
    bad = MINE.replace(b",ms,", b",furlongs,", 1)
    app = uploaded(bad)
    assert not app.exception
    (reason,) = warned(app)
    assert "mine.csv line 2 unit = furlongs" in reason
    assert not tables(app)
    app.file_uploader(key="own:data").set_value(("mine.csv", MINE, "text/csv")).run()
    assert not warned(app)
    assert len(tables(app)[0]) == 3
    app.button(key="forget_own_file").click().run()
    assert not app.exception
    assert not tables(app)


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 zip", b"\xff\xfe", bytes(5_000_000), b"a,b\n" * 1_000_000],
    ids=["empty", "zip", "utf-16", "5 MB", "a million lines"],
)
def test_what_is_no_csv_of_measurements_is_refused(content: bytes) -> None:
    app = uploaded(content)
    assert not app.exception
    assert len(warned(app)) == 1
    assert not tables(app)


def test_rows_of_no_modelled_chip_and_too_few_rows_are_told() -> None:
    strange = MINE.replace(b",mt3000,", b",abacus,")
    app = uploaded(strange)
    assert not app.exception
    assert "No row is of a chip that is modelled: abacus" in app.error[0].value
    few = uploaded(measurements_csv(recurrences([1.3])).encode())
    assert not few.exception
    assert outcome(few).startswith("Your 1 row determines no constant of Ascend 910A")


def test_text_of_a_file_stays_text() -> None:
    lines = MINE.decode().splitlines()
    lines[1] = lines[1].replace(ROWS[0].id, HOSTILE)
    lines += [f"{HOSTILE}2,mt3000,,*odd* <i>one</i>,a=1,3,apples,mine"]
    content = "\n".join(lines).encode()
    app = uploaded(content, f"{HOSTILE}.csv")
    app.session_state["open:own rows"] = True
    app.session_state["open:own reasons"] = True
    app.run()
    assert not app.exception
    rows, reasons = (frame.value for frame in app.dataframe)
    assert rows["row"].iloc[0] == HOSTILE
    assert f"{HOSTILE}2" in "".join(reasons["which"])
    shown = [item.value for item in (*app.main.markdown, *app.main.subheader, *app.main.caption)]
    assert not any(HOSTILE in text for text in shown)
    found = calibrate(parse_measurements(content, "f"), MT3000)
    texts = [point.text for point in before_after(found).before]
    assert not any("<" in text for text in texts)


def test_a_pasted_profile_is_understood_fitted_and_kept_as_csv() -> None:
    app = own_page()
    text = f"{PLAIN.replace('1.2229', '0.1')}\n\n{PLAIN}\n{RESULT}"
    app.text_area(key="own:profile text").set_value(text).run()
    assert not app.exception
    assert any("1,105 rows: the timed block is that of line 11, of 2" in t.value for t in app.text)
    assert "Your 7 rows" in outcome(app)
    pasted = app.session_state["own_profile"]
    rows = parse_measurements(pasted.content, "again.csv")
    assert len(rows) == 7
    assert outcome(app).count("Ascend 910A")
    app.button(key="forget_profile").click().run()
    assert not app.exception
    assert not tables(app)
    assert app.text_area(key="own:profile text").value == ""


def test_rows_and_wall_beside_a_profile_and_what_is_ambiguous() -> None:
    app = own_page()
    app.text_area(key="own:profile text").set_value(PLAIN).run()
    (reason,) = warned(app)
    assert "wall" in reason
    app.number_input(key="own:profile wall").set_value(1.2501).run()
    assert "rows" in warned(app)[0]
    app.number_input(key="own:profile rows").set_value(1105).run()
    assert not [text for text in warned(app) if "not used" in text]
    assert "Your 7 rows" in outcome(app)
    app.text_area(key="own:profile text").set_value(f"{PLAIN}\nadd 1 2").run()
    assert "line 9" in warned(app)[0]
    assert not tables(app)


def test_a_file_and_a_profile_are_fitted_together_and_shown_on_the_fidelity_page() -> None:
    app = uploaded(SLOW)
    app.text_area(key="own:profile text").set_value(f"{PLAIN}\n{RESULT}").run()
    assert "Your 10 rows" in outcome(app)
    assert app.session_state["own_measurements"][0] == "mine.csv"
    assert any("sums of its phases" in text for text in warned(app))


def test_the_chart_holds_each_row_before_and_after() -> None:
    found = calibrate(ROWS, MT3000)
    data = before_after(found)
    assert len(data.before) == len(data.after.points) == 48
    assert data.after.unit == "s"
    figure = before_after_figure(data)
    assert sum(len(trace.x) for trace in figure.data) == 96
    first = min(range(48), key=lambda i: data.before[i].ratio)
    worst = min(row.error(row.before) for row in found.used)
    assert data.before[first].ratio == pytest.approx(1 + worst)
    fewer = before_after(found, most=5)
    assert (len(fewer.before), fewer.after.left_over) == (5, 43)


def test_the_other_pages_open_with_the_calibrated_chip() -> None:
    app = uploaded(MINE)
    app.button(key="use_calibrated").click().run()
    for route in ("", "share"):
        app._page_hash = next(
            page["page_script_hash"]
            for page in app._registered_pages.values()
            if page["url_pathname"] == route
        )
        app.run()
        assert not app.exception
    assert any("travels by file" in info.value for info in app.info)
