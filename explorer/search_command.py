"""The ``search`` command: options, progress on stderr, and its document."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from explorer import pareto_command, storage_options
from explorer.config.errors import InputError, refuse
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.search.certificate import Certificate, certify
from explorer.search.objectives import OBJECTIVES, objective_named
from explorer.search.samplers import AUTO, SAMPLERS
from explorer.search.space import Space, default_space, varied_space
from explorer.search.staged import staged_plan
from explorer.search.studies import begin_or_resume
from explorer.search.study import SearchResult, SearchSettings, TrialReport, search
from explorer.search.vary import parse_varied
from explorer.serving.evaluate import evaluate
from explorer.serving.export import export_document
from explorer.serving.report import evaluation_document

SEARCH_SCHEMA = "explorer.search/1"
LINES_OF_PROGRESS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search."""
    defaults = SearchSettings()
    parser.add_argument(
        "--objective",
        default=defaults.objective.name,
        metavar="O",
        help=f"one of {', '.join(OBJECTIVES)}",
    )
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="PATH=LO:HI[:STEP]",
        help="search over these values only; may be repeated. Without it, over the whole plan",
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="PATH",
        help="keep the scenario's value of a plan field; may be repeated",
    )
    parser.add_argument("--trials", type=int, default=defaults.trials, metavar="N")
    parser.add_argument(
        "--sampler", default=defaults.sampler, help=f"one of {', '.join((AUTO, *SAMPLERS))}"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, metavar="N")
    parser.add_argument(
        "--certify", action="store_true", help="also enumerate all plans and state the gap"
    )
    pareto_command.add_option(parser)
    parser.add_argument("--out", metavar="FILE", help="write the best plan's export to a file")
    storage_options.add_options(parser)


def run(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Run the search that the options describe; return its document and its text.

    Raises:
        InputError: when an option is not accepted or the file cannot be written.
    """
    if options.pareto is not None:
        return pareto_command.run(chosen_space(scenario, options), options)
    settings = SearchSettings(
        objective_named(options.objective), options.trials, options.seed, options.sampler
    )
    space = chosen_space(scenario, options)
    out = None if options.out is None else _writable(options.out)
    storage = storage_options.opened(options)
    study = None
    if storage is None:
        result = search(space, settings, trial_progress(options.trials))
    else:
        result, study = storage_options.take_part(
            storage,
            lambda: begin_or_resume(storage, options.study, space, settings),
            trial_progress,
        )
    certificate = None
    if options.certify:
        certificate = certify(space, settings.objective, _block_progress())
    document = search_document(scenario, result, certificate, study)
    if out is not None and result.best is not None:
        _write(out, export_document(result.best))
    return document, search_text(document)


def chosen_space(scenario: Scenario, options: argparse.Namespace) -> Space:
    """Return the plans that ``--vary`` and ``--pin`` leave; raises InputError."""
    if options.vary and options.pin:
        raise refuse("--pin", "", "everything that --vary does not name is kept; give only one")
    if options.vary:
        return varied_space(scenario, parse_varied(scenario, options.vary))
    return default_space(scenario, frozenset(options.pin))


def search_document(
    scenario: Scenario,
    result: SearchResult,
    certificate: Certificate | None,
    study: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the result of a search as JSON values; ``study`` tells of a stored one."""
    staged = staged_plan(scenario).scenario
    objective = result.objective
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
        "solved_exactly": list(result.solved_exactly),
        "violations": result.excluded,
        "certificate": None if certificate is None else _certificate(certificate, result),
        "staged": None
        if staged is None
        else {**_plan(staged), "value": _finite(float(evaluate(staged).objective(objective.name)))},
    }


def search_text(document: dict[str, Any]) -> str:
    """Return the result of a search as text, the answer first."""
    unit = document["objective_unit"]
    if document["best"] is None:
        counts = sorted(document["violations"].items(), key=lambda item: -item[1])
        broken = ", ".join(f"{name} {count}" for name, count in counts if count)
        return f"no feasible plan in {document['trials']} trials; constraints broken: {broken}"
    plan = document["best"]["scenario"]["plan"]
    pool = document["best"]["evaluation"]["pool"]
    lines = [
        f"best {document['objective']}: {human(document['value'], unit)}",
        f"  throughput {human(pool['throughput_tokens_per_second'], 'tokens/s')}, "
        f"{pool['pools']} pools of {pool['clusters']}, {pool['idle_clusters']} idle, "
        f"limited by {pool['bottleneck']}",
        "  " + " ".join(f"{name}={value}" for name, value in plan.items()),
        f"  {document['trials']} trials, {document['feasible_trials']} feasible, of "
        f"{document['plans']:,} plans",
    ]
    study = document["study"]
    if study is not None:
        lines.append(
            f"  study {study['name']}, {study['trials_here']} of its trials by this process"
        )
    lines += [f"  note: {note}" for note in document["best"]["evaluation"]["notes"]]
    certificate = document["certificate"]
    if certificate is not None and certificate["gap"] is not None:
        proved = f"proved over {certificate['enumerated']:,} plans"
        gap = certificate["gap"]
        verdict = "optimal" if gap == 0 else f"{significant(100 * gap)} % from the optimum"
        lines.append(f"  {verdict}, {proved}, {certificate['feasible']:,} feasible")
    if document["staged"] is not None and document["staged"]["value"] is not None:
        lines.append(f"  the staged procedure reaches {human(document['staged']['value'], unit)}")
    return "\n".join(lines)


def _plan(scenario: Scenario | None) -> Any:
    if scenario is None:
        return None
    pinned = scenario.pinned()
    return {
        "scenario": pinned.to_json(),
        "evaluation": evaluation_document(evaluate(pinned)),
    }


def _certificate(certificate: Certificate, result: SearchResult) -> dict[str, Any]:
    return {
        "optimum": _finite(certificate.optimum),
        "plan": certificate.plan,
        "enumerated": certificate.enumerated,
        "feasible": certificate.feasible,
        "ties": certificate.ties,
        "gap": _finite(certificate.gap(result.best_value)),
        "violations": certificate.excluded,
        "seconds": certificate.seconds,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def trial_progress(trials: int) -> Callable[[TrialReport], None]:
    """Return what prints how far a search has come, some twenty times in all."""
    every = max(trials // LINES_OF_PROGRESS, 1)

    def progress(report: TrialReport) -> None:
        if (report.number + 1) % every == 0:
            best = significant(report.best_value) if report.best is not None else "none yet"
            print(f"trial {report.number + 1}/{trials}, best {best}", file=sys.stderr)

    return progress


def _block_progress() -> Callable[[int, int], None]:
    shown = 0

    def progress(done: int, whole: int) -> None:
        nonlocal shown
        if done * LINES_OF_PROGRESS >= (shown + 1) * whole:
            shown = done * LINES_OF_PROGRESS // whole
            print(f"enumerated {done:,} of {whole:,} plans", file=sys.stderr)

    return progress


def _writable(path: str) -> Path:
    """Return the path of a file that can be written, known before a long search begins."""
    try:
        with Path(path).open("a", encoding="utf-8"):
            return Path(path)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def _write(path: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise _cannot_write(str(path), error) from None


def _cannot_write(path: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or "not a usable path"
    return refuse("--out", path, f"cannot be written: {reason}")
