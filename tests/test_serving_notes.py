"""What a reader must know of a plan, on both chips, and which stage of a pipeline is slowest."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

from explorer.cli import main
from explorer.costs.partition import stage_contents
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.notes import plan_notes
from explorer.serving.stages import (
    pass_seconds,
    slowest_decode_share,
    slowest_prefill_share,
    slowest_prefill_stages,
    slowest_stage_words,
)
from tests.scenarios import ASCEND, MT3000, PRESETS, scenario, scenarios
from tests.test_app_pages import opened

SHORT = {"workload__prompt_tokens": 512}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_pads_nothing(preset):
    notes = plan_notes(evaluate(scenario(preset)))
    assert [note for note in notes if not note.startswith("No measurement of the")] == []


@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_a_prefill_micro_batch_above_the_batch_is_said_to_be_padded(preset):
    changes = {"plan__micro_batch_prefill": 8, "plan__micro_batch_decode": 1, "plan__pp_decode": 1}
    s = scenario(preset, **changes, **SHORT)
    if preset == MT3000:
        s = s.replacing({"plan.tp_decode": 4})
    notes = plan_notes(evaluate(s))
    padded = [note for note in notes if "padding" in note]
    assert padded == [
        "The batch of 1 request does not fill a prefill micro-batch of 8 requests: the pass is "
        "priced as full, and 7 requests of it are padding."
    ]
    assert padded[0] in export_document(s)["evaluation"]["notes"]


@pytest.mark.parametrize("preset", [MT3000, ASCEND])
def test_a_batch_that_does_not_divide_pads_its_last_pass(preset):
    changes = {"plan__micro_batch_prefill": 4, "plan__micro_batch_decode": 6, "plan__pp_decode": 1}
    (note,) = (n for n in plan_notes(evaluate(scenario(preset, **changes, **SHORT))) if "pad" in n)
    assert "its last prefill micro-batch of 4 requests" in note
    assert "with 2 requests of padding" in note


def test_padding_is_priced_as_it_is_said():
    s = scenario(ASCEND, plan__micro_batch_prefill=2, **SHORT)
    full = s.replacing({"plan.micro_batch_decode": 2})
    assert float(evaluate(s).prefill_seconds) == float(evaluate(full).prefill_seconds)
    assert plan_notes(evaluate(s)) != plan_notes(evaluate(full))


def test_padding_is_told_on_the_page_and_in_the_shell(capsys):
    path = "plan.micro_batch_prefill=8"
    assert main(["evaluate", ASCEND, "--set", path, "--set", "workload.prompt_tokens=512"]) == 0
    assert "7 requests of it are padding" in capsys.readouterr().out
    assert main(["evaluate", ASCEND, "--set", path, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["evaluation"]["notes"]
    assert any("padding" in note for note in notes)
    app = opened(preset=f"{ASCEND}@1", plan__micro_batch_prefill="8")
    assert any("7 requests of it are padding" in item.value for item in app.caption)


def test_arrays_of_batches_have_a_note_too():
    batches = np.asarray([1, 2])
    notes = plan_notes(evaluate(scenario(ASCEND, plan__micro_batch_prefill=batches, **SHORT)))
    assert "Some batches do not fill their last prefill micro-batch" in " ".join(notes)


# The slowest stage -------------------------------------------------------------------------------


@given(scenarios())
@settings(max_examples=100, deadline=None)
def test_the_slowest_stage_is_the_one_that_is_priced(s):
    e = evaluate(s)
    share = slowest_prefill_share(e)
    alone = e.machine.prefill_stage(share).seconds
    stall = next(t for t in e.prefill_stage.terms if t.name == "kv_transfer_stall").seconds
    assert float(alone + stall) == pytest.approx(float(e.prefill_stage.seconds), rel=1e-12)
    decode = e.machine.decode_stage(slowest_decode_share(e)).seconds
    assert float(decode) == pytest.approx(float(e.decode_stage.seconds), rel=1e-12)
    stages = stage_contents(e.inputs.model, int(e.inputs.pp_prefill))
    assert sum(stage.last - stage.first + 1 for stage in stages) == e.inputs.model.layers
    assert [stage.first for stage in stages][1:] == [stage.last + 1 for stage in stages[:-1]]
    found = slowest_prefill_stages(e)
    assert found
    assert all(sum(stage.layers.values()) == float(share.layer_count) for stage in found)
    assert pass_seconds(e) == pytest.approx(
        float(e.ttft_seconds - e.kv_transfer_tail_seconds), rel=1e-12
    )


def test_stages_are_named_by_what_they_hold():
    def words(preset, pp, **changes):
        s = scenario(preset, **changes).replacing({"plan.pp_prefill": pp, "plan.pp_decode": pp})
        return slowest_stage_words(evaluate(s))

    assert words(ASCEND, 1) == ""
    told = words(ASCEND, 3)
    assert told == "stage 1 of 3, layers 1 to 22: 17 gated-delta, 5 full-attention, embedding"
    assert words(ASCEND, 64) == "stage 1 of 64, layer 1: 1 gated-delta, embedding"
    last = words(ASCEND, 64, workload__prompt_tokens=64)
    assert last == "stage 64 of 64, layer 64: 1 full-attention, head"
    assert words(MT3000, 2) == "stage 2 of 2, layers 21 to 40 and head"


def test_the_slowest_share_broadcasts_over_lengths():
    rows = np.asarray([64, 4096])
    plan = {"plan.pp_prefill": 64, "plan.pp_decode": 64}
    e = evaluate(scenario(ASCEND, workload__prompt_tokens=rows).replacing(plan))
    share = slowest_prefill_share(e)
    assert share.head.tolist() == [1, 0]
    assert share.embedding.tolist() == [0, 1]
    stage = e.machine.prefill_stage(share)
    assert stage.seconds == pytest.approx(e.prefill_stage.seconds)
