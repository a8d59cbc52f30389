"""Texts on a page that are hard to read where they stand, and dark grounds."""

from __future__ import annotations

from playwright.sync_api import Page

COLOURS = """
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
        const own = element.parentElement?.querySelector(':scope > rect.bg');
        if (own && getComputedStyle(own).fillOpacity > 0.5) return getComputedStyle(own).fill;
        for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            const [, , , alpha = 1] = channels(colour);
            if (alpha > 0.5) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
"""
FAINT = f"""selector => {{
    {COLOURS}
    const found = [];
    for (const element of document.querySelectorAll(selector)) {{
        const style = getComputedStyle(element), svg = element instanceof SVGElement;
        const words = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE)
            .map(node => node.textContent.trim()).join('');
        if (!words || !element.getClientRects().length || element.closest('.bartext')) continue;
        if (contrast(svg ? style.fill : style.color, ground(element)) < 4.5) found.push(words);
    }}
    return found;
}}"""
DARK = f"""selector => {{
    {COLOURS}
    return [...document.querySelectorAll(selector)].filter(
        element => element.getClientRects().length && light(ground(element)) < 0.8).length;
}}"""


def faint_texts(page: Page, selector: str) -> list[str]:
    """Return texts whose contrast to their ground is below 4.5 (WCAG 1.4.3, level AA).

    Args:
        page: an open page.
        selector: the elements whose own texts are looked at; texts on bars have their bar's colour
            as ground and are left out.
    """
    found: list[str] = page.evaluate(FAINT, selector)
    return found


def dark_grounds(page: Page, selector: str) -> int:
    """Return how many of some elements stand on a ground that would take ink on paper."""
    count: int = page.evaluate(DARK, selector)
    return count
