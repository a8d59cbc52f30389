"""Every control of every page taken to its ends, and random walks over all of them."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.controls import LARGEST_WHOLE, LONG_WORK, Driver, faults, one_walk, values_of
from tests.scenarios import ASCEND, GENERIC, MT3000
from tests.test_app_pages import opened

LIGHT = "share"
"""The page that is drawn fastest; the walks move the sidebar on the others."""
PAGES = {
    MT3000: ("attribution", "compare", "fidelity", "inside", "own", "search", "share", "tradeoffs"),
    ASCEND: ("attribution", "pipeline", "slices"),
    GENERIC: ("inside", "pipeline", "sensitivity", "slices"),
}
"""Pages by machine. What draws the same controls for each is driven for one, the one that is
fastest there; ``python -m tests.controls`` drives all pages for all three."""


@pytest.mark.parametrize("preset", PAGES)
def test_every_control_of_the_sidebar_goes_to_both_ends(preset: str) -> None:
    driver = Driver(opened(preset=preset))
    driver.go(LIGHT)
    driver.drive("sidebar")
    assert len(driver.driven) > 40


@pytest.mark.parametrize(
    ("preset", "route"), [(preset, route) for preset in PAGES for route in PAGES[preset]]
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


def _faulty_page() -> None:
    import numpy as np  # noqa: PLC0415
    import pandas as pd  # noqa: PLC0415
    import streamlit as st  # noqa: PLC0415

    st.caption("None of these plans fits; no NaN-free word is wrong.")
    st.markdown("It takes nan s.")
    st.metric("Throughput", "inf tokens/s")
    st.selectbox("Plan", ["None"])
    st.table(pd.DataFrame({"seconds": [1.0, np.nan]}))
    st.dataframe(pd.DataFrame({"seconds": [1.0, np.nan]}), placeholder="–")
    raise ValueError("broken")


def test_what_a_page_must_never_show_is_found() -> None:
    found = faults(AppTest.from_function(_faulty_page).run())
    assert len(found) == 5, found
    for word in ("nan s", "inf tokens/s", "None", "error"):
        assert any(word in line for line in found), word


def test_a_number_input_without_bounds_goes_as_far_as_a_browser_can_send() -> None:
    app = AppTest.from_string("import streamlit as st\nst.number_input('n', value=1)").run()
    assert values_of(app.number_input[0]) == [-LARGEST_WHOLE, LARGEST_WHOLE]
