"""Sentences of the attribution page: who owns the pass, in either view, and where owners change."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.comparable import passes_of
from explorer.plots.attribution import (
    PHASE_WORDS,
    Crossing,
    Profile,
    crossings,
    synced_and_running,
    synced_now,
)
from explorer.plots.style import lowered, words
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.slice_study import rows_of_a_pass
from explorer.serving.stages import pass_seconds, slowest_stage_words

MOST_CROSSINGS = 4
LARGEST_TOLD = 3


def owner_sentence(scenario: Scenario) -> str:
    """Return which term of one running prefill pass is the largest, and the two after it."""
    evaluation = evaluate(scenario)
    stage = evaluation.prefill_stage
    told = _largest({words(t.name): float(t.seconds) for t in stage.terms}, float(stage.seconds))
    return (
        f"Of {_what(evaluation)} {rows_words(scenario)}{_which(evaluation)}, "
        f"{human(float(stage.seconds), 's')}, the largest part is {told}.{_through(evaluation)}"
    )


def synced_owner_sentence(scenario: Scenario) -> str:
    """Return which phase of the device-synced, serial pass is the largest, and two after it."""
    profile = synced_now(scenario)
    if profile is None:
        return owner_sentence(scenario)
    evaluation, whole = evaluate(scenario), float(profile.whole[0])
    phases = {PHASE_WORDS[name]: float(part[0]) for name, part in profile.seconds.items()}
    return (
        f"Of the stack of {_what(evaluation)} {rows_words(scenario)}{_which(evaluation)} that "
        f"drains the device at every scope, {human(whole, 's')}, the largest part is "
        f"{_largest(phases, whole)}."
    )


def crossing_sentence(profile: Profile) -> str:
    """Return who is largest at both ends, and where the largest phases cross."""
    ends = []
    for place in (0, -1):
        name = max(profile.seconds, key=lambda item: float(profile.seconds[item][place]))
        share = significant(100 * float(profile.share(name)[place]))
        rows = human(float(profile.rows[place]), "rows")
        ends.append(f"at {rows} {PHASE_WORDS[name]} ({share} %)")
    met = [item for item in crossings(profile) if not _minor(item)]
    told = "; ".join(
        f"{PHASE_WORDS[item.larger]} above {PHASE_WORDS[item.smaller]} from {item.rows:,} rows"
        for item in met[:MOST_CROSSINGS]
    )
    tail = f" Crossings: {told}." if told else " No two of the large phases cross between."
    return f"Largest: {', '.join(ends)}.{tail}"


def synced_sentence(scenario: Scenario) -> str:
    """Return by how much a device-synced pass is longer than the same serial pass as it runs."""
    walls = synced_and_running(scenario)
    if walls is None:
        return ""
    synced, running = walls
    lead, rows = "**Synced against running.**", rows_words(scenario)
    lengths = [int(r.conditions["rows"]) for r in passes_of(scenario) if r.quantity == "phase_time"]
    if synced < running:
        shortest = f"its shortest pass had {min(lengths):,} rows, and " if lengths else ""
        return (
            f"{lead} The profile says nothing of {rows}: {shortest}carried on to these it would be "
            "shorter than the pass as it runs, which cannot be."
        )
    what = "the serial pass" if int(scenario.plan.pp_prefill) == 1 else "that stage, serial,"
    return (
        f"{lead} At {rows} {what} takes {human(synced, 's')} when every scope drains the device, "
        f"and {human(running, 's')} as it runs: {human(synced - running, 's')} of the profile is "
        "issue and drain that the running pass hides. The profile's slopes hold for the running "
        "pass, its fixed terms do not."
    )


def rows_words(scenario: Scenario) -> str:
    """Return the rows of the scenario's own pass."""
    return human(float(rows_of_a_pass(scenario)), "rows")


def _largest(seconds: Mapping[str, float], whole: float) -> str:
    """Return the largest part in bold, and the two after it."""
    ordered = sorted(seconds.items(), key=lambda item: -item[1])[:LARGEST_TOLD]
    (name, most), *rest = [(lowered(name), part) for name, part in ordered]
    after = " and ".join(
        f"{other} {human(part, 's')} ({significant(100 * part / whole)} %)"
        for other, part in rest
        if part > 0
    )
    tail = f"; then {after}" if after else ""
    return f"**{name}: {human(most, 's')}, {significant(100 * most / whole)} %**{tail}"


def _what(evaluation: Evaluation) -> str:
    several = int(evaluation.inputs.pp_prefill) > 1
    return "the slowest stage of a prefill pass of" if several else "a prefill pass of"


def _which(evaluation: Evaluation) -> str:
    stage = slowest_stage_words(evaluation)
    return f" ({stage})" if stage else ""


def _through(evaluation: Evaluation) -> str:
    """Return how long a pass takes through all stages of a pipeline."""
    stages = int(evaluation.inputs.pp_prefill)
    if stages == 1:
        return ""
    return (
        f" The pass through all {stages} stages, each taken to be as long, is "
        f"{human(pass_seconds(evaluation), 's')}."
    )


def _minor(crossing: Crossing) -> bool:
    return "norms" in (crossing.larger, crossing.smaller)
