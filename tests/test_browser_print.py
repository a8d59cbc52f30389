"""A page on paper: no controls, no chart wider than the sheet, nothing cut at the window's end."""

from __future__ import annotations

import re
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import charts_drawn, new_context, open_page

pytestmark = pytest.mark.browser

SHEET = 1512
"""Width of A3 between margins of 10 mm, in CSS pixels (96 an inch)."""
FAINT = """() => {
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => channels(colour).slice(0, 3)
        .map(one => one / 255)
        .map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
        .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const ground = element => {
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            const [, , , alpha = 1] = channels(colour);
            if (alpha > 0.5) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    const found = [];
    for (const element of document.querySelectorAll('.stApp, [data-testid="stMain"] *')) {
        const style = getComputedStyle(element), svg = element instanceof SVGElement;
        const words = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE)
            .map(node => node.textContent.trim()).join('');
        if (!element.getClientRects().length) continue;
        const ink = svg ? style.fill : style.color;
        if (words && !element.closest('.bartext') && contrast(ink, ground(element)) < 4.5)
            found.push(words);
        if (element.matches('.stApp, .main-svg, [data-testid="stAlertContainer"]')
            && light(ground(element)) < 0.8) found.push('dark ground');
    }
    return found;
}"""
"""Texts that are hard to read where they stand (WCAG 1.4.3), and grounds that would take ink."""
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
        assert page.evaluate(FAINT) == [], route
        page.emulate_media(media="screen", color_scheme=theme)
    assert page.evaluate(ON_SCREEN) == {"light": True, "dark": False}[theme]
    context.close()
