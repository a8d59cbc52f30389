"""Tables that are written as one text: what they say, and that they hold any cell."""

from __future__ import annotations

import pandas as pd
import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from explorer.ui.tables import table_text
from tests.browser import open_page, settle
from tests.tables import tables

ROWS = [{"": "first", "time": "1 | 2 ms"}, {"": "second", "time": "3\nms"}]


PAGE = f"""
from explorer.ui.tables import show_table

show_table({ROWS!r})
"""
TEXT = "|  | time |\n| --- | --- |\n| first | 1 \\| 2\u00a0ms |\n| second | 3\u00a0ms |"


def test_rows_and_a_frame_of_them_are_the_same_text() -> None:
    frame = pd.DataFrame(ROWS)
    assert table_text(ROWS) == table_text(frame)
    assert table_text(frame.set_index(""), index=True) == table_text(ROWS)
    assert (
        table_text(frame)
        == "|  | time |\n| --- | --- |\n| first | 1 \\| 2\u00a0ms |\n| second | 3\u00a0ms |"
    )


def test_what_is_kept_together_stays_together() -> None:
    (cell,) = table_text([{"": "a\n 124 (×\u00a04.77)  b"}]).splitlines()[2:]
    assert cell == "| a 124 (×\u00a04.77) b |"


def test_a_table_of_a_page_is_read_as_it_was_written() -> None:
    app = AppTest.from_string(PAGE).run()
    assert not app.exception
    (table,) = tables(app)
    assert table.columns.tolist() == ["", "time"]
    assert table["time"].tolist() == ["1 | 2 ms", "3 ms"]


def test_an_index_without_a_name_is_a_column_without_a_heading() -> None:
    frame = pd.DataFrame({"as it is": ["1 s"]}, index=["Time"])
    assert table_text(frame, index=True).startswith("|  | as it is |")


OUT_OF_SIGHT = """() => [...document.querySelectorAll('[data-testid="stMain"] table')]
    .map(table => [table.getBoundingClientRect().right, table.parentElement])
    .filter(([right, around]) => right > around.getBoundingClientRect().right + 1)
    .map(([_, around]) => getComputedStyle(around).overflowX)"""


@pytest.mark.browser
@pytest.mark.parametrize(
    "path",
    [
        "attribution?preset=mt3000-llama2-13b",
        "sensitivity?preset=mt3000-llama2-13b",
        "fidelity?preset=ascend910a-qwen3.8-27b",
    ],
)
def test_no_column_is_out_of_sight_where_the_window_is_narrow(
    app_url: str, page: Page, path: str
) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    open_page(page, f"{app_url}/{path}")
    expect(page.get_by_test_id("stMain").locator("table").first).to_be_visible()
    settle(page)
    assert page.evaluate(OUT_OF_SIGHT) == []
    page.set_viewport_size({"width": 500, "height": 900})
    settle(page)
    assert set(page.evaluate(OUT_OF_SIGHT)) <= {"auto"}
