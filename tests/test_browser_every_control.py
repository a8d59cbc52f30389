"""Sliders taken to both ends with the keys Home and End, in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import App, charts_drawn, go_to, open_page, settle
from tests.scenarios import ASCEND, MT3000

pytestmark = pytest.mark.browser


def to_both_ends(page: Page, sliders: Locator) -> int:
    """Press both keys on each slider of a part, by its place; return how many there were."""
    place = 0
    while place < sliders.count():
        for key, end in (("Home", "min"), ("End", "max")):
            thumb = sliders.nth(place)
            thumb.press(key)
            settle(page)
            expect(thumb).to_have_value(thumb.get_attribute(end) or "")
            expect(page.get_by_test_id("stException")).to_have_count(0)
        place += 1
    return place


def test_every_slider_of_the_sidebar_goes_to_both_ends(page: Page, app_url: str, app: App) -> None:
    open_page(page, f"{app_url}/share?preset={MT3000}")
    assert to_both_ends(page, page.get_by_test_id("stSidebar").get_by_role("slider")) > 12
    go_to(page, "Overview")
    charts_drawn(page)
    assert "Traceback" not in app.output()


@pytest.mark.parametrize(
    ("preset", "route"), [(ASCEND, "attribution"), (MT3000, "pipeline"), (MT3000, "inside")]
)
def test_every_slider_of_a_page_goes_to_both_ends(
    page: Page, app_url: str, preset: str, route: str
) -> None:
    open_page(page, f"{app_url}/{route}?preset={preset}&simulation.arrivals=bursts")
    to_both_ends(page, page.get_by_test_id("stMain").get_by_role("slider"))
    charts_drawn(page)
    expect(page.get_by_test_id("stException")).to_have_count(0)
