"""Colours that anyone can tell apart, on a light and on a dark page, and read text on."""

from __future__ import annotations

import tomllib
from itertools import combinations

import numpy as np
import pytest

from explorer.costs.terms import Bound
from explorer.plots.memory import PARTS
from explorer.plots.palette import COMPARED, NEUTRAL, RESOURCES, contrast, look, luminance, text_on
from explorer.plots.style import COLOUR_OF_BOUND, NAME_OF_BOUND, SYMBOL_OF_COLOUR, hatched, resource
from tests.browser import ROOT

GRAPHICS, TEXT = 3.0, 4.5
"""WCAG 2.2, success criteria 1.4.11 and 1.4.3."""
LEAST_APART = 16.0
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SEEN = {
    "all": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
USED = tuple(dict.fromkeys([*RESOURCES.values(), *(item.colour for item in COMPARED)]))


def backgrounds() -> tuple[str, str]:
    theme = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))["theme"]
    return theme["light"]["backgroundColor"], theme["dark"]["backgroundColor"]


def lab(colour: str, seen: np.ndarray) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(seen @ linear, 0, 1) / XYZ.sum(axis=1)
    root = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def apart(one: str, other: str, seen: str = "all") -> float:
    return float(np.linalg.norm(lab(one, SEEN[seen]) - lab(other, SEEN[seen])))


def test_the_measures_agree_with_known_values() -> None:
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)
    assert luminance("#FF0000") == pytest.approx(0.2126)
    assert lab("#FFFFFF", SEEN["all"]) == pytest.approx([100, 0, 0], abs=0.1)
    # Pure red and a green of the same lightness are far apart, but not for a deutan eye.
    assert apart("#FF0000", "#888800") > 2 * apart("#FF0000", "#888800", "deutan")
    for matrix in SEEN.values():
        assert matrix.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("together", [tuple(RESOURCES.values()), tuple(c.colour for c in COMPARED)])
def test_colours_that_meet_keep_apart_for_every_eye(together: tuple[str, ...], seen: str) -> None:
    for one, other in combinations(together, 2):
        assert apart(one, other, seen) >= LEAST_APART, (one, other)


def test_what_is_compared_looks_like_no_resource() -> None:
    for item in COMPARED:
        for name, colour in RESOURCES.items():
            assert colour == NEUTRAL or apart(item.colour, colour) >= LEAST_APART, name


@pytest.mark.parametrize("colour", USED)
def test_marks_stand_out_from_both_pages_and_text_from_bars(colour: str) -> None:
    for background in backgrounds():
        assert contrast(colour, background) >= GRAPHICS
    assert contrast(text_on(colour), colour) >= TEXT
    # Hatching is of the other ink, so that it cannot take from the contrast.
    assert hatched(colour, "/")["fgcolor"] != text_on(colour)


def test_every_limit_has_a_colour_a_symbol_and_two_names() -> None:
    for bound in Bound:
        assert NAME_OF_BOUND[bound]
        assert resource(bound)
        assert COLOUR_OF_BOUND[bound] in SYMBOL_OF_COLOUR
    assert len(set(SYMBOL_OF_COLOUR.values())) == len(SYMBOL_OF_COLOUR)


def test_no_two_that_are_compared_look_alike_without_colour() -> None:
    looks = [look(index) for index in range(2 * len(COMPARED))]
    assert len(set(looks)) == len(looks)
    assert len({item.symbol for item in looks}) == len(looks)
    assert len({(item.colour, item.dash) for item in looks}) == len(looks)
    assert len({item.dash for item in COMPARED}) == len(COMPARED)


def test_parts_of_a_memory_differ_in_colour_or_pattern() -> None:
    assert len({(colour, shape) for _, colour, shape in PARTS}) == len(PARTS)
