"""Imported models on both chips: what a preset's twin gives, conservation of work, limits."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.chips.ascend910a_formulas import (
    names_in,
    unfolded_decode,
    unfolded_prefill,
    unfolded_synced,
)
from explorer.chips.ascend910a_scale import is_measured
from explorer.chips.inputs import Inputs
from explorer.config.hugging_face import imported
from explorer.config.model import Model
from explorer.config.own_model import with_model
from explorer.config.presets import load_model
from explorer.config.sizes import ATTENTION_OF, caches_tokens
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.export import export_document
from tests.configs import CONFIGS, config, imported_config
from tests.scenarios import ASCEND, MT3000, scenario
from tests.test_chips_ascend910a_parts import times, worked_out

CHIPS = (MT3000, ASCEND)
ROOM = {"hardware.memory_bytes": 1e13}


def on(preset, name, **changes):
    """Return the scenario of a preset with an imported model and all the memory it may need."""
    base, _ = with_model(scenario(preset), imported_config(name).document)
    return base.replacing({**ROOM, **changes})


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("preset", CHIPS)
def test_every_model_is_priced_and_its_terms_add_up(preset, name):
    evaluation = evaluate(on(preset, name))
    assert evaluation.feasible
    for stage in (evaluation.prefill_stage, evaluation.decode_stage):
        for term in stage.terms:
            assert np.isfinite(term.seconds)
            assert term.seconds >= 0
            assert term.busy_seconds >= 0
            assert term.bytes >= 0
    assert evaluation.objective("throughput") > 0
    document = export_document(evaluation.inputs.scenario)
    assert document["sources"]["model.layers"]["source"].startswith("config: ")


@pytest.mark.parametrize("preset", ["llama2-7b", "llama2-13b", "llama2-70b"])
def test_an_import_is_evaluated_as_its_preset(preset):
    shipped = scenario(f"mt3000-{preset}")
    name = preset.replace("llama2", "llama-2")
    twin, changed = with_model(shipped, imported_config(name).document)
    assert changed == ()
    assert not isinstance(twin.model, str)
    theirs, ours = (export_document(s)["evaluation"] for s in (shipped, twin))
    assert ours == theirs


def test_the_reports_model_imported_runs_as_the_report_measured_it():
    twin, _ = with_model(scenario(ASCEND), imported_config("qwen3.8-27b-hybrid").document)
    theirs, ours = evaluate(scenario(ASCEND)), evaluate(twin)
    assert ours.prefill_stage.seconds == pytest.approx(theirs.prefill_stage.seconds, rel=1e-9)
    assert ours.decode_stage.seconds == pytest.approx(theirs.decode_stage.seconds, rel=1e-3)
    assert is_measured(ours.inputs.model)
    assert not any("measured with" in note for note in ours.machine.notes())


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("preset", "requests"), [(MT3000, 1), (MT3000, 48), (ASCEND, 1)])
def test_a_decode_step_does_the_work_of_its_tokens(preset, requests, name):
    one = {f"plan.{kind}_{pool}": 1 for kind in ("tp", "pp") for pool in ("prefill", "decode")}
    s = on(preset, name, **one, **{"plan.micro_batch_decode": requests})
    evaluation = evaluate(s.replacing({"workload.prompt_tokens": 3000}))
    model, context = evaluation.inputs.model, evaluation.inputs.mean_context_tokens
    attended = sum(
        min(context, model.attended_window(kind))
        for kind in model.layer_kinds
        if caches_tokens(kind)
    )
    attention = 2 * model.query_heads * model.head_dim * attended
    done = sum(term.macs for term in evaluation.decode_stage.terms)
    # Norms and biases are no products; the Ascend model counts them among streamed weights.
    assert done == pytest.approx(requests * (model.macs_per_token + attention), rel=2e-3)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-30b-a3b", "deepseek-moe-16b"])
@pytest.mark.parametrize("preset", CHIPS)
def test_a_batch_reads_more_experts_but_never_more_than_all(preset, name):
    s = on(preset, name, **{"plan.micro_batch_decode": np.asarray([1, 2, 4, 16, 64, 256])})
    evaluation = evaluate(s)
    model = evaluation.inputs.model
    names = ("expert_gate_up_linear", "expert_down_linear", "weight_streaming")
    seconds = sum(t.seconds for t in evaluation.decode_stage.terms if t.name in names)
    assert np.all(np.diff(seconds) > 0)
    # One request passes k of E experts: it must cost far less than a batch that touches all.
    assert seconds[0] < seconds[-1] * (model.experts_per_token / model.experts + 0.5)


@pytest.mark.parametrize("preset", CHIPS)
def test_a_token_of_a_mixture_is_cheaper_than_one_of_a_dense_model_as_large(preset):
    mixture = evaluate(on(preset, "mixtral-8x7b"))
    document = imported(
        config(
            "mixtral-8x7b",
            num_local_experts=...,
            num_experts_per_tok=...,
            intermediate_size=8 * 14336,
            model_type="llama",
        )
    ).document
    dense = evaluate(with_model(scenario(preset), document)[0].replacing(ROOM))
    assert mixture.prefill_stage.seconds < dense.prefill_stage.seconds
    assert mixture.decode_memory.total_bytes == pytest.approx(
        dense.decode_memory.total_bytes, rel=1e-3
    )


@pytest.mark.parametrize("preset", CHIPS)
def test_twice_the_layers_take_twice_the_time_of_layers(preset):
    one = config("mistral-7b-v0.1", num_hidden_layers=16)
    two = config("mistral-7b-v0.1", num_hidden_layers=32)
    none = config("mistral-7b-v0.1", num_hidden_layers=8)
    seconds = []
    for values in (none, one, two):
        s, _ = with_model(scenario(preset), imported(values).document)
        s = s.replacing({**ROOM, "plan.pp_prefill": 1, "plan.pp_decode": 1})
        seconds.append(evaluate(s).decode_stage.seconds)
    assert seconds[2] - seconds[1] == pytest.approx(2 * (seconds[1] - seconds[0]))


def test_slopes_of_the_ascend_scale_with_what_a_layer_is():
    base = load_model("qwen3.8-27b").shape()
    assert is_measured(base)
    s = scenario(ASCEND)

    def terms(model: Model) -> dict[str, float]:
        inputs = Inputs(s)
        inputs.__dict__["model"] = model
        evaluation = evaluate(s)
        evaluation = Evaluation(inputs, type(evaluation.machine).of(inputs))
        return {term.name: float(term.busy_seconds) for term in evaluation.prefill_stage.terms}

    before = terms(base)
    wide = terms(replace(base, ffn_width=2 * base.ffn_width))
    added = 64 * 3 * 5120 * 17408 / base.total(lambda part: part.active if part.product else 0)
    head = base.embedding_elements / base.total(lambda part: part.active if part.product else 0)
    assert wide["projections"] / before["projections"] == pytest.approx(1 + added / (1 - head))
    heads = terms(replace(base, query_heads=48, kv_heads=8))
    assert heads["full_attention"] == pytest.approx(2 * before["full_attention"])
    state = terms(replace(base, linear_value_heads=96))
    assert state["gated_delta"] == pytest.approx(2 * before["gated_delta"])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [64, 4096])
def test_formulas_written_out_hold_for_any_model(name, rows):
    e = evaluate(on(ASCEND, name, **{"workload.prompt_tokens": rows}))
    machine, share = e.machine, e.prefill_shares[0]
    one, profile = machine.prefill_pass(share), machine.synced_profile(share).phases
    pairs = (
        (unfolded_prefill(one), times(one.stage().terms, "busy_seconds")),
        (unfolded_synced(one), {phase: float(part) for phase, part in profile.items()}),
        (
            unfolded_decode(machine.work(e.decode_shares[0], e.inputs.tp_decode)),
            times(e.decode_stage.terms),
        ),
    )
    for unfolding, expected in pairs:
        assert worked_out(unfolding) == pytest.approx(expected, rel=1e-9, abs=1e-15)
        used = set().union(*(names_in(f.expression) for f in unfolding.formulas.values()))
        assert set(unfolding.symbols) == used - {"2", "6", "max"}


@pytest.mark.parametrize("name", CONFIGS)
def test_limits_of_another_model_are_numbers_and_no_recurrence_has_none(name):
    machine = evaluate(on(ASCEND, name)).machine
    limits = {limit.name: float(limit.value) for limit in machine.limits()}
    assert all(np.isfinite(value) and value > 0 for value in limits.values())
    recurrent = machine.inputs.model.layers_with("linear_attention") > 0
    assert ("recurrence_time_factor" in limits) == recurrent


def test_replay_of_another_model_ends_when_its_pass_does():
    for name in ("gemma-3-1b", "deepseek-moe-16b", "qwen3-next-80b-a3b"):
        evaluation = evaluate(on(ASCEND, name))
        share = evaluation.prefill_shares[0]
        passed = evaluation.machine.prefill_pass(share)
        assert passed.replay().seconds == pytest.approx(passed.stage().seconds)
        names = {event.what for event in passed.replay().events}
        kinds = {ATTENTION_OF[kind] for kind in evaluation.inputs.model.kinds}
        assert ("sliding_attention" in names) == ("sliding_attention" in kinds)


def test_another_model_on_the_ascend_is_said_to_be_extrapolated():
    notes = evaluate(on(ASCEND, "mixtral-8x7b")).machine.notes()
    assert any("measured with Qwen3.8-27B" in note for note in notes)
    assert any("Routing rows to experts" in note for note in notes)
    deploy = export_document(on(ASCEND, "mixtral-8x7b"))["deploy"]
    assert any("it may not run mixtral-8x7b" in note for note in deploy["notes"])
    assert not any(
        "may not run" in note for note in export_document(scenario(ASCEND))["deploy"]["notes"]
    )


def test_tensor_parallelism_divides_experts_too():
    model = imported(config("deepseek-moe-16b", moe_intermediate_size=1404)).document.shape()
    assert model.legal_tp == (1, 2, 4)
    assert imported_config("deepseek-moe-16b").document.shape().legal_tp == (1, 2, 4, 8, 16)


def test_a_pattern_with_more_candidates_than_numpy_chooses_among_is_priced():
    words = ["full_attention", "sliding_attention", "linear_attention"]
    random = np.random.default_rng(5)
    values = config(
        "qwen3-next-80b-a3b",
        num_hidden_layers=512,
        layer_types=[words[i] for i in random.integers(0, 3, 512)],
        mlp_only_layers=sorted(random.choice(512, 256, replace=False).tolist()),
        sliding_window=100,
    )
    s, _ = with_model(scenario(MT3000), imported(values).document)
    evaluation = evaluate(s.replacing({**ROOM, "plan.pp_prefill": 103, "plan.pp_decode": 104}))
    assert min(len(evaluation.prefill_shares), len(evaluation.decode_shares)) > 32
    slowest = max(
        float(evaluation.machine.decode_stage(share).seconds) for share in evaluation.decode_shares
    )
    assert evaluation.decode_stage.seconds == pytest.approx(slowest)
