"""On a page of 800 px no legend has to be scrolled and no text of a chart is cut off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.benchmarks.steps import ROUTES, Route, mt3000_route
from tests.browser import charts_drawn, open_page, settle

pytestmark = pytest.mark.browser
NAMES = {"overview", "overview-910a", "sensitivity", "map", "pipeline", "slices", "attribution"}
PAGES = (
    *(route for route in ROUTES if route.name in NAMES),
    mt3000_route("best", "/compare", ("button", "Compare with the best plan")),
)
SCROLLED = """() => [...document.querySelectorAll('.legend .scrollbar')]
    .filter(bar => Number(bar.getAttribute('height')) > 0).length"""
CUT_OFF = """() => [...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {
    const frame = plot.getBoundingClientRect();
    return [...plot.querySelectorAll('text')].filter(text => {
        const box = text.getBoundingClientRect();
        return box.width > 0 && text.textContent.trim() && (
            box.left < frame.left - 1 || box.right > frame.right + 1 ||
            box.top < frame.top - 1 || box.bottom > frame.bottom + 1);
    }).map(text => text.textContent);
})"""
SQUEEZE = """() => document.querySelectorAll('.js-plotly-plot').forEach(
    plot => { plot.style.width = '120px'; })"""


def narrow(page: Page, url: str, route: Route) -> None:
    page.set_viewport_size({"width": 800, "height": 900})
    open_page(page, f"{url}{route.url}")
    for role, name in route.presses:
        page.get_by_test_id("stMain").get_by_role(role, name=name, exact=True).click()
        settle(page)
    charts_drawn(page)


@pytest.mark.parametrize("route", PAGES, ids=lambda route: route.name)
def test_charts_are_whole_where_the_window_is_narrow(
    app_url: str, page: Page, route: Route
) -> None:
    narrow(page, app_url, route)
    assert page.evaluate(SCROLLED) == 0
    assert page.evaluate(CUT_OFF) == []


def test_the_check_itself_finds_text_outside_its_chart(app_url: str, page: Page) -> None:
    narrow(page, app_url, PAGES[0])
    page.evaluate(SQUEEZE)
    assert page.evaluate(CUT_OFF)
