"""The pages for the Ascend, driven without a browser, on every preset."""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from explorer.config.scenario import Scenario
from explorer.config.units import significant
from explorer.plots.attribution import (
    attribution_figure,
    crossings,
    overlapped_profile,
    profile_rows,
    synced_now,
    synced_profile,
)
from explorer.plots.replay import host_scopes, replay_window
from explorer.plots.slices_map import PresentPass, loss_figure, map_study, rate_figure
from explorer.serving.evaluate import evaluate
from explorer.serving.slice_study import rows_of_a_pass
from explorer.serving.targets import rate_of, solve
from explorer.ui.attribution import measured_phases, measured_tables
from explorer.ui.attribution_words import (
    owner_sentence,
    synced_owner_sentence,
    synced_sentence,
)
from explorer.ui.conflicts import price_sentence
from explorer.ui.slice_words import answer, loss_sentence, spans_sentence
from explorer.ui.slices import measured_passes
from explorer.ui.targets import best_plan_sentence, lead_sentence
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario
from tests.tables import tables
from tests.test_app_pages import unfold


def as_parameters(changes: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in changes.items()}


THREE_STAGES = {
    "plan__pp_prefill": 3,
    "plan__pp_decode": 3,
    "workload__clusters_total": 12,
}
SIXTY_FOUR = {
    "plan__pp_prefill": 64,
    "plan__pp_decode": 64,
    "workload__clusters_total": 256,
}
ONE_CARD = {"plan__tp_prefill": 1, "plan__tp_decode": 1, "hardware__memory_bytes": 1e11}
TWO_CARDS = {"plan__tp_prefill": 2, "plan__tp_decode": 2}


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


def points_of(figure: object) -> int:
    return sum(len(trace.x) for trace in figure.data)  # type: ignore[attr-defined]


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
        as_parameters(THREE_STAGES),
        as_parameters(SIXTY_FOUR),
        {"workload__prompt_tokens": "131072", "workload__max_context_tokens": "262144"},
        {"hardware__all_reduces_per_layer": "0"},
        {"kernel__recurrence": "without_both", "plan__slices": "64"},
    ],
)
@pytest.mark.parametrize("module", ["slices", "attribution"])
def test_odd_scenarios_are_told_and_never_crash(module: str, parameters: dict[str, str]) -> None:
    opened(module, ASCEND, **parameters)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"workload__prompt_tokens": "0"}, "expected a whole number from 1 to 131072 tokens"),
        ({"plan__tp_prefill": "3"}, "does not divide the heads"),
        ({"hardware__link_bandwidth_bytes_per_second": "0"}, "expected a number from 1e+08"),
        ({"hardware__hbm_bandwidth_bytes_per_second": "0"}, "expected a number from 1e+09"),
        ({"plan__slices": "65"}, "expected a whole number from 0 to 64 slices"),
    ],
)
@pytest.mark.parametrize("module", ["slices", "attribution"])
def test_what_cannot_be_is_refused_with_what_could_and_the_page_stays(
    module: str, parameters: dict[str, str], words: str
) -> None:
    app = opened(module, ASCEND, **parameters)
    assert any(words in text.value for text in app.text)
    assert app.main.markdown[0].value == opened(module, ASCEND).main.markdown[0].value


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"plan__slices": "8", "workload__prompt_tokens": "512"}, "fewer than 96 of these rows"),
        ({"plan__slices": "64", "workload__prompt_tokens": "9"}, "fewer than 96 of these rows"),
        (as_parameters(TWO_CARDS), "Only 4 cards were measured: other TP is extrapolated."),
        ({"plan__micro_batch_prefill": "4"}, "3 requests of it are padding"),
    ],
)
@pytest.mark.parametrize("module", ["slices", "attribution"])
def test_what_runs_otherwise_than_asked_or_measured_is_noted(
    module: str, parameters: dict[str, str], words: str
) -> None:
    assert words in text_of(opened(module, ASCEND, **parameters))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_attribution_page_opens_on_every_preset(preset: str) -> None:
    app = opened("attribution", preset)
    text = text_of(app)
    assert "a prefill pass of" in text.splitlines()[0]
    assert "What would it take?" in [item.value for item in app.subheader]
    if preset == ASCEND:
        assert "gated-delta recurrence" in text
        assert "would have to fall from 2.20 s to **469 ms**, **4.69 times**" in text
        assert "Synced against running" in text
        app.session_state["open:scopes"] = True
        assert "2.77 s of scopes in a 1.25 s wall (2.22 times)" in text_of(app.run())
        assert "**More slices** gains nothing" in text
        assert "**A cheaper collective** cannot reach it alone" in text
    else:
        assert "are the Ascend 910A's" in text


def test_the_page_opens_on_the_pass_as_it_runs_and_its_first_sentence_follows_the_view() -> None:
    app = opened("attribution", ASCEND)
    assert app.button_group(key="attribution:view").value == "As it runs"
    assert app.markdown[0].value == owner_sentence(scenario(ASCEND))
    app.button_group(key="attribution:view").set_value("Device-synced").run()
    assert not app.exception
    assert app.markdown[0].value == synced_owner_sentence(scenario(ASCEND))
    assert "drains the device at every scope, 3.62 s" in app.markdown[0].value
    assert "Open circles: measured, each over the stack" in text_of(app)


def test_a_decode_target() -> None:
    app = opened("attribution", ASCEND)
    app.button_group(key="target:phase:ascend910a").set_value("decode").run()
    assert not app.exception
    assert "of decode for 1 request" in text_of(app)


def test_shares_add_up_and_the_recurrence_passes_the_all_reduces() -> None:
    s = scenario(ASCEND)
    rows = profile_rows(s)
    for profile in (overlapped_profile(s, rows), synced_profile(s, rows)):
        assert profile is not None
        total = sum(profile.share(name) for name in profile.seconds)
        assert total == pytest.approx(1.0)
    synced = synced_profile(s, rows)
    assert synced is not None
    pairs = [(item.larger, item.smaller) for item in crossings(synced)]
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


@pytest.mark.parametrize("rows", [64, 4096])
@pytest.mark.parametrize("stages", [THREE_STAGES, SIXTY_FOUR])
def test_page_replay_and_profile_are_of_the_stage_that_the_headline_waits_for(
    stages: dict[str, int], rows: int
) -> None:
    s = scenario(ASCEND, workload__prompt_tokens=rows, **stages)
    evaluation = evaluate(s)
    window, running = replay_window(s, 0, 1), overlapped_profile(s, profile_rows(s))
    assert window is not None
    terms = {term.name: float(term.seconds) for term in evaluation.prefill_stage.terms}
    whole = window.seconds + terms["stage_hand_over"]
    assert whole == pytest.approx(float(evaluation.prefill_stage.seconds))
    present = int((profile_rows(s) == rows).argmax())
    assert running.whole[present] == pytest.approx(whole)
    synced = synced_now(s)
    assert synced is not None
    # The stage with a full-attention layer has no recurrence, in both views.
    has_recurrence = float(running.seconds["gated_delta"][present]) > 0
    assert (float(synced.seconds["gated_delta"][0]) > 0) == has_recurrence


def test_a_pass_through_a_pipeline_is_told_apart_from_its_slowest_stage() -> None:
    s = scenario(ASCEND, **THREE_STAGES)
    evaluation = evaluate(s)
    text = f"{answer(s, 4096)} {owner_sentence(s)} {synced_owner_sentence(s)}"
    assert text.count("stage 1 of 3, layers 1 to 22: 17 gated-delta, 5 full-attention") == 3
    assert float(evaluation.ttft_seconds) == pytest.approx(3.386, abs=1e-3)
    assert "and takes 3.39 s through all of them" in text
    assert "The pass through all 3 stages, each taken to be as long, is 3.39 s." in text
    assert "of 1.13 s" not in text
    app = opened("attribution", ASCEND, **as_parameters(THREE_STAGES))
    shown = text_of(app)
    assert ", but for 1.86 ms of sending on to the next stage" in shown
    lead = lead_sentence(solve(s, "prefill", 5000.0, pairs=False), 3)
    assert "is a pass every 819 ms; now the slowest of 3 stages ends one every 1.13 s" in lead
    assert "Layers 5 to 8 of the slowest stage (stage 1 of 3" in shown


def test_ablations_are_of_one_stage_although_another_may_become_the_slowest() -> None:
    app = opened("attribution", ASCEND, **as_parameters(SIXTY_FOUR))
    frame = next(table for table in tables(app) if "instruction groups" in table)
    whole, *_, neither = frame["recurrence"]
    assert (whole, neither) == ("42.3 ms", "16.2 ms")
    assert "61.7 % of it is issuing two groups" in text_of(app)
    alone = opened("attribution", ASCEND, workload__prompt_tokens="64", **as_parameters(SIXTY_FOUR))
    assert "holds no gated-delta layer" in text_of(alone)
    short = opened("attribution", ASCEND, workload__prompt_tokens="64")
    assert "the pass would take 583 ms as now: it waits for something else" in text_of(short)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (ONE_CARD, "One card has nothing to reduce"),
        ({"workload__prompt_tokens": 1}, "Half of that is fewer than the 96 rows"),
        ({"workload__prompt_tokens": 191}, "Half of that is fewer than the 96 rows"),
        ({"hardware__all_reduces_per_layer": 0}, "No layer has an all-reduce to cut"),
    ],
)
def test_where_nothing_can_be_cut_that_is_the_answer(changes: dict[str, int], words: str) -> None:
    s = scenario(ASCEND, **changes)
    text = answer(s, rows_of_a_pass(s))
    assert "**no slice count changes anything**" in text
    assert words in text
    assert "slices are as fast" not in text


def test_one_card_has_spans_losses_and_prices_that_hold() -> None:
    s = scenario(ASCEND, **ONE_CARD)
    assert spans_sentence(s, ()) == "From 96 to 8,192 rows nothing is faster than **serial**."
    assert "no choice loses anything" in loss_sentence(map_study(s))
    assert price_sentence(s).startswith("This plan reduces nothing, on one card. Of 4 cards")
    assert "from 404 µs to 1.85 ms" in price_sentence(s)
    assert "0 s" not in price_sentence(s)


@pytest.mark.parametrize("rows", [1, 64, 512, 1105, 4433, 8192])
@pytest.mark.parametrize("changes", [{}, TWO_CARDS, THREE_STAGES, ONE_CARD])
def test_no_sentence_tells_a_negative_or_missing_time(rows: int, changes: dict[str, int]) -> None:
    s = scenario(ASCEND, workload__prompt_tokens=rows, **changes)
    text = " ".join(
        (answer(s, rows), owner_sentence(s), synced_owner_sentence(s), synced_sentence(s))
    )
    assert re.search(r" -[0-9]|\bnan\b|\binf\b|(?<![0-9.,])0 (s|%)", text) is None, text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (TWO_CARDS, "at TP 4, not 2"),
        (THREE_STAGES, "in one stage, not 3"),
        ({"precision__weights": "int8"}, "in fp16 throughout, not int8"),
        ({"kernel__recurrence": "without_both"}, "with the whole recurrence"),
    ],
)
def test_measured_points_are_shown_only_where_they_are_comparable(
    changes: dict[str, object], why: str
) -> None:
    s = scenario(ASCEND, **changes)
    assert measured_passes(s) == measured_phases(s) == measured_tables(s) == ()
    app = opened("slices", ASCEND, **as_parameters(changes))
    text = text_of(app)
    assert "Nothing was measured here" in text
    assert why in text
    assert "Open circles" not in text
    assert "best measured" not in tables(app)[0].columns
    app = opened("attribution", ASCEND, **as_parameters(changes))
    app.button_group(key="attribution:view").set_value("Device-synced").run()
    text = text_of(app)
    assert why in text
    assert "By the measured device-synced table" not in text


def test_points_beside_changed_numbers_say_so() -> None:
    app = opened("slices", ASCEND, hardware__link_bandwidth_bytes_per_second="4e10")
    assert "on the machine as it is; 1 of its numbers differ here" in text_of(app)


@pytest.mark.parametrize("prompt", [1, 300, 4096, 131_072])
@pytest.mark.parametrize("changes", [{}, {"plan__slices": 12}, SIXTY_FOUR])
def test_charts_stay_light_follow_their_curves_and_mark_the_present(
    prompt: int, changes: dict[str, int]
) -> None:
    s: Scenario = scenario(ASCEND, workload__prompt_tokens=prompt, **changes)
    study, measured = map_study(s), measured_passes(s)
    rates = rate_figure(study, measured, PresentPass(prompt, 1, 100.0))
    losses = loss_figure(study, prompt)
    shares = [
        attribution_figure(profile, measured_phases(s), prompt)
        for profile in (
            overlapped_profile(s, profile_rows(s)),
            synced_profile(s, profile_rows(s)),
        )
        if profile is not None
    ]
    for figure in (rates, losses, *shares):
        assert points_of(figure) <= 200
        (line,) = figure.layout.shapes
        assert (line.x0, line.x1) == (prompt, prompt)
        low, high = figure.layout.xaxis.range
        assert 10**low < prompt < 10**high
    for trace, count in zip(rates.data, (1, 2, 4, 8), strict=False):
        true = study.tokens_per_second[:, list(study.counts).index(count)]
        drawn = np.interp(np.log(study.rows), np.log(trace.x), trace.y)
        assert np.abs(drawn - true).max() <= 0.01 * true.max()


@pytest.mark.parametrize("changes", [{}, ONE_CARD, THREE_STAGES, {"plan__slices": 64}])
@pytest.mark.parametrize("module", ["slices", "attribution"])
def test_every_number_unfolds_to_formula_inputs_kind_and_source(
    module: str, changes: dict[str, int]
) -> None:
    app = opened(module, ASCEND, **as_parameters(changes))
    before = len(tables(app))
    unfold(app, "numbers")
    assert not app.exception
    frames = tables(app)
    assert len(frames) > before
    terms = next(frame for frame in frames if "formula of the work" in frame)
    formulas = dict(zip(terms["term"], terms["formula of the work"], strict=True))
    assert formulas["Norms"] == "layers × rows × t_norm"
    machine = [frame for frame in frames if {"number", "kind and source"} <= set(frame)]
    found = machine[0].set_index("number")
    norm = found.loc["**t_norm**: Norms a row a layer"]
    assert norm["value"] == "179 ns"
    assert norm["kind and source"].startswith("measured: Ascend TP Collective Overlap section 5.2")
    broadcast = found.loc["**t_broadcast**: Recurrence: broadcast rows a row a layer"]
    assert broadcast["kind and source"].startswith("fitted: fitted jointly")
    inputs = next(frame for frame in frames if "input" in frame)
    assert "**rows**: rows of the pass: prompt tokens of its micro-batch" in set(inputs["input"])
    unfolded = [text for frame in frames if "kind and source" in frame
                for text in frame["kind and source"]]  # fmt: skip
    assert all(re.fullmatch(r"[a-z]+: .+", text) for text in unfolded)


def test_the_numbers_of_another_chip_have_kinds_and_sources() -> None:
    app = opened("attribution", PRESETS[1])
    unfold(app, "numbers")
    assert not app.exception
    frames = tables(app)
    assert any("kinds of its numbers" in frame for frame in frames)
    assert any("kind and source" in frame for frame in frames)


def test_conflicts_are_stacked_and_not_squeezed_into_columns() -> None:
    app = opened("attribution", ASCEND)
    unfold(app, "conflicts")
    told = [item.value for item in app.markdown if " against " in item.value]
    assert len(told) >= 22
    assert not any("consequence" in table for table in tables(app))
    pinned = next(text for text in told if "QWEN_COMM_OVERLAP_SLICES" in text)
    assert "1 slice (the variable scales the rule's ceiling, section 4)" in pinned
    assert "4 slices (it pins the count, section 8)" in pinned


def test_fewer_collectives_and_the_limits_of_the_machine_are_among_the_levers() -> None:
    app = opened("attribution", ASCEND)
    levers = next(table for table in tables(app) if "at its best" in table)
    found = levers.set_index("number")
    assert found.loc["Collectives (all-reduces) a layer", "at its best"] == "0 calls"
    assert found.loc["Projections a row a layer", "at its best"] == "860 ns (FP16 peak)"
    assert "**Fewer collectives** cannot reach it alone" in text_of(app)
    app.button_group(key="target:phase:ascend910a").set_value("decode").run()
    levers = next(table for table in tables(app) if "at its best" in table)
    streaming = levers.set_index("number").loc["Weight streaming rate (GEMV)"]
    assert streaming["needed"] == "cannot"
    assert streaming["at its best"] == "1.15 TB/s (HBM bandwidth)"


def test_a_rate_of_one_pipeline_says_so_and_what_all_of_them_do() -> None:
    app = opened("attribution", MT3000)
    app.button_group(key="target:phase:mt3000").set_value("prefill").run()
    text = text_of(app)
    rate = float(rate_of(scenario(MT3000), "prefill"))
    assert "This is one pipeline of 8 (4 in each of 2 pools)" in text
    assert f"all of them together do {significant(8 * rate)} tokens/s of prefill now" in text
    assert any("one prefill pipeline" in item.label for item in app.number_input)
    assert "This is one pipeline" not in text_of(opened("attribution", ASCEND))


def test_a_best_value_at_the_end_of_its_slider_is_called_so() -> None:
    app = opened("attribution", MT3000)
    levers = next(table for table in tables(app) if "at its best" in table).set_index("number")
    best = levers["at its best"]
    assert best["Memory bandwidth a cluster"] == "10.0 TB/s (end of its range)"
    assert best["Clusters available"] == "100,000 clusters (end of its range)"
    assert best["MPI bandwidth a cluster"] == "30.0 GB/s (memory bandwidth)"


def test_the_best_plan_is_put_on_the_sliders_by_a_click() -> None:
    app = opened("attribution", MT3000)
    before = rate_of(app.session_state["scenario"], "service")
    assert "Put it on the sliders first" in text_of(app)
    app.button(key="target:best_plan").click().run()
    assert not app.exception
    assert "Put it on the sliders first" not in text_of(app)
    assert "No plan is enough: the one on the sliders is the best" in text_of(app)
    after = rate_of(app.session_state["scenario"], "service")
    assert float(after) > float(before)
    assert not [item for item in app.button if item.key == "target:best_plan"]


def test_the_fewest_clusters_for_a_target_are_found_and_put_on_the_sliders() -> None:
    app = opened("attribution", MT3000)
    assert app.session_state["scenario"].value("workload.clusters_total") == 72
    target = next(box for box in app.number_input if box.label.startswith("Target of all pools"))
    target.set_value(2000.0).run()
    app.button(key="start:fewest").click().run()
    app.session_state["task:fewest"][1].wait(60)
    app.run()
    assert "**112 clusters** suffice for 2,000 tokens/s, and no fewer" in text_of(app)
    app.button(key="fewest:put").click().run()
    assert not app.exception
    there = app.session_state["scenario"]
    assert there.value("workload.clusters_total") == 112
    assert float(rate_of(there, "service")) >= 2000.0
    assert "**2,000 tokens/s** is reached already" in text_of(app)


@pytest.mark.parametrize(("target", "said"), [(1271.0, "1,274"), (1275.0, "1,270")])
def test_what_just_misses_or_reaches_a_target_is_not_rounded_to_the_other_side(
    target: float, said: str
) -> None:
    sentence = best_plan_sentence(scenario(MT3000), target)
    assert f"reaches {said} tokens/s" in sentence
    assert ("A better plan is enough" in sentence) == (target < 1274)


def test_pairs_of_numbers_are_looked_for_where_they_are_unfolded() -> None:
    app = opened("attribution", ASCEND)
    assert not [frame for frame in tables(app) if "product of factors" in frame]
    app.session_state["open:pairs"] = True
    app.run()
    assert not app.exception
    (frame,) = [frame for frame in tables(app) if "product of factors" in frame]
    best = solve(app.session_state["scenario"], "prefill", 2000.0).pairs
    assert frame["product of factors"].tolist() == [
        significant(pair.cost) for pair in best[: len(frame)]
    ]


def test_the_wall_is_explained_and_a_factor_on_a_time_is_told_as_a_share() -> None:
    app = opened("attribution", ASCEND)
    assert any(item.value.startswith("The wall: the time of") for item in app.caption)
    text = text_of(app)
    assert "**Recurrence time against today's**: from 100 % to 40.7 %" in text
    assert "1 x" not in text
