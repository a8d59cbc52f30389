"""Parts of the Ascend 910A that pages unfold: formulas, limits, deployment, fewer collectives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.chips.ascend910a_formulas import (
    NUMBER_OF,
    names_in,
    unfolded_decode,
    unfolded_prefill,
    unfolded_prices,
    unfolded_synced,
)
from explorer.config.chip import Chip
from explorer.config.scenario import parse_scenario
from explorer.costs.timeline import Site
from explorer.serving.evaluate import evaluate
from explorer.serving.stages import slowest_decode_share, slowest_prefill_share
from tests.scenarios import ASCEND, scenario, scenarios


def worked_out(unfolding):
    """Return every formula's value, computed from its symbols alone."""
    values = {name: float(symbol.value) for name, symbol in unfolding.symbols.items()}
    names = {"__builtins__": {}, "max": max}
    return {
        name: eval(formula.expression, names, values)
        for name, formula in unfolding.formulas.items()
    }


def times(terms, field="seconds"):
    return {term.name: float(getattr(term, field)) for term in terms}


@given(scenarios((ASCEND,)), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_every_formula_gives_the_term_that_it_unfolds(s, reduces):
    e = evaluate(s.replacing({"hardware.all_reduces_per_layer": reduces}))
    machine, share = e.machine, slowest_prefill_share(e)
    one, held = machine.prefill_pass(share), slowest_decode_share(e)
    prices = {price.route: float(price.seconds) for price in machine.collective_prices}
    profile = {name: float(part) for name, part in machine.synced_profile(share).phases.items()}
    pairs = (
        (unfolded_prefill(one), times(one.stage().terms, "busy_seconds")),
        (unfolded_synced(one), profile),
        (unfolded_decode(machine.work(held, e.inputs.tp_decode)), times(e.decode_stage.terms)),
        (unfolded_prices(one), prices),
    )
    for unfolding, expected in pairs:
        assert worked_out(unfolding) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_formulas_rest_on_the_kinds_that_their_terms_carry():
    e = evaluate(scenario(ASCEND))
    kinds = e.inputs.scenario.chip_document().quantities
    unfolding = unfolded_prefill(e.machine.prefill_pass(e.prefill_shares[0]))
    structure = {"measured_TP", "sites_a_layer"}
    for term in e.machine.prefill_stage(e.prefill_shares[0]).terms:
        used = names_in(unfolding.formulas[term.name].expression) - structure
        assert term.kinds == {kinds[NUMBER_OF[name]].kind for name in used if name in NUMBER_OF}


def test_symbols_are_all_used_and_say_where_they_come_from():
    e = evaluate(scenario(ASCEND, kernel__recurrence="without_rank1_update"))
    unfolding = unfolded_prefill(e.machine.prefill_pass(e.prefill_shares[0]))
    used = set().union(*(names_in(f.expression) for f in unfolding.formulas.values()))
    assert set(unfolding.symbols) == used - {"6"}
    assert all(symbol.path or symbol.source for symbol in unfolding.symbols.values())
    left_out = unfolding.symbols["t_rank1"]
    assert (float(left_out.value), "left out" in left_out.meaning) == (0.0, True)


# Fewer collectives -------------------------------------------------------------------------------


@pytest.mark.parametrize(("reduces", "calls"), [(2, 129), (1, 65), (0, 1)])
def test_collectives_a_layer_set_the_calls_of_a_pass_and_a_step(reduces, calls):
    e = evaluate(scenario(ASCEND, plan__slices=1, hardware__all_reduces_per_layer=reduces))
    prefill = times(e.prefill_stage.terms, "busy_seconds")
    assert prefill["collectives_fixed"] == pytest.approx(calls * 0.404e-3)
    assert times(e.decode_stage.terms)["collectives_fixed"] == pytest.approx(calls * 0.404e-3)
    profile = e.machine.synced_profile(e.prefill_shares[0]).phases
    one = 1.848e-3 + 4096 * 5120 * 2 / 22.73e9
    assert float(profile["tp_all_reduce"]) == pytest.approx(calls * one, rel=1e-9)


@given(st.integers(1, 9000), st.integers(1, 16), st.integers(0, 2), st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_the_replay_is_the_closed_form_with_fewer_collectives(rows, slices, reduces, pp):
    changes = {
        "plan.slices": slices,
        "hardware.all_reduces_per_layer": reduces,
        "plan.pp_prefill": pp,
    }
    e = evaluate(scenario(ASCEND, workload__prompt_tokens=rows).replacing(changes))
    one = e.machine.prefill_pass(e.prefill_shares[0])
    closed = float(one.stage().seconds - e.machine.work(one.work.share, one.work.tp)
                   .hand_over(one.rows, e.inputs.pp_prefill).seconds)  # fmt: skip
    assert one.replay().seconds == pytest.approx(closed, rel=1e-9)


def test_what_remains_of_one_collective_a_layer_is_the_mlps():
    e = evaluate(scenario(ASCEND, hardware__all_reduces_per_layer=1))
    one = e.machine.prefill_pass(e.prefill_shares[0])
    for kind in ("linear_attention", "full_attention"):
        mixer, mlp = (step for step in one.layer_steps[kind] if isinstance(step, Site))
        assert (float(mixer.slices), float(mixer.issue_seconds)) == (1.0, 0.0)
        assert float(mixer.device_seconds) == float(mixer.gemm_seconds)
        assert mlp.name == "mlp.down"
        assert float(mlp.slices) == 4.0


def test_collectives_broadcast_and_fewer_never_take_longer():
    counts = np.asarray([0, 1, 2])
    s = scenario(ASCEND)
    together = evaluate(s.replacing({"hardware.all_reduces_per_layer": counts}))
    for stage in ("prefill_stage", "decode_stage"):
        alone = [
            float(
                getattr(evaluate(s.replacing({"hardware.all_reduces_per_layer": n})), stage).seconds
            )
            for n in counts.tolist()
        ]
        assert getattr(together, stage).seconds.tolist() == pytest.approx(alone)
        assert alone == sorted(alone)


def test_a_chip_document_written_before_the_number_existed_still_opens():
    base = scenario(ASCEND)
    chip = base.chip_document()
    older = {k: v for k, v in chip.quantities.items() if k != "all_reduces_per_layer"}
    own = Chip.model_validate({**chip.model_dump(by_alias=True), "quantities": older})
    document = {**base.to_json(), "chip": own.model_dump(mode="json", by_alias=True)}
    opened = evaluate(parse_scenario(document))
    assert float(opened.prefill_stage.seconds) == float(evaluate(base).prefill_stage.seconds)
    assert unfolded_prefill(opened.machine.prefill_pass(opened.prefill_shares[0])).formulas


# Limits ------------------------------------------------------------------------------------------


def limits(**changes):
    found = evaluate(scenario(ASCEND, **changes)).machine.limits()
    return {limit.name: limit for limit in found}


def test_streams_end_at_the_hbm_bandwidth():
    found = limits()
    assert float(found["weight_stream_bytes_per_second"].value) == 1148e9
    # A ring sends 2 (TP - 1) / TP payloads a card.
    assert float(found["link_bandwidth_bytes_per_second"].value) == pytest.approx(1148e9 / 1.5)
    assert all(found[name].most for name in found if "bytes_per_second" in name)
    twice = limits(hardware__hbm_bandwidth_bytes_per_second=2296e9)
    assert float(twice["weight_stream_bytes_per_second"].value) == 2296e9


def test_products_end_at_the_peak():
    """4 x 110.592 TMAC/s on 24.35 G weights of 64 layers."""
    layers = 26.893e9 - 2 * 248320 * 5120
    least = layers / 64 / 4 / 110.592e12
    found = limits()["projection_seconds_per_row_layer"]
    assert float(found.value) == pytest.approx(least, rel=1e-3)
    assert (found.reason, found.most) == ("FP16 peak", False)
    # One row reads all weights: then memory is the limit.
    alone = limits(workload__prompt_tokens=1)["projection_seconds_per_row_layer"]
    assert float(alone.value) == pytest.approx(layers / 64 / 4 * 2 / 1148e9, rel=1e-3)
    assert alone.reason == "HBM bandwidth"


def test_the_present_numbers_keep_their_limits():
    s = scenario(ASCEND)
    for limit in evaluate(s).machine.limits():
        now = 1.0 if limit.name.endswith("*") else float(s.value(f"hardware.{limit.name}"))
        assert (now <= limit.value) if limit.most else (now >= limit.value), limit.name


# What runs and what to set -----------------------------------------------------------------------


def deployed(**changes):
    return evaluate(scenario(ASCEND, **changes)).machine.deployment()["notes"]


def test_constants_compiled_into_the_engine_are_no_settings():
    (_, note) = deployed(plan__min_rows_per_slice=512)
    assert "kMinRowsPerOverlapSlice = 1024 is compiled into" in note
    # A forced count does not ask the rule.
    assert not any("kMinRows" in n for n in deployed(plan__min_rows_per_slice=512, plan__slices=4))
    (_, note) = deployed(kernel__recurrence="without_both")
    assert "without broadcast_rows and its rank-1 update is no setting" in note
    assert "not the model's output" in note
    (_, note) = deployed(hardware__collective_fixed_seconds=1e-4)
    assert note.endswith("nothing sets on the machine: collective_fixed_seconds.")
    assert len(deployed(hardware__collective_fixed_seconds=0.000404)) == 1
    (_, note) = deployed(precision__kv="int8")
    assert "int8" in note


@pytest.mark.parametrize(
    ("rows", "slices", "words"),
    [
        (512, "rule", "If it pins, a pass of this prompt runs in 4 slices instead of 1"),
        (2048, "rule", "If it pins, a pass of this prompt runs in 4 slices instead of 2"),
        (4096, "rule", ""),
        (512, 4, "If it is a ceiling, a pass of this prompt runs in 1 instead of 4 slices"),
        (4096, 4, ""),
        (4096, 1, ""),
        (512, 8, ""),
    ],
)
def test_where_the_reports_two_readings_of_the_setting_differ_that_is_said(rows, slices, words):
    notes = deployed(workload__prompt_tokens=rows, plan__slices=slices)
    told = [note for note in notes if "QWEN_COMM_OVERLAP_SLICES" in note]
    assert len(told) == (1 if words else 0)
    assert all(words in note for note in told)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"plan__slices": 8, "workload__prompt_tokens": 512}, "fewer than 96 of these rows"),
        ({"plan__slices": 64, "workload__prompt_tokens": 10}, "fewer than 96 of these rows"),
        ({"plan__slices": 4, "plan__tp_prefill": 1, "plan__tp_decode": 1}, "One card has nothing"),
        ({"plan__slices": 4}, ""),
        ({"plan__slices": 1}, ""),
        ({"workload__prompt_tokens": 10}, ""),
    ],
)
def test_slices_that_do_not_run_are_remarked_on(changes, words):
    remarks = evaluate(scenario(ASCEND, **changes)).machine.remarks()
    assert len(remarks) == (1 if words else 0)
    assert all(words in remark for remark in remarks)
