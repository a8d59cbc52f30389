"""The ``simulate`` command: a service in time, the largest rate that holds, the fewest clusters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from explorer.config.errors import InputError, refuse
from explorer.config.links import apply_texts
from explorer.config.scenario import Scenario
from explorer.config.simulation import SIMULATION_WORDS
from explorer.config.units import human, significant
from explorer.outfile import whole_file
from explorer.serving.capacity import LargestRate, LeastClusters, largest_rate, least_clusters
from explorer.serving.constraints import Constraint
from explorer.serving.report import violation_message
from explorer.serving.request_rows import RowWriter
from explorer.serving.simulation import simulate
from explorer.serving.simulation_plan import misfits
from explorer.serving.simulation_report import (
    largest_rate_document,
    least_clusters_document,
    misfit_document,
    simulation_document,
)
from explorer.serving.simulation_results import RowReader
from explorer.serving.trace import read_trace, require_context

OPTION_PATHS = {
    "requests": "simulation.requests",
    "rate": "simulation.rate_requests_per_second",
    "arrivals": "simulation.arrivals",
    "policy": "simulation.policy",
    "seed": "simulation.seed",
}
OF_ARRIVALS = ("requests", "rate", "arrivals", "seed")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a simulation."""
    parser.add_argument("--requests", metavar="N", help="how many requests arrive, or auto")
    parser.add_argument(
        "--rate", metavar="R", help="requests a second, or auto: 80 %% of the steady state"
    )
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="requests from a CSV file: arrival_seconds,prompt_tokens,output_tokens or "
        "TIMESTAMP,ContextTokens,GeneratedTokens",
    )
    for name in ("arrivals", "policy"):
        words = SIMULATION_WORDS[f"simulation.{name}"]
        parser.add_argument(f"--{name}", metavar="WORD", help=f"one of {', '.join(words)}")
    parser.add_argument("--seed", metavar="N", help="start of the random numbers")
    parser.add_argument("--csv", metavar="FILE", help="write a row for every finished request")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument(
        "--largest-rate", action="store_true", help="look for the largest rate that holds"
    )
    asked.add_argument(
        "--least-clusters",
        action="store_true",
        help="look for the fewest clusters that hold at --rate",
    )


def run(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the document and the text of the simulation that the options describe.

    Raises:
        InputError: for an option or a trace that is not accepted, or a file that cannot be
            written.
    """
    _refuse_pairs(options)
    scenario = _with_options(scenario, options)
    if options.largest_rate or options.least_clusters:
        return _search(scenario, options)
    trace = None if options.trace is None else read_trace(options.trace)
    if trace is not None:
        require_context(trace, int(scenario.workload.max_context_tokens))
    broken = misfits(scenario, trace is not None)
    if broken:
        return _misfit(broken)
    with _rows(options.csv) as reader:
        found = simulate(scenario, trace, reader=reader)
    document = simulation_document(scenario, found, trace)
    return document, simulation_text(scenario.name, document)


def _refuse_pairs(options: argparse.Namespace) -> None:
    if options.trace is not None:
        for name in OF_ARRIVALS:
            if getattr(options, name) is not None:
                raise refuse(f"--{name}", "", "a trace brings its own arrivals; give only one")
    for search in ("largest_rate", "least_clusters"):
        if getattr(options, search):
            flag = f"--{search.replace('_', '-')}"
            for name in ("trace", "csv"):
                if getattr(options, name) is not None:
                    raise refuse(f"--{name}", "", f"belongs to a single run; not with {flag}")
    if options.largest_rate and options.rate is not None:
        raise refuse("--rate", "", "is what --largest-rate looks for; give only one")
    if options.least_clusters and options.rate in (None, "auto"):
        raise refuse("--rate", "", "--least-clusters needs a number of requests a second")


def _with_options(scenario: Scenario, options: argparse.Namespace) -> Scenario:
    texts = {
        path: getattr(options, name)
        for name, path in OPTION_PATHS.items()
        if getattr(options, name) is not None
    }
    if options.rate is not None and scenario.simulation.arrivals == "saturated":
        # A rate asks for arrivals that have one.
        texts.setdefault("simulation.arrivals", "poisson")
    changed, problems = apply_texts(scenario, texts)
    if problems:
        raise InputError(problems)
    if options.rate is not None and changed.simulation.arrivals == "saturated":
        raise refuse("--rate", options.rate, "saturated arrivals have no rate; give only one")
    return changed


@contextmanager
def _rows(path: str | None) -> Iterator[RowReader | None]:
    """Open the file of rows, if one is asked for."""
    if path is None:
        yield None
        return
    with whole_file(path, "--csv", newline="") as file:
        yield RowWriter(file)


def _search(scenario: Scenario, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    broken = misfits(scenario)
    if options.least_clusters:
        # How many clusters there are is what is looked for.
        broken = tuple(constraint for constraint in broken if constraint.name != "clusters")
    if broken:
        return _misfit(broken)
    if options.least_clusters:
        rate = float(scenario.simulation.rate_requests_per_second)
        least = least_clusters(scenario, rate, _progress)
        text, served, found = least_clusters_text(least), least.scenario, least.simulation
        extra = {"least_clusters": least_clusters_document(least)}
    else:
        largest = largest_rate(scenario, _progress)
        text, served, found = largest_rate_text(largest), scenario, largest.simulation
        extra = {"largest_rate": largest_rate_document(largest)}
    if found is None or served is None:
        return misfit_document(()) | {"feasible": True} | extra, text
    document = simulation_document(served, found) | extra
    return document, f"{text}\n\n{simulation_text(scenario.name, document)}"


def _misfit(broken: tuple[Constraint, ...]) -> tuple[dict[str, Any], str]:
    lines = [f"  {violation_message(constraint)}" for constraint in broken]
    return misfit_document(broken), "\n".join(["this plan does not fit:", *lines])


def _progress(what: str) -> None:
    print(f"simulating {what}", file=sys.stderr)


def largest_rate_text(found: LargestRate) -> str:
    """Return a search for the largest rate as text, the answer first."""
    runs = human(float(len(found.probes)), "runs")
    capacity = human(found.capacity_requests_per_second, "requests/s")
    if found.rate_requests_per_second is None:
        least = human(found.fails_requests_per_second, "requests/s")
        return f"no rate holds: tried from {capacity}, the steady state, down to {least}"
    rate = human(found.rate_requests_per_second, "requests/s")
    share = significant(100 * found.rate_requests_per_second / found.capacity_requests_per_second)
    lines = [f"largest rate that holds: {rate}, {share} % of the steady state's {capacity}"]
    if found.fails_requests_per_second is not None:
        lines.append(f"  {human(found.fails_requests_per_second, 'requests/s')} does not hold")
    if found.simulation is not None:
        drawn = human(found.simulation.speed.offered_requests_per_second, "requests/s")
        lines.append(f"  its run below drew arrivals at {drawn}, as chance has it")
    return "\n".join([*lines, f"  {runs}"])


def least_clusters_text(found: LeastClusters) -> str:
    """Return a search for the fewest clusters as text, the answer first."""
    runs = human(float(len(found.probes)), "runs")
    rate = human(found.rate_requests_per_second, "requests/s")
    best = found.best
    if best is None:
        return f"no number of pools was found that holds at {rate} ({runs})"
    lines = [
        f"fewest clusters at {rate}: {best.clusters:,} = "
        f"{human(float(best.pools or 0), 'pools')} of "
        f"{best.clusters_per_pool}, {best.dp_prefill} prefill pipelines each",
        f"  the steady state alone would need {best.least_pools} pools; {runs}",
    ]
    for choice in found.choices:
        if choice.dp_prefill == best.dp_prefill:
            continue
        if choice.pools is None:
            bound = choice.least_pools * choice.clusters_per_pool
            words = f"at least {bound:,} clusters"
        else:
            words = f"{choice.clusters:,} clusters"
        lines.append(f"  with {choice.dp_prefill} prefill pipelines: {words}")
    return "\n".join(lines)


def simulation_text(name: str, document: dict[str, Any]) -> str:
    """Return a run as a page of text, the answer first."""
    lines = [name, "", *(f"  {sentence}" for sentence in document["verdict"]), ""]
    if document["throughput_tokens_per_second"] is not None:
        lines += _speed_lines(document)
    lines += _buffer_lines(document)
    lines += [
        f"  {place + ' caches':<16}peak {human(use['peak_bytes'], 'B')} of "
        f"{human(use['limit_bytes'], 'B')}"
        for place, use in document["memory"].items()
        if place != "buffer"
    ]
    lines += _stage_lines(document["stages"])
    pools = human(document["pools"], "pools")
    if document["simulated_pools"] != document["pools"]:
        pools = f"one of {pools}"
    span = human(document["seconds"], "s")
    lines.append(f"  simulated       {document['requests']:,} requests over {span}, {pools}")
    lines += [f"  note            {note}" for note in document["notes"]]
    return "\n".join(lines)


def _speed_lines(document: dict[str, Any]) -> list[str]:
    rate, unit = document["throughput_tokens_per_second"], "tokens/s"
    lines = [f"  throughput      {human(rate, unit)}"]
    for key, title in (("closed_form", "steady state"), ("eq21", "Eq. 21")):
        closed = document[f"{key}_tokens_per_second"]
        lines.append(f"  {title:<16}{human(closed, unit)}{_gap(document, key)}")
    for key, title in (
        ("ttft", "first token"),
        ("tpot", "each token"),
        ("end_to_end", "end to end"),
    ):
        times = document[f"{key}_seconds"]
        shown = ", ".join(f"{part} {human(times[part], 's')}" for part in ("p50", "p90", "p99"))
        lines.append(f"  {title:<16}{shown}")
    goodput = document["goodput"]
    if goodput is not None and (goodput["ttft_limit_seconds"] or goodput["tpot_limit_seconds"]):
        kept = human(goodput["attained_fraction"], "fraction")
        good = human(goodput["requests_per_second"], "requests/s")
        lines.append(f"  goodput         {good}, {kept} of the requests keep the limits")
    return lines


def _gap(document: dict[str, Any], key: str) -> str:
    """Return how far the simulated rate is from a closed form, where it is asked for all."""
    if document["arrivals"] != "saturated" and document["keeps_up"]:
        return " at most"
    return f", simulated {100 * document[f'{key}_gap']:+.1f} %".replace("-0.0", "+0.0")


def _buffer_lines(document: dict[str, Any]) -> list[str]:
    buffer = document["buffer"]
    if buffer is None:
        return []
    most = buffer["capacity_micro_batches"]
    capacity = "without a bound" if most is None else f"of {human(most)}"
    peak = f"{significant(buffer['peak_micro_batches'])} micro-batches {capacity}"
    held = f"peak {human(buffer['peak_bytes'], 'B')} of {human(buffer['limit_bytes'], 'B')}"
    paused = human(buffer["paused_seconds"], "s")
    share = human(buffer["paused_fraction"], "fraction")
    lines = [] if most == 0 else [f"  buffer          {held}; {peak}"]
    return [
        *lines,
        f"  prefill paused  {paused} a pipeline, {share} of the time",
    ]


def _stage_lines(stages: list[dict[str, Any]]) -> list[str]:
    lines = []
    for pool in dict.fromkeys(stage["pool"] for stage in stages):
        busy = [stage["busy_fraction"] for stage in stages if stage["pool"] == pool]
        blocked = [stage["blocked_fraction"] for stage in stages if stage["pool"] == pool]
        words = f"busy {human(sum(busy) / len(busy), 'fraction')}"
        if max(blocked) > 0:
            words += f", blocked {human(sum(blocked) / len(blocked), 'fraction')}"
        lines.append(f"  {f'{pool} stages':<16}{words} of the time")
    return lines
