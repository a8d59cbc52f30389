"""The ``search`` command: options, progress on stderr, and the files that it writes."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from explorer import pareto_command, storage_options
from explorer.config.budget import BUDGET
from explorer.config.errors import refuse
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.outfile import check_writable, json_text, write_text
from explorer.search.bound import BoundReport
from explorer.search.certificate import estimated_seconds
from explorer.search.comparison import compare
from explorer.search.objectives import OBJECTIVES, Objective, objective_named
from explorer.search.proof import (
    Proof,
    ProofSettings,
    better_plan,
    enumerates,
    plans_to_prove,
    prove_best,
)
from explorer.search.samplers import AUTO, SAMPLERS
from explorer.search.space import Space, default_space, varied_space
from explorer.search.studies import begin_or_resume
from explorer.search.study import SearchResult, SearchSettings, TrialReport, search
from explorer.search.vary import parse_varied
from explorer.search.verdict import plans
from explorer.search_report import search_document, search_text
from explorer.serving.export import export_document
from explorer.terminal import progress_lines

LINES_OF_PROGRESS = 20
SECONDS_BETWEEN_LINES = 2.0


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
        "--whole-plan",
        action="store_true",
        help="search over the whole plan as well as what --vary names",
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="PATH",
        help="keep the scenario's value of a plan field; may be repeated",
    )
    parser.add_argument(
        "--budget",
        metavar="TEXT",
        help='bound across the machine, such as "2 * hardware.gsm_bytes + hardware.memory_bytes '
        "<= 4\"; each number counts in units of the chip's own",
    )
    parser.add_argument("--trials", type=int, default=defaults.trials, metavar="N")
    parser.add_argument(
        "--sampler", default=defaults.sampler, help=f"one of {', '.join((AUTO, *SAMPLERS))}"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, metavar="N")
    _add_proof_options(parser)
    pareto_command.add_option(parser)
    parser.add_argument("--out", metavar="FILE", help="write the best plan's export to a file")
    storage_options.add_options(parser)


def _add_proof_options(parser: argparse.ArgumentParser) -> None:
    defaults = ProofSettings()
    parser.add_argument(
        "--certify",
        action="store_true",
        help="also prove how good the best plan is: evaluate every plan, or bound too many",
    )
    parser.add_argument(
        "--enumerate-up-to",
        type=int,
        default=defaults.enumerate_up_to,
        metavar="PLANS",
        help=f"larger spaces are bounded (default {defaults.enumerate_up_to:,})",
    )
    parser.add_argument(
        "--bound-seconds",
        type=float,
        default=defaults.bound_seconds,
        metavar="S",
        help=f"how long a bound is tightened (default {defaults.bound_seconds:g})",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also run every sampler with the same trials, and one without solved axes",
    )


def run(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Run the search that the options describe; return its document and its text.

    Raises:
        InputError: when an option is not accepted or the file cannot be written.
    """
    if options.budget is not None:
        scenario = scenario.replacing({BUDGET: options.budget})
    if options.pareto is not None:
        return pareto_command.run(chosen_space(scenario, options), options)
    settings = SearchSettings(
        objective_named(options.objective), options.trials, options.seed, options.sampler
    )
    how = ProofSettings(options.enumerate_up_to, options.bound_seconds)
    space = chosen_space(scenario, options)
    if options.out is not None:
        check_writable(options.out)
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
    proof = _proved(space, settings.objective, how, scenario, result) if options.certify else None
    comparison = None
    if options.compare:
        comparison = compare(space, settings, how, proof, progress_lines("trials"))
    document = search_document(scenario, result, proof, study, comparison)
    best = better_plan(proof, result.best_value) or result.best
    if options.out is not None and best is not None:
        write_text(options.out, json_text(export_document(best)))
    return document, search_text(document)


def _proved(
    space: Space,
    objective: Objective,
    how: ProofSettings,
    scenario: Scenario,
    result: SearchResult,
) -> Proof:
    """Return the proof of a search, said beforehand how long it takes."""
    size = plans_to_prove(space, objective)
    if enumerates(space, objective, how):
        words = f"enumerating {plans(size)}, about {human(estimated_seconds(result.space), 's')}"
    else:
        most = plans(how.enumerate_up_to)
        words = f"{plans(size)}, more than the {most} that are enumerated: bounding them"
    print(words, file=sys.stderr)
    return prove_best(
        space,
        objective,
        how,
        start=result.best,
        on_block=progress_lines("plans enumerated"),
        on_cell=_cell_progress(objective),
        compared=scenario,
    )


def chosen_space(scenario: Scenario, options: argparse.Namespace) -> Space:
    """Return the plans that ``--vary`` and ``--pin`` leave; raises InputError."""
    if options.vary and not options.whole_plan:
        if options.pin:
            accepted = (
                "everything that --vary does not name is kept; give only one, or --whole-plan"
            )
            raise refuse("--pin", "", accepted)
        return varied_space(scenario, parse_varied(scenario, options.vary))
    vary = parse_varied(scenario, options.vary)
    both = [path for path in options.pin if path in vary]
    if both:
        raise refuse("--pin", both[0], "is varied too; expected one of both")
    return default_space(scenario, frozenset(options.pin), vary)


def trial_progress(trials: int) -> Callable[[TrialReport], None]:
    """Return what prints how far a search has come, some twenty times in all."""
    every = max(trials // LINES_OF_PROGRESS, 1)

    def progress(report: TrialReport) -> None:
        if (report.number + 1) % every == 0:
            best = significant(report.best_value) if report.best is not None else "none yet"
            print(f"trial {report.number + 1}/{trials}, best {best}", file=sys.stderr)

    return progress


def _cell_progress(objective: Objective) -> Callable[[BoundReport], None]:
    """Return what prints how far a bound has come, once in a while."""
    said = time.monotonic()

    def progress(report: BoundReport) -> None:
        nonlocal said
        if time.monotonic() - said >= SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            bound = human(report.bound, objective.unit)
            left = plans(report.open_plans)
            print(f"none is better than {bound}; {left} left to rule out", file=sys.stderr)

    return progress
