"""The page of the mechanisms: every view, every preset, and sliders at both ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from explorer.chips.inputs import Inputs
from explorer.chips.mechanisms import loop_iterations, loop_times, paper_tile
from explorer.chips.mt3000 import Mt3000
from explorer.config.presets import load_chip, scenario_presets
from explorer.costs.arrays import scalar
from explorer.costs.buffering import Buffering, simulate
from explorer.costs.tile_search import Product
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.attention import attention_data, attention_figure
from explorer.plots.batching import batching_data, latency_figure, step_traffic, throughput_figure
from explorer.plots.blocking import matching_products, staircase_data, staircase_figure
from explorer.plots.buffering import MOST_BARS, gantt_data
from explorer.plots.launches import launch_data
from explorer.serving.evaluate import evaluate
from explorer.ui.inside import VIEWS
from tests.browser import charts_drawn, open_page, settle
from tests.scenarios import scenario
from tests.tables import tables

APP = str(Path(__file__).parent.parent / "app.py")
PRESETS = [f"{preset.id}@{preset.version}" for preset in scenario_presets()]
MT3000 = "mt3000-llama2-13b@1"
SLIDERS = ("sm_bytes", "am_bytes", "gsm_bytes", "ddr_bandwidth_bytes_per_second")
MOST_POINTS = 200


def inside(view: str = "Blocking", preset: str = MT3000, **hardware: float) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    app.query_params["preset"] = preset
    for name, value in hardware.items():
        app.query_params[f"hardware.{name}"] = f"{value:.17g}"
    app.session_state["mechanism"] = view
    app.run()
    # Pages that are functions have no file to switch to: the page's hash is what a click sends.
    app._page_hash = next(
        page["page_script_hash"]
        for page in app._registered_pages.values()
        if page["url_pathname"] == "inside"
    )
    return app.run()


def text(app: AppTest) -> str:
    return "\n".join(block.value for block in app.markdown)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_opens_on_each_preset(view: str, preset: str) -> None:
    app = inside(view, preset)
    assert not app.exception
    assert not app.error
    if preset.startswith("mt3000"):
        assert "**" in text(app)
        assert app.get("plotly_chart")
    else:
        assert "are the MT-3000's" in app.info[0].value
        assert not app.get("plotly_chart")


@pytest.mark.parametrize("name", SLIDERS)
@pytest.mark.parametrize("end", ["minimum", "maximum"])
@pytest.mark.parametrize("view", VIEWS)
def test_sliders_at_both_ends_give_figures_or_a_reason(view: str, end: str, name: str) -> None:
    app = inside(view, **{name: getattr(load_chip("mt3000").quantities[name], end)})
    assert not app.exception
    for error in app.error:
        assert "expected" in error.value
    assert "nan" not in text(app).lower().split()
    assert app.error or app.get("plotly_chart")


def test_blocking_ranks_the_papers_tile_with_its_exact_bytes() -> None:
    app = inside()
    assert "(720, 2048, 30, 256, 256)" in text(app)
    tiles = tables(app, index=True)[0]
    assert tiles.loc["SM taken", "paper's"] == "60 of 64 KiB"
    assert tiles.loc["AM taken", "paper's"] == f"{(616_448 + 4 * 4096) / 1024:,.0f} of 768 KiB"
    assert tiles.loc["GSM taken", "paper's"] == "5,760 of 6,144 KiB"
    assert tiles.loc["Rank", "fastest"] == "1"


def test_a_product_without_rows_is_refused_with_a_reason() -> None:
    app = inside()
    app.selectbox(key="inside:product").set_value("Another shape").run()
    assert not app.error
    app.number_input(key="inside:M").set_value(0).run()
    assert "product.m = 0" in app.error[0].value.replace("\\", "")
    assert not app.exception
    app.number_input(key="inside:M").set_value(721).run()
    assert "721 × 4,096 × 4,096" in text(app)
    app.number_input(key="inside:N").set_value(400_000).run()
    assert "AM" in app.error[0].value


def test_sequences_of_no_length_are_refused_with_a_reason() -> None:
    app = inside("Attention")
    app.number_input(key="inside:seq").set_value(0).run()
    assert "S = 0" in app.error[0].value
    app.number_input(key="inside:seq").set_value(600_000).run()
    assert "does not fit" in text(app)
    assert not app.exception


def test_row_blocks_typed_on_the_page_are_the_scenarios() -> None:
    app = inside("Attention")
    app.number_input(key="inside:hardware.attention_mt_rows").set_value(48).run()
    assert app.session_state["scenario"].hardware["attention_mt_rows"] == 48
    assert "48" in text(app)


def test_fusion_in_fp32_is_figure_4_and_less_memory_is_not() -> None:
    assert "exactly the five regions of Fig. 4" in text(inside("Fusion"))
    assert "Fig. 4" not in text(inside("Fusion", am_bytes=640 * 1024))


def test_buffers_are_a_control() -> None:
    app = inside("Triple buffering")
    app.segmented_control(key="inside:buffers").set_value(1).run()
    assert "**1.00 times**" in text(app)
    assert app.toggle(key="inside:tiled").disabled


def test_the_kernel_starts_every_16_cycles() -> None:
    app = inside("Micro-kernel")
    assert "every **16 cycles**" in text(app)
    grid = app.dataframe[0].value
    assert grid.shape == (16, 7)
    assert (grid[["VMAC1", "VMAC2", "VMAC3"]] != "").all().all()


def test_the_ladder_stands_beside_its_measurements() -> None:
    table = tables(inside("Batching"), index=True)[0]
    assert list(table.index) == ["A0", "A1", "A2", "A3-1", "A3-2", "A4"]
    assert table.loc["A2", "Llama-2 7B, measured"].startswith("26.0")
    assert table.loc["A0", "Llama-2 7B, model"].startswith("not modelled")
    assert "not modelled" not in " ".join(table.loc["A1":, "Llama-2 13B, model"])


def test_the_choice_of_a_mechanism_outlives_another_page() -> None:
    app = inside()
    here = app._page_hash
    app.segmented_control(key="inside:mechanism").set_value("Launches").run()
    app._page_hash = ""
    app.run()
    app._page_hash = here
    app.run()
    assert app.segmented_control(key="inside:mechanism").value == "Launches"


def test_charts_stay_light_and_show_what_was_computed() -> None:
    base = scenario(MT3000)
    mt = Mt3000.of(Inputs(base))
    cluster, tile = mt.cluster_at("fp32", 4), paper_tile(mt, 30)
    product = Product(1024, 4096, 4096)
    measured = matching_products(shipped_measurements(), "fp32", product)
    assert [rows for rows, _ in measured] == [1024, 4096, 8192]
    stairs = staircase_data(product, {"a": tile, "b": tile}, cluster, measured)
    at = stairs.stairs[0].rows.index(720)
    assert "0 DSPs idle" in stairs.stairs[0].sentences[at]
    assert "23 DSPs idle" in stairs.stairs[0].sentences[at + 1]
    memory = mt.capacity.memory_bytes
    times = attention_data(scalar(128), scalar(128), mt.attention_tiles, mt.cluster, memory, ())
    batching = batching_data(base)
    figures = (
        staircase_figure(stairs),
        attention_figure(times, 512),
        throughput_figure(batching),
        latency_figure(batching),
    )
    for figure in figures:
        assert sum(len(trace.x) for trace in figure.data) <= MOST_POINTS
    small = paper_tile(mt, 30)
    run = simulate(
        loop_times(small, cluster, scalar(8)), 40, int(loop_iterations(small)), Buffering(3)
    )
    assert len(gantt_data(run).bars) == MOST_BARS


def test_batching_is_the_engines_and_the_crossing_is_exact() -> None:
    base = scenario(MT3000)
    data = batching_data(base)
    own = evaluate(base)
    at = data.micro_batch.index(base.plan.micro_batch_decode)
    latency = float(own.prefill_seconds / base.plan.dp_prefill + own.decode_seconds)
    assert data.latency_seconds[at] == pytest.approx(latency)
    assert data.throughput[at] == pytest.approx(float(own.batch_tokens) / latency)
    assert data.crossing is not None
    for size, above in ((data.crossing - 1, False), (data.crossing, True)):
        evaluation = evaluate(base.replacing({"plan.micro_batch_decode": size}))
        kv, weights = step_traffic(evaluation)
        assert (float(kv) > float(weights)) == above
    # 10 layers of 12 H^2-sized matrices and the head, a quarter each by TP, two bytes an element.
    assert data.crossing == 57
    assert data.weight_bytes[0] == pytest.approx(1.668e9, rel=1e-3)
    terms = own.decode_stage.terms
    attention = sum(float(term.bytes) for term in terms if term.name == "attention")
    assert data.kv_bytes[at] == pytest.approx(attention, rel=0.01)


def test_what_does_not_fit_has_no_speed() -> None:
    for view in ("Batching", "Launches"):
        said = text(inside(view, sm_bytes=1024))
        assert "**This plan does not fit**" in said
        assert "K_2" in said.replace("\\", "")
        assert "tokens/s**" not in said.split("Pools apart")[0]
        assert "launches take" not in said
    tiles = tables(inside("Blocking", sm_bytes=1024), index=True)[0]
    assert list(tiles.loc["Time"])[:2] == ["–", "–"]
    assert tiles.loc["Rank", "paper's"] == "does not fit"
    assert "no room" in tiles.loc["Rank", "engine's now"]
    small = scenario(MT3000, hardware__sm_bytes=1024)
    assert not any(batching_data(small).fits)
    for figure in (throughput_figure(batching_data(small)), latency_figure(batching_data(small))):
        assert all(value is None for trace in figure.data for value in trace.y)
    assert all(not line.sizes for line in launch_data(small, True, "batch").lines)
    most = batching_data(scenario(MT3000))
    assert any(most.fits)
    assert not all(most.fits)


def test_attention_beyond_memory_has_no_time() -> None:
    app = inside("Attention")
    assert "does not fit" not in text(app)
    app.number_input(key="inside:seq").set_value(20_000).run()
    said = text(app).split("Where the scores")[0]
    assert "MT: does not fit, one micro-kernel" in said
    assert "Flash takes" in said
    app.number_input(key="inside:seq").set_value(1_000_000).run()
    assert "no method fits" in text(app)
    assert "takes **" not in text(app)
    assert set(tables(app, index=True)[0].loc["Time"]) == {"does not fit"}
    mt = Mt3000.of(Inputs(scenario(MT3000)))
    memory = mt.capacity.memory_bytes
    args = (scalar(128), scalar(128), mt.attention_tiles, mt.cluster)
    lines = {line.method: line for line in attention_data(*args, memory, ()).lines}
    assert len(lines["flash"].seq) == 61
    less = {line.method: line for line in attention_data(*args, memory / 10, ()).lines}
    assert 0 < len(less["flash"].seq) < 61


def test_fp16_says_why_it_is_not_figure_4() -> None:
    app = inside("Fusion")
    app.segmented_control(key="inside:precision").set_value("fp16").run()
    assert "**4 regions**" in text(app)
    assert "Fig. 4's five hold in FP32" in text(app)


def test_fusion_at_less_memory_shows_its_regions() -> None:
    app = inside("Fusion", am_bytes=512 * 1024)
    assert not app.error
    assert "**15 regions**" in text(app)


def test_the_naive_kernel_is_bound_by_its_own_iterations() -> None:
    app = inside("Micro-kernel")
    captions = " ".join(caption.value for caption in app.caption)
    assert "VMAC issues vfmulas32, SMAC issues svbcast, SLDST issues sldh" in captions
    assert "SIEU issues sbale2, VLDST issues vldw" in captions
    assert "2 elements of FP32" in captions
    assert "lie on each other: 6 × 128 FP32 (paper) and 6 × 256 FP16." in captions
    app.selectbox(key="inside:kernel").set_value("6 × 128 FP32, naive").run()
    assert "(one iteration after another" in text(app)
    assert tables(app, index=True)[0].loc["Bound by"].iloc[-1] == "one iteration after another"


@pytest.mark.browser
def test_every_mechanism_draws_in_a_browser(app_url: str, page: Page) -> None:
    open_page(page, f"{app_url}/inside")
    main = page.get_by_test_id("stMain")
    for view in VIEWS:
        main.get_by_role("radio", name=view, exact=True).click()
        settle(page)
        charts_drawn(page)
        expect(main.get_by_test_id("stPlotlyChart").first).to_be_visible()
        expect(main.get_by_test_id("stException")).to_have_count(0)
