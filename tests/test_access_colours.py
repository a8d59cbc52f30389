"""The theme's colours meet WCAG 2.2 AA, computed from their numbers without a browser."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import pytest

from explorer.plots.palette import contrast

ROOT = Path(__file__).resolve().parent.parent
THEMES: dict[str, Any] = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text("utf-8"))[
    "theme"
]
PAPERS = ("backgroundColor", "secondaryBackgroundColor")
INKS = ("textColor", "primaryColor", "linkColor", "codeTextColor")
TEXT, GRAPHICS = 4.5, 3.0
FADED = 0.6
"""Share of the text's colour in captions, help and placeholders: Streamlit's own choice."""
ON_PRIMARY = {"light": "#ffffff", "dark": "#12181d"}


def mixed(ink: str, paper: str, share: float) -> str:
    parts = zip(*(bytes.fromhex(colour[1:]) for colour in (ink, paper)), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in parts)


@pytest.mark.parametrize(
    ("theme", "ink", "paper"), list(itertools.product(("light", "dark"), INKS, PAPERS))
)
def test_text_stands_out_from_every_background(theme: str, ink: str, paper: str) -> None:
    colours = THEMES[theme]
    assert contrast(colours[ink], colours[paper]) >= TEXT


@pytest.mark.parametrize(("theme", "paper"), list(itertools.product(("light", "dark"), PAPERS)))
def test_captions_stand_out_too(theme: str, paper: str) -> None:
    colours = THEMES[theme]
    caption = mixed(colours["textColor"], colours[paper], FADED)
    assert contrast(caption, colours[paper]) >= TEXT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_code_and_buttons_of_the_primary_colour_are_readable(theme: str) -> None:
    colours = THEMES[theme]
    assert contrast(colours["codeTextColor"], colours["codeBackgroundColor"]) >= TEXT
    assert contrast(ON_PRIMARY[theme], colours["primaryColor"]) >= TEXT
    rule = f"light-dark({ON_PRIMARY['light']}, {ON_PRIMARY['dark']})"
    assert rule in (ROOT / "explorer" / "ui" / "page.css").read_text("utf-8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lines_of_charts_stand_out_from_the_page(theme: str) -> None:
    colours = THEMES[theme]
    for line in colours["chartCategoricalColors"]:
        assert contrast(line, colours["backgroundColor"]) >= GRAPHICS


def test_a_caption_as_pale_as_the_default_would_fail() -> None:
    assert contrast(mixed("#1d2730", "#ffffff", FADED), "#ffffff") < TEXT
