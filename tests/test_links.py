"""Share links: everything comes back exactly, and what cannot be used is explained."""

import math
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.knobs import scenario_knobs
from explorer.config.links import (
    LONGEST_LINK,
    apply_texts,
    link_query,
    open_link,
    open_pairs,
    pinned_reference,
    preset_scenario,
    split_assignments,
)
from explorer.config.scenario import (
    OPTIONAL_PATHS,
    TEXT_PATHS,
    WORD_FIELDS,
    knob_at,
    legal_values,
    parse_scenario,
    paths_of,
)
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario, scenarios


def opened(query, default=MT3000):
    result = open_link(query, default)
    assert result.problems == ()
    return result.scenario


def awkward(s, path):
    """Return a legal value that differs from the scenario's: long numbers, odd fractions."""
    knob = knob_at(s, path)
    current = s.value(path)
    legal = legal_values(s, path)
    if legal:
        return next(tp for tp in reversed(legal) if tp != current)
    low, high = knob.minimum, knob.maximum
    if knob.whole:
        value = int(min(max(low, 24), high))
        others = (value, int(min(value + 13, high)), int(low))
        return next(other for other in others if other != current)
    if low > 0:
        return math.sqrt(low) * math.sqrt(high) * 1.0123456789
    return (low + high) / 3.0000001


@pytest.mark.parametrize("preset", PRESETS)
def test_every_number_alone_survives_a_link(preset):
    base = preset_scenario(preset)
    for path in paths_of(base):
        if path in ("name", "chip", "model", *WORD_FIELDS, *TEXT_PATHS):
            continue
        value = awkward(base, path)
        assert value != base.value(path), path
        restored = opened("?" + link_query(base.replacing({path: value}), preset))
        assert restored.value(path) == value, path
        assert type(restored.value(path)) is type(value), path


@pytest.mark.parametrize("preset", PRESETS)
def test_all_numbers_words_and_the_name_together_survive_a_link(preset):
    base = preset_scenario(preset)
    changes = {path: awkward(base, path) for path in scenario_knobs()}
    hardware = {path: awkward(base, path) for path in paths_of(base) if path.startswith("hardw")}
    words = {
        "precision.weights": "int8",
        "precision.kv": "fp32",
        "limits.budget": f"0.125 * {next(iter(hardware))} + {list(hardware)[-1]} <= 1e6",
        "plan.placement": "shared" if base.plan.placement == "disaggregated" else "disaggregated",
        "name": "50 % of Ünïcode & = ? # + / \\ ' \" · 24",
    }
    s = base.replacing({**changes, **hardware, **words})
    query = link_query(s, preset)
    assert len(query) <= LONGEST_LINK
    assert opened(f"https://host.example:8501/explore?{query}") == s
    assert opened(query) == s
    assert link_query(opened(query), preset) == query


@given(scenarios(), st.sampled_from(PRESETS), st.data())
@settings(max_examples=100, deadline=None)
def test_any_scenario_survives_a_link_from_any_preset(s, start, data):
    names = data.draw(st.lists(st.sampled_from(list(s.chip_document().quantities)), max_size=6))
    for name in names:
        knob = s.chip_document().knob(name)
        numbers = (
            st.integers(int(knob.minimum), int(knob.maximum))
            if knob.whole
            else st.floats(float(knob.minimum), float(knob.maximum))
        )
        s = s.replacing({f"hardware.{name}": data.draw(numbers)})
    for path in OPTIONAL_PATHS:
        knob = scenario_knobs()[path]
        s = s.replacing(
            {path: data.draw(st.none() | st.floats(float(knob.minimum), float(knob.maximum)))}
        )
    assert opened("?" + link_query(s, start), default=ASCEND) == s


def test_a_link_holds_the_preset_and_only_what_differs():
    assert link_query(preset_scenario(MT3000), MT3000) == f"preset={MT3000}@1"
    query = link_query(scenario(MT3000, plan__tp_decode=8, plan__slices=24), MT3000)
    assert parse_qsl(query) == [
        ("preset", f"{MT3000}@1"), ("plan.tp_decode", "8"), ("plan.slices", "24")
    ]  # fmt: skip


def test_a_chip_number_set_to_its_own_value_stays_set():
    s = scenario(MT3000, hardware__sm_bytes=65536)
    assert opened(link_query(s, MT3000)).hardware == {"sm_bytes": 65536}


def test_words_and_numbers_share_a_field():
    for value in ("auto", 0, 24):
        s = scenario(MT3000, plan__buffer_clusters=value)
        assert opened(link_query(s, MT3000)).plan.buffer_clusters == value
    assert opened(f"preset={MT3000}&plan.buffer_clusters=auto").plan.buffer_clusters == "auto"


def test_a_link_from_another_chips_preset_carries_chip_and_model_with_their_versions():
    s = preset_scenario(ASCEND)
    query = link_query(s, MT3000)
    assert "chip=ascend910a@1" in query
    assert "model=qwen3.8-27b@1" in query
    assert opened(query) == s


@pytest.fixture
def preset_with_overrides(monkeypatch):
    """A preset that sets numbers of the chip itself, as none that ships does yet."""
    base = scenario(MT3000, hardware__sm_bytes=131072, hardware__memory_bytes=25e9)
    monkeypatch.setattr("explorer.config.links.preset_scenario", lambda _reference: base)
    return base


def test_a_link_takes_back_a_number_that_its_preset_sets(preset_with_overrides):
    base = preset_with_overrides
    assert base.hardware == {"sm_bytes": 131072, "memory_bytes": 25e9}
    s = base.replacing({"hardware.sm_bytes": None})
    assert s.value("hardware.sm_bytes") == 65536
    query = link_query(s, MT3000)
    assert query == f"preset={MT3000}@1&hardware.sm_bytes=default"
    assert opened(query) == s
    bare = base.replacing({"hardware.sm_bytes": None, "hardware.memory_bytes": None})
    assert opened(link_query(bare, MT3000)) == bare == base.model_copy(update={"hardware": {}})


def test_a_link_to_another_chip_takes_back_numbers_that_only_the_old_one_has(
    preset_with_overrides,
):
    s = preset_with_overrides.with_chip("a100-80gb-sxm")
    query = link_query(s, MT3000)
    assert "hardware.sm_bytes=default" in query
    assert opened(query) == s
    result = open_link(f"{query}&plan.nothing=1", MT3000)
    assert result.scenario == s
    assert len(result.problems) == 1
    kept = s.replacing({"hardware.memory_bytes": 25e9})
    assert "memory_bytes" not in link_query(kept, MT3000)
    assert opened(link_query(kept, MT3000)) == kept


def test_a_number_that_nobody_set_can_be_taken_back():
    assert opened(f"preset={MT3000}&hardware.sm_bytes=default") == scenario(MT3000)
    back, problems = apply_texts(
        scenario(MT3000, hardware__sm_bytes=1024), {"hardware.sm_bytes": "default"}
    )
    assert (back, problems) == (scenario(MT3000), ())
    result = open_link(f"preset={MT3000}&hardware.nothing=default", MT3000)
    assert "unknown field" in result.problems[0].sentence()
    for path in ("plan.tp_decode", "limits.ttft_seconds", "workload.prompt_tokens"):
        assert len(open_link(f"preset={MT3000}&{path}=default", MT3000).problems) == 1


def test_a_link_of_a_later_version_means_nothing_here():
    for later in ("explorer.link/2", "explorer.link/77", "explorer.link/x"):
        result = open_link(f"?preset=mt3000-llama2-7b@1&plan.tp_decode=8&schema={later}", ASCEND)
        assert result.meaningless
        assert (result.preset, result.scenario) == (f"{ASCEND}@1", preset_scenario(ASCEND))
    now = open_link("?preset=mt3000-llama2-7b@1&plan.tp_decode=8&schema=explorer.link/1", ASCEND)
    assert now.problems == ()
    assert now.scenario == scenario("mt3000-llama2-7b", plan__tp_decode=8)
    assert open_link("?schema=explorer.link/2", MT3000).meaningless


def test_an_unbounded_limit_is_stated():
    bounded = scenario(MT3000, limits__ttft_seconds=2.5)
    back, problems = apply_texts(bounded, {"limits.ttft_seconds": "none"})
    assert (back.limits.ttft_seconds, problems) == (None, ())


@pytest.mark.parametrize("text", ["2.5", "2.50", "2.5e0", "25e-1", "+2.5"])
def test_hand_written_numbers_are_read(text):
    assert opened(f"preset={MT3000}&limits.ttft_seconds={text.replace('+', '%2B')}") == scenario(
        MT3000, limits__ttft_seconds=2.5
    )


def test_spaces_around_a_link_query_and_a_leading_question_mark_do_not_matter():
    for link in ("?plan.tp_decode=8", "plan.tp_decode=8", "http://x/?plan.tp_decode=8#top"):
        assert opened(link).plan.tp_decode == 8


@pytest.mark.parametrize("link", ["", "?", "http://host/", "http://host/?utm=1", "tea"])
def test_a_link_that_says_nothing_of_a_scenario_is_refused(link):
    with pytest.raises(InputError, match="nothing in it can be used"):
        open_link(link, MT3000)


BAD = [
    ("plan.tp_decode", text)
    for text in (
        "", "3", "0", "-4", "4.0", "4e0", "four", "nan", "inf", "1_6", " 8", "8 ", "٤", "0x8",
        "[4]", "None", "none", "true", "9" * 400, "9" * 5000, "8;drop", "\n8", "\r8", "<b>",
    )
] + [
    ("hardware.ddr_bandwidth_bytes_per_second", text)
    for text in ("", "0", "-1", "nan", "inf", "-inf", "1e300", "1e999", "none", "3_0e9", "30 GB/s")
] + [
    ("plan.buffer_clusters", "AUTO"), ("plan.slices", "auto"), ("plan.placement", "both"),
    ("precision.compute", "int8"), ("precision.kv", ""), ("chip", "nope"), ("chip", "mt3000@2"),
    ("model", "../x"), ("name", ""), ("name", "a\nb"), ("name", "\x00"), ("name", "x" * 201),
    ("plan.pp_decode", "41"), ("limits.ttft_seconds", "0"), ("workload.prompt_tokens", "1e3"),
    ("plan.nothing", "1"), ("nothing", "1"), ("__class__", "1"), ("plan.__class__", "x"),
    ("schema", "explorer.scenario/2"), ("versions.chip", "1"), ("", "1"), ("plan", "1"),
    ("hardware.", "1"), ("hardware", "1"), ("plan.tp_decode.x", "4"), ("name.x", "y"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text"), BAD)
def test_what_cannot_be_used_is_explained_and_the_rest_is_used(path, text):
    result = open_pairs([(path, text), ("plan.dp_prefill", "7")], MT3000)
    assert result.scenario == scenario(MT3000, plan__dp_prefill=7)
    (problem,) = result.problems
    assert problem.sentence().isprintable()
    assert problem.accepted
    if path in paths_of(result.scenario):
        assert problem.field.startswith(path)


def test_parameters_given_twice_use_the_first_and_say_so():
    result = open_link("plan.tp_decode=8&plan.tp_decode=2", MT3000)
    assert result.scenario.plan.tp_decode == 8
    (problem,) = result.problems
    assert "given twice; the first is used" in problem.sentence()


@pytest.mark.parametrize("preset", ["nope", "", "mt3000-llama2-13b@9", "../x", "\n"])
def test_an_unknown_preset_falls_back_to_the_default_and_says_so(preset):
    result = open_pairs([("preset", preset), ("plan.dp_prefill", "7")], MT3000)
    assert result.preset == "mt3000-llama2-13b@1"
    assert result.scenario.plan.dp_prefill == 7
    (problem,) = result.problems
    assert problem.field == "preset"
    assert problem.accepted.endswith(f"the app opens {MT3000} instead")


@pytest.mark.parametrize(
    "link", ["http://[x?a=1", "a=1&" * 500, "x" * 64001, "?" + "&".join(map(str, range(401)))]
)
def test_an_unreadable_link_is_refused_in_one_line(link):
    with pytest.raises(InputError) as caught:
        open_link(link, MT3000)
    assert str(caught.value).isprintable()


def test_a_new_model_and_a_plan_that_only_fits_it_come_together():
    s = opened(f"preset={MT3000}&plan.pp_decode=80&plan.tp_decode=64&model=llama2-70b")
    assert (s.model, s.plan.pp_decode, s.plan.tp_decode) == ("llama2-70b", 80, 64)
    result = open_link("plan.pp_decode=80&model=llama2-70b&plan.x=1", MT3000)
    assert (result.scenario.model, result.scenario.plan.pp_decode) == ("llama2-70b", 80)
    assert len(result.problems) == 1


def test_documents_of_ones_own_and_overlong_links_are_left_to_files():
    own = scenario(MT3000)
    for field in ("chip", "model"):
        document = own.model_copy(update={field: getattr(own, f"{field}_document")()})
        with pytest.raises(InputError, match="use the file"):
            link_query(document, MT3000)


def test_a_link_that_tools_would_cut_is_refused():
    s = scenario(ASCEND, name="·" * 200)
    assert opened(link_query(s, ASCEND)) == s
    names = [path for path in paths_of(s) if path.startswith("hardware.")]
    everything = {path: awkward(s, path) for path in (*names, *scenario_knobs())}
    with pytest.raises(InputError, match="longer than 4000 characters; use the file"):
        link_query(s.replacing({**everything, "name": "🂡" * 200}), ASCEND)


def test_references_are_pinned():
    assert pinned_reference(MT3000) == pinned_reference(f"{MT3000}@1") == f"{MT3000}@1"


KEYS = st.one_of(
    st.sampled_from(paths_of(preset_scenario(MT3000))), st.text(max_size=12), st.just("preset")
)
VALUES = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(repr),
    st.sampled_from(["auto", "rule", "none", "fp32", "shared", "mt3000", "llama2-7b@1", ASCEND]),
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_parameters_open_to_a_valid_scenario(pairs):
    result = open_pairs(pairs, MT3000)
    assert parse_scenario(result.scenario.to_json()) == result.scenario
    assert all(problem.sentence().isprintable() for problem in result.problems)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_opens_or_is_refused_in_one_line(text):
    try:
        result = open_link(text, MT3000)
    except InputError as error:
        assert str(error).isprintable()
        return
    assert parse_scenario(result.scenario.to_json()) == result.scenario


def test_assignments_are_split_at_the_first_equals_sign():
    assert split_assignments(["name=a=b", " plan.tp_decode = 4 "]) == {
        "name": "a=b", "plan.tp_decode": "4"
    }  # fmt: skip
    with pytest.raises(InputError, match="path=value"):
        split_assignments(["plan.tp_decode"])
    with pytest.raises(InputError, match="given twice"):
        split_assignments(["a=1", "a=2"])


def test_arrays_have_no_link():
    with pytest.raises((ValueError, TypeError)):
        link_query(scenario(MT3000, plan__dp_prefill=np.asarray([1, 2])), MT3000)
