"""Editing a chip's numbers in the grid, which only a browser has."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from explorer.cli import main
from tests.browser import go_to, open_page, settle

pytestmark = pytest.mark.browser

ROW_HEIGHT, VALUE_COLUMN = 35, 230
ATTEMPTS, PATIENCE_MS = 8, 2000
BANDWIDTH_ROW = 2


def type_into(page: Page, row: int, x: int, text: str) -> None:
    """Type over one cell of the grid; rows are counted below the heading."""
    grid = page.locator(".stDataFrameGlideDataEditor").first
    grid.scroll_into_view_if_needed()
    cell = page.locator("#portal textarea, #portal input").first
    for _attempt in range(ATTEMPTS):
        # The grid is there before it listens.
        grid.dblclick(position={"x": x, "y": ROW_HEIGHT * (row + 1.5)})
        with suppress(PlaywrightTimeout):
            cell.wait_for(timeout=PATIENCE_MS)
            break
    cell.fill(text)
    cell.press("Enter")
    settle(page)


def test_a_number_typed_into_the_grid_is_used_downloaded_and_evaluated(
    page: Page, app_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_page(page, f"{app_url}/own?preset=mt3000-llama2-13b@1")
    page.get_by_test_id("stButtonGroup").get_by_text("Chip", exact=True).click()
    settle(page)
    type_into(page, BANDWIDTH_ROW, VALUE_COLUMN, "6e10")
    page.get_by_role("textbox", name="Name").fill("Twice")
    page.get_by_role("textbox", name="Name").press("Enter")
    settle(page)
    sentence = page.get_by_text("On Twice this scenario delivers")
    expect(sentence).to_be_visible()
    told = sentence.inner_text()
    assert " times the " in told
    go_to(page, "Overview")
    go_to(page, "Bring your own", "Bring and take")
    expect(sentence).to_have_text(told)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    chip = json.loads(file.read_text(encoding="utf-8"))
    quantity = chip["quantities"]["ddr_bandwidth_bytes_per_second"]
    assert (quantity["value"], quantity["kind"]) == (6e10, "assumed")
    assert main(["evaluate", "mt3000-llama2-13b@1", "--chip", str(file)]) == 0
    throughput = capsys.readouterr().out.splitlines()[2].split(None, 1)[1]
    assert f"delivers {throughput}," in told
    page.get_by_role("button", name="Use it in this scenario").click()
    settle(page)
    assert "own-document=yes" in page.url
