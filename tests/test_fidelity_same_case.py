"""What was published of a scenario's own case, and the sentence that says so."""

from __future__ import annotations

import pytest

from explorer.config.links import preset_scenario
from explorer.fidelity.same_case import published
from explorer.serving.evaluate import evaluate
from explorer.ui.believe_words import measured_sentence

MT3000 = "mt3000-llama2-13b@1"


@pytest.mark.parametrize(
    ("model", "clusters", "prompt", "tokens_per_second"),
    [
        ("llama2-7b", 32, 512, 781), ("llama2-7b", 72, 1024, 1026),
        ("llama2-13b", 32, 1024, 169), ("llama2-13b", 72, 512, 543),
    ],
)  # fmt: skip
def test_each_case_of_table_v_is_found_again(
    model: str, clusters: int, prompt: int, tokens_per_second: float
) -> None:
    scenario = preset_scenario(f"mt3000-{model}@1").replacing(
        {
            "workload.prompt_tokens": prompt,
            "workload.output_tokens": 128,
            "workload.max_context_tokens": prompt + 128,
            "workload.clusters_total": clusters,
        }
    )
    found = published(scenario)
    assert found.same is not None
    assert found.same.si_value == tokens_per_second
    assert found.same not in found.services
    assert len(found.services) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"workload.prompt_tokens": 511},
        {"workload.clusters_total": 71},
        {"hardware.ddr_bandwidth_bytes_per_second": 31e9},
    ],
)
def test_another_case_or_machine_was_not_measured(change: dict[str, float]) -> None:
    scenario = preset_scenario(MT3000).replacing(change)
    found = published(scenario)
    assert found.same is None
    assert len(found.services) == 4
    sentence = measured_sentence(evaluate(scenario))
    assert "169 tokens/s to 543 tokens/s" in sentence


def test_the_sentence_compares_the_plan_with_what_was_measured() -> None:
    evaluation = evaluate(preset_scenario(MT3000))
    times = float(evaluation.objective("throughput")) / 543
    sentence = measured_sentence(evaluation)
    assert "**543 tokens/s**" in sentence
    assert "Table V" in sentence
    assert f"{times:.2f} times" in sentence


def test_machines_without_serving_measurements_say_so() -> None:
    ascend = measured_sentence(evaluate(preset_scenario("ascend910a-qwen3.8-27b@1")))
    assert "was not measured, but 57 kernels and passes were" in ascend
    assert "is not known" in measured_sentence(evaluate(preset_scenario("a100-llama2-70b@1")))
