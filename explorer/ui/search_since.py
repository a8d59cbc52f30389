"""What the Search page holds otherwise than when its search was started."""

from __future__ import annotations

from explorer.config.budget import BUDGET
from explorer.config.errors import InputError
from explorer.config.scenario import Scenario, knob_at, paths_of
from explorer.search.job import JobStatus, SearchJob
from explorer.search.objectives import Objective
from explorer.search.space import BUFFER, DP_PREFILL, Space, default_space
from explorer.ui import state
from explorer.ui.search_answer import machine_and_model, plan_value, searched_beside
from explorer.ui.search_controls import BUDGET_LABEL, chosen, listed, sampler_name
from explorer.ui.text import plain

DECIDING = ("precision", "plan", "kernel", "workload", "limits", "measured", "hardware")
"""Sections of a scenario on which the best plan may depend: not on how the pools are simulated."""
MOST_MOVES = 3


def belongs_elsewhere(
    job: SearchJob, status: JobStatus, asked: Scenario, objective: Objective
) -> str:
    """Return what a result is of where that is not what the page now asks; else nothing.

    Args:
        job: the search.
        status: what is known of it.
        asked: the scenario that it was started for.
        objective: what the page now asks for, in the words of the chip on the sliders.
    """
    searched = job.settings.objective
    moved = moves(job, status.best, asked)
    settings = _other_settings(job, status.best, asked)
    parts = [moved] if moved else []
    if searched.name != objective.name:
        parts.append(f"the objective is now **{objective.label}**")
    if settings:
        parts.append("the settings below have changed since")
    if not parts:
        return ""
    label = searched.on(asked.chip_document().unit_name).label
    result = "This result is" if status.finished else "This search is"
    lead = f"{result} of **{machine_and_model(asked)}**, for **{label}**; {', and '.join(parts)}"
    if not settings:
        return f"{lead}. {_what_next()}"
    lines = "".join(f"\n- {line}" for line in settings)
    return f"{lead}:\n{lines}\n\nStarting again uses the new ones. {_what_next()}"


def moves(job: SearchJob, found: Scenario | None, asked: Scenario) -> str:
    """Return what the sliders hold beside a plan that the search left as it was; or nothing.

    Args:
        job: the search.
        found: the best plan; where the sliders hold it, nothing has moved.
        asked: the scenario that the search was started for.
    """
    now = state.scenario()
    if now == found:
        return ""
    if not same_machine(asked, now):
        other = machine_and_model(now)
        same_names = " with other numbers" if other == machine_and_model(asked) else ""
        return f"the sliders now hold **{other}**{same_names}"
    free = _searched(job, asked)
    moved = [
        path
        for path in paths_of(asked)
        if path.partition(".")[0] in DECIDING
        and path not in free
        and asked.value(path) != now.value(path)
    ]
    words = [_move(asked, now, path) for path in moved[:MOST_MOVES]]
    if len(moved) > MOST_MOVES:
        words.append(f"{len(moved) - MOST_MOVES} more")
    return f"the sliders have moved since: {', '.join(words)}" if words else ""


def other_effort(job: SearchJob) -> str:
    """Return how hard the page now asks to search where a search was begun otherwise; or nothing.

    That changes no plan's rank, only how surely the best one is found and proved.
    """
    try:
        wanted, _, proof = chosen()
    except InputError:
        return ""
    had, proved = job.settings, job.proof_settings
    pairs = (
        ("Trials", f"{had.trials:,}", f"{wanted.trials:,}"),
        ("Seed", str(had.seed), str(wanted.seed)),
        ("Sampler", sampler_name(had.sampler), sampler_name(wanted.sampler)),
        (
            "Plans evaluated one by one",
            f"{proved.enumerate_up_to:,}",
            f"{proof.enumerate_up_to:,}",
        ),
        ("Seconds to tighten a bound", f"{proved.bound_seconds:g}", f"{proof.bound_seconds:g}"),
    )
    return ", ".join(
        plain(f"{name} {before} → {after}") for name, before, after in pairs if before != after
    )


def same_machine(one: Scenario, other: Scenario) -> bool:
    """Return whether two scenarios are of one chip and model."""
    return (one.chip, one.model, one.versions) == (other.chip, other.model, other.versions)


def _what_next() -> str:
    """Say what the line above a result of other things is for, and whether a search finds that."""
    try:
        space = chosen()[1]
    except InputError:
        return "The line above is for the sliders as they are now, with every plan allowed."
    if space == default_space(state.scenario()):
        return "The line above is for what the page holds now; a new search finds that plan."
    return (
        "The line above is for the sliders as they are now, with every plan allowed; a new search "
        "looks among those that the settings below leave."
    )


def _other_settings(job: SearchJob, found: Scenario | None, asked: Scenario) -> list[str]:
    """Return each setting whose values are searched otherwise now, in words, old and new.

    Where the page looks is told for the scenario that the search was started for: what else has
    moved since is said in its own words. The range around a number of the machine follows the
    slider, but not to the plan that was found.
    """
    now = state.scenario()
    if not same_machine(asked, now) or asked.plan.placement != now.plan.placement:
        return []
    followed = {
        path: now.value(path)
        for path in searched_beside(job)
        if found is None or now.value(path) != found.value(path)
    }
    try:
        space, present = chosen(asked.replacing(followed))[1], chosen()[1]
    except InputError:
        return []
    paths = dict.fromkeys(axis.paths[0] for axis in (*space.axes, *job.space.axes))
    return [
        f"**{_name(asked, path)}**: {plain(_where(job.space, path))} → "
        f"{plain(_where(present, path))}"
        for path in paths
        if job.space.candidates(path) != space.candidates(path)
    ]


def _where(space: Space, path: str) -> str:
    """Return which values of a setting are searched, or at which one it is kept."""
    knob, axis = knob_at(space.base, path), space.axis(path)
    unit = "" if knob is None else knob.shown_unit
    if axis is None:
        return f"kept at {plan_value(space.base.value(path), unit)}"
    texts = [plan_value(value, unit) for value in axis.values]
    if not path.startswith("hardware."):
        # Counts have one unit, said once; sizes and rates of a machine may differ in theirs.
        texts[:-1] = [plan_value(value, "") for value in axis.values[:-1]]
    return f"searched: {listed(texts)}"


def _searched(job: SearchJob, asked: Scenario) -> tuple[str, ...]:
    """Return the paths whose values on the sliders do not change what the best plan is."""
    if job.settings.objective.fixes_batch:
        return ()
    sized = (
        path for path in (BUFFER, DP_PREFILL) if job.space.base.value(path) != asked.value(path)
    )
    return (*(path for axis in job.space.axes for path in axis.paths), *sized)


def _move(asked: Scenario, now: Scenario, path: str) -> str:
    knob = knob_at(asked, path)
    unit = "" if knob is None else knob.shown_unit
    values = (asked.value(path), now.value(path))
    before, after = ("none" if value is None else plan_value(value, unit) for value in values)
    return f"{_name(asked, path)} {plain(before)} → {plain(after)}"


def _name(scenario: Scenario, path: str) -> str:
    if path == BUDGET:
        return BUDGET_LABEL
    knob = knob_at(scenario, path)
    return plain(path if knob is None else knob.label)
