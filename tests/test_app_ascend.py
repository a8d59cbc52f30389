"""The pages for the Ascend, driven without a browser, on every preset."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from explorer.serving.evaluate import evaluate
from explorer.ui.slices import answer, measured_passes
from tests.scenarios import ASCEND, PRESETS, scenario


def page_app(module: str) -> None:
    import importlib

    import streamlit as st

    from explorer.ui import state

    st.set_page_config(layout="wide")
    state.start()
    importlib.import_module(f"explorer.ui.{module}").page()
    state.show_notices()


def opened(module: str, preset: str, **parameters: str) -> AppTest:
    app = AppTest.from_function(page_app, kwargs={"module": module}, default_timeout=120)
    app.query_params["preset"] = preset
    for key, value in parameters.items():
        app.query_params[key.replace("__", ".")] = value
    app.run()
    assert not app.exception
    return app


def text_of(app: AppTest) -> str:
    return "\n".join(item.value for item in (*app.markdown, *app.caption, *app.info))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_slices_page_opens_on_every_preset(preset: str) -> None:
    text = text_of(opened("slices", preset))
    if preset == ASCEND:
        assert "For 4,096 rows a pass use **4 slices**" in text
        assert "The best count is" in text
    else:
        assert "Slices belong to the Ascend 910A" in text


@pytest.mark.parametrize(("rows", "count"), [(512, "1 slice"), (1024, "1 slice"), (2048, "2 ")])
def test_the_answer_is_the_count_that_was_measured_best(rows: int, count: str) -> None:
    s = scenario(ASCEND, workload__prompt_tokens=rows)
    assert answer(s, rows).startswith(f"For {rows:,} rows a pass use **{count}")


def test_the_answer_says_what_a_forced_count_loses() -> None:
    s = scenario(ASCEND, workload__prompt_tokens=512, plan__slices=4)
    best = float(evaluate(s.replacing({"plan.slices": 1})).prefill_stage.seconds)
    loss = float(evaluate(s).prefill_stage.seconds) / best - 1
    assert f"The present setting takes {100 * loss:.0f} % longer" in answer(s, 512)


def test_measured_points_are_the_sweep_with_its_spread() -> None:
    points = measured_passes(scenario(ASCEND))
    assert len(points) == 11
    assert all(point.low <= point.rate <= point.high for point in points)
    assert {point.repetitions for point in points} == {1, 2, 3}


@pytest.mark.parametrize(
    "parameters",
    [
        {"workload__prompt_tokens": "1"},
        {"plan__max_slices": "0"},
        {"plan__tp_prefill": "1", "plan__tp_decode": "1"},
        {"plan__micro_batch_prefill": "64"},
        {"measured__prefill_seconds": "3"},
        {"hardware__memory_bytes": "1e9"},
        {"hardware__link_bandwidth_bytes_per_second": "0"},
        {"plan__pp_prefill": "3", "plan__pp_decode": "3"},
    ],
)
@pytest.mark.parametrize("module", ["slices"])
def test_odd_scenarios_are_told_and_never_crash(module: str, parameters: dict[str, str]) -> None:
    opened(module, ASCEND, **parameters)
