"""A page on paper: no controls, no chart wider than the sheet, nothing cut at the window's end."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import charts_drawn, new_context, open_page
from tests.contrast import dark_grounds, faint_texts

pytestmark = pytest.mark.browser

SHEET = 1512
"""Width of A3 between margins of 10 mm, in CSS pixels (96 an inch)."""
GROUNDS = '.stApp, .main-svg, [data-testid="stAlertContainer"]'
ON_SCREEN = """() => Number(
    getComputedStyle(document.querySelector('.stApp')).backgroundColor.match(/\\d+/)[0]) > 200"""
ROUTES = (
    "/?preset=mt3000-llama2-13b@1&plan.tp_decode=1&plan.pp_decode=1",
    "/tradeoffs",
    "/attribution",
)
HIDDEN = ("stSidebar", "stHeader", "stToolbar", "stPopover", "stSidebarCollapseButton")


@pytest.mark.parametrize("width", [1440, 2560])
def test_charts_which_keep_their_width_on_paper_are_no_wider_than_a_sheet(
    browser: Browser, app_url: str, width: int
) -> None:
    context = new_context(browser, width=width)
    page = context.new_page()
    open_page(page, app_url)
    plots = page.locator(".js-plotly-plot .main-svg")
    widths = plots.evaluate_all("all => all.map(one => one.getBoundingClientRect().width)")
    assert len(widths) >= 4
    assert max(widths) <= SHEET
    context.close()


def test_only_answers_and_charts_are_printed_and_all_of_them(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    page.emulate_media(media="print")
    for part in HIDDEN:
        for element in page.get_by_test_id(part).all():
            expect(element).to_be_hidden()
    expect(page.locator(".st-key-next_questions")).to_be_hidden()
    expect(page.get_by_test_id("stMetric").first).to_be_visible()
    charts_drawn(page)
    ends = """() => [document.documentElement.scrollHeight, Math.max(
        ...[...document.querySelectorAll('[data-testid="stPlotlyChart"]')].map(
            chart => chart.getBoundingClientRect().bottom))]"""
    height, lowest = page.evaluate(ends)
    assert lowest <= height
    assert height > 1.5 * 900
    page.emulate_media(media="null")
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
    assert 2 <= len(pages) <= 6


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_white_and_its_texts_are_dark_whichever_theme_is_on_the_screen(
    browser: Browser, app_url: str, theme: Literal["light", "dark"]
) -> None:
    context = new_context(browser, color_scheme=theme)
    page = context.new_page()
    for route in ROUTES:
        open_page(page, f"{app_url}{route}")
        page.emulate_media(media="print", color_scheme=theme)
        assert faint_texts(page, '.stApp, [data-testid="stMain"] *') == [], route
        assert dark_grounds(page, GROUNDS) == 0, route
        page.emulate_media(media="screen", color_scheme=theme)
    assert page.evaluate(ON_SCREEN) == {"light": True, "dark": False}[theme]
    context.close()
