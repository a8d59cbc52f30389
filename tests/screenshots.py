"""Take full-page screenshots of the running app, in two widths and both themes.

Usage: .venv/bin/python -m tests.screenshots OUTDIR [--path /route]...
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser import (
    ColorScheme,
    launch_chromium,
    new_context,
    open_page,
    required_chromium,
    running_app,
    settle,
    watch,
)

SIZES = ((1440, 900), (800, 900))
SCHEMES: tuple[ColorScheme, ...] = ("light", "dark")
TALLEST = 12_000


def file_name(route: str, width: int, height: int, scheme: ColorScheme) -> str:
    """Name the picture of a route."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", route).strip("-") or "index"
    return f"{stem}-{width}x{height}-{scheme}.png"


def grow(page: Page, width: int, height: int) -> None:
    """Make the window as tall as the page: Streamlit scrolls an inner part, not the window."""
    tall = page.evaluate(
        """() => Math.max(...[...document.querySelectorAll(
            '[data-testid="stMain"], [data-testid="stSidebarContent"]'
        )].filter(part => part.offsetParent !== null).map(part => part.scrollHeight))"""
    )
    if tall > height:
        page.set_viewport_size({"width": width, "height": min(int(tall), TALLEST)})
        settle(page)


def take(outdir: Path, routes: list[str], url: str, executable: str) -> list[str]:
    """Take the pictures of all routes into a folder; return what went wrong in the browser."""
    outdir.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, executable)
        for (width, height), scheme in itertools.product(SIZES, SCHEMES):
            context = new_context(browser, width=width, height=height, color_scheme=scheme)
            found = watch(context)
            for route in routes:
                page = context.new_page()
                open_page(page, f"{url}/{route.lstrip('/')}")
                grow(page, width, height)
                target = outdir / file_name(route, width, height, scheme)
                page.screenshot(path=target, full_page=True, animations="disabled")
                sys.stdout.write(f"{target}\n")
                page.close()
            context.close()
            problems += found
        browser.close()
    return problems


def main() -> int:
    """Read the command line, run the app, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("outdir", type=Path, help="folder for the pictures")
    parser.add_argument(
        "--path",
        action="append",
        dest="routes",
        metavar="ROUTE",
        help="route to show, with or without a query; may be given more than once (default: /)",
    )
    options = parser.parse_args()
    executable = required_chromium()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_app(Path(folder) / "server.log") as app,
    ):
        problems = take(options.outdir, options.routes or ["/"], app.url, executable)
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
