"""The pages for the Ascend, driven without a browser, on every preset."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from explorer.plots.attribution import (
    FINE,
    crossings,
    grid,
    overlapped_profile,
    synced_profile,
)
from explorer.plots.replay import host_scopes, replay_window
from explorer.serving.evaluate import evaluate
from explorer.ui.slices import answer, measured_passes
from tests.scenarios import ASCEND, PRESETS, scenario


def page_app(module: str) -> None:
    # The function is run as a script of its own, so that its imports stand in it.
    import importlib  # noqa: PLC0415

    import streamlit as st  # noqa: PLC0415

    from explorer.ui import state  # noqa: PLC0415

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
@pytest.mark.parametrize("module", ["slices", "attribution"])
def test_odd_scenarios_are_told_and_never_crash(module: str, parameters: dict[str, str]) -> None:
    opened(module, ASCEND, **parameters)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_attribution_page_opens_on_every_preset(preset: str) -> None:
    app = opened("attribution", preset)
    text = text_of(app)
    assert "Of a prefill pass of" in text
    assert "What would it take?" in [item.value for item in app.subheader]
    if preset == ASCEND:
        assert "gated-delta recurrence" in text
        assert "would have to fall from 2.201 s to **0.469 s**, **4.69 times**" in text
        assert "Synced against running" in text
        assert "2.77 s of scopes in a 1.25 s wall (2.22 times)" in text
        assert "**More slices** gains nothing" in text
        assert "**A cheaper collective** cannot reach it alone" in text
    else:
        assert "are the Ascend 910A's" in text


def test_the_overlapped_view_and_a_decode_target() -> None:
    app = opened("attribution", ASCEND)
    app.button_group(key="attribution:view").set_value("As it runs").run()
    assert not app.exception
    app.button_group(key="target:phase").set_value("decode").run()
    assert not app.exception
    assert "of decode for 1 request" in text_of(app)


def test_shares_add_up_and_the_recurrence_passes_the_all_reduces() -> None:
    s = scenario(ASCEND)
    for profile in (overlapped_profile(s, grid()), synced_profile(s, grid())):
        assert profile is not None
        total = sum(profile.share(name) for name in profile.seconds)
        assert total == pytest.approx(1.0)
    fine = synced_profile(s, grid(FINE))
    assert fine is not None
    pairs = [(item.larger, item.smaller) for item in crossings(fine)]
    assert ("gated_delta", "tp_all_reduce") in pairs


def test_the_replay_has_the_wall_and_nested_spans_count_three_times() -> None:
    s = scenario(ASCEND)
    window = replay_window(s, 4, 4)
    assert window is not None
    assert window.seconds == pytest.approx(float(evaluate(s).prefill_stage.seconds))
    assert 0 < len(window.events) <= 190
    scopes = host_scopes(s)
    assert scopes is not None
    assert scopes.operators == pytest.approx(scopes.layers)
    assert scopes.layers == pytest.approx(scopes.whole)
