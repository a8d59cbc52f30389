"""axe-core on every page with its parts unfolded, in both themes, and what it can't see."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from explorer.plots.palette import contrast
from tests.axe import CONTRAST, faults, put_on, unfold
from tests.browser import open_page, settle
from tests.contrast import faint_texts

pytestmark = pytest.mark.browser

SEARCH_MS = 180_000
READABLE = 1.6
MAIN, SIDEBAR, HEADER = (f'[data-testid="{name}"]' for name in ("stMain", "stSidebar", "stHeader"))
CHART_TEXTS = ".js-plotly-plot text"
ASCEND = "?preset=ascend910a-qwen3.8-27b@1"
DOES_NOT_FIT = "?preset=mt3000-llama2-13b@1&plan.pp_decode=1&plan.tp_decode=1&plan.nothing=4"


def press(*names: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        for name in names:
            page.get_by_role("button", name=name, exact=True).click()
            settle(page)

    return act


def choose(name: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_role("radio", name=name, exact=True).click()
        settle(page)

    return act


def search(page: Page) -> None:
    trials = page.get_by_label("Trials", exact=True)
    trials.fill("10")
    trials.press("Enter")
    settle(page)
    page.get_by_role("button", name="Start the search").click()
    plan = page.get_by_role("button", name="Put this plan on the sliders")
    expect(plan).to_be_visible(timeout=SEARCH_MS)
    settle(page)


def nothing(page: Page) -> None:
    """Leave the page as it opens."""


STATES: dict[str, tuple[str, tuple[Callable[[Page], None], ...]]] = {
    "overview": ("", (nothing,)),
    "overview, does not fit, with notices": (DOES_NOT_FIT, (nothing,)),
    "overview, ascend": (ASCEND, (nothing, press("Download charts"))),
    "search": ("search?preset=mt3000-llama2-7b@1", (nothing, search)),
    "trade-offs": (f"tradeoffs{ASCEND}", (press("Find the trade-offs"),)),
    "sensitivity": ("sensitivity", (nothing, choose("Map"))),
    "pipeline": ("pipeline", (nothing,)),
    "mechanisms": (
        "inside",
        (nothing, choose("Micro-kernel"), choose("Launches")),
    ),
    "slices": (f"slices{ASCEND}", (nothing,)),
    "attribution": (f"attribution{ASCEND}", (nothing,)),
    "fidelity": ("fidelity", (nothing,)),
    "bring your own": ("own", (nothing, choose("Chip"), choose("Measurements"))),
    "compare": ("compare", (nothing,)),
    "share": ("share", (nothing,)),
}


@pytest.mark.parametrize("state", STATES)
def test_no_page_breaks_a_rule_of_wcag_in_either_theme(
    page: Page, app_url: str, state: str
) -> None:
    path, acts = STATES[state]
    open_page(page, f"{app_url}/{path}")
    for act in acts:
        act(page)
        unfold(page, MAIN)
        found, faint = faults(page, MAIN), faint_texts(page, CHART_TEXTS)
        put_on(page, "dark")
        found += faults(page, MAIN, CONTRAST)
        faint += faint_texts(page, CHART_TEXTS)
        put_on(page, "light")
        assert [str(fault) for fault in found] == []
        assert faint == []
        assert nameless(page) == []


def nameless(page: Page) -> list[str]:
    """Return the charts without words for those who hear the page, and tables without headers."""
    found: list[str] = page.evaluate(
        """() => [
            ...[...document.querySelectorAll('[data-testid="stPlotlyChart"]')].filter(chart =>
                chart.getAttribute('role') !== 'figure' ||
                (chart.getAttribute('aria-label') ?? '').trim().length < 20),
            ...[...document.querySelectorAll('table')].filter(table =>
                table.checkVisibility() &&
                [...table.querySelectorAll('tr:first-child > *')].every(cell =>
                    cell.tagName !== 'TH' && cell.getAttribute('role') !== 'columnheader')),
        ].map(element => element.outerHTML.slice(0, 200))"""
    )
    return found


@pytest.mark.parametrize("preset", ["", ASCEND])
def test_no_control_of_sidebar_or_navigation_breaks_a_rule(
    page: Page, app_url: str, preset: str
) -> None:
    open_page(page, f"{app_url}/share{preset}")
    unfold(page, SIDEBAR)
    found = faults(page, SIDEBAR) + faults(page, HEADER)
    put_on(page, "dark")
    found += faults(page, SIDEBAR, CONTRAST) + faults(page, HEADER, CONTRAST)
    assert [str(fault) for fault in found] == []


def test_the_check_itself_finds_a_control_without_a_name_and_pale_text(page: Page) -> None:
    page.set_content(
        '<html lang="en"><title>t</title><main id="m"><button></button>'
        '<p style="color:#777d83;background:#fff">pale</p></main></html>'
    )
    assert {fault.rule for fault in faults(page, "#m")} == {"button-name", "color-contrast"}
    assert {fault.rule for fault in faults(page, "#m", CONTRAST)} == {"color-contrast"}


def test_a_button_that_waits_can_still_be_read(page: Page, app_url: str) -> None:
    """Checks of contrast leave disabled controls out."""
    open_page(page, f"{app_url}/pipeline?preset=mt3000-llama2-13b@1&simulation.requests=9000000")
    press("Simulate them")(page)
    button = page.get_by_role("button", name="Simulate them")
    expect(button).to_be_disabled()
    for theme in ("light", "dark"):
        put_on(page, theme)
        ink = button.evaluate("element => getComputedStyle(element).color")
        paper = page.locator(".stApp").evaluate("app => getComputedStyle(app).backgroundColor")
        *colour, share = (float(part) for part in re.findall(r"[\d.]+", f"{ink} 1")[:4])
        page_colour = [float(part) for part in re.findall(r"[\d.]+", paper)]
        mixed = [share * a + (1 - share) * b for a, b in zip(colour, page_colour, strict=True)]
        assert contrast(hexadecimal(mixed), hexadecimal(page_colour)) > READABLE
    press("Stop")(page)


def hexadecimal(colour: list[float]) -> str:
    return "#" + "".join(f"{round(part):02x}" for part in colour)
