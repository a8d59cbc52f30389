"""How much a plan carries: the largest rate that holds, and the fewest clusters for a rate."""

from __future__ import annotations

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.search.certificate import Progress, Stopped
from explorer.serving.capacity import (
    RATE_PATH,
    LargestRate,
    LeastClusters,
    largest_rate,
    least_clusters,
)
from explorer.serving.evaluate import evaluate
from explorer.serving.simulation_plan import SimulationPlan
from explorer.ui import state
from explorer.ui.background import Prepared, fingerprint_of, offered
from explorer.ui.folded import folded
from explorer.ui.pipeline_run import watched


def rates_section(scenario: Scenario) -> None:
    """Show both searches, when the part is open; each runs when it is asked for.

    An answer belongs to the scenario that it was asked for, and is offered again for another.
    """
    unit = scenario.chip_document().unit_name
    with folded(f"What rate does it carry, and with how few {unit}s?", "rates") as is_open:
        if not is_open:
            return
        if scenario.simulation.arrivals == "saturated":
            st.markdown("Arrivals that all wait at the start have no rate; choose another kind.")
            return
        st.caption(
            "Memory, queue and limits must hold. Limits on the first and on each further token are "
            "above; without any, only the queue and the memory count."
        )
        asked = fingerprint_of(scenario)
        largest: LargestRate | None = offered(
            "largest_rate", asked, "Find the largest rate", _prepare_largest, "requests simulated"
        )
        if largest is not None:
            _largest(largest)
        least: LeastClusters | None = offered(
            "least_clusters",
            asked,
            f"Find the fewest {unit}s for the {human(_rate(scenario), 'requests/s')} asked for",
            _prepare_least,
            "requests simulated",
        )
        if least is not None:
            _least(least)


def _prepare_largest() -> Prepared:
    scenario = state.scenario()

    def work(progress: Progress, stopped: Stopped) -> LargestRate:
        return largest_rate(scenario, reader=watched(progress, stopped))

    return fingerprint_of(scenario), work


def _prepare_least() -> Prepared:
    scenario = state.scenario()
    rate = _rate(scenario)

    def work(progress: Progress, stopped: Stopped) -> LeastClusters:
        return least_clusters(scenario, rate, reader=watched(progress, stopped))

    return fingerprint_of(scenario), work


def _rate(scenario: Scenario) -> float:
    return SimulationPlan(scenario, evaluate(scenario), None).rate


def _largest(found: LargestRate) -> None:
    runs = human(float(len(found.probes)), "runs")
    capacity = human(found.capacity_requests_per_second, "requests/s")
    rate = found.rate_requests_per_second
    if rate is None:
        st.markdown(
            f"**No rate holds**, from the steady state's {capacity} down to "
            f"{human(found.fails_requests_per_second, 'requests/s')}: the limits are out of reach."
        )
        return
    share = significant(100 * rate / found.capacity_requests_per_second)
    above = (
        f"; at {human(found.fails_requests_per_second, 'requests/s')} it does not hold"
        if found.fails_requests_per_second is not None
        else ""
    )
    st.markdown(
        f"The largest rate that holds is **{human(rate, 'requests/s')}**, {share} % of the steady "
        f"state's {capacity}{above}. ({runs}.)"
    )
    st.button("Set this rate", key="set_rate", on_click=state.apply, args=({RATE_PATH: rate},))


def _least(found: LeastClusters) -> None:
    runs = human(float(len(found.probes)), "runs")
    rate = human(found.rate_requests_per_second, "requests/s")
    best = found.best
    if best is None or found.scenario is None:
        st.markdown(f"**No number of pools was found that holds at {rate}.**")
        return
    unit = found.scenario.chip_document().unit_name
    st.markdown(
        f"At {rate} **{human(float(best.clusters or 0), f'{unit}s')}** are the least that hold: "
        f"{human(float(best.pools or 0), 'pools')} of {best.clusters_per_pool}, with "
        f"{human(float(best.dp_prefill), 'prefill pipelines')} each. The steady state alone would "
        f"need {human(float(best.least_pools), 'pools')}. ({runs}.)"
    )
    st.button(
        "Put this on the sliders",
        key="set_clusters",
        on_click=state.replace,
        args=(found.scenario,),
    )
