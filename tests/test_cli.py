"""The command line: one document on stdout, or one line on stderr and exit 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.config.links import nearest_preset, open_link
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, GENERIC, MT3000, PRESETS, scenario

ROOT = Path(__file__).resolve().parents[1]
GOOD = json.dumps(scenario(MT3000).to_json())


def run(capsys, *arguments):
    """Return exit code, stdout and stderr of one command."""
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert err.startswith("explorer")
    return err


@pytest.mark.parametrize("preset", PRESETS)
def test_evaluate_prints_the_export_document(capsys, preset):
    code, out, err = run(capsys, "evaluate", preset, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(export_document(scenario(preset))))


def test_evaluate_without_json_puts_the_answer_first(capsys):
    code, out, _ = run(capsys, "evaluate", MT3000)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == scenario(MT3000).name
    assert lines[2].split()[0] == "throughput"
    assert "T_p (prefill of one batch)" in out


def test_what_does_not_fit_prints_why_and_no_speed(capsys):
    arguments = ("evaluate", "mt3000-llama2-70b", "--set", "plan.pp_prefill=1")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "does not fit" in out
    assert "the limit is 20.0 GB" in out
    assert "throughput" not in out
    assert "tokens/s" not in out
    code, out, _ = run(capsys, *arguments, "--json")
    document = json.loads(out)["evaluation"]
    assert (code, document["feasible"]) == (0, False)
    assert document["pool"]["throughput_tokens_per_second"] is None


def test_set_changes_fields_and_keeps_every_digit(capsys):
    _, out, _ = run(
        capsys, "evaluate", MT3000, "--json", "--set", "plan.micro_batch_decode=24",
        "--set", "hardware.ddr_bandwidth_bytes_per_second=31234567890.125",
        "--set", "name=a = b", "--set", "limits.ttft_seconds=none",
    )  # fmt: skip
    s = json.loads(out)["scenario"]
    assert s["plan"]["micro_batch_decode"] == 24
    assert s["hardware"] == {"ddr_bandwidth_bytes_per_second": 31234567890.125}
    assert s["name"] == "a = b"
    assert s["limits"]["ttft_seconds"] is None


def test_presets_are_listed(capsys):
    code, out, err = run(capsys, "presets")
    assert (code, err) == (0, "")
    _, listed, _ = run(capsys, "presets", "--json")
    ids = [preset["id"] for preset in json.loads(listed)["presets"]]
    assert sorted(ids) == sorted(PRESETS)
    assert all(f"{preset}@1" in out for preset in ids)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_link_opens_to_what_made_it(capsys, preset):
    changes = ("--set", "plan.micro_batch_decode=24", "--set", "workload.output_tokens=77")
    code, out, _ = run(capsys, "link", preset, *changes, "--base", "http://host/explore")
    link = out.strip()
    assert code == 0
    assert link.startswith(f"http://host/explore?preset={preset}@1&")
    _, made, _ = run(capsys, "evaluate", preset, *changes, "--json")
    code, opened, err = run(capsys, "open", link, "--json")
    assert (code, err) == (0, "")
    assert json.loads(opened) == json.loads(made)
    _, as_json, _ = run(capsys, "link", preset, *changes, "--json")
    assert open_link(json.loads(as_json)["link"], MT3000).problems == ()


def test_a_link_starts_from_the_nearest_preset():
    assert nearest_preset(scenario(ASCEND, plan__slices=8)) == ASCEND
    moved = scenario(MT3000, model="llama2-70b")
    assert nearest_preset(moved) == "mt3000-llama2-70b"
    foreign = scenario(MT3000, model="qwen3.8-27b")
    query = open_link(f"preset={nearest_preset(foreign)}", MT3000)
    assert query.problems == ()


def test_files_open_and_evaluate(capsys, tmp_path):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(export_document(scenario(ASCEND))), encoding="utf-8")
    _, expected, _ = run(capsys, "evaluate", ASCEND, "--json")
    for command in ("open", "evaluate"):
        code, out, err = run(capsys, command, str(file), "--json")
        assert (code, out, err) == (0, expected, "")


OWN_CHIP = {
    "schema": "explorer.chip/1", "base": "mt3000@1", "id": "mine", "name": "漢字 <b>Mine</b>",
    "quantities": {"ddr_bandwidth_bytes_per_second": 61234567890.125, "gsm_bytes": 7000000},
}  # fmt: skip


def written(tmp_path, content, name="mine.json"):
    file = tmp_path / name
    file.write_text(json.dumps(content), encoding="utf-8")
    return str(file)


REPRODUCED = {
    "preset": (ASCEND,),
    "overrides": (
        MT3000, "--set", "hardware.ddr_bandwidth_bytes_per_second=31234567890.125",
        "--set", "hardware.sm_bytes=131072", "--set", "plan.micro_batch_decode=24",
    ),
    "measured times": (
        MT3000, "--set", "measured.prefill_seconds=40.1", "--set", "measured.decode_seconds=0.3",
    ),
    "limits": (
        GENERIC, "--set", "limits.ttft_seconds=0.9", "--set",
        "limits.memory_headroom_fraction=0.123456789",
    ),
    "does not fit": ("mt3000-llama2-70b", "--set", "plan.pp_prefill=1"),
    "another chip": (MT3000, "--chip", "h100-sxm", "--set", "hardware.memory_bytes=9e10"),
    "own chip": (MT3000, "--chip", OWN_CHIP, "--set", "plan.dp_prefill=3"),
    "name": (MT3000, "--set", "name=漢字 \" <b> 🂡"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPRODUCED)
def test_every_export_is_reproducible(capsys, tmp_path, name):
    """``evaluate export.json`` prints the same document, and its export again the same."""
    arguments = [
        written(tmp_path, item) if isinstance(item, dict) else item for item in REPRODUCED[name]
    ]
    code, first, err = run(capsys, "evaluate", *arguments, "--json")
    assert (code, err) == (0, "")
    for command in ("evaluate", "open"):
        file = written(tmp_path, json.loads(first), "export.json")
        code, again, err = run(capsys, command, file, "--json")
        assert (code, again, err) == (0, first, "")
    code, text, _ = run(capsys, "evaluate", file)
    assert (code, text) == (0, run(capsys, "evaluate", *arguments)[1])


def test_a_search_writes_an_export_that_is_reproducible_too(capsys, tmp_path):
    out, chip = tmp_path / "best.json", written(tmp_path, OWN_CHIP)
    code, printed, _ = run(
        capsys, "search", MT3000, "--chip", chip, "--vary", "plan.dp_prefill=1:6", "--trials", "8",
        "--out", str(out), "--json",
    )  # fmt: skip
    assert code == 0
    _, again, _ = run(capsys, "evaluate", str(out), "--json")
    assert json.loads(again) == json.loads(out.read_text(encoding="utf-8"))
    assert json.loads(again)["evaluation"] == json.loads(printed)["best"]["evaluation"]


@pytest.mark.parametrize("command", ["evaluate", "link", "search", "slices"])
def test_every_command_on_a_scenario_takes_another_chip(capsys, command):
    options = {"search": ("--vary", "plan.dp_prefill=1:2"), "slices": ("--rows", "512")}
    preset = ASCEND if command == "slices" else MT3000
    chip = "ascend910a@1" if command == "slices" else "a100-80gb-sxm"
    code, out, _ = run(capsys, command, preset, "--chip", chip, *options.get(command, ()), "--json")
    assert code == 0
    if command == "link":
        assert f"chip={chip}@1" in json.loads(out)["link"]


def test_a_chip_of_ones_own_replaces_chip_and_numbers_and_set_comes_after(capsys, tmp_path):
    file = written(tmp_path, OWN_CHIP)
    plan = written(
        tmp_path, scenario(MT3000, hardware__memory_bytes=31e9).to_json(), "scenario.json"
    )
    _, out, _ = run(
        capsys, "evaluate", plan, "--chip", file, "--set", "hardware.mpi_latency_seconds=1e-6",
        "--json",
    )  # fmt: skip
    document = json.loads(out)
    assert document["scenario"]["chip"]["id"] == "mine"
    assert document["scenario"]["hardware"] == {"mpi_latency_seconds": 1e-6}
    sources = document["sources"]
    assert sources["hardware.memory_bytes"]["value"] == 20e9
    assert sources["hardware.gsm_bytes"]["source"] == "changed without a source"
    assert sources["hardware.mpi_latency_seconds"]["kind"] == "override"


def test_a_chip_of_ones_own_goes_by_file_not_by_link(capsys, tmp_path):
    err = refused(capsys, "link", MT3000, "--chip", written(tmp_path, OWN_CHIP))
    assert "use the file" in err


def test_set_takes_back_a_number(capsys, tmp_path):
    plan = written(tmp_path, scenario(MT3000, hardware__memory_bytes=31e9).to_json())
    _, out, _ = run(capsys, "evaluate", plan, "--set", "hardware.memory_bytes=default", "--json")
    assert json.loads(out)["scenario"]["hardware"] == {}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"PK\x03\x04", b"\x80\x04\x95\xff", b"[" * 100_000, b"{}", b'{"a": 1, "a": 2}',
        b'{"schema": "explorer.chip/2"}', b'{"schema": "explorer.export/1"}',
        json.dumps({**OWN_CHIP, "id": "mt3000"}).encode(),
        json.dumps({**OWN_CHIP, "quantities": {"gsm_bytes": "x\x1b[2J"}}).encode(),
        json.dumps({**OWN_CHIP, "quantities": {"g\nsm": 1}}).encode(),
        json.dumps({**OWN_CHIP, "name": "a\u202eb"}).encode(),
        json.dumps({**OWN_CHIP, "base": "ascend910a@1"}).encode(),
        json.dumps({**OWN_CHIP, "quantities": {"gsm_bytes": float("nan")}}).encode(),
    ],
    ids=lambda value: repr(value[:24]) + repr(value[-24:]),
)  # fmt: skip
def test_bad_chips_are_one_line_and_exit_2(capsys, tmp_path, content):
    file = tmp_path / "chip.json"
    file.write_bytes(content)
    refused(capsys, "evaluate", MT3000, "--chip", str(file))


def test_a_huge_chip_file_is_not_read_to_its_end(capsys, tmp_path):
    file = tmp_path / "chip.json"
    with file.open("wb") as opened:
        opened.truncate(200_000_000)
    assert "larger than the 4 MB accepted" in refused(
        capsys, "evaluate", MT3000, "--chip", str(file)
    )


def test_a_link_of_a_later_version_is_refused_whole(capsys):
    err = refused(capsys, "open", f"?preset={MT3000}@1&plan.tp_decode=8&schema=explorer.link/2")
    assert "a newer explorer wrote this" in err


def test_a_link_with_something_unusable_prints_the_rest_and_exits_2(capsys):
    code, out, err = run(
        capsys, "open", f"?preset={MT3000}&plan.tp_decode=3&plan.slices=2", "--json"
    )
    assert code == 2
    assert json.loads(out)["scenario"]["plan"]["slices"] == 2
    assert len(err.splitlines()) == 1
    assert "plan.tp_decode = 3" in err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nothing",),
        ("nothing\nelse",),
        ("evaluate",),
        ("evaluate", MT3000, "extra\nlines"),
        ("evaluate", MT3000, "--nothing"),
        ("evaluate", MT3000, "--set"),
        ("evaluate", MT3000, "--set", "plan.tp_decode"),
        ("evaluate", MT3000, "--set", "plan.tp_decode=3"),
        ("evaluate", MT3000, "--set", "plan.tp_decode=0"),
        ("evaluate", MT3000, "--set", "plan.tp_decode=-1"),
        ("evaluate", MT3000, "--set", "plan.tp_decode=" + "9" * 400),
        ("evaluate", MT3000, "--set", "plan.tp_decode=" + "9" * 5000),
        ("evaluate", MT3000, "--set", "plan.tp_decode=nan"),
        ("evaluate", MT3000, "--set", "plan.pp_decode=41"),
        ("evaluate", MT3000, "--set", "hardware.memory_bytes=inf"),
        ("evaluate", MT3000, "--set", "hardware.memory_bytes=1e300"),
        ("evaluate", MT3000, "--set", "hardware.ddr_bandwidth_bytes_per_second=0"),
        ("evaluate", MT3000, "--set", "workload.prompt_tokens=0"),
        ("evaluate", MT3000, "--set", "workload.output_tokens=0"),
        ("evaluate", MT3000, "--set", "plan.micro_batch_decode=0"),
        ("evaluate", MT3000, "--set", "a\nb=1"),
        ("evaluate", MT3000, "--set", "plan.tp_decode=default"),
        ("evaluate", MT3000, "--set", "hardware.nothing=default"),
        ("evaluate", MT3000, "--chip", "nothing"),
        ("evaluate", MT3000, "--chip", "mt3000@2"),
        ("evaluate", MT3000, "--chip", "no\nthing.json"),
        ("evaluate", MT3000, "--chip", "ascend910a", "--set", "precision.compute=fp32"),
        ("evaluate", MT3000, "--chip", "ascend910a", "--set", "hardware.sm_bytes=1024"),
        ("schema", "nothing"),
        ("evaluate", MT3000, "--set", "name=a\nb"),
        ("evaluate", MT3000, "--set", "name=\udcff"),
        ("evaluate", MT3000, "--set", "plan.slices=1", "--set", "plan.slices=2"),
        ("evaluate", "mt3000-llama2-13b@2"),
        ("evaluate", "nothing"),
        ("evaluate", "no\nthing"),
        ("evaluate", "nothing.json"),
        ("evaluate", "x" * 300),
        ("evaluate", "."),
        ("evaluate", ""),
        ("open", "?preset=nothing"),
        ("open", "?preset="),
        ("open", "http://[?preset=x"),
        ("open", "nothing"),
        ("open", "?" + "a=1&" * 500),
        ("link", "nothing"),
        ("link", MT3000, "--set", "plan.x=1"),
    ],
    ids=lambda value: " ".join(value)[:40].replace("\n", "~").encode("ascii", "replace").decode(),
)
def test_bad_input_is_one_line_and_exit_2(capsys, arguments):
    refused(capsys, *arguments)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"\x00\x01\x02\xff", b"[" * 100_000, b'{"schema": "explorer.scenario/2"}',
        b'{"a": 1, "a": 2}', b'{"schema": "explorer.export/1", "scenario": {"a\\nb": 1}}',
        b'{"schema": "explorer.scenario/1", "hardware": {"x\\u001b[2J": 1}}',
        GOOD.replace('"tp_decode": 4', '"tp_decode": NaN').encode(),
        GOOD.replace('"tp_decode": 4', '"tp_decode": 1' + "0" * 400).encode(),
    ],
    ids=lambda value: repr(value[:24]),
)  # fmt: skip
@pytest.mark.parametrize("command", ["evaluate", "open", "link"])
def test_bad_files_are_one_line_and_exit_2(capsys, tmp_path, command, content):
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    refused(capsys, command, str(file))


def shell(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "explorer", *arguments],
        cwd=ROOT, capture_output=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_the_module_runs_from_a_shell():
    done = shell("evaluate", ASCEND, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["evaluation"]["feasible"]
    bad = shell("evaluate", ASCEND, "--set", b"name=\xff\xfe")
    assert bad.returncode == 2
    assert bad.stdout == b""
    assert bad.stderr.count(b"\n") == 1
    assert b"Traceback" not in bad.stderr


def test_the_output_is_fit_for_a_shell_without_unicode():
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    for arguments in (("evaluate", MT3000), ("evaluate", MT3000, "--json"), ("presets",)):
        done = shell(*arguments, env=environment)
        assert b"Traceback" not in done.stderr
        assert done.returncode == 0


def test_a_closed_pipe_is_no_error():
    with subprocess.Popen(
        [sys.executable, "-m", "explorer", "evaluate", MT3000, "--json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(timeout=60) == 0


def test_help_tells_the_commands(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in ("presets", "evaluate", "search", "worker", "link", "open"):
        assert command in out
