"""The command line: one document on stdout, or one line on stderr and exit 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.config.links import nearest_preset, open_link
from explorer.serving.export import export_document
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario

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
    for command in ("presets", "evaluate", "link", "open"):
        assert command in out
