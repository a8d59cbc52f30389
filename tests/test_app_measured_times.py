"""Stage times that a person typed in take the models' place on every page."""

from __future__ import annotations

import pytest

from tests.scenarios import ASCEND, GENERIC, MT3000
from tests.test_app_pages import opened, to_page

ROUTES = (
    "", "search", "tradeoffs", "sensitivity", "pipeline", "inside", "slices", "attribution",
    "compare", "share",
)  # fmt: skip
TYPED = {"measured.prefill_seconds": "0.0000003", "measured.decode_seconds": "0.5"}


@pytest.mark.parametrize("preset", [MT3000, ASCEND, GENERIC])
def test_every_page_opens_with_measured_times(preset: str) -> None:
    for name, value in TYPED.items():
        app = opened(preset=preset, **{name: value})
        for route in ROUTES:
            to_page(app, route)
            assert not app.exception, (route, name)
