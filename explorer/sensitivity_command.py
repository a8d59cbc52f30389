"""The ``sensitivity`` command: what each slider is worth, what is left open, what matters."""

from __future__ import annotations

import argparse
import math
from typing import Any

from explorer.config.errors import refuse
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.search.importance import Importance, importance, sampled_importance
from explorer.search.objectives import OBJECTIVES, Objective, objective_named
from explorer.search.pareto import LARGEST_ENUMERATED
from explorer.search.regret import Regret, Rival, regret
from explorer.search.robustness import Interval, interval
from explorer.search.sensitivity import (
    Effect,
    Outcome,
    Sensitivity,
    followed_sensitivity,
    sensitivity,
)
from explorer.search.space import Space, default_space
from explorer.serving.evaluate import evaluate
from explorer.serving.report import why_not
from explorer.terminal import progress_lines

SENSITIVITY_SCHEMA = "explorer.sensitivity/1"
MOST_LINES = 20
TRIALS, SEED = 5000, 1
SIDES = ("low", "high", "below", "above")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a sensitivity."""
    searched = [name for name, objective in OBJECTIVES.items() if not objective.fixes_batch]
    parser.add_argument(
        "--objective", default="throughput", metavar="O", help=f"one of {', '.join(searched)}"
    )
    parser.add_argument(
        "--as-is",
        action="store_true",
        help="only the plan as it is: nothing is searched, which takes a moment only",
    )
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="PATH",
        help="keep the scenario's value of a plan field where the plan follows; may be repeated",
    )


def run(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the document and the text of everything that the answer depends on.

    Raises:
        InputError: when an option is not accepted.
    """
    objective = objective_named(options.objective)
    if objective.fixes_batch:
        raise refuse(
            "--objective",
            objective.name,
            "compares plans of one batch, and the best plan may have another; expected "
            + " or ".join(n for n, o in OBJECTIVES.items() if not o.fixes_batch),
        )
    objective = objective.on(scenario.chip_document().unit_name)
    space = default_space(scenario, frozenset(options.pin))
    as_is = sensitivity(scenario, objective)
    left_open = interval(scenario, objective)
    document: dict[str, Any] = {
        "schema": SENSITIVITY_SCHEMA,
        "objective": objective.name,
        "unit": objective.unit,
        "value": _finite(as_is.now),
        "why_not": why_not(evaluate(scenario)) or None,
        "best_value": None,
        "best_plan": None,
        "sliders": [_effect(effect) for effect in as_is.effects],
        "robustness": _interval(left_open),
        "regret": None,
        "importance": None,
    }
    text = _as_is_text(as_is, left_open, document["why_not"])
    if not options.as_is:
        text += "\n" + _searched(document, scenario, space, objective)
    return document, text


def _searched(
    document: dict[str, Any], scenario: Scenario, space: Space, objective: Objective
) -> str:
    """Add to a document what needs a search of plans; return it as text."""
    followed = followed_sensitivity(space, objective, progress=progress_lines("optimisations"))
    document["best_value"], document["best_plan"] = _finite(followed.now), followed.plan
    for slider in document["sliders"]:
        effect = followed.effect(slider["path"])
        slider["best_plan"] = None if effect is None else _moves(effect)
    lines = [_followed_text(followed)]
    if left_open := document["robustness"]["varied"]:
        judged = regret(scenario, space, objective, progress_lines("sets of constants"))
        document["regret"] = _regret(judged)
        lines.append(_regret_text(judged, left_open))
    if space.size <= LARGEST_ENUMERATED:
        shares = importance(space, objective, progress_lines("plans"))
    else:
        shares = sampled_importance(space, objective, TRIALS, SEED)
    document["importance"] = _importance(shares)
    lines.append(_importance_text(shares))
    return "\n".join(lines)


# Documents ------------------------------------------------------------------------------------


def _effect(effect: Effect) -> dict[str, Any]:
    slider = effect.slider
    return {
        "path": slider.path,
        "label": slider.label,
        "unit": slider.unit,
        "kind": slider.kind or None,
        "now": slider.now,
        "stated_range": slider.stated,
        **_moves(effect),
    }


def _moves(effect: Effect) -> dict[str, Any]:
    return {
        **{side: _outcome(effect, getattr(effect, side)) for side in SIDES},
        "elasticity": _finite(effect.elasticity),
        "elasticity_down": _finite(effect.elasticity_down),
        "elasticity_up": _finite(effect.elasticity_up),
        "stairs": effect.stairs,
    }


def _outcome(effect: Effect, outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {
        "setting": outcome.setting,
        "value": _finite(outcome.value),
        "change": _finite(effect.change(outcome)),
        "broken": list(outcome.broken),
        "plan": outcome.plan,
    }


def _interval(found: Interval) -> dict[str, Any]:
    return {
        "low": _finite(found.low),
        "high": _finite(found.high),
        "varied": len(found.varied),
        "corners": found.corners,
        "samples": found.samples,
        "monotone": found.monotone,
        "does_not_fit": found.unfit,
        "broken": list(found.unfit_because),
        "constants": [
            {
                "path": item.path,
                "now": item.now,
                "low": item.low,
                "high": item.high,
                "held": item.held or None,
            }
            for item in found.constants
        ],
    }


def _regret(found: Regret) -> dict[str, Any]:
    return {
        "sets_of_constants": found.points,
        "chosen": _rival(found, found.chosen),
        "safest": _rival(found, found.safest),
        "rivals": [_rival(found, rival) for rival in found.rivals],
        "worst_at": found.worst_at,
    }


def _rival(found: Regret, rival: Rival) -> dict[str, Any]:
    pairs = zip(found.space.axes, rival.values, strict=True)
    return {
        "plan": {path: value for axis, value in pairs for path in axis.paths},
        "best_at": rival.best_at,
        "worst": _finite(rival.worst),
        "mean": _finite(rival.mean),
        "does_not_fit": rival.unfit,
    }


def _importance(found: Importance) -> dict[str, Any]:
    return {
        "exact": found.exact,
        "method": "first-order shares of variance of the logarithm" if found.exact else "PED-ANOVA",
        "feasible": found.feasible,
        "looked_at": found.looked_at,
        "choices": [
            {"paths": list(item.axis.paths), "share": item.share, "close": list(item.close)}
            for item in found.axes
        ],
    }


# Text -----------------------------------------------------------------------------------------


def _as_is_text(as_is: Sensitivity, left_open: Interval, misfit: str | None) -> str:
    unit = as_is.objective.unit
    if misfit:
        return f"this plan does not fit: {misfit}"
    lines = [f"{as_is.objective.name} of this plan: {human(as_is.now, unit)}"]
    if left_open.varied and not math.isnan(left_open.low):
        unfit = f", does not fit at {left_open.unfit} of {left_open.points} points"
        lines.append(
            f"  assumed constants in their stated ranges: {human(left_open.low, unit)} to "
            f"{human(left_open.high, unit)}{unfit if left_open.unfit else ''}"
        )
    return "\n".join([*lines, *_table(as_is, "the plan as it is")])


def _followed_text(followed: Sensitivity) -> str:
    if math.isnan(followed.now):
        return "no plan fits"
    best = human(followed.now, followed.objective.unit)
    plan = " ".join(
        f"{path.partition('.')[2]}={value}" for path, value in (followed.plan or {}).items()
    )
    return "\n".join(
        [f"best plan: {best}", f"  {plan}", *_table(followed, "the best plan follows")]
    )


def _table(found: Sensitivity, title: str) -> list[str]:
    head = f"  {title:<44}{'half or low':>14}{'double or high':>16}{'elasticity':>12}"
    lines = [head]
    for effect in found.moving[:MOST_LINES]:
        low, high = (_change(effect, end) for end in (effect.low, effect.high))
        slope = "-" if math.isnan(effect.elasticity) else f"{effect.elasticity:+.3f}"
        stair = " stair" if effect.stairs else ""
        lines.append(f"    {effect.slider.path:<42}{low:>14}{high:>16}{slope:>12}{stair}")
    rest = len(found.moving) - MOST_LINES
    return [*lines, f"    and {rest} more with less effect"] if rest > 0 else lines


def _change(effect: Effect, outcome: Outcome | None) -> str:
    if outcome is None:
        return "-"
    change = effect.change(outcome)
    return "does not fit" if math.isnan(change) else f"{100 * change:+.1f} %"


def _regret_text(found: Regret, varied: int) -> str:
    own, safest = found.chosen, found.safest
    lead = f"regret over {found.points} sets of {varied} assumed constants"
    if math.isnan(own.worst):
        return f"{lead}: this plan fits at none"
    return (
        f"{lead}: at worst {significant(100 * own.worst)} %, on average "
        f"{significant(100 * own.mean)} %, best at {own.best_at}; the safest plan found loses at "
        f"worst {significant(100 * safest.worst)} %"
    )


def _importance_text(found: Importance) -> str:
    if not found.feasible:
        return "importance: no feasible plan"
    how = "shares of variance" if found.exact else "PED-ANOVA"
    shares = ", ".join(f"{i.axis.name} {significant(100 * i.share)} %" for i in found.axes)
    return f"importance ({how}, {found.feasible:,} feasible plans): {shares}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
