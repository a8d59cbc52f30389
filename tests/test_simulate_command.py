"""The simulate command: its contract, the files it reads and writes, and input it refuses."""

import csv
import json

import numpy as np
import pytest

from explorer.config.files import scenario_from_json
from explorer.config.links import link_query, open_link, preset_scenario
from explorer.config.simulation import SIMULATION_WORDS
from explorer.serving.request_rows import HEADER
from explorer.serving.simulation import simulate
from explorer.serving.trace import read_trace
from tests.scenarios import ASCEND, MT3000, scenario
from tests.test_cli import refused, run

FEW = ("--requests", "600")


def document(capsys, *arguments, preset=MT3000):
    code, out, err = run(capsys, "simulate", preset, "--json", *arguments)
    assert code == 0
    assert all(line.startswith("simulating ") for line in err.splitlines())
    return json.loads(out)


def text(capsys, *arguments, preset=MT3000):
    code, out, err = run(capsys, "simulate", preset, *arguments)
    assert (code, err) == (0, "")
    return out


@pytest.fixture
def trace_file(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "requests.csv"
    times = np.cumsum(random.exponential(0.2, 500)).round(3)
    lines = [f"{time},{random.integers(1, 512)},{random.integers(1, 128)}" for time in times]
    path.write_text("arrival_seconds,prompt_tokens,output_tokens\n" + "\n".join(lines) + "\n")
    return path


def test_the_document_is_what_the_simulation_says(capsys):
    found = document(capsys, *FEW, "--rate", "3.5", "--seed", "4")
    s = scenario(
        simulation__requests=600,
        simulation__rate_requests_per_second=3.5,
        simulation__seed=4,
    )
    result = simulate(s)
    assert found["schema"] == "explorer.simulation/1"
    assert found["throughput_tokens_per_second"] == result.speed.tokens_per_second
    closed = result.speed.closed_form_tokens_per_second
    assert found["closed_form_tokens_per_second"] == pytest.approx(closed, rel=1e-12)
    for name, times in (
        ("ttft_seconds", result.ttft),
        ("tpot_seconds", result.tpot),
        ("end_to_end_seconds", result.end_to_end),
    ):
        for part in ("p50", "p90", "p99"):
            assert found[name][part] == pytest.approx(getattr(times, part), rel=1e-12)
    buffer = found["buffer"]
    assert buffer["peak_bytes"] == result.buffer.peak_bytes
    assert buffer["limit_bytes"] == result.buffer.limit_bytes
    assert buffer["paused_seconds"] == result.buffer.paused_seconds
    assert (found["requests"], found["holds"]) == (600, True)
    assert found["eq21_gap"] == result.speed.eq21_gap
    assert len(found["stages"]) == len(result.stages)


def test_text_puts_the_answer_first(capsys):
    lines = text(capsys, *FEW).splitlines()
    assert lines[0] == "MT-3000 · Llama-2 13B"
    assert lines[2].startswith("  The plan holds at ")
    overrun = text(capsys, "--rate", "12", "--requests", "3000").splitlines()
    assert overrun[2] == "  The plan does not hold."
    assert "waiting grows by" in overrun[3]
    saturated = text(capsys, "--arrivals", "saturated")
    assert "Saturated, the plan serves 7.97 requests/s." in saturated
    assert "Eq. 21" in saturated


def test_both_machines_and_every_policy_and_arrivals_run(capsys):
    for preset in (MT3000, ASCEND):
        for policy in SIMULATION_WORDS["simulation.policy"]:
            for arrivals in SIMULATION_WORDS["simulation.arrivals"]:
                options = ("--policy", policy, "--arrivals", arrivals, "--requests", "300")
                found = document(capsys, *options, preset=preset)
                assert found["requests"] == 300
                assert found["arrivals"] == arrivals
                assert (found["buffer"] is None) == (preset == ASCEND)


def test_what_runs_out_of_memory_has_a_moment_and_no_speed(capsys):
    arguments = ("--arrivals", "saturated", "--policy", "unbounded")
    found = document(capsys, *arguments)
    assert found["holds"] is False
    assert found["buffer"]["out_of_memory_seconds"] > 0
    assert found["buffer"]["peak_bytes"] > found["buffer"]["limit_bytes"]
    for name in ("throughput_tokens_per_second", "ttft_seconds", "goodput", "closed_form_gap"):
        assert found[name] is None
    shown = text(capsys, *arguments)
    assert "runs out of memory after" in shown
    assert "tokens/s" not in shown


def test_what_does_not_fit_says_so_without_speeds(capsys):
    arguments = ("--set", "workload.clusters_total=10")
    found = document(capsys, *arguments)
    assert found["feasible"] is False
    assert [violation["constraint"] for violation in found["violations"]] == ["clusters"]
    assert found["throughput_tokens_per_second"] is None
    shown = text(capsys, *arguments)
    assert shown.startswith("this plan does not fit:\n  One pool needs 31 clusters")
    assert "tokens/s" not in shown
    assert document(capsys, *arguments, "--largest-rate")["feasible"] is False
    least = ("--least-clusters", "--rate", "4", *FEW)
    assert document(capsys, *arguments, *least)["least_clusters"]["clusters"] > 10
    slow = document(capsys, "--set", "limits.ttft_seconds=3", *least)
    assert [violation["constraint"] for violation in slow["violations"]] == ["ttft"]


def test_a_trace_brings_its_own_requests(capsys, trace_file):
    found = document(capsys, "--trace", str(trace_file))
    result = simulate(preset_scenario(MT3000), read_trace(trace_file))
    assert (found["requests"], found["arrivals"], found["trace"]) == (500, "trace", trace_file.name)
    assert found["end_to_end_seconds"]["p99"] == pytest.approx(result.end_to_end.p99)
    assert "mean lengths" in " ".join(found["notes"])


def test_rows_of_finished_requests_are_written(capsys, trace_file, tmp_path):
    path = tmp_path / "rows.csv"
    found = document(capsys, "--trace", str(trace_file), "--csv", str(path))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == HEADER
    assert sorted(int(row["request"]) for row in rows) == list(range(500))
    trace = read_trace(trace_file)
    for row in rows:
        number = int(row["request"])
        assert float(row["arrival_seconds"]) == trace.arrival_seconds[number]
        assert int(row["output_tokens"]) == trace.output_tokens[number]
        moments = [
            float(row[f"{name}_seconds"])
            for name in ("arrival", "prefill", "first_token", "decode", "end")
        ]
        if int(row["output_tokens"]) > 1:
            assert moments == sorted(moments)
        else:
            assert row["tpot_seconds"] == ""
    ttft = sorted(float(row["ttft_seconds"]) for row in rows)
    assert found["ttft_seconds"]["p50"] == pytest.approx(ttft[249])


def test_the_largest_rate_and_the_least_clusters_come_first(capsys):
    limits = ("--set", "limits.ttft_seconds=13.6", "--requests", "3000")
    found = document(capsys, "--largest-rate", *limits)
    largest = found["largest_rate"]
    assert found["holds"]
    assert largest["rate_requests_per_second"] < largest["fails_requests_per_second"]
    code, out, _ = run(capsys, "simulate", MT3000, "--largest-rate", *limits)
    assert code == 0
    assert out.startswith("largest rate that holds: ")
    least = document(capsys, "--least-clusters", "--rate", "12", *limits)["least_clusters"]
    assert least["clusters"] == least["pools"] * least["clusters_per_pool"]
    code, out, _ = run(capsys, "simulate", MT3000, "--least-clusters", "--rate", "12", *limits)
    assert code == 0
    assert out.startswith("fewest clusters at 12 requests/s: ")


def test_a_search_that_finds_nothing_says_so(capsys):
    impossible = ("--set", "limits.ttft_seconds=12.6", *FEW)
    found = document(capsys, "--largest-rate", *impossible)
    assert found["throughput_tokens_per_second"] is None
    assert found["largest_rate"]["rate_requests_per_second"] is None
    code, out, _ = run(capsys, "simulate", MT3000, "--largest-rate", *impossible)
    assert (code, out[:14]) == (0, "no rate holds:")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--requests", "0"), "simulation.requests = 0: expected a whole number"),
        (("--requests", "1.5"), "simulation.requests = 1.5: expected a whole number"),
        (("--requests", "many"), "simulation.requests = many: expected a whole number"),
        (("--rate", "nan"), "simulation.rate_requests_per_second = nan: expected a number"),
        (("--rate=-3",), "simulation.rate_requests_per_second = -3.0: expected a number"),
        (("--seed=-1",), "simulation.seed = -1: expected a whole number from 0"),
        (("--policy", "none"), "simulation.policy = none: expected bounded or unbounded"),
        (("--arrivals", "never"), "simulation.arrivals = never: expected saturated or poisson"),
        (("--arrivals", "saturated", "--rate", "3"), "--rate = 3: saturated arrivals have no"),
        (("--trace", "/nonexistent.csv"), "--trace = /nonexistent.csv: cannot be read"),
        (("--trace", "x", "--rate", "3"), "--rate: a trace brings its own arrivals"),
        (("--trace", "x", "--seed", "3"), "--seed: a trace brings its own arrivals"),
        (("--csv", "/nonexistent/rows.csv"), "--csv = /nonexistent/rows.csv: cannot be written"),
        (("--largest-rate", "--rate", "3"), "--rate: is what --largest-rate looks for"),
        (("--largest-rate", "--csv", "x"), "--csv: belongs to a single run"),
        (("--least-clusters",), "--rate: --least-clusters needs a number"),
        (("--least-clusters", "--rate", "auto"), "--rate: --least-clusters needs a number"),
        (("--largest-rate", "--arrivals", "saturated"), "simulation.arrivals = saturated: has no"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(capsys, arguments, said):
    assert said in refused(capsys, "simulate", MT3000, *arguments)


def test_a_wrong_trace_is_named_and_leaves_no_file(capsys, tmp_path):
    trace, rows = tmp_path / "bad.csv", tmp_path / "rows.csv"
    trace.write_text("arrival_seconds,prompt_tokens,output_tokens\n0,512,128\n1,512,x\n")
    said = refused(capsys, "simulate", MT3000, "--trace", str(trace), "--csv", str(rows))
    assert "bad.csv line 3 output_tokens = x: expected a whole number" in said
    trace.write_text("arrival_seconds,prompt_tokens,output_tokens\n0,512,128\n1,700,1\n")
    said = refused(capsys, "simulate", MT3000, "--trace", str(trace), "--csv", str(rows))
    assert "bad.csv line 3 prompt_tokens = 700: expected fewer" in said
    assert not rows.exists()


def test_a_rate_turns_a_saturated_scenario_into_one_that_has_it(capsys):
    found = document(capsys, "--set", "simulation.arrivals=saturated", "--rate", "2", *FEW)
    assert found["arrivals"] == "poisson"


# The section in documents and links ---------------------------------------------------------------


def test_words_and_numbers_of_the_section_survive_links_and_files():
    s = scenario(
        simulation__arrivals="bursts",
        simulation__policy="no_buffer",
        simulation__grouping="by_length",
        simulation__unfilled="by_size",
        simulation__requests=24,
        simulation__rate_requests_per_second=0.1234567890123,
        simulation__buffer_micro_batches=3,
    )
    opened = open_link("?" + link_query(s, MT3000), ASCEND)
    assert opened.problems == ()
    assert opened.scenario == s
    assert scenario_from_json(json.dumps(s.to_json())) == s


def test_documents_and_links_without_the_section_still_open():
    document = preset_scenario(MT3000).to_json()
    del document["simulation"]
    found = scenario_from_json(json.dumps(document))
    assert found == preset_scenario(MT3000)
    assert "simulation" not in link_query(found, MT3000)


def test_the_section_changes_nothing_that_a_search_could_vary(capsys):
    said = refused(capsys, "search", MT3000, "--vary", "simulation.seed=1:5")
    assert "simulation.seed = 1:5: changes no plan's evaluation" in said
