"""A page worked by keys alone: everything is reached, seen while it has the focus, and works."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import charts_drawn, open_page, settle, slider

pytestmark = pytest.mark.browser

STILL = "* { transition: none !important; animation: none !important; }"
CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex]"
MOST_STOPS = 400
COUNTED = """controls => {
    const group = element => element.closest('[role="radiogroup"], [role="toolbar"]');
    window.__left = new Set([...document.querySelectorAll(controls)].filter(element =>
        element.tabIndex >= 0 && element.checkVisibility() && !element.disabled
    ).map(element => group(element) ?? element));
    return window.__left.size;
}"""
STOP = """() => {
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
    const focused = look();
    element.blur();
    const plain = look();
    element.focus({focusVisible: true});
    const group = element.closest('[role="radiogroup"], [role="toolbar"]');
    window.__left.delete(group ?? element);
    return {
        seen: focused !== plain && opacity > 0,
        what: element.outerHTML.slice(0, 160),
    };
}"""
LEFT = "() => [...window.__left].map(element => element.outerHTML.slice(0, 160))"


@pytest.mark.parametrize(
    "path",
    ["", "search", "inside", "attribution?preset=ascend910a-qwen3.8-27b@1", "compare"],
)
def test_tab_reaches_every_control_shows_where_it_is_and_comes_out_again(
    page: Page, app_url: str, path: str
) -> None:
    open_page(page, f"{app_url}/{path}")
    page.add_style_tag(content=STILL)
    controls = page.evaluate(COUNTED, CONTROLS)
    stops, unseen = 0, []
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop is None:
            break
        stops += 1
        if not stop["seen"]:
            unseen.append(stop["what"])
    assert stops < MOST_STOPS, "Tab never leaves the page"
    assert controls > 40
    assert page.evaluate(LEFT) == []
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
    expect(page.get_by_role("button", name="Put this plan on the sliders")).to_be_visible()
    settle(page)
