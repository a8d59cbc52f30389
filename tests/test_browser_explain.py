"""What only a browser shows: a click on a point of the front, and how heavy the map is."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import charts_drawn, open_page, settle

ASCEND = "ascend910a-qwen3.8-27b@1"
MOST_ELEMENTS = 200


@pytest.mark.browser
def test_a_click_on_a_point_puts_its_plan_on_the_sliders(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/tradeoffs?preset={ASCEND}")
    page.get_by_role("button", name="Find the trade-offs").click()
    expect(page.get_by_text("are beaten by no other")).to_be_visible()
    settle(page)
    charts_drawn(page)
    assert "plan.micro_batch_decode" not in page.url
    # The second trace holds the points, by time per output token: the last has the most of it.
    box = page.locator(".stPlotlyChart .scatterlayer .trace").nth(1).locator("path.point").last
    place = box.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.wait_for_url("**plan.micro_batch_decode=64**")
    settle(page)
    assert "plan.slices=64" in page.url
    expect(page.get_by_text("are beaten by no other")).to_be_visible()


@pytest.mark.browser
def test_the_map_is_one_picture_with_few_elements(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/sensitivity?preset={ASCEND}")
    page.get_by_role("radio", name="Map", exact=True).click()
    expect(page.get_by_role("heading", name="Where does what limit?")).to_be_visible()
    settle(page)
    charts_drawn(page)
    chart = page.locator(".stPlotlyChart")
    assert chart.locator("image").count() == 1
    assert chart.locator("svg path").count() < MOST_ELEMENTS
