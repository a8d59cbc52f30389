"""Every control of every page taken to its ends, and random walks over all of them."""

from __future__ import annotations

import pytest

from tests.controls import LONG_WORK, Driver, one_walk
from tests.scenarios import ASCEND, GENERIC, MT3000
from tests.test_app_pages import opened

OVERVIEW, LIGHT = "", "share"
BY_FAMILY = ("attribution", "fidelity", "inside", "pipeline", "slices", "tradeoffs")
ALIKE = ("compare", "own", "search", "sensitivity", "share")
"""Pages that draw the same controls whatever the machine."""


@pytest.mark.parametrize(
    ("preset", "route"), [(MT3000, OVERVIEW), (ASCEND, LIGHT), (GENERIC, LIGHT)]
)
def test_every_control_of_the_sidebar_goes_to_both_ends(preset: str, route: str) -> None:
    driver = Driver(opened(preset=preset))
    driver.go(route)
    driver.drive("sidebar")
    assert len(driver.driven) > 40


@pytest.mark.parametrize(
    ("preset", "route"),
    [
        *((preset, route) for route in BY_FAMILY for preset in (MT3000, ASCEND, GENERIC)),
        *((MT3000, route) for route in ALIKE),
    ],
)
def test_every_control_of_a_page_goes_to_both_ends(preset: str, route: str) -> None:
    driver = Driver(opened(preset=preset))
    driver.go(route)
    driver.drive("main")
    assert driver.done


@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_over_pages_and_controls_meets_no_fault(seed: int) -> None:
    driver = one_walk(seed, 30, LONG_WORK)
    assert len(driver.done) >= 20
