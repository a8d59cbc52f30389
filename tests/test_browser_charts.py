"""Charts as files, in a real Chromium: what the browser makes, and what opens without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page

from tests.browser import open_page, settle

pytestmark = pytest.mark.browser
ALT = "What fills the memory of each kind of cluster, as a share of its capacity"
PNG_START = b"\x89PNG\r\n\x1a\n"


def downloaded(page: Page, folder: Path, press: Callable[[], None]) -> Path:
    with page.expect_download() as waiting:
        press()
    target = folder / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def test_a_chart_is_a_png_an_svg_and_an_html_file_of_its_own(
    page: Page, app_url: str, tmp_path: Path
) -> None:
    open_page(page, app_url)
    assert page.get_by_role("button", name=f"PNG: {ALT}").count() == 0
    page.get_by_role("button", name="Download charts").click()
    settle(page)

    png = downloaded(page, tmp_path, page.get_by_role("button", name=f"PNG: {ALT}").click)
    assert png.name == "explorer-memory.png"
    data = png.read_bytes()
    assert data.startswith(PNG_START)
    shown = page.locator(".st-key-memory .main-svg").first.bounding_box()
    assert shown is not None
    sizes = [int.from_bytes(data[at : at + 4], "big") for at in (16, 20)]
    assert sizes == pytest.approx([2 * shown["width"], 2 * shown["height"]], abs=2)

    svg = downloaded(page, tmp_path, page.get_by_role("button", name=f"SVG: {ALT}").click)
    assert svg.name == "explorer-memory.svg"
    root = ElementTree.parse(svg).getroot()
    assert root.tag.endswith("svg")
    assert "share of capacity" in "".join(root.itertext())

    button = page.locator(".st-key-chart_html-memory").get_by_role("button")
    html = downloaded(page, tmp_path, button.click)
    assert html.name == "explorer-memory.html"
    # The page's own context forbids and reports every request that leaves the machine.
    own = page.context.new_page()
    own.route(f"{app_url}/{html.name}", lambda route: route.fulfill(path=html))
    own.goto(f"{app_url}/{html.name}")
    own.wait_for_selector(".js-plotly-plot .main-svg")
    assert own.title() == ALT
    assert own.get_by_text("share of capacity", exact=True).count() == 1
