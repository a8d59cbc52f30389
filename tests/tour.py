"""Take the pictures of the tour in the README: .venv/bin/python -m tests.tour

Drives the app in a headless Chromium through the steps, and writes docs/tour/*.png.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.browser import (
    ROOT,
    charts_drawn,
    launch_chromium,
    new_context,
    open_page,
    required_chromium,
    running_app,
    settle,
)

FOLDER = ROOT / "docs" / "tour"
WIDTH, HEIGHT, COLOURS = 1280, 800, 256
SEARCH_MS = 120_000


def search(page: Page) -> None:
    """Start the search and wait for its proof."""
    page.get_by_role("button", name="Start the search").click()
    page.get_by_role("button", name="Put this plan on the sliders").wait_for(timeout=SEARCH_MS)


def target(page: Page) -> None:
    """Bring the section on targets to the top."""
    page.get_by_role("heading", name="What would it take?").scroll_into_view_if_needed()
    page.mouse.move(WIDTH * 0.7, HEIGHT / 2)
    page.mouse.wheel(0, HEIGHT * 0.7)


STEPS: dict[str, tuple[str, Callable[[Page], None] | None]] = {
    "1-overview": ("", None),
    "2-search": ("search", search),
    "3-blocking": ("inside?preset=mt3000-llama2-7b@1", None),
    "4-slices": ("slices?preset=ascend910a-qwen3.8-27b@1&workload.prompt_tokens=3000", None),
    "5-target": ("attribution?preset=ascend910a-qwen3.8-27b@1&workload.prompt_tokens=3000", target),
    "6-share": ("share?preset=mt3000-llama2-13b@1&plan.tp_decode=8", None),
}


def take(url: str, executable: str) -> None:
    """Take every picture, in the light theme, with few colours so that the files stay small."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright, executable)
        context = new_context(browser, width=WIDTH, height=HEIGHT)
        for name, (route, act) in STEPS.items():
            page = context.new_page()
            open_page(page, f"{url}/{route}")
            if act is not None:
                act(page)
                settle(page)
                charts_drawn(page)
            path = FOLDER / f"{name}.png"
            page.screenshot(path=path, animations="disabled")
            with Image.open(path) as picture:
                # By coverage, rare colours stay apart: those of a legend are a few dots each.
                few = picture.convert("RGB").quantize(
                    COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
                )
                few.save(path, optimize=True)
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
            page.close()
        browser.close()


def main() -> int:
    """Run the app and take the pictures."""
    executable = required_chromium()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_app(Path(folder) / "server.log") as app,
    ):
        take(app.url, executable)
    return 0


if __name__ == "__main__":
    sys.exit(main())
