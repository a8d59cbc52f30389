"""The pages, driven without a browser."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest

from explorer.config.links import preset_scenario
from explorer.config.own_chip import parse_chip
from explorer.config.presets import scenario_presets
from explorer.config.scenario import WORD_FIELDS
from explorer.config.units import human
from explorer.plots.memory import memory_bars
from explorer.serving.evaluate import evaluate
from explorer.ui import charts
from explorer.ui.explore import FULLEST, free_bytes
from explorer.ui.sidebar import MECHANISM_LABELS, WORD_LABELS
from tests.scenarios import MT3000
from tests.tables import tables

APP = str(Path(__file__).parent.parent / "app.py")
PRESETS = [f"{preset.id}@{preset.version}" for preset in scenario_presets()]


def opened(**parameters: str | list[str]) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    for key, value in parameters.items():
        app.query_params[key.replace("__", ".")] = value
    return app.run()


def unfold(app: AppTest, *parts: str) -> AppTest:
    """Open parts that start closed: until then they are not built."""
    for part in parts:
        app.session_state[f"open:{part}"] = True
    return app.run()


def to_page(app: AppTest, route: str) -> None:
    """Go there as a click does: a page that is a function has no file to switch to."""
    pages = app._registered_pages.values()
    hashes = {page["url_pathname"]: page["page_script_hash"] for page in pages}
    app._page_hash = hashes[route]
    app.run()


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def notices(app: AppTest) -> list[str]:
    return [text.value for text in app.text if text.value.startswith("⚠")]


def throughput(reference: str, changes: dict[str, object]) -> str:
    scenario = preset_scenario(reference).replacing(changes)
    return human(float(evaluate(scenario).objective("throughput")), "tokens/s")


@pytest.mark.parametrize("reference", PRESETS)
def test_each_preset_opens_with_its_own_figures(reference: str) -> None:
    app = opened(preset=reference)
    assert not app.exception
    assert notices(app) == []
    assert metrics(app)["Throughput"] == throughput(reference, {})


def test_choosing_a_preset_resets_every_slider() -> None:
    app = opened(preset="mt3000-llama2-13b@1", plan__tp_decode="8")
    app.selectbox(key="preset_choice").set_value("mt3000-llama2-70b@1").run()
    assert not app.exception
    assert metrics(app)["Throughput"] == throughput("mt3000-llama2-70b@1", {})
    assert app.select_slider(key="knob:plan.tp_decode#1").value == 8


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("hardware.ddr_bandwidth_bytes_per_second", 60e9),
        ("plan.dp_prefill", 2),
        ("plan.pp_decode", 7),
        ("plan.micro_batch_decode", 128),
        ("workload.output_tokens", 112),
    ],
)
def test_moving_a_slider_moves_the_headline(path: str, value: float) -> None:
    app = opened(preset="mt3000-llama2-7b@1")
    app.select_slider(key=f"knob:{path}").set_value(value).run()
    assert not app.exception
    expected = throughput("mt3000-llama2-7b@1", {path: value})
    assert metrics(app)["Throughput"] == expected
    assert expected != throughput("mt3000-llama2-7b@1", {})


def test_the_change_against_the_preset_is_shown() -> None:
    app = opened(preset="mt3000-llama2-7b@1", hardware__ddr_bandwidth_bytes_per_second="60e9")
    delta = next(metric.delta for metric in app.metric if metric.label == "Throughput")
    assert delta.startswith("+")
    assert delta.endswith("% vs preset")


@pytest.mark.parametrize("reference", PRESETS)
def test_the_fullest_memory_is_that_of_the_fullest_bar(reference: str) -> None:
    evaluation = evaluate(preset_scenario(reference))
    free = {}
    for bar in memory_bars(evaluation, None):
        each = float(evaluation.buffer_clusters) if bar.name.startswith("buffer") else 1.0
        pool = "" if evaluation.inputs.shared else bar.name.partition(" ")[0].rstrip(",")
        free[pool] = (bar.limit_bytes - bar.total_bytes) / each
    assert free_bytes(evaluation) == pytest.approx(free)


def test_the_tile_of_free_memory_names_the_cluster_and_what_is_free_on_others() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    free = free_bytes(evaluate(preset_scenario("mt3000-llama2-13b@1")))
    assert min(free, key=lambda name: free[name]) == "buffer"
    tile = next(metric for metric in app.metric if metric.label == FULLEST)
    assert tile.value == human(free["buffer"], "B")
    assert tile.help == (
        "Free on the fullest cluster, here a buffer cluster; it is "
        f"{human(free['prefill'], 'B')} on a prefill cluster and "
        f"{human(free['decode'], 'B')} on a decode cluster."
    )


def test_a_buffer_too_small_for_a_batch_is_full_and_one_of_no_clusters_is_none() -> None:
    base = preset_scenario("mt3000-llama2-13b@1")
    assert free_bytes(evaluate(base.replacing({"plan.buffer_clusters": 1})))["buffer"] == 0.0
    assert "buffer" not in free_bytes(evaluate(base.unchecked({"plan.buffer_clusters": 0})))


def test_the_change_of_pools_is_told_of_pools() -> None:
    app = opened(preset="mt3000-llama2-13b@1", plan__tp_decode="8")
    changed = evaluate(preset_scenario("mt3000-llama2-13b@1").replacing({"plan.tp_decode": 8}))
    tile = next(metric for metric in app.metric if metric.label == "Pools / idle clusters")
    assert tile.value == f"{float(changed.pools):g} / {float(changed.idle_clusters):g}"
    assert tile.delta == "-50.0 % pools vs preset"


@pytest.mark.parametrize(
    ("reference", "unit"),
    [("mt3000-llama2-13b@1", "cluster"), ("ascend910a-qwen3.8-27b@1", "card")],
)
def test_what_a_token_costs_has_its_unit(reference: str, unit: str) -> None:
    found = evaluate(preset_scenario(reference)).objective("cluster_seconds_per_token")
    told = metrics(opened(preset=reference))[f"{unit.capitalize()}-seconds a token"]
    assert told == human(float(found), f"{unit} s")
    assert told.endswith(f" {unit} s")


def test_a_link_restores_values_that_no_slider_step_has() -> None:
    app = opened(
        preset="mt3000-llama2-13b@1",
        plan__micro_batch_decode="24",
        hardware__ddr_bandwidth_bytes_per_second="37123456789.125",
        workload__prompt_tokens="517",
    )
    assert notices(app) == []
    assert app.select_slider(key="knob:plan.micro_batch_decode").value == 24
    bandwidth = app.select_slider(key="knob:hardware.ddr_bandwidth_bytes_per_second")
    assert bandwidth.value == 37123456789.125
    app.select_slider(key="knob:plan.pp_decode").set_value(5).run()
    scenario = app.session_state["scenario"]
    assert scenario.plan.pp_decode == 5
    assert scenario.hardware["ddr_bandwidth_bytes_per_second"] == 37123456789.125
    assert scenario.workload.prompt_tokens == 517


def test_what_a_link_gets_wrong_is_said_and_the_rest_is_kept() -> None:
    app = opened(
        preset="mt3000-llama2-13b@1",
        plan__tp_decode=["8", "2"],
        plan__pp_decode="99",
        plan__pp_prefill="0x10",
        workload__prompt_tokens="1e9",
        nonsense="<script>alert(1)</script>",
    )
    assert not app.exception
    text = "\n".join(notices(app))
    for part in ("given twice", "plan.pp_decode = 99", "0x10", "1e9", "nonsense"):
        assert part in text
    assert app.session_state["scenario"].plan.tp_decode == 8
    app.button(key="close_notices").click().run()
    assert notices(app) == []


def test_an_unknown_preset_is_said_and_the_default_opens() -> None:
    app = opened(preset="mt9999")
    assert "mt9999" in "\n".join(notices(app))
    assert metrics(app)["Throughput"] == throughput("mt3000-llama2-13b@1", {})


def test_a_plan_that_does_not_fit_shows_no_speed_and_one_click_repairs_it() -> None:
    app = opened(preset="mt3000-llama2-70b@1", plan__pp_prefill="1")
    assert "does not fit" in app.error[0].value
    assert metrics(app)["Throughput"] == "–"
    assert metrics(app)["Time to first token"] == "–"
    app.button(key="fit:plan.pp_prefill").click().run()
    assert not app.error
    assert metrics(app)["Throughput"] != "–"


def test_a_value_is_set_by_the_name_of_its_control_and_a_success_clears_old_messages() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    app.text_input(key="exact").set_value("Prompt lenght = 3000").run()
    assert "Prompt lenght" in "\n".join(notices(app))
    text = "prompt length = 300 & Memory bandwidth a cluster=45e9"
    app.text_input(key="exact").set_value(text).run()
    assert notices(app) == []
    scenario = app.session_state["scenario"]
    assert scenario.workload.prompt_tokens == 300
    assert scenario.hardware == {"ddr_bandwidth_bytes_per_second": 45e9}


def test_typed_values_are_taken_exactly_and_wrong_ones_explained() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    app.text_input(key="exact").set_value("plan.micro_batch_decode=48&plan.tp_decode=3").run()
    assert app.session_state["scenario"].plan.micro_batch_decode == 48
    assert app.session_state["scenario"].plan.tp_decode == 4
    assert "expected one of 1, 2, 4, 8" in "\n".join(notices(app))
    app.button(key="reset").click().run()
    assert app.session_state["scenario"] == preset_scenario("mt3000-llama2-13b@1")


def test_with_shared_placement_one_slider_sets_both_pools() -> None:
    app = opened(preset="ascend910a-qwen3.8-27b@1")
    app.select_slider(key="knob:plan.tp_decode").set_value(2).run()
    plan = app.session_state["scenario"].plan
    assert (plan.tp_prefill, plan.tp_decode) == (2, 2)
    assert not app.error


def test_precision_is_independent_of_the_other_two() -> None:
    app = unfold(opened(preset="mt3000-llama2-13b@1"), "precision")
    app.segmented_control(key="word:precision.kv").set_value("int8").run()
    precision = app.session_state["scenario"].precision
    assert (precision.compute, precision.weights, precision.kv) == ("fp16", "fp16", "int8")


def test_a_chip_offers_only_the_arithmetic_it_has() -> None:
    app = opened(preset="ascend910a-qwen3.8-27b@1", precision__compute="fp32")
    assert "no fp32 arithmetic" in "\n".join(notices(app))
    unfold(app, "precision")
    assert app.segmented_control(key="word:precision.compute").options == ["FP16"]


def test_closed_parts_are_not_built_and_open_when_asked() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    closed = {slider.key for slider in app.select_slider}
    assert "knob:hardware.overhead_bytes" not in closed
    unfold(app, "hardware", "limits", "placement", "precision", "mechanisms", "numbers")
    assert {slider.key for slider in app.select_slider} > closed
    assert app.select_slider(key="knob:hardware.overhead_bytes").value == 1e9
    assert not app.exception


def test_two_sessions_do_not_see_each_other() -> None:
    one, other = opened(preset="mt3000-llama2-7b@1"), opened(preset="mt3000-llama2-7b@1")
    one.select_slider(key="knob:plan.pp_decode").set_value(9).run()
    other.run()
    assert other.session_state["scenario"] == preset_scenario("mt3000-llama2-7b@1")


def test_options_that_read_alike_never_stand_beside_each_other() -> None:
    close = {
        "hardware__ddr_bandwidth_bytes_per_second": "29990000000.0",
        "hardware__overhead_bytes": "1199000000.0",
    }
    app = unfold(opened(preset="mt3000-llama2-13b@1", **close), "hardware", "limits")
    for slider in app.select_slider:
        assert len(set(slider.options)) == len(slider.options), slider.label
    assert app.session_state["scenario"].hardware == {
        "ddr_bandwidth_bytes_per_second": 29990000000.0,
        "overhead_bytes": 1199000000.0,
    }


def test_what_is_no_link_changes_nothing() -> None:
    app = opened(preset="mt3000-llama2-13b@1", plan__tp_decode="8")
    to_page(app, "share")
    app.text_input(key="pasted").set_value("hello").run()
    assert "nothing in it can be used" in "\n".join(notices(app))
    assert app.session_state["scenario"].plan.tp_decode == 8


def test_shared_placement_ties_both_pools_and_back() -> None:
    app = unfold(opened(preset="mt3000-llama2-7b@1"), "placement")
    app.segmented_control(key="word:plan.placement").set_value("shared").run()
    assert not app.exception
    plan = app.session_state["scenario"].plan
    assert (plan.tp_prefill, plan.pp_prefill, plan.dp_prefill) == (plan.tp_decode, 2, 1)
    app.segmented_control(key="word:plan.placement").set_value("disaggregated").run()
    assert app.session_state["scenario"].plan.placement == "disaggregated"


def test_many_unknown_parameters_give_few_notices() -> None:
    app = opened(**{f"unknown{i}": "1" for i in range(300)})
    assert len(notices(app)) < 12


def test_a_pasted_link_to_no_preset_changes_nothing() -> None:
    app = opened(preset="mt3000-llama2-13b@1", plan__tp_decode="8")
    to_page(app, "share")
    app.text_input(key="pasted").set_value("?preset=nosuch@1").run()
    assert "nosuch" in "\n".join(notices(app))
    assert app.session_state["scenario"].plan.tp_decode == 8


def test_the_address_of_a_scenario_that_no_link_holds_says_so_when_reopened() -> None:
    app = opened(**{"preset": "mt3000-llama2-13b@1", "own-document": "yes"})
    assert "open the exported file" in "\n".join(notices(app))


def test_the_overview_unfolds_the_ascends_terms_into_formulas_and_sources() -> None:
    app = unfold(opened(preset="ascend910a-qwen3.8-27b@1"), "numbers")
    assert not app.exception
    terms = [table for table in tables(app) if "formula of the work" in table]
    assert [len(frame) for frame in terms] == [12, 13]
    assert any("kind and source" in table for table in tables(app))
    assert app.json


@pytest.mark.parametrize("reference", ["mt3000-llama2-13b@1", "ascend910a-qwen3.8-27b@1"])
def test_labels_of_controls_are_words_and_say_what_is_assumed_or_fitted(reference: str) -> None:
    app = unfold(opened(preset=reference), "hardware", "limits", "precision", "mechanisms")
    labels = {slider.key: slider.label for slider in app.select_slider}
    assert labels["knob:hardware.overhead_bytes"].endswith(" (assumed)")
    kinds = preset_scenario(reference).chip_document().quantities
    for key, label in labels.items():
        assert re.search(r":[a-z]+\[|\*\*|`", label) is None, label
        quantity = kinds.get(key.removeprefix("knob:hardware."))
        marked = quantity is not None and quantity.kind in ("assumed", "fitted")
        assert label.endswith((" (assumed)", " (fitted)")) == marked, label


def test_the_share_page_says_what_the_engine_cannot_be_told() -> None:
    app = opened(
        preset="ascend910a-qwen3.8-27b@1",
        workload__prompt_tokens="512",
        plan__min_rows_per_slice="2048",
        kernel__recurrence="without_both",
    )
    to_page(app, "share")
    assert not app.exception
    notes = "\n".join(item.value for item in app.caption)
    assert "is compiled into" in notes
    assert "pins the count by its section 8" in notes
    assert "what such a build computes is not the model's output" in notes


def test_the_box_takes_what_the_controls_show_and_refuses_in_their_words() -> None:
    app = opened(preset="mt3000-llama2-13b@1")
    text = "Memory bandwidth a cluster = 60 GB/s & Weights stored as = INT8 & Prompt length = 3,000"
    app.text_input(key="exact").set_value(text).run()
    assert notices(app) == []
    assert app.text_input(key="exact").value == ""
    scenario = app.session_state["scenario"]
    assert scenario.hardware == {"ddr_bandwidth_bytes_per_second": 6e10}
    assert scenario.precision.weights == "int8"
    assert scenario.workload.prompt_tokens == 3000
    app.text_input(key="exact").set_value("Memory bandwidth a cluster = 60 s").run()
    (said,) = notices(app)
    assert "Memory bandwidth a cluster = 60 s: s is no unit of it" in said
    assert "from 100 MB/s to 10.0 TB/s" in said


def test_every_choice_of_words_can_be_typed_by_its_label() -> None:
    paths = {*WORD_LABELS, *(path for labels in MECHANISM_LABELS.values() for path in labels)}
    assert paths == set(WORD_FIELDS)


def test_a_refused_file_replaces_the_former_and_stays_on_its_page() -> None:
    app = opened(preset="mt3000-llama2-13b@1", plan__tp_decode="3")
    (address,) = notices(app)
    to_page(app, "share")
    for name in ("a.json", "b.json"):
        app.file_uploader(key="upload").set_value((name, b"{", "application/json")).run()
        assert [name in said for said in notices(app)] == [False, True]
    app.text_input(key="pasted").set_value("nothing").run()
    app.text_input(key="pasted").set_value("nothing else").run()
    assert ["nothing else" in said for said in notices(app)] == [False, False, True]
    to_page(app, "own")
    assert notices(app) == [address]
    app.text_input(key="exact").set_value("Prompt length = x").run()
    app.text_input(key="exact").set_value("Prompt length = y").run()
    to_page(app, "fidelity")
    first, second = notices(app)
    assert first == address
    assert "Prompt length = y" in second


def test_a_slider_of_the_machine_that_is_moved_back_leaves_nothing_behind() -> None:
    app = opened(preset=f"{MT3000}@1")
    measured = "**543 tokens/s**"
    assert any(measured in part.value for part in app.markdown)
    key = "knob:hardware.sm_bytes"
    own = app.select_slider(key=key).value
    app.select_slider(key=key).set_value(2 * own).run()
    assert app.session_state["scenario"].hardware == {"sm_bytes": 2 * own}
    assert not any(measured in part.value for part in app.markdown)
    app.select_slider(key=key).set_value(own).run()
    assert app.session_state["scenario"].hardware == {}
    assert app.button(key="reset").disabled
    assert any(measured in part.value for part in app.markdown)


def test_numbers_of_a_chip_that_is_not_the_presets_can_be_moved_there_and_back() -> None:
    app = opened(preset=f"{MT3000}@1")
    app.session_state["scenario"] = preset_scenario(MT3000).with_chip("a100-80gb-sxm")
    app.run()
    key = "knob:hardware.memory_bandwidth_bytes_per_second"
    for _ in range(2):
        app.select_slider(key=key).set_value(app.select_slider(key=key).options[0]).run()
        assert not app.exception
    twice = {"base": "mt3000@1", "id": "mine", "name": "Mine", "quantities": {"sm_bytes": 131072}}
    chip = parse_chip({"schema": "explorer.chip/1", **twice}, "chip")
    app.session_state["scenario"] = preset_scenario(MT3000).with_chip(chip)
    app.run()
    for value in (262144, 65536, 131072):
        app.select_slider(key="knob:hardware.sm_bytes").set_value(value).run()
        set_by_hand = {} if value == 131072 else {"sm_bytes": value}
        assert app.session_state["scenario"].hardware == set_by_hand


def test_a_link_that_states_the_chips_own_number_is_the_case_that_was_measured() -> None:
    app = opened(preset=f"{MT3000}@1", hardware__sm_bytes="65536")
    assert app.session_state["scenario"].hardware == {"sm_bytes": 65536}
    assert any("**543 tokens/s**" in part.value for part in app.markdown)


def test_a_plan_that_does_not_fit_is_not_taken_along_unsaid() -> None:
    app = opened(preset=f"{MT3000}@1", plan__micro_batch_decode="512")
    to_page(app, "share")
    assert "no speed to take along" in app.error[0].value
    app.button(key="fit:best_plan").click().run()
    assert not app.error
    assert evaluate(app.session_state["scenario"]).feasible


def test_charts_have_a_head_start_over_the_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser draws the answer while the server still waits with the sliders."""
    sent: list[tuple[float, str]] = []
    enqueue = ScriptRunContext.enqueue

    def watched(context: ScriptRunContext, message: ForwardMsg) -> None:
        sent.append((time.monotonic(), message.delta.new_element.WhichOneof("type") or ""))
        enqueue(context, message)

    monkeypatch.setattr(ScriptRunContext, "enqueue", watched)
    monkeypatch.setattr(charts, "HEAD_START_SECONDS", 0.3)
    opened()
    last_chart = max(moment for moment, kind in sent if kind == "plotly_chart")
    first_slider = min(moment for moment, kind in sent if kind == "slider")
    assert first_slider - last_chart >= 0.3


def test_a_target_is_kept_on_other_pages_and_is_of_its_chip_and_model() -> None:
    def target() -> float:
        (box,) = (item for item in app.number_input if item.label.startswith("Target"))
        return float(box.value)

    def choose(preset: str) -> None:
        choice = next(item for item in app.selectbox if item.label == "Preset")
        choice.set_value(preset).run()

    app = opened(preset=MT3000)
    to_page(app, "attribution")
    first = target()
    next(item for item in app.number_input if item.label.startswith("Target")).set_value(1e4).run()
    to_page(app, "slices")
    to_page(app, "attribution")
    assert target() == 1e4 != first
    choose("mt3000-llama2-7b@1")
    assert target() != 1e4
    # What one chip's page begins with was not chosen, and does not follow to another.
    choose("ascend910a-qwen3.8-27b@1")
    assert target() == 2000.0
    choose(f"{MT3000}@1")
    assert target() == 1e4


def test_a_slider_of_whole_numbers_ends_where_its_range_does() -> None:
    app = opened(preset=MT3000)
    slider = app.select_slider(key="knob:workload.clusters_total")
    assert (slider.options[0], slider.options[-1]) == ("1 cluster", "100,000 clusters")
