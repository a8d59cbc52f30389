"""Running axe-core, which is bundled with axe-playwright-python, on a page of the app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser import ColorScheme, charts_drawn, settle

STANDARDS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
CONTRAST = ("color-contrast", "link-in-text-block")
MOST_FOLDS = 4
AXE = Axe()


@dataclass(frozen=True)
class Fault:
    """An element that breaks a rule: the rule's id, where the element is, and what is wrong."""

    rule: str
    selector: str
    html: str
    summary: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.selector}: {self.summary}\n    {self.html}"


def unfold(page: Page, within: str) -> None:
    """Open every part below an element that is folded away, also those inside of others."""
    for _ in range(MOST_FOLDS):
        opened = page.evaluate(
            """within => {
                const closed = [...document.querySelectorAll(
                    `${within} details:not([open]) > summary`)];
                closed.forEach(summary => summary.click());
                return closed.length;
            }""",
            within,
        )
        if not opened:
            return
        settle(page)
    charts_drawn(page)


def put_on(page: Page, scheme: ColorScheme) -> None:
    """Change the theme by the browser's preference, as a user of the system's dark mode does."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_function(
        "scheme => getComputedStyle(document.querySelector('.stApp')).colorScheme === scheme",
        arg=scheme,
    )
    settle(page)
    charts_drawn(page)


def faults(page: Page, within: str, rules: tuple[str, ...] = ()) -> list[Fault]:
    """Return all elements below an element that break a rule of WCAG 2.2 A and AA.

    Args:
        page: the browser's page.
        within: selector of the part to look at.
        rules: ids of the rules to run; empty for every rule of these standards.
    """
    # What is being faded in or out has for a moment a colour that nobody reads it in.
    page.add_style_tag(content="* { transition: none !important; animation: none !important; }")
    only: dict[str, Any] = {"type": "tag", "values": list(STANDARDS)}
    if rules:
        only = {"type": "rule", "values": list(rules)}
    options = {"runOnly": only, "resultTypes": ["violations"]}
    answer = AXE.run(page, context={"include": [[within]]}, options=options).response
    return [
        Fault(rule["id"], str(node["target"][-1]), node["html"][:200], _summary(node))
        for rule in answer["violations"]
        for node in rule["nodes"]
    ]


def _summary(node: dict[str, Any]) -> str:
    checks = [*node["any"], *node["all"], *node["none"]]
    return str(checks[0]["message"]) if checks else ""
