"""A page worked by keys alone: everything is reached, seen while it has the focus, and works."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import charts_drawn, open_page, settle, slider

pytestmark = pytest.mark.browser

STILL = "* { transition: none !important; animation: none !important; }"
CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]"
MOST_STOPS = 400
FEWEST_CONTROLS = 40
NAMED = """() => {
    window.named = element => {
        const one = element.closest('[role="radiogroup"], [role="toolbar"]') ?? element;
        const label = one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent
            ?? one.textContent;
        return `${one.tagName} ${label.trim().slice(0, 60)}`;
    };
}"""
COUNTED = """controls => {
    const there = [...document.querySelectorAll(controls)].filter(element =>
        element.tabIndex >= 0 && !element.disabled &&
        element.checkVisibility({visibilityProperty: true}));
    return there.map(window.named);
}"""
STOP = """async () => {
    const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const look = () => {
        let words = '';
        for (let at = element, i = 0; at && i < 6; at = at.parentElement, i++)
            for (const part of [null, '::before', '::after']) {
                const style = getComputedStyle(at, part);
                const line = style.outlineStyle === 'none' ? '' :
                    style.outlineWidth + style.outlineColor;
                words += [line, style.boxShadow, style.borderColor, style.backgroundColor,
                    style.color, style.textDecorationLine].join() + ';';
            }
        return words;
    };
    let opacity = 1;
    for (let at = element.parentElement; at; at = at.parentElement)
        opacity *= getComputedStyle(at).opacity;
    await drawn();
    const focused = look();
    element.blur();
    await drawn();
    const plain = look();
    element.focus({focusVisible: true});
    return {seen: focused !== plain && opacity > 0, name: window.named(element)};
}"""


@pytest.mark.parametrize(
    "path",
    ["", "inside", "attribution?preset=ascend910a-qwen3.8-27b@1"],
)
def test_tab_reaches_every_control_shows_where_it_is_and_comes_out_again(
    page: Page, app_url: str, path: str
) -> None:
    open_page(page, f"{app_url}/{path}")
    page.add_style_tag(content=STILL)
    page.evaluate(NAMED)
    expected = set(page.evaluate(COUNTED, CONTROLS))
    reached, unseen = [], []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None:
            break
        reached.append(stop["name"])
        if not stop["seen"]:
            unseen.append(stop["name"])
    assert len(reached) < MOST_STOPS, "Tab never leaves the page"
    assert len(expected) > FEWEST_CONTROLS
    assert expected - set(reached) == set()
    assert unseen == []


def test_sliders_folds_and_undo_work_by_keys(page: Page, app_url: str) -> None:
    open_page(page, app_url)
    throughput = page.get_by_test_id("stMetricValue").first
    before = throughput.inner_text()
    slider(page, "Memory bandwidth a cluster").focus()
    page.keyboard.press("ArrowRight")
    settle(page)
    assert throughput.inner_text() != before
    undo = page.get_by_role("button", name="Undo")
    undo.focus()
    page.keyboard.press("Space")
    settle(page)
    assert throughput.inner_text() == before
    fold = page.locator("summary").filter(has_text="Numbers behind the page")
    fold.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("stJson")).to_be_visible()


def test_navigation_views_and_a_search_work_by_keys(page: Page, app_url: str) -> None:
    open_page(page, f"{app_url}/?preset=mt3000-llama2-7b@1")
    navigation = page.get_by_role("navigation", name="App pages")
    navigation.get_by_role("button", name="Look inside", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Mechanisms", exact=True)).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.get_by_role("menuitem", name="Mechanisms", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What do the mechanisms do?")).to_be_visible()
    settle(page)
    page.get_by_role("radio", name="Blocking", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.get_by_role("radio", name="Triple buffering", exact=True)).to_be_checked()
    settle(page)
    charts_drawn(page)
    open_page(page, f"{app_url}/search?preset=mt3000-llama2-7b@1")
    page.get_by_role("button", name="Start the search").focus()
    page.keyboard.press("Enter")
    stop = page.get_by_role("button", name="Stop the search")
    expect(stop).to_be_enabled()
    stop.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("How it was found")).to_be_visible()
