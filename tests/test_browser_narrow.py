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
COVERED = """() => {
    const words = document.createTreeWalker(
        document.querySelector('[data-testid="stMain"]'), NodeFilter.SHOW_TEXT);
    const places = [];
    while (words.nextNode()) {
        const range = document.createRange();
        range.selectNodeContents(words.currentNode);
        if (words.currentNode.textContent.trim())
            places.push(...[...range.getClientRects()].map(
                box => [box, words.currentNode.textContent]));
    }
    return [...document.querySelectorAll('.js-plotly-plot')].flatMap(plot => {
        const bar = plot.querySelector('.modebar').getBoundingClientRect();
        const [width, height] = [
            box => Math.min(box.right, bar.right) - Math.max(box.left, bar.left),
            box => Math.min(box.bottom, bar.bottom) - Math.max(box.top, bar.top)];
        const covered = places.filter(([box]) => width(box) > 1 && height(box) > 1)
            .map(([, text]) => text);
        return bar.bottom > plot.getBoundingClientRect().top ? ['the chart', ...covered] : covered;
    });
}"""
"""What the buttons over the charts hide when they come under the pointer."""
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
    assert page.evaluate(COVERED) == []


def test_the_buttons_of_a_chart_are_reached_where_they_stand(app_url: str, page: Page) -> None:
    narrow(page, app_url, PAGES[0])
    plot = page.locator(".js-plotly-plot").first
    plot.hover()
    button = plot.locator(".modebar-btn[data-title='Download plot as a PNG']")
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".png")


def test_the_check_itself_finds_text_outside_its_chart(app_url: str, page: Page) -> None:
    narrow(page, app_url, PAGES[0])
    page.evaluate(SQUEEZE)
    assert page.evaluate(CUT_OFF)
