"""Trials a second of a search, against a plain Optuna study whose objective is trivial.

The plain study has the same sampler, seed, trials and parameters, and adds up its parameters: what
is left is what Optuna takes by itself. TPE looks at all trials before it proposes one, so that
both grow faster than the number of trials.
"""

from __future__ import annotations

from optuna.samplers import TPESampler

from explorer.config.links import preset_scenario
from explorer.search.quiet import quiet_study, suggested_index
from explorer.search.space import Space, default_space
from explorer.search.study import SearchSettings, search
from tests.benchmarks.measuring import Row, in_turns
from tests.scenarios import MT3000

TRIALS = (10, 100, 1000)
QUICK_TRIALS = (20, 60)
SAMPLER = "tpe"


def rows(quick: bool) -> list[Row]:
    """Return what a search costs as it is, and by its sampler alone."""
    space = default_space(preset_scenario(MT3000))
    counts = QUICK_TRIALS if quick else TRIALS
    most = counts[-1]
    kinds = {"search": False, "search, TPE alone": True}
    works = {"floor": lambda: _plain_optuna(space, most)}
    for kind, plain in kinds.items():
        for count in counts:
            settings = SearchSettings(trials=count, sampler=SAMPLER, plain=plain)
            works[f"{kind} {count}"] = lambda settings=settings: search(space, settings)
    taken = in_turns(works, 1 if quick else 2)
    return [
        Row(
            "search",
            f"{most:,} trials, {kind}",
            f"{most / taken[f'{kind} {most}']:.0f} trials/s",
            "Optuna, trivial objective",
            taken[f"{kind} {most}"] / taken["floor"],
            counts,
            tuple(taken[f"{kind} {count}"] for count in counts),
        )
        for kind in kinds
    ]


def _plain_optuna(space: Space, trials: int) -> None:
    study = quiet_study([True], TPESampler(seed=0))
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, float(sum(suggested_index(trial, axis) for axis in space.axes)))
