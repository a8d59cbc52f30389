"""The result of a search as its document ``explorer.search/1`` and as text."""

from __future__ import annotations

import math
from typing import Any

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.search.bound import Bound
from explorer.search.certificate import Certificate
from explorer.search.comparison import Comparison, Curve
from explorer.search.nearest import Nearest, nearest_plan
from explorer.search.objectives import Objective
from explorer.search.proof import Proof, best_known, better_plan
from explorer.search.staged import on_the_machine_of, staged_plan
from explorer.search.study import SearchResult
from explorer.search.verdict import at_most, plans, verdict
from explorer.serving.evaluate import evaluate
from explorer.serving.report import evaluation_document

SEARCH_SCHEMA = "explorer.search/1"


def search_document(
    scenario: Scenario,
    result: SearchResult,
    proof: Proof | None = None,
    study: dict[str, Any] | None = None,
    comparison: Comparison | None = None,
) -> dict[str, Any]:
    """Return the result of a search as JSON values.

    Args:
        scenario: what was searched around.
        result: of the study.
        proof: the certificate or bound, where one was asked for.
        study: tells of a stored one.
        comparison: of the samplers, where one was asked for.
    """
    objective = result.objective.on(scenario.chip_document().unit_name)
    nearest = nearest_plan(scenario) if result.best is None else None
    return {
        "schema": SEARCH_SCHEMA,
        "best": _plan(result.best),
        "objective": objective.name,
        "objective_unit": objective.unit,
        "value": _finite(result.best_value),
        "plans": result.space.size,
        "trials": result.trials,
        "feasible_trials": result.feasible_trials,
        "distinct_plans": result.distinct_plans,
        "seconds": result.seconds,
        "study": study,
        "sampler": {"name": result.sampler.sampler.name, "why": result.sampler.why},
        "solved_exactly": list(result.solved_exactly),
        "violations": result.excluded,
        "certificate": None if proof is None else _proof(proof, result),
        "verdict": verdict(proof, result.best_value) or None,
        "nearest": None if nearest is None else _nearest(nearest),
        "staged": _staged(scenario, objective, result, proof),
        "comparison": None if comparison is None else _comparison(comparison),
    }


def search_text(document: dict[str, Any]) -> str:
    """Return the result of a search as text, the answer first."""
    if document["best"] is None:
        return "\n".join(_nothing(document))
    unit = document["objective_unit"]
    plan = document["best"]["scenario"]["plan"]
    pool = document["best"]["evaluation"]["pool"]
    lines = [f"best {document['objective']}: {human(document['value'], unit)}"]
    if document["verdict"]:
        lines.append(f"  {document['verdict']}")
    lines += [
        f"  throughput {human(pool['throughput_tokens_per_second'], 'tokens/s')}, "
        f"{human(float(pool['pools']), 'pools')} of {pool['clusters']}, "
        f"{pool['idle_clusters']} idle, limited by {pool['bottleneck']}",
        "  " + " ".join(f"{name}={value}" for name, value in plan.items()),
        *(f"  {name}={value}" for name, value in document["best"]["scenario"]["hardware"].items()),
        f"  {document['trials']} trials by {document['sampler']['name']} "
        f"({document['sampler']['why']}), {document['feasible_trials']} feasible, "
        f"{document['distinct_plans']} distinct, of {plans(document['plans'])}",
    ]
    if document["solved_exactly"]:
        lines.append(f"  solved exactly in each trial: {', '.join(document['solved_exactly'])}")
    study = document["study"]
    if study is not None:
        lines.append(
            f"  study {study['name']}, {study['trials_here']} of its trials by this process"
        )
    lines += [f"  note: {note}" for note in document["best"]["evaluation"]["notes"]]
    lines += _of_certificate(document)
    lines += _of_staged(document)
    lines += _of_comparison(document)
    return "\n".join(lines)


def _plan(scenario: Scenario | None) -> Any:
    if scenario is None:
        return None
    pinned = scenario.pinned()
    return {
        "scenario": pinned.to_json(),
        "evaluation": evaluation_document(evaluate(pinned)),
    }


def _proof(proof: Proof, result: SearchResult) -> dict[str, Any]:
    better = better_plan(proof, result.best_value)
    found = None
    if better is not None:
        found = {**_plan(better), "value": _finite(best_known(proof)[1])}
    body = _bound(proof) if isinstance(proof, Bound) else _certificate(proof)
    gap = _finite(proof.gap(result.best_value))
    return {**body, "gap": gap, "seconds": proof.seconds, "better_plan": found}


def _certificate(proof: Certificate) -> dict[str, Any]:
    own = proof.own
    return {
        "optimum": _finite(proof.optimum),
        "plan": proof.plan,
        "enumerated": proof.enumerated,
        "feasible": proof.feasible,
        "ties": proof.ties,
        "complete": proof.complete,
        "violations": proof.excluded,
        "own_plan": None
        if own is None
        else {"value": own.value, "rank": own.rank, "better": own.better, "equal": own.equal},
    }


def _bound(proof: Bound) -> dict[str, Any]:
    return {
        "bound": _finite(proof.bound),
        "closed": proof.closed,
        "plans": proof.space.size,
        "open_plans": proof.open_plans,
        "enumerated": proof.enumerated,
        "cells": proof.cells,
    }


def _nearest(nearest: Nearest) -> dict[str, Any]:
    return {
        **_plan(nearest.scenario),
        "feasible": nearest.feasible,
        "moved": [vars(moved) for moved in nearest.moved],
        "messages": list(nearest.messages),
    }


def _staged(
    scenario: Scenario, objective: Objective, result: SearchResult, proof: Proof | None
) -> dict[str, Any] | None:
    """Return the staged plan with its loss against the best plan known, as a fraction of that."""
    best, reached = result.best, result.best_value
    if proof is not None and better_plan(proof, reached) is not None:
        best, reached = best_known(proof)
    staged = staged_plan(on_the_machine_of(best, scenario, result.space)).scenario
    if staged is None:
        return None
    value = float(evaluate(staged).objective(objective.name))
    return {
        **_plan(staged),
        "value": _finite(value),
        "loss": _finite(objective.gap(value, reached)),
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "floor": _finite(comparison.floor),
        "exact": isinstance(comparison.proof, Certificate)
        or (comparison.proof is not None and comparison.proof.closed),
        "left_out": list(comparison.left_out),
        "studies": [_study(comparison, curve) for curve in comparison.curves],
    }


def _study(comparison: Comparison, curve: Curve) -> dict[str, Any]:
    arrival = comparison.arrival(curve)
    return {
        "sampler": curve.sampler,
        "plain": curve.plain,
        "value": _finite(curve.best_value),
        "gap": _finite(comparison.gap(curve)),
        "trials": curve.trials,
        "distinct_plans": curve.distinct_plans,
        "solved_exactly": list(curve.solved_exactly),
        "within_1_percent_at": None if arrival is None else vars(arrival),
        "seconds": _finite(curve.seconds),
        "best_so_far": [vars(point) for point in curve.points],
    }


def _of_certificate(document: dict[str, Any]) -> list[str]:
    certificate, unit = document["certificate"], document["objective_unit"]
    if certificate is None:
        return []
    lines = []
    better = certificate["better_plan"]
    if better is not None:
        plan = " ".join(f"{k}={v}" for k, v in better["scenario"]["plan"].items())
        lines.append(f"  the proof met a better plan, {human(better['value'], unit)}: {plan}")
        lines += [f"    {k}={v}" for k, v in better["scenario"]["hardware"].items()]
    if "own_plan" in certificate:
        lines.append(_of_own(certificate, unit))
    else:
        left = certificate["open_plans"]
        lines.append(
            f"  {human(certificate['cells'], 'parts')} of the space looked at in "
            f"{human(certificate['seconds'], 's')}; "
            f"{plans(left) if left else 'none'} left to rule out"
        )
    return lines


def _of_own(certificate: dict[str, Any], unit: str) -> str:
    own = certificate["own_plan"]
    if own is None:
        return "  the scenario's own plan has no rank: it does not fit, or is of another batch"
    return (
        f"  the scenario's own plan, {human(own['value'], unit)}, is number {own['rank']:,} of "
        f"{certificate['feasible']:,} feasible: {own['better']:,} are better"
    )


def _of_staged(document: dict[str, Any]) -> list[str]:
    staged = document["staged"]
    if staged is None or staged["value"] is None:
        return []
    reached = human(staged["value"], document["objective_unit"])
    if not staged["loss"]:
        return [f"  the staged procedure reaches {reached}, no worse than the best plan known"]
    lost = at_most(100 * staged["loss"])
    return [f"  the staged procedure reaches {reached}, {lost} % worse than the best plan known"]


def _of_comparison(document: dict[str, Any]) -> list[str]:
    comparison, unit = document["comparison"], document["objective_unit"]
    if comparison is None:
        return []
    lines = [
        "",
        f"  {'sampler':<18}{'best':>24}{'from the floor':>16}{'1 % at trial':>14}"
        f"{'distinct':>10}{'time':>10}",
    ]
    for study in comparison["studies"]:
        name = f"{study['sampler']}{' alone' if study['plain'] else ''}"
        gap = "–" if study["gap"] is None else f"{significant(100 * study['gap'])} %"
        arrival = study["within_1_percent_at"]
        trial = "never" if arrival is None else f"{arrival['trial']}"
        lines.append(
            f"  {name:<18}{human(study['value'], unit):>24}{gap:>16}{trial:>14}"
            f"{study['distinct_plans']:>10}{human(study['seconds'], 's'):>10}"
        )
    kind = "the certified optimum" if comparison["exact"] else "a proved bound"
    if comparison["floor"] is not None:
        lines.append(f"  the floor is {kind}, {human(comparison['floor'], unit)}")
    lines += [f"  left out: {reason}" for reason in comparison["left_out"]]
    return lines


def _nothing(document: dict[str, Any]) -> list[str]:
    """Return why nothing fits: what excludes most, and the nearest plan that fits."""
    certificate = document["certificate"] or {}
    counts, tried, number = document["violations"], "trials", document["trials"]
    if certificate.get("violations"):
        counts, tried = certificate["violations"], "plans"
        number = certificate["enumerated"]
    broken = [(name, n) for name, n in sorted(counts.items(), key=lambda item: -item[1]) if n]
    lines = [f"no feasible plan in {number:,} {tried}"]
    if certificate.get("closed"):
        lines = [f"no feasible plan, proved over {plans(certificate['plans'])}"]
    if broken:
        lines.append(f"  most are excluded by {broken[0][0]}: {broken[0][1]:,} of {number:,}")
        rest = ", ".join(f"{name} {count:,}" for name, count in broken[1:])
        lines += [f"  also broken: {rest}"] if rest else []
    nearest = document["nearest"]
    moved = ", ".join(f"{m['path']} {m['before']} -> {m['after']}" for m in nearest["moved"])
    if nearest["feasible"]:
        lines.append(f"  the nearest plan that fits: {moved or 'the scenario as it is'}")
    else:
        lines.append(f"  no plan of this model fits; closest: {moved or 'the scenario as it is'}")
        lines += [f"    {message}" for message in nearest["messages"]]
    return lines


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
