"""What the tour in the README says, computed anew."""

from __future__ import annotations

from explorer.chips.inputs import Inputs
from explorer.chips.mechanisms import paper_tile
from explorer.chips.mt3000 import Mt3000
from explorer.config.links import preset_scenario
from explorer.config.units import human, significant
from explorer.costs.memory import STORAGE_BYTES
from explorer.costs.product_levers import doubled
from explorer.costs.tile_search import Product
from explorer.plots.slices import slice_sweep
from explorer.plots.tornado import percent
from explorer.search.best_plan import best_plan
from explorer.search.certificate import certify
from explorer.search.fewest import fewest_clusters
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN, THROUGHPUT
from explorer.search.robustness import interval
from explorer.search.sensitivity import hardware_sensitivity, strongest
from explorer.search.space import default_space
from explorer.serving.evaluate import evaluate
from explorer.serving.targets import solve
from explorer.ui.inside_blocking import FIRST, PAPER_ROWS
from explorer.ui.targets import shown

MT3000, SMALL, ASCEND = "mt3000-llama2-13b@1", "mt3000-llama2-7b@1", "ascend910a-qwen3.8-27b@1"
ROWS, TARGET = 3000, 2000.0


def tour_figures() -> dict[str, str]:
    """Return every figure of the tour as the pages write it, by a name."""
    return {**_overview(), **_search(), **_blocking(), **_slices(), **_target()}


def _overview() -> dict[str, str]:
    scenario = preset_scenario(MT3000)
    found = strongest(hardware_sensitivity(scenario, THROUGHPUT))
    assert found is not None
    open_ = interval(scenario, THROUGHPUT)
    return {
        "throughput": human(float(evaluate(scenario).objective("throughput")), "tokens/s"),
        "twice the bandwidth": percent(found[0].change(found[1])),
        "low": human(open_.low, "tokens/s"),
        "high": human(open_.high, "tokens/s"),
    }


def _search() -> dict[str, str]:
    scenario = preset_scenario(MT3000)
    space = default_space(scenario)
    proof = certify(space, CLUSTER_SECONDS_PER_TOKEN)
    assert proof.own is not None
    best = best_plan(space, CLUSTER_SECONDS_PER_TOKEN)
    assert best.scenario is not None
    assert best.value == proof.optimum
    delivered = evaluate(best.scenario)
    open_ = interval(best.scenario, THROUGHPUT)
    return {
        "plans": f"{proof.enumerated:,}",
        "feasible": f"{proof.feasible:,}",
        "rank": f"{proof.own.rank:,}",
        "best": human(best.value),
        "best throughput": human(float(delivered.objective("throughput")), "tokens/s"),
        "best low": human(open_.low, "tokens/s"),
        "best high": human(open_.high, "tokens/s"),
    }


def _blocking() -> dict[str, str]:
    machine = Mt3000.of(Inputs(preset_scenario(SMALL)))
    cluster = machine.cluster_at("fp32", STORAGE_BYTES["fp32"])
    product: Product = FIRST
    found = {item.name: item for item in doubled(product, cluster, paper_tile(machine, PAPER_ROWS))}
    assert next(iter(found)) == "memory bandwidth"
    return {
        f"{name} {what}": text
        for name in ("memory bandwidth", "GSM")
        for what, text in (
            ("time", human(found[name].new_tile_seconds, "s")),
            ("gain", f"{significant(100 * found[name].gain)} % less"),
        )
    }


def _slices() -> dict[str, str]:
    scenario = preset_scenario(ASCEND).replacing({"workload.prompt_tokens": ROWS})
    sweep = slice_sweep(scenario)
    best = sweep.best
    return {
        "slices": human(float(best.slices), "slices"),
        "slices rate": f"{significant(best.rows_per_second)} tokens/s",
    }


def _target() -> dict[str, str]:
    scenario = preset_scenario(ASCEND).replacing({"workload.prompt_tokens": ROWS})
    solution = solve(scenario, "prefill", TARGET, pairs=False)
    least = solution.alone[0]
    return {
        "rate": significant(solution.rate),
        "least": least.label,
        "from": shown(least, least.now),
        "to": shown(least, least.needed),
        "count": str(len(solution.alone)),
        "clusters": f"{fewest_clusters(preset_scenario(MT3000), TARGET).clusters} clusters",
    }
