"""The model command, and --model of every command that takes a scenario."""

import json

import pytest

from explorer.cli import main
from explorer.config.files import scenario_from_json
from explorer.config.model import ModelDocument
from explorer.serving.export import export_document
from tests.configs import FOLDER, config, config_model, imported_config
from tests.scenarios import ASCEND, MT3000
from tests.test_cli import refused, run, shell

MIXTRAL = str(FOLDER / "mixtral-8x7b.json")
SMALL = str(FOLDER / "qwen2.5-0.5b.json")
HYBRID = str(FOLDER / "qwen3.8-27b-hybrid.json")


def printed(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_document_holds_what_is_promised(capsys):
    document = printed(capsys, "model", MIXTRAL)
    assert document["schema"] == "explorer.model-summary/1"
    assert document["parameters"] == 46_702_792_704
    assert document["active_parameters"] == 12_879_925_248
    assert document["layers"] == 32
    assert document["kv_bytes_per_token"] == 131_072
    assert document["state_bytes_per_request"] == 0
    assert document["macs_per_token"] == config_model("mixtral-8x7b").macs_per_token
    assert document["flops_per_token"] == 2 * document["macs_per_token"]
    assert document["not_modelled"] == list(imported_config("mixtral-8x7b").not_modelled)
    hybrid = printed(capsys, "model", HYBRID)
    assert hybrid["kv_bytes_per_token"] == 65_536
    assert hybrid["state_bytes_per_request"] == 48 * (48 * 128 * 128 * 4 + 3 * 10240 * 2)
    assert hybrid["layer_kinds"] == {"linear_attention": 48, "full_attention": 16}


@pytest.mark.parametrize("name", ["mixtral-8x7b", "gemma-3-1b", "qwen3-next-80b-a3b", "gpt2"])
def test_parts_and_formulas_give_the_figures(capsys, name):
    document = printed(capsys, "model", str(FOLDER / f"{name}.json"))
    parts = document["parts"]
    assert sum(part["parameters"] for part in parts) == document["parameters"]
    assert sum(part["active_parameters"] for part in parts) == document["active_parameters"]
    for part in parts:
        assert computed(part["formula"]) == part["parameters"], part
    for key in ("kv_bytes_per_token", "state_bytes_per_request", "macs_per_token"):
        if key in document["formulas"]:
            assert computed(document["formulas"][key]) == document[key]
    if "active_parameters" in document["formulas"]:
        assert computed(document["formulas"]["active_parameters"]) == document["active_parameters"]


def computed(formula):
    """Return what a formula says, its words left out."""
    words = "".join(sign for sign in formula.replace("×", "*") if sign in "0123456789*+-() ")
    assert set(words) <= set("0123456789*+-() ")
    return eval(words)


def test_the_text_puts_figures_before_parts_and_prints_in_any_shell(capsys):
    code, out, err = run(capsys, "model", str(FOLDER / "gemma-3-1b.json"))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "gemma-3-1b"
    assert "  Parameters: 999,885,952" in lines
    assert "    = 2 × 1 KV heads × 256 × 2 B × 26 layers" in lines
    assert out.index("Parameters") < out.index("parts") < out.index("not modelled")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    done = shell("model", MIXTRAL, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


def test_presets_are_explained_the_same_way(capsys):
    document = printed(capsys, "model", "qwen3.8-27b")
    assert document["kv_bytes_per_token"] == 65_536
    assert document["parameters"] == 26_893_352_960
    assert document["not_modelled"] == []


def test_out_writes_a_document_that_every_command_takes(capsys, tmp_path):
    file = tmp_path / "mixtral.json"
    code, _, err = run(capsys, "model", MIXTRAL, "--out", str(file))
    assert (code, err) == (0, "")
    document = ModelDocument.model_validate(json.loads(file.read_text(encoding="utf-8")))
    assert document == imported_config("mixtral-8x7b").document
    by_config = printed(capsys, "evaluate", MT3000, "--model", MIXTRAL)
    by_document = printed(capsys, "evaluate", MT3000, "--model", str(file))
    assert by_config == by_document
    by_set = printed(capsys, "evaluate", MT3000, "--set", f"model={file}")
    assert by_set == by_document
    assert by_config["scenario"]["model"]["name"] == "mixtral-8x7b"
    assert by_config["scenario"]["name"] == "MT-3000 · mixtral-8x7b"
    again = printed(capsys, "model", str(file))
    assert again["parameters"] == 46_702_792_704


def test_an_export_with_a_model_of_its_own_opens_to_the_same_numbers(capsys, tmp_path):
    first = printed(capsys, "evaluate", ASCEND, "--model", MIXTRAL)
    assert first["evaluation"]["feasible"]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(first), encoding="utf-8")
    for command in ("evaluate", "open"):
        assert printed(capsys, command, str(file)) == first
    scenario = scenario_from_json(json.dumps(first))
    assert isinstance(scenario.model, ModelDocument)
    assert json.loads(json.dumps(export_document(scenario))) == first


def test_a_plan_that_does_not_divide_the_model_changes_and_says_so(capsys):
    code, out, err = run(capsys, "evaluate", ASCEND, "--model", SMALL, "--json")
    assert code == 0
    plan = json.loads(out)["scenario"]["plan"]
    assert (plan["tp_prefill"], plan["tp_decode"]) == (2, 2)
    lines = err.splitlines()
    assert len(lines) == 2
    assert "Changed to fit the model: plan.tp_prefill = 4: now 2" in lines[0]


def test_what_is_set_is_used_or_refused_never_changed(capsys):
    code, out, _ = run(
        capsys, "evaluate", ASCEND, "--model", SMALL, "--set", "plan.tp_prefill=1",
        "--set", "plan.tp_decode=1", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["scenario"]["plan"]["tp_decode"] == 1
    code, out, err = run(capsys, "evaluate", ASCEND, "--model", SMALL, "--set", "plan.tp_decode=4")
    assert (code, out) == (2, "")
    assert "plan.tp_decode = 4" in err.splitlines()[-1]


def test_fewer_layers_than_stages_bring_the_stages_down(capsys):
    code, out, err = run(
        capsys, "evaluate", "mt3000-llama2-70b", "--model", str(FOLDER / "gpt2.json"), "--json"
    )
    assert code == 0
    plan = json.loads(out)["scenario"]["plan"]
    before = printed(capsys, "evaluate", "mt3000-llama2-70b")["scenario"]["plan"]
    for name in ("pp_prefill", "pp_decode"):
        assert plan[name] == min(before[name], 12)
        assert (f"plan.{name}" in err) == (before[name] > 12)


def test_search_and_slices_take_a_model_too(capsys):
    code, out, _ = run(
        capsys, "search", MT3000, "--model", MIXTRAL, "--trials", "5", "--json",
        "--vary", "plan.pp_prefill=4:8", "--vary", "plan.pp_decode=4:8",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["best"]["scenario"]["model"]["id"] == "own-mixtral-8x7b"
    slices = printed(capsys, "slices", ASCEND, "--model", MIXTRAL, "--rows", "1024")
    assert slices["rows"]


def test_no_link_carries_a_model_of_its_own(capsys):
    assert "use the file" in refused(capsys, "link", MT3000, "--model", MIXTRAL)
    code, out, _ = run(capsys, "link", MT3000, "--model", "llama2-7b")
    assert code == 0
    assert "preset=mt3000-llama2-7b@1" in out


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"PK\x03\x04",
        b"\x80\x04\x95",
        b"[" * 100_000,
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        json.dumps(config("llama-2-7b", num_hidden_layers=-1)).encode(),
        json.dumps(config("llama-2-7b", hidden_size="4096")).encode(),
        json.dumps(config("llama-2-7b", num_key_value_heads=5)).encode(),
        json.dumps(config("llama-2-7b", model_type="\u202ellama\n")).encode(),
        b'{"schema": "explorer.model/2"}',
        b'{"schema": "explorer.model/1"}',
        b'{"schema": "explorer.scenario/1"}',
        b'{"schema": ["explorer.model/1"]}',
    ],
    ids=lambda value: repr(value[:24]),
)
def test_bad_files_are_one_line_and_exit_2(capsys, tmp_path, content):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    if b"\\u202e" not in content:
        refused(capsys, "model", str(file))
        refused(capsys, "evaluate", MT3000, "--model", str(file))
        refused(capsys, "evaluate", MT3000, "--set", f"model={file}")
    else:
        # A strange type alone is read like Llama's; what is printed shows no mark of direction.
        code, out, _ = run(capsys, "model", str(file))
        assert code == 0
        assert "\u202e" not in out
        assert "?llama?" in out


def test_two_hundred_megabytes_are_not_read_to_their_end(capsys, tmp_path):
    file = tmp_path / "config.json"
    with file.open("wb") as opened:
        opened.truncate(200_000_000)
    assert "larger than the 4 MB accepted" in refused(capsys, "model", str(file))


@pytest.mark.parametrize("reference", ["nothing.json", "", "/", "a\x00b", "llama2-7b@9"])
def test_what_is_no_file_is_refused(capsys, reference):
    refused(capsys, "model", reference)
    refused(capsys, "evaluate", MT3000, "--model", reference)


def test_a_document_that_cannot_be_written_is_said(capsys, tmp_path):
    assert "--out" in refused(capsys, "model", MIXTRAL, "--out", str(tmp_path / "no" / "file"))
    assert "--out" in refused(capsys, "model", MIXTRAL, "--out", str(tmp_path))


def test_help_names_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "model" in capsys.readouterr().out
