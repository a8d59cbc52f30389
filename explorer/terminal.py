"""Results as text for a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from explorer.config.presets import ScenarioPreset
from explorer.config.scenario import parse_scenario
from explorer.config.units import human

MOST_TERMS = 6
LINES_OF_PROGRESS = 10


def progress_lines(what: str) -> Callable[[int, int], None]:
    """Return a function that is told how far long work is, and prints a few lines on stderr."""
    shown = 0

    def progress(done: int, whole: int) -> None:
        nonlocal shown
        if done * LINES_OF_PROGRESS >= (shown + 1) * whole:
            shown = done * LINES_OF_PROGRESS // whole
            print(f"{done:,} of {whole:,} {what}", file=sys.stderr)

    return progress


def presets_text(presets: Sequence[ScenarioPreset]) -> str:
    """Return the presets, one block each."""
    return "\n".join(
        f"{preset.id}@{preset.version}\n    {preset.title}. {preset.why}" for preset in presets
    )


def evaluation_text(document: dict[str, Any]) -> str:
    """Return an export document as a page of text, the answer first."""
    scenario, evaluation = document["scenario"], document["evaluation"]
    pool, latency = evaluation["pool"], evaluation["latency"]
    unit = parse_scenario(scenario).chip_document().unit_name
    lines = [scenario["name"], ""]
    if evaluation["feasible"]:
        lines += [
            f"  throughput      {human(pool['throughput_tokens_per_second'], 'tokens/s')}",
            f"  first token     {human(latency['ttft_seconds'], 's')}",
            f"  each token      {human(latency['tpot_seconds'], 's')}",
            f"  limited by      {pool['bottleneck']}",
        ]
    else:
        lines += ["  does not fit:"]
        lines += [f"    {violation['message']}" for violation in evaluation["violations"]]
    lines += [
        f"  pools           {pool['pools']} of {human(pool['clusters'], f'{unit}s')} each, "
        f"{pool['idle_clusters']} idle",
        *(_memory_line(name, evaluation["memory"][name]) for name in ("prefill", "decode")),
    ]
    lines += [f"  note            {note}" for note in evaluation["notes"]]
    for name, title in (("prefill", "T_p"), ("decode", "T_d")):
        lines += _terms(title, name, evaluation["stages"])
    return "\n".join(lines)


def _memory_line(name: str, memory: dict[str, Any]) -> str:
    total, limit = human(memory["total_bytes"], "B"), human(memory["limit_bytes"], "B")
    return f"  {name} memory".ljust(18) + f"{total} of {limit}"


def _terms(title: str, name: str, stages: dict[str, Any]) -> list[str]:
    if stages[f"{name}_seconds"] is None:
        return []
    terms = sorted(stages[f"{name}_terms"], key=lambda term: -term["seconds"])
    shown, rest = terms[:MOST_TERMS], terms[MOST_TERMS:]
    lines = ["", f"  {title} ({name} of one batch) {human(stages[f'{name}_seconds'], 's')}"]
    lines += [
        f"    {term['name']:<20}{human(term['seconds'], 's'):>10}  {term['bound_by']}"
        for term in shown
    ]
    if rest:
        seconds = sum(term["seconds"] for term in rest)
        lines.append(f"    {'the rest':<20}{human(seconds, 's'):>10}")
    return lines
