"""``search --pareto``: the plans that no other plan beats in several measures."""

from __future__ import annotations

import argparse
import math
from typing import Any

from explorer.search.fitting import never_kept
from explorer.search.front_text import row_texts
from explorer.search.genetic import GENETIC_SAMPLERS, approximate_front
from explorer.search.measures import MEASURES, measures_named
from explorer.search.pareto import LARGEST_ENUMERATED, ParetoFront, pareto_front
from explorer.search.space import Space
from explorer.terminal import progress_lines

PARETO_SCHEMA = "explorer.pareto/1"
MOST_LINES = 40


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that asks for a front in place of one best plan."""
    parser.add_argument(
        "--pareto",
        metavar="MEASURES",
        help=f"print every plan that no other beats in 2 to 4 of {', '.join(MEASURES)}, such as "
        "throughput,ttft",
    )


def run(space: Space, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the document and the text of a front.

    Exact up to 2,000,000,000 plans; beyond, NSGA-II or NSGA-III tries as many as asked for.

    Raises:
        InputError: when the measures or an option are not accepted.
    """
    names = [name.strip() for name in options.pareto.split(",")]
    measures = measures_named(names, space.base)
    if space.size <= LARGEST_ENUMERATED:
        front = pareto_front(space, measures, progress_lines("plans"))
    else:
        sampler = options.sampler if options.sampler in GENETIC_SAMPLERS else GENETIC_SAMPLERS[0]
        front = approximate_front(
            space, measures, options.trials, options.seed, sampler, progress_lines("trials")
        )
    document = pareto_document(front)
    return document, pareto_text(front)


def pareto_document(front: ParetoFront) -> dict[str, Any]:
    """Return a front as JSON values."""
    names = [measure.name for measure in front.measures]
    return {
        "schema": PARETO_SCHEMA,
        "measures": [
            {"name": m.name, "unit": m.unit, "direction": m.direction} for m in front.measures
        ],
        "exact": front.exact,
        "sampler": front.sampler or None,
        "plans": front.space.size,
        "looked_at": front.looked_at,
        "feasible": front.feasible,
        "seconds": front.seconds,
        "points": [
            {
                "figures": dict(zip(names, map(_finite, point.figures), strict=True)),
                "plan": front.space.plan(point.values),
            }
            for point in front.points
        ],
    }


def pareto_text(front: ParetoFront) -> str:
    """Return a front as a table, the answer first."""
    if not front.points:
        broken = ", ".join(never_kept(front.space))
        return f"no feasible plan{f'; none keeps: {broken}' if broken else ''}"
    how = "exact" if front.exact else f"approximate, {front.sampler}: other plans may beat these"
    lines = [
        f"{len(front.points)} plans that no other beats ({how}), of {front.feasible:,} feasible "
        f"among {front.looked_at:,}",
        "  " + "".join(f"{measure.name:>18}" for measure in front.measures) + "  plan",
    ]
    for place, point in enumerate(front.points[:MOST_LINES]):
        figures = "".join(f"{text:>18}" for text in row_texts(front, place))
        plan = front.space.plan(point.values).items()
        settings = " ".join(f"{path.partition('.')[2]}={value}" for path, value in plan)
        lines.append(f"  {figures}  {settings}")
    if len(front.points) > MOST_LINES:
        lines.append(f"  and {len(front.points) - MOST_LINES:,} more; --json prints all")
    return "\n".join(lines)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
