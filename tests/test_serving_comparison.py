"""Scenarios side by side: what differs, ratios, what does not fit, and the files it leaves as."""

from __future__ import annotations

import csv
import io
import json

import pytest

from explorer.cli import main
from explorer.compare_command import comparison_text
from explorer.config.errors import InputError
from explorer.config.links import preset_scenario
from explorer.config.scenario import paths_of
from explorer.plots.compare import budget_bars, rooflines, time_bars
from explorer.plots.report import comparison_report
from explorer.serving.comparison import (
    FIGURES,
    Candidate,
    _label,
    compare,
    comparison_csv,
    comparison_document,
    different_inputs,
)
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.report import evaluation_document
from explorer.terminal import evaluation_text

MT3000, ASCEND = "mt3000-llama2-13b", "ascend910a-qwen3.8-27b"
SCENARIO = preset_scenario(MT3000)
DOES_NOT_FIT = SCENARIO.replacing({"plan.tp_decode": 1, "plan.pp_decode": 1})


def named(*scenarios):
    return [Candidate(f"s{number}", scenario) for number, scenario in enumerate(scenarios)]


def test_only_what_differs_is_listed_with_units():
    changed = SCENARIO.replacing(
        {
            "plan.tp_decode": 8,
            "hardware.ddr_bandwidth_bytes_per_second": 60e9,
            "precision.kv": "int8",
            "limits.ttft_seconds": 20.0,
        }
    )
    rows = {row.path: row.values for row in compare(named(SCENARIO, changed)).inputs}
    assert rows == {
        "precision.kv": ("fp16", "int8"),
        "plan.tp_decode": ("4 clusters", "8 clusters"),
        "limits.ttft_seconds": ("none", "20.0 s"),
        "hardware.ddr_bandwidth_bytes_per_second": ("30.0 GB/s", "60.0 GB/s"),
    }


def test_figures_are_those_of_evaluate_and_ratios_refer_to_the_first():
    faster = SCENARIO.replacing({"hardware.ddr_bandwidth_bytes_per_second": 60e9})
    comparison = compare(named(SCENARIO, faster))
    documents = [evaluation_document(evaluate(s)) for s in (SCENARIO, faster)]
    rows = {row.name: row for row in comparison.figures}
    throughput = rows["throughput_tokens_per_second"]
    assert throughput.values == tuple(d["pool"]["throughput_tokens_per_second"] for d in documents)
    assert throughput.ratios == (1.0, throughput.values[1] / throughput.values[0])
    for name, section in (("ttft_seconds", "latency"), ("tpot_seconds", "latency")):
        assert rows[name].values == tuple(d[section][name] for d in documents)
    assert rows["batch"].ratios == (1.0, 1.0)
    assert set(rows) == {row[0] for row in FIGURES}


def test_what_does_not_fit_has_no_speed_no_ratio_and_a_reason():
    comparison = compare(named(SCENARIO, DOES_NOT_FIT))
    throughput = comparison.figures[0]
    assert throughput.values[1] is None
    assert throughput.ratios == (1.0, None)
    assert "needs" in comparison.misfits[1]
    assert comparison.misfits[0] == ""
    assert [bar.scenario for bar in time_bars(comparison.candidates)] == ["s0", "s0"]
    assert len(rooflines(comparison.candidates)) == 1
    assert {bar.scenario for bar in budget_bars(comparison.candidates)} == {"s0", "s1"}


def test_the_first_may_be_the_one_that_does_not_fit():
    throughput = compare(named(DOES_NOT_FIT, SCENARIO)).figures[0]
    assert throughput.ratios == (None, None)


def test_time_bars_add_up_to_the_times_of_a_batch():
    for scenario in (SCENARIO, preset_scenario(ASCEND)):
        e = evaluate(scenario)
        prefill, decode = time_bars(named(scenario))
        assert prefill.total_seconds == pytest.approx(float(e.prefill_seconds))
        assert decode.total_seconds == pytest.approx(float(e.decode_seconds))


def test_scenarios_whose_names_begin_alike_have_bars_of_their_own():
    alike = [Candidate("W" * 60 + end, SCENARIO) for end in ("", " (2)", "x")]
    bars = [(bar.scenario, bar.pool) for bar in time_bars(alike)]
    assert len(bars) == len(set(bars)) == 6
    assert len({bar.scenario for bar in budget_bars(alike)}) == 3
    assert len({name for name, _ in rooflines(alike)}) == 3


def test_chips_of_different_families_have_dashes_where_an_input_is_missing():
    rows = {r.path: r.values for r in compare(named(SCENARIO, preset_scenario(ASCEND))).inputs}
    assert rows["hardware.gsm_bytes"][1] == "–"
    assert rows["hardware.collective_fixed_seconds"][0] == "–"
    assert rows["chip"] == ("MT-3000", "Ascend 910A")


@pytest.mark.parametrize(
    ("presets", "pool", "per_token"),
    [
        ((MT3000, MT3000), "Clusters a pool", "Cluster-seconds a token"),
        ((ASCEND, ASCEND), "Cards a pool", "Card-seconds a token"),
        (
            (ASCEND, MT3000, ASCEND),
            "Clusters or cards a pool",
            "Cluster- or card-seconds a token",
        ),
    ],
)
def test_figures_are_named_by_what_the_machines_have(presets, pool, per_token):
    comparison = compare(named(*map(preset_scenario, presets)))
    labels = {row.name: row.label for row in comparison.figures}
    assert (labels["clusters"], labels["cluster_seconds_per_token"]) == (pool, per_token)
    assert not [label for label in labels.values() if "{" in label]
    assert f"<td>{pool}</td>" in comparison_report(comparison)


def test_every_input_has_a_name_of_its_own():
    every = [preset_scenario(name) for name in (MT3000, ASCEND)]
    for scenario in every:
        labels = [_label(scenario, path) for path in paths_of(scenario)[1:]]
        assert all(label and label[0].isupper() for label in labels)
    (row,) = different_inputs([every[1], every[1].replacing({"plan.placement": "disaggregated"})])
    assert (row.label, row.values) == (
        "Placement of prefill and decode",
        ("shared", "disaggregated"),
    )


def test_the_text_keeps_names_and_values_apart():
    text = comparison_text(compare(named(*map(preset_scenario, (MT3000, ASCEND)))))
    assert "hardware.peak_macs_per_second_fp16  8.10 TMAC/s" in text
    heads = text.splitlines()[0]
    table = [line for line in text.splitlines() if line.startswith(("Throughput", "hardware."))]
    assert {line[heads.index("s0") - 1] for line in table} == {" "}
    assert all(line[heads.index("s0")].isdigit() for line in table)


@pytest.mark.parametrize(
    ("preset", "told"), [(MT3000, "2 of 31 clusters each"), (ASCEND, "1 of 4 cards each")]
)
def test_the_text_of_one_scenario_is_in_the_words_of_its_machine(preset, told):
    assert f"  pools           {told}, " in evaluation_text(
        export_document(preset_scenario(preset))
    )


@pytest.mark.parametrize("count", [0, 1, 5])
def test_two_to_four_are_compared(count):
    with pytest.raises(InputError, match="2 to 4"):
        compare(named(*[SCENARIO] * count))


def test_the_csv_holds_every_figure_in_full_and_no_formula():
    hostile = [Candidate("=1+1", SCENARIO), Candidate("@cmd|' /C calc'!A0", DOES_NOT_FIT)]
    comparison = compare(hostile)
    rows = list(csv.reader(io.StringIO(comparison_csv(comparison))))
    assert all(not cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    figures = {row[1]: row[3:] for row in rows if row[0] == "figure"}
    value = comparison.figures[0].values[0]
    assert figures["throughput_tokens_per_second"] == [repr(value), ""]


def test_the_report_is_whole_escaped_and_loads_nothing():
    hostile = "<script>alert(1)</script>"
    candidates = [Candidate(hostile, SCENARIO), Candidate("b & c", DOES_NOT_FIT)]
    report = comparison_report(compare(candidates))
    head, _, body = report.partition("<body>")
    assert hostile not in body
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "b &amp; c does not fit" in body
    for words in ("src=", "<link", "@import"):
        assert words not in body
        assert words not in head[: head.index("<script>")]
    assert body.count('class="plotly-graph-div"') == 3
    assert body.count("python -m explorer open") == 6
    assert "plan.pp_decode=1" in body
    assert "matrix products" in body


def test_the_command_that_the_report_names_gives_its_figures(capsys):
    changed = SCENARIO.replacing({"plan.tp_decode": 8})
    report = comparison_report(compare(named(SCENARIO, changed)))
    start = report.index("python -m explorer compare ")
    command = report[start : report.index("</pre>", start)].replace("&#39;", "'")
    words = [word.strip("'") for word in command.replace("&amp;", "&").split()[4:]]
    assert main(["compare", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = comparison_document(compare(named(SCENARIO, changed)))
    assert [list(row["values"].values()) for row in document["figures"]] == [
        list(row["values"].values()) for row in expected["figures"]
    ]


def test_the_command_takes_presets_files_and_links(capsys, tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(DOES_NOT_FIT.to_json()), encoding="utf-8")
    table = tmp_path / "table.csv"
    sources = [MT3000, str(file), f"?preset={ASCEND}@1"]
    assert main(["compare", *sources, "--csv", str(table)]) == 0
    printed = capsys.readouterr().out
    assert "does not fit" in printed
    assert table.read_text(encoding="utf-8").startswith("kind,name,unit,")


def test_names_that_begin_alike_stay_apart_in_the_table_and_its_columns_begin_together(
    capsys, tmp_path
):
    names = [f"{'the same words ' * 6}{end}" for end in ("first", "second")]
    files = [tmp_path / f"{number}.json" for number in range(2)]
    for file, name in zip(files, names, strict=True):
        named_so = SCENARIO.replacing({"name": name, "plan.tp_decode": 8})
        file.write_text(json.dumps(named_so.to_json()), encoding="utf-8")
    assert main(["compare", MT3000, *map(str, files)]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    begins = [heading.index(f"{number}: {name}") for number, name in enumerate(names, 2)]
    for begin in begins:
        assert rows[0][begin - 2 : begin] == "  "
        assert rows[0][begin].isdigit()


@pytest.mark.parametrize(
    "arguments",
    [
        [MT3000],
        [MT3000, "nothing-like-this"],
        [MT3000, "?preset=nothing"],
        [MT3000, MT3000, "--csv", "/nowhere/at/all.csv"],
        [MT3000, f"?preset={MT3000}@1&plan.tp_decode=3"],
    ],
)
def test_what_cannot_be_compared_is_one_line(arguments, capsys):
    assert main(["compare", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
