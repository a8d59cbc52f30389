"""Values typed as the controls show them, and refusals in the words of the controls."""

from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.entered import in_words_of_controls, read_entered
from explorer.config.links import apply_texts, preset_scenario
from explorer.config.scenario import WORD_FIELDS, Scenario, knob_at, paths_of
from explorer.config.units import human, unit_sizes

MT3000, ASCEND, A100 = map(
    preset_scenario, ("mt3000-llama2-13b", "ascend910a-qwen3.8-27b", "a100-llama2-70b")
)
LABELS = {"precision.weights": "Weights stored as", "simulation.policy": "When the buffer is full"}
WORDS = {
    "precision.weights": {word: word.upper() for word in WORD_FIELDS["precision.weights"]},
    "simulation.policy": {"no_buffer": "There is none"},
}
MARKS = (" (assumed)", " (fitted)")
KNOBS = [
    (scenario, knob)
    for scenario in (MT3000, ASCEND, A100)
    for path in paths_of(scenario)
    if (knob := knob_at(scenario, path)) is not None
]
BANDWIDTH = "hardware.ddr_bandwidth_bytes_per_second"


def entered(text: str, scenario: Scenario = MT3000) -> tuple[Mapping[str, str], list[str]]:
    """Return what a text sets, and every refusal of it."""
    found = read_entered(scenario, text, LABELS, WORDS, MARKS)
    _, refused = apply_texts(scenario, found.texts)
    spoken = (in_words_of_controls(scenario, problem, LABELS, found.typed) for problem in refused)
    return found.texts, [problem.sentence() for problem in (*found.problems, *spoken)]


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("Memory bandwidth a cluster = 60 GB/s", BANDWIDTH, 6e10),
        ("memory bandwidth a cluster=60GB/s", BANDWIDTH, 6e10),
        ("Memory bandwidth a cluster = 60,000 MB/s", BANDWIDTH, 6e10),
        ("Memory bandwidth a cluster = 60 GiB/s", BANDWIDTH, 60 * 2**30),
        ("Memory bandwidth a cluster = 45e9", BANDWIDTH, 45e9),
        (f"{BANDWIDTH} = 60\u00a0GB/s", BANDWIDTH, 6e10),
        ("Prompt length = 3,000", "workload.prompt_tokens", 3000),
        ("Prompt length = 3000 tokens", "workload.prompt_tokens", 3000),
        ("Prompt length = 1 Token", "workload.prompt_tokens", 1),
        ("Array memory (AM) a DSP = 512 KiB", "hardware.am_bytes", 512 * 1024),
        ("FP32 peak = 2.5 TMAC/s", "hardware.peak_macs_per_second_fp32", 2.5e12),
        ("Memory kept free = 12.5 %", "limits.memory_headroom_fraction", 0.125),
        ("Memory kept free = 0.125", "limits.memory_headroom_fraction", 0.125),
        ("Limit on time per output token = 80 ms", "limits.tpot_seconds", 0.08),
        ("Limit on time per output token = None", "limits.tpot_seconds", None),
        ("Limit on time to first token = 1.5 min", "limits.ttft_seconds", 90.0),
        ("Buffer clusters (B_P) = AUTO", "plan.buffer_clusters", "auto"),
        ("Buffer clusters (B_P) = 1 cluster", "plan.buffer_clusters", 1),
        ("Weights stored as = INT8", "precision.weights", "int8"),
        ("precision.weights = Int8", "precision.weights", "int8"),
        ("When the buffer is full = there is none", "simulation.policy", "no_buffer"),
    ],
)  # fmt: skip
def test_what_the_controls_show_can_be_typed(text, path, value):
    texts, refusals = entered(text)
    assert refusals == []
    changed, _ = apply_texts(MT3000, texts)
    assert changed.value(path) == value


@given(st.sampled_from(KNOBS), st.integers(0, 1000), st.sampled_from(["", *MARKS]))
@settings(deadline=None, max_examples=200)
def test_every_value_of_every_knob_as_shown_means_itself_within_its_rounding(
    chosen, thousandths, mark
):
    scenario, knob = chosen
    low, high = float(knob.minimum), float(knob.maximum)
    # Evenly over sizes as well as over values, so that every unit is shown.
    value = low + (high - low) * (thousandths / 1000) ** 8
    value = float(round(value)) if knob.whole else value
    text = human(value, knob.shown_unit)
    found = read_entered(scenario, f"{knob.label}{mark} = {text}", {}, {}, MARKS)
    assert found.problems == (), text
    read = float(found.texts[knob.path])
    assert read == pytest.approx(value, rel=0.0051, abs=0.5 if knob.whole else 0.0)


def test_a_number_with_every_digit_is_exact():
    """Decimal arithmetic: no factor of a unit adds a digit."""
    for name, size in unit_sizes("B/s").items():
        texts, _ = entered(f"Memory bandwidth a cluster = 1.1 {name}")
        assert Decimal(texts[BANDWIDTH]) == Decimal(repr(float(Decimal("1.1") * size)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Memory bandwidth a cluster = 60 s",
            "Memory bandwidth a cluster = 60 s: s is no unit of it; expected a number from "
            "100 MB/s to 10.0 TB/s (a number without a unit is in B/s)",
        ),
        (
            "Memory bandwidth a cluster = 60",
            "Memory bandwidth a cluster = 60: expected a number from 100 MB/s to 10.0 TB/s "
            "(a number without a unit is in B/s)",
        ),
        (
            "Memory bandwidth a cluster = 999 TB/s",
            "Memory bandwidth a cluster = 999 TB/s: expected a number from 100 MB/s",
        ),
        ("Memory bandwidth a cluster = 60 Gb/s", "Gb/s is no unit of it"),
        ("Prompt length = 3.5", "Prompt length = 3.5: expected a whole number from 1 token"),
        ("Prompt length = 3,5 tokens", "expected a whole number from 1 token"),
        ("Prompt length = 0x10", "expected a whole number from 1 token"),
        ("Prompt length = 9e999 tokens", "expected a whole number from 1 token"),
        ("Prompt length = tokens", "expected a whole number from 1 token"),
        ("Memory kept free = 500 %", "a number without a unit is a fraction: 0.5 is 50 %"),
        ("Limit on time per output token = 80 B", 'B is no unit of it; expected a number from'),
        ("Weights stored as = int4", "Weights stored as = int4: expected FP32 or FP16 or INT8"),
        ("plan.tp_decode = 3 clusters", "(TP_D) = 3 clusters: does not divide"),
    ],
)  # fmt: skip
def test_refusals_speak_as_the_controls_do(text, said):
    _, refusals = entered(text)
    assert len(refusals) == 1
    assert said in refusals[0]
    assert "hardware." not in refusals[0]
    assert "e+" not in refusals[0]


def test_links_keep_their_strict_form():
    for path, text in (
        (BANDWIDTH, "60 GB/s"), ("workload.prompt_tokens", "3,000"), ("precision.weights", "INT8"),
        ("plan.buffer_clusters", "AUTO"),
    ):  # fmt: skip
        changed, refused = apply_texts(MT3000, {path: text})
        assert changed == MT3000
        assert len(refused) == 1


def test_one_wrong_part_leaves_the_others():
    texts, refusals = entered("Prompt length = 3,000 & Weights stored as = x & nonsense = 1")
    assert texts["workload.prompt_tokens"] == "3000"
    assert len(refusals) == 2
    assert "nonsense" in refusals[1]
