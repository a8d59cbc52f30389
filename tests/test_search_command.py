"""The search command as a person and as a script sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from explorer.cli import main
from explorer.config.links import preset_scenario
from explorer.search.certificate import certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import default_space, varied_space
from explorer.serving.evaluate import evaluate

NAME = "mt3000-llama2-7b"
BANDWIDTH, MEMORY = "hardware.ddr_bandwidth_bytes_per_second", "hardware.memory_bytes"
VARY = ("--vary", "plan.tp_decode=1:8", "--vary", "plan.micro_batch_decode=16:256:48")
LARGE = (
    "--vary", f"{BANDWIDTH}=15e9:60e9", "--vary", f"{MEMORY}=1e10:4e10", "--whole-plan",
)  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        code = main(("search", NAME, *arguments))
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_certify_enumerates_and_ranks_the_scenarios_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, *VARY, "--trials", "12", "--certify")
    space = varied_space(
        preset_scenario(NAME),
        {"plan.tp_decode": (1, 2, 4, 8), "plan.micro_batch_decode": tuple(range(16, 257, 48))},
    )
    known = certify(space, CLUSTER_SECONDS_PER_TOKEN)
    certificate = found["certificate"]
    assert certificate["optimum"] == known.optimum
    assert (certificate["enumerated"], certificate["feasible"]) == (24, known.feasible)
    assert certificate["ties"] == known.ties
    assert certificate["gap"] == pytest.approx(
        (found["value"] - known.optimum) / known.optimum, abs=1e-15
    )
    own = certificate["own_plan"]
    assert own["value"] == float(evaluate(space.base).objective("cluster_seconds_per_token"))
    assert own["rank"] == known.own.better + 1
    assert "bound" not in certificate
    code, out, err = run(capsys, *VARY, "--trials", "12", "--certify")
    assert code == 0
    assert "proved over 24 plans" in out
    assert f"is number {own['rank']} of {known.feasible} feasible" in out
    assert "enumerating 24 plans, about" in err


def test_what_is_too_large_is_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *LARGE, "--trials", "20", "--certify")
    certificate = found["certificate"]
    assert found["plans"] > 3e9
    assert certificate["closed"]
    assert certificate["open_plans"] == 0
    assert 0 < certificate["bound"] <= found["value"]
    assert certificate["gap"] == pytest.approx(
        (found["value"] - certificate["bound"]) / certificate["bound"], abs=1e-12
    )
    better = certificate["better_plan"]
    assert (better is None) == (certificate["gap"] == 0)
    assert found["verdict"].endswith("evaluated one by one")


def test_a_bound_may_be_asked_for_and_holds_when_it_is_cut_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ("--trials", "20", "--certify", "--enumerate-up-to", "1000", "--bound-seconds", "0")
    found = document(capsys, *few)
    known = certify(default_space(preset_scenario(NAME)), CLUSTER_SECONDS_PER_TOKEN)
    certificate = found["certificate"]
    assert certificate["bound"] <= known.optimum
    assert not certificate["closed"]
    _, out, err = run(capsys, *few)
    assert "of the optimum: none of the 39,321,600 plans can be better than" in out
    assert "more than the 1,000 plans that are enumerated: bounding them" in err


def test_a_budget_binds_the_search_and_the_proof(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "best.json"
    budget = f"{BANDWIDTH} + {MEMORY} <= 2.5"
    found = document(
        capsys, *LARGE, "--trials", "40", "--certify", "--budget", budget, "--out", str(file)
    )
    scenario = found["best"]["scenario"]
    cost = sum(
        scenario["hardware"][name] / own
        for name, own in (("ddr_bandwidth_bytes_per_second", 30e9), ("memory_bytes", 20e9))
    )
    assert cost <= 2.5
    assert scenario["limits"]["budget"] == budget
    assert found["violations"]["budget"] > 0
    written = json.loads(file.read_text())
    assert written["evaluation"]["feasible"]
    better = found["certificate"]["better_plan"]
    assert written["scenario"] == (better or found["best"])["scenario"]


def test_nothing_feasible_says_what_excludes_most_and_what_is_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tight = ("--set", "workload.clusters_total=9", "--vary", "plan.dp_prefill=8:12")
    found = document(capsys, *tight, "--trials", "5", "--certify")
    assert found["best"] is None
    assert found["value"] is None
    assert found["certificate"]["optimum"] is None
    assert found["certificate"]["violations"]["clusters"] == 5
    nearest = found["nearest"]
    assert nearest["feasible"]
    assert nearest["evaluation"]["feasible"]
    assert nearest["moved"]
    code, out, _ = run(capsys, *tight, "--trials", "5", "--certify")
    assert code == 0
    assert out.startswith("no feasible plan in 5 plans\n  most are excluded by clusters: 5 of 5")
    assert "the nearest plan that fits: plan." in out
    _, out, _ = run(capsys, "--set", "limits.tpot_seconds=0.0001", "--trials", "5", *VARY)
    assert "no plan of this model fits; closest:" in out
    assert "Time per output token is" in out


def test_samplers_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *VARY, "--trials", "8", "--compare")
    comparison = found["comparison"]
    assert comparison["exact"]
    assert comparison["floor"] > 0
    studies = comparison["studies"]
    assert [study["plain"] for study in studies].count(True) == 1
    assert all(study["gap"] >= 0 for study in studies if study["gap"] is not None)
    assert len(comparison["left_out"]) == 2
    _, out, _ = run(capsys, *VARY, "--trials", "8", "--compare")
    assert "tpe alone" in out
    assert "the floor is the certified optimum" in out
    assert "left out: sampler = brute" in out


def test_the_sampler_and_its_reason_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, *VARY, "--trials", "30")
    assert found["sampler"] == {"name": "brute", "why": "all 24 combinations can be tried"}
    assert found["trials"] == 24
    assert document(capsys, "--trials", "4")["sampler"]["name"] == "tpe"


def test_the_staged_loss_is_against_the_best_plan_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, "--trials", "40", "--certify")
    staged, optimum = found["staged"], found["certificate"]["optimum"]
    assert staged["loss"] == pytest.approx((staged["value"] - optimum) / optimum)
    there = document(capsys, *LARGE, "--trials", "20")
    assert there["staged"]["scenario"]["hardware"] == there["best"]["scenario"]["hardware"]
    _, out, _ = run(capsys, "--trials", "40", "--certify")
    assert "% worse than the best plan known" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--vary", "plan.pp_decode=8:1"), "plan.pp_decode = 8:1: an empty range"),
        (("--vary", "plan.pp_decode=1:8:0"), "step = 0; expected a step above 0"),
        (("--budget", "cheap"), "limits.budget = cheap: expected weight * hardware.NAME"),
        (("--budget", "hardware.nothing <= 2"), "this chip has no such number"),
        (("--enumerate-up-to", "-1"), "enumerate-up-to = -1: expected a whole number"),
        (("--bound-seconds", "nan"), "bound-seconds = nan: expected seconds"),
        (("--sampler", "magic"), "sampler = magic: expected auto, tpe"),
        (("--sampler", "grid"), "more than 300 trials"),
        (("--pin", "plan.pp_decode", "--vary", "plan.dp_prefill=1:2"), "--whole-plan"),
        (
            ("--whole-plan", "--pin", "plan.pp_decode", "--vary", "plan.pp_decode=1:2"),
            "is varied too",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert words in err
