"""A file that the browser refuses after one that was read: no reasons of the former beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import open_page, settle

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("section", "place"), [("Model", "own-model_file"), ("Chip", "own_chip_upload")]
)
def test_reasons_against_a_file_go_with_the_next_one(
    page: Page, app_url: str, section: str, place: str
) -> None:
    open_page(page, f"{app_url}/own")
    page.get_by_text(section, exact=True).click()
    settle(page)
    uploader = page.locator(f".st-key-{place} input[type=file]")
    wrong = {"name": "list.json", "mimeType": "application/json", "buffer": b"[1]"}
    uploader.set_input_files(wrong)
    reasons = page.get_by_text("⚠ list.json was not")
    expect(reasons).to_be_visible()
    uploader.set_input_files({"name": "x.csv", "mimeType": "text/csv", "buffer": b"a,b"})
    expect(page.get_by_text("x.csv", exact=True)).to_be_visible()
    expect(reasons).to_be_hidden()
    page.get_by_role("button", name="Remove x.csv").click()
    expect(reasons).to_be_visible()
    page.get_by_role("button", name="Remove list.json").click()
    expect(reasons).to_have_count(0)
