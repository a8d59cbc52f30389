"""Measurements in a browser: a file is fitted to, its chip downloaded, and a huge file refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from explorer.config.chip import Chip
from explorer.fidelity.measurements import measurements_csv
from tests.browser import charts_drawn, open_page, settle
from tests.test_fidelity_calibration import KERNELS, MT3000, OF_KERNELS, made

pytestmark = pytest.mark.browser


def test_a_file_is_fitted_to_and_its_chip_taken_along(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    page.set_default_timeout(60_000)
    open_page(page, f"{app_url}/own")
    page.get_by_role("radio", name="Measurements").click()
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as file:
        file.truncate(200_000_000)
    uploader = page.locator(".st-key-own-data input[type=file]")
    uploader.set_input_files(huge)
    expect(page.get_by_text("4.0MB or smaller")).to_be_visible()
    settle(page)
    rows = made(MT3000, KERNELS, OF_KERNELS, noise=0.01, seed=4)
    uploader.set_input_files(
        {
            "name": "mine.csv",
            "mimeType": "text/csv",
            "buffer": measurements_csv(rows).encode(),
        }
    )
    expect(page.get_by_role("heading", name="Your 48 rows change 3 constants")).to_be_visible()
    settle(page)
    charts_drawn(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON").click()
    chip = Chip.model_validate(json.loads(download.value.path().read_text(encoding="utf-8")))
    assert chip.id == "mt3000-calibrated-mine"
    assert download.value.suggested_filename == "mt3000-calibrated-mine.json"
    page.get_by_role("button", name="Use this chip").click()
    expect(page.get_by_text("MT-3000, calibrated is on the sliders now.")).to_be_visible()
