"""The commands ``sensitivity`` and ``search --pareto``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explorer.cli import main
from explorer.search.certificate import certify
from explorer.search.measures import MEASURES
from explorer.search.objectives import THROUGHPUT
from explorer.search.pareto import pareto_front
from explorer.search.robustness import interval
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from tests.scenarios import ASCEND, MT3000, scenario

SEVEN_B = "mt3000-llama2-7b"


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = ran(capsys, *arguments, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_everything_about_the_ascend(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "sensitivity", ASCEND, "--pin", "plan.slices")
    base = scenario(ASCEND)
    proved = certify(default_space(base, {"plan.slices"}), THROUGHPUT)
    assert found["schema"] == "explorer.sensitivity/1"
    assert found["value"] == float(evaluate(base).objective("throughput"))
    assert (found["best_value"], found["best_plan"]) == (proved.optimum, proved.plan)
    sliders = {item["path"]: item for item in found["sliders"]}
    rate = sliders["hardware.weight_stream_bytes_per_second"]
    twice = evaluate(base.replacing({rate["path"]: 600e9})).objective("throughput")
    assert rate["high"]["value"] == pytest.approx(float(twice))
    assert rate["high"]["change"] == pytest.approx(float(twice) / found["value"] - 1)
    assert rate["best_plan"]["high"]["value"] >= rate["high"]["value"]
    assert 0 < rate["best_plan"]["elasticity"] < rate["elasticity"] < 1
    assert found["robustness"]["corners"] == 4
    assert found["robustness"]["monotone"]
    assert found["regret"]["sets_of_constants"] == 36
    assert found["regret"]["safest"]["worst"] == 0
    assert found["importance"]["exact"]
    assert found["importance"]["feasible"] == proved.feasible


def test_an_answer_per_card_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("sensitivity", ASCEND, "--as-is", "--objective", "cluster_seconds_per_token")
    found = document(capsys, *arguments)
    assert found["unit"] == "card s/token"
    assert found["value"] == pytest.approx(
        float(evaluate(scenario(ASCEND)).objective("cluster_seconds_per_token"))
    )
    code, out, _ = ran(capsys, *arguments)
    assert code == 0
    assert "card s/token" in out
    assert "cluster s/token" not in out


def test_as_is_searches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "sensitivity", MT3000, "--as-is")
    assert (found["best_value"], found["regret"], found["importance"]) == (None, None, None)
    assert all("best_plan" not in item for item in found["sliders"])
    left_open = interval(scenario(MT3000))
    assert (found["robustness"]["low"], found["robustness"]["high"]) == (
        left_open.low,
        left_open.high,
    )
    code, out, err = ran(capsys, "sensitivity", MT3000, "--as-is")
    assert (code, err) == (0, "")
    assert out.startswith("throughput of this plan: 1,020 tokens/s\n")
    assert "815 tokens/s to 1,060 tokens/s" in out
    assert "hardware.ddr_bandwidth_bytes_per_second" in out


def test_the_text_holds_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    pins = [
        text
        for axis in default_space(scenario(SEVEN_B)).axes
        for text in ("--pin", axis.paths[0])
        if axis.paths[0] not in ("plan.dp_prefill", "plan.micro_batch_decode")
    ]
    code, out, err = ran(
        capsys, "sensitivity", SEVEN_B, "--objective", "cluster_seconds_per_token", *pins
    )
    assert code == 0
    for part in ("of this plan", "best plan:", "regret over 96 sets", "importance (shares"):
        assert part in out
    assert "optimisations" in err


def test_a_plan_that_does_not_fit_has_null_where_a_speed_would_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = ("--set", "plan.pp_prefill=1", "--as-is")
    found = document(capsys, "sensitivity", MT3000, *broken)
    assert found["value"] is None
    assert "prefill cluster" in found["why_not"]
    assert found["robustness"]["low"] is None
    memory = next(i for i in found["sliders"] if i["path"] == "hardware.memory_bytes")
    assert memory["low"]["broken"]
    assert memory["high"]["change"] is None
    code, out, _ = ran(capsys, "sensitivity", MT3000, *broken)
    assert (code, out.startswith("this plan does not fit:")) == (0, True)


def test_pinning_every_choice_leaves_the_plan_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pins = [
        text for axis in default_space(scenario(SEVEN_B)).axes for text in ("--pin", axis.paths[0])
    ]
    found = document(capsys, "sensitivity", SEVEN_B, *pins)
    assert found["best_value"] == found["value"]
    assert found["best_plan"] == {}
    assert found["regret"]["chosen"]["worst"] == 0
    assert found["importance"]["choices"] == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["sensitivity", MT3000, "--objective", "eq22"], "--objective = eq22"),
        (["sensitivity", MT3000, "--objective", "speed"], "objective = speed"),
        (["sensitivity", MT3000, "--pin", "plan.nothing"], "plan.nothing"),
        (["sensitivity", "nothing"], "nothing"),
        (["search", MT3000, "--pareto", "throughput"], "2 to 4 of"),
        (["search", MT3000, "--pareto", "throughput,speed"], "pareto = speed"),
        (["search", MT3000, "--pareto", ""], "2 to 4 of"),
        (
            ["search", MT3000, "--set", "workload.output_tokens=1", "--pareto", "tpot,ttft"],
            "one output token",
        ),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    code, out, err = ran(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert named in err


@pytest.mark.parametrize("preset", [SEVEN_B, ASCEND])
def test_pareto_prints_the_exact_front(capsys: pytest.CaptureFixture[str], preset: str) -> None:
    pins = ["--pin", "plan.pp_prefill"] if preset == SEVEN_B else []
    found = document(capsys, "search", preset, "--pareto", "throughput,ttft,clusters", *pins)
    space = default_space(scenario(preset), frozenset(pins[1:]))
    front = pareto_front(space, [MEASURES[n] for n in ("throughput", "ttft", "clusters")])
    assert found["schema"] == "explorer.pareto/1"
    assert (found["exact"], found["sampler"]) == (True, None)
    assert [tuple(point["figures"].values()) for point in found["points"]] == [
        point.figures for point in front.points
    ]
    for point in found["points"]:
        one = evaluate(scenario(preset).replacing(point["plan"]))
        assert float(one.objective("throughput")) == point["figures"]["throughput"]


def test_pareto_where_a_space_is_too_large_is_marked_approximate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vary = [
        "plan.tp_decode=1:8",
        "plan.pp_decode=1:32",
        "plan.micro_batch_decode=1:512",
        "plan.dp_prefill=1:64",
        "plan.pp_prefill=1:32",
        "plan.micro_batch_prefill=1:512",
    ]
    arguments = [part for text in vary for part in ("--vary", text)]
    code, out, _ = ran(
        capsys, "search", SEVEN_B, "--pareto", "throughput,tpot", "--trials", "60", *arguments
    )
    assert code == 0
    assert "approximate, nsga2: other plans may beat these" in out


def test_pareto_where_nothing_fits_names_the_constraint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tight = ("--set", "limits.tpot_seconds=0.0001")
    code, out, _ = ran(capsys, "search", SEVEN_B, "--pareto", "ttft,tpot", *tight)
    assert (code, out) == (0, "no feasible plan; none keeps: tpot\n")
