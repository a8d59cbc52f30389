"""Every page opens where a stage's time is a person's, and where one has none."""

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


@pytest.mark.parametrize("preset", [MT3000, ASCEND, GENERIC])
def test_every_page_opens_where_nothing_is_decoded(preset: str) -> None:
    app = opened(preset=preset, **{"workload.output_tokens": "1"})
    for route in ROUTES:
        to_page(app, route)
        if route == "compare":
            app.button(key="keep").click().run()
            app.text_input(key="exact").set_value("workload.output_tokens=64").run()
            app.button(key="keep").click().run()
            app.text_input(key="exact").set_value("workload.output_tokens=1").run()
            assert len(app.get("plotly_chart")) > 1
        assert not app.exception, route
