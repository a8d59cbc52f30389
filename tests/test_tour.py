"""The tour in the README: its figures are those of today's models, its pictures are there."""

from __future__ import annotations

import re

from tests.browser import ROOT
from tests.tour import FOLDER, STEPS
from tests.tour_figures import tour_figures

LARGEST_BYTES = 150_000


def tour() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("## A tour in two minutes")[2].partition("\n## ")[0]


def test_every_figure_of_the_tour_is_what_the_models_say_today() -> None:
    words = " ".join(tour().split())
    missing = {name: text for name, text in tour_figures().items() if text not in words}
    assert missing == {}


def test_every_picture_of_the_tour_is_there_and_small() -> None:
    shown = re.findall(r"\]\(docs/tour/([^)]+)\.png\)", tour())
    assert shown == list(STEPS)
    for name in shown:
        path = FOLDER / f"{name}.png"
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < LARGEST_BYTES
