"""Plans a second: one plan at a time and whole spaces at once, against bare numpy.

The bare pass is handed stage times and memory masks ready-made on their own axes and does what is
left on all of them, in the same blocks: clusters, the longer of both pools' times, the objective,
feasibility, the least value and the counts. Its speed is the floor that numpy itself sets.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from explorer.config.links import preset_scenario
from explorer.search.certificate import Block, Blocks, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import MICRO_BATCH_DECODE, MICRO_BATCH_PREFILL, Space, default_space
from explorer.serving.evaluate import evaluate
from tests.benchmarks.measuring import Row, in_turns
from tests.scenarios import MT3000

SINGLE_PLANS = (10, 100, 1000)
PINNED = ({MICRO_BATCH_DECODE, MICRO_BATCH_PREFILL}, {MICRO_BATCH_DECODE}, frozenset[str]())
"""What is kept in spaces of 1, 10 and 100 times as many plans."""

Parts = tuple[np.ndarray, ...]


def rows(quick: bool) -> list[Row]:
    """Return what one plan costs alone and among millions."""
    rounds = 2 if quick else 7
    return [_alone(SINGLE_PLANS[: 2 if quick else 3], rounds), _at_once(rounds)]


def ready(block: Block) -> Parts:
    """Return what depends on some axes only, and the masks of all but the clusters."""
    e = evaluate(block.scenario)
    masks = sorted(
        (c.kept for c in e.constraints if c.name != "clusters"), key=lambda mask: mask.size
    )
    pipelines = e.inputs.dp_prefill * (e.inputs.pp_prefill * e.inputs.tp_prefill)
    decode = e.inputs.tp_decode * e.inputs.pp_decode + e.buffer_clusters
    total = e.inputs.array("workload.clusters_total")
    return (
        pipelines,
        decode,
        e.prefill_seconds,
        e.inputs.dp_prefill,
        e.decode_seconds,
        e.batch_tokens,
        total,
        *masks,
    )


def bare_pass(parts: Parts) -> tuple[float, int]:
    """Return the least value of the feasible plans, and how many there are."""
    pipelines, decode, prefill_seconds, dp, decode_seconds, tokens, total, *masks = parts
    clusters = pipelines + decode
    feasible = clusters <= total
    for mask in masks:
        feasible = feasible & mask
    count = int(np.count_nonzero(feasible))
    if not count:
        return np.nan, 0
    seconds = np.maximum(prefill_seconds / dp, decode_seconds)
    value = np.where(feasible, (clusters / tokens) * seconds, np.nan)
    return float(np.nanmin(value)), count


def spaces() -> list[Space]:
    """Return the default space of a preset with axes pinned: 1, 10 and 100 times as many plans."""
    base = preset_scenario(MT3000)
    return [default_space(base, frozenset(pinned)) for pinned in PINNED]


def _alone(counts: tuple[int, ...], rounds: int) -> Row:
    base = preset_scenario(MT3000)
    choices = product((1, 2, 4, 8), (1, 2, 5, 10, 20), range(1, 51))
    plans = [
        base.replacing({"plan.tp_decode": tp, "plan.pp_decode": pp, "plan.dp_prefill": dp})
        for tp, pp, dp in choices
    ]
    floors = [ready(Block(plan, ())) for plan in plans[: counts[-1]]]

    def evaluated(count: int) -> None:
        for plan in plans[:count]:
            evaluate(plan).objective(CLUSTER_SECONDS_PER_TOKEN.name)

    works = {str(count): lambda count=count: evaluated(count) for count in counts}
    taken = in_turns(works | {"floor": lambda: [bare_pass(parts) for parts in floors]}, rounds)
    most = counts[-1]
    seconds = taken[str(most)]
    return Row(
        "evaluation",
        "one plan at a time",
        f"{most / seconds:,.0f} plans/s",
        "bare numpy, the same plans",
        seconds / taken["floor"],
        counts,
        tuple(taken[str(count)] for count in counts),
    )


def _at_once(rounds: int) -> Row:
    chosen = spaces()
    floors = [ready(block) for block in Blocks(chosen[-1])]
    works = {
        str(space.size): lambda space=space: certify(space, CLUSTER_SECONDS_PER_TOKEN)
        for space in chosen
    }
    taken = in_turns(works | {"floor": lambda: [bare_pass(parts) for parts in floors]}, rounds)
    most = chosen[-1].size
    return Row(
        "evaluation",
        f"{most:,} plans at once",
        f"{most / taken[str(most)] / 1e6:.1f} million plans/s",
        "bare numpy, the final combination",
        taken[str(most)] / taken["floor"],
        tuple(space.size for space in chosen),
        tuple(taken[str(space.size)] for space in chosen),
    )
