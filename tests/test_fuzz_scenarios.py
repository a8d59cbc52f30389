"""Any scenario within the ranges: no error but the documented one, no NaN that nothing explains.

One example of an array test holds 256 scenarios. ``FUZZ_FACTOR`` multiplies the examples, and
``python -m tests.fuzz`` goes on for as long as it is told.
"""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer.config.files import scenario_from_json
from explorer.config.links import link_query, nearest_preset, open_link
from explorer.config.scenario import Scenario
from explorer.serving.comparison import Candidate, compare, comparison_csv, comparison_document
from explorer.serving.evaluate import OBJECTIVES, Evaluation, evaluate
from explorer.serving.explain import limit_sentence
from explorer.serving.export import export_document
from explorer.serving.notes import plan_notes
from explorer.serving.report import evaluation_document
from explorer.serving.simulation import simulate
from explorer.serving.simulation_report import simulation_document, verdict
from tests.fuzz import examples, many_scenarios, one_scenario, or_refused, single

COUNT = 256
MOST_SIMULATED = 200


def figures(evaluation: Evaluation) -> dict[str, np.ndarray]:
    found = {name: evaluation.unconstrained_objective(name) for name in OBJECTIVES}
    found |= {
        "prefill": evaluation.prefill_seconds,
        "decode": evaluation.decode_seconds,
        "ttft": evaluation.ttft_seconds,
        "batch": evaluation.batch_seconds,
        "prefill_bytes": evaluation.prefill_memory.total_bytes,
        "decode_bytes": evaluation.decode_memory.total_bytes,
        "clusters": evaluation.clusters,
        "idle": evaluation.idle_clusters,
    }
    return {name: np.broadcast_to(value, (COUNT,)) for name, value in found.items()}


@given(many_scenarios(COUNT))
@examples(130)
def test_every_figure_of_a_plan_that_fits_is_a_number_and_none_of_another_is(s: Scenario) -> None:
    """33,280 scenarios, every number anywhere in its range and at its ends."""
    evaluation = evaluate(s)
    fits = np.broadcast_to(evaluation.feasible, (COUNT,))
    for name, value in figures(evaluation).items():
        assert np.isfinite(value[fits]).all(), name
        assert (value[fits] >= 0).all(), name
    for name in OBJECTIVES:
        objective = np.broadcast_to(evaluation.objective(name), (COUNT,))
        assert (np.isnan(objective) == ~fits).all(), name
    for constraint in evaluation.constraints:
        assert not np.isnan(constraint.value).any(), constraint.name


@given(many_scenarios(COUNT), st.data())
@examples(60)
def test_one_of_many_is_the_same_alone(s: Scenario, data: st.DataObject) -> None:
    """Permuting the inputs permutes the outputs: each place depends on its own values only."""
    index = data.draw(st.integers(0, COUNT - 1))
    alone = evaluate(single(s, index))
    for name, value in figures(evaluate(s)).items():
        one = np.broadcast_to(figures(alone)[name], (COUNT,))[0]
        assert value[index] == one or (math.isnan(value[index]) and math.isnan(one)), name


@given(one_scenario())
@examples(250)
def test_documents_links_and_files_come_back_exactly(s: Scenario) -> None:
    evaluation = evaluate(s)
    document = evaluation_document(evaluation)
    json.dumps(document, allow_nan=False)
    limit = [limit_sentence(evaluation)] if evaluation.feasible else []
    for text in (*plan_notes(evaluation), *limit):
        assert "nan" not in text.lower().split()
        assert text.strip()
    exported = json.dumps(export_document(s), allow_nan=False)
    back = scenario_from_json(exported)
    assert back == s.pinned()
    assert evaluation_document(evaluate(back)) == document
    assert json.dumps(export_document(back), allow_nan=False) == exported
    query = or_refused(lambda: link_query(s, nearest_preset(s)))
    if query is not None:
        opened = open_link(f"?{query}", "mt3000-llama2-13b")
        assert not opened.problems
        assert opened.scenario == s


@given(st.lists(one_scenario(), min_size=2, max_size=4))
@examples(40)
def test_any_scenarios_stand_side_by_side(several: list[Scenario]) -> None:
    found = compare([Candidate(f"s{i}", s) for i, s in enumerate(several)])
    json.dumps(comparison_document(found), allow_nan=False)
    assert "nan" not in comparison_csv(found).lower()


@given(one_scenario(), st.integers(1, MOST_SIMULATED))
@examples(150)
def test_any_service_runs_in_time_or_says_why_not(s: Scenario, requests: int) -> None:
    few = s.replacing({"simulation.requests": requests})
    found = or_refused(lambda: simulate(few))
    if found is None:
        return
    assert found.requests == requests
    assert 0 < found.seconds < math.inf
    json.dumps(simulation_document(few, found), allow_nan=False)
    assert all(verdict(found))
