"""How many clusters or cards a throughput needs: looked for beside the page, and taken over."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from explorer.config.scenario import Scenario
from explorer.config.units import given, human, significant
from explorer.search.certificate import Progress, Stopped
from explorer.search.fewest import CLUSTERS, Fewest, fewest_clusters
from explorer.search.space import default_space
from explorer.ui import background, state

SECTION, PUT = "fewest", "fewest:put"


def section(scenario: Scenario, target: float, asked: Callable[[], float]) -> None:
    """Draw the search for the fewest clusters, and what it found.

    Args:
        scenario: what the sliders hold; no plan reaches the target on its clusters.
        target: output tokens of all pools a second.
        asked: gives the target again when a button is pressed.
    """
    unit = scenario.chip_document().unit_name

    def prepare() -> background.Prepared:
        there, wanted = state.scenario(), asked()

        def work(progress: Progress, stopped: Stopped) -> Fewest:
            return fewest_clusters(there, wanted, progress, stopped)

        return _fingerprint(there, wanted), work

    found: Fewest | None = background.offered(
        SECTION,
        _fingerprint(scenario, target),
        f"Find the fewest {unit}s that reach it",
        prepare,
        f"numbers of {unit}s",
    )
    if found is None:
        return
    st.markdown(fewest_sentence(found, target, unit))
    if found.clusters is not None:
        st.button(
            f"Put {_counted(found.clusters, unit)} and that plan on the sliders",
            key=PUT,
            on_click=_put,
            args=(found,),
        )


def fewest_sentence(found: Fewest, target: float, unit: str) -> str:
    """Return how many clusters reach a target, and how far one fewer falls short."""
    value = significant(found.best.value)
    if found.clusters is None:
        most = _counted(int(found.best.space.base.value(CLUSTERS)), unit)
        return f"**Not even {most} reach it**: their best plan gives {value} tokens/s."
    lead = (
        f"**{_counted(found.clusters, unit)}** suffice for {given(target)} tokens/s, and no fewer: "
        f"the best plan on them gives {value}."
    )
    if found.below is None:
        return lead
    fewer = _counted(found.clusters - 1, unit)
    if found.below.values is None:
        return f"{lead} No plan fits {fewer}."
    short = significant(100 * (1 - found.below.value / target))
    return f"{lead} The best plan on {fewer} falls short by {short} %."


def _counted(count: int, unit: str) -> str:
    return human(float(count), f"{unit}s")


def _fingerprint(scenario: Scenario, target: float) -> str:
    return background.space_fingerprint(default_space(scenario), target)


def _put(found: Fewest) -> None:
    if found.clusters is not None and found.best.plan is not None:
        state.apply({CLUSTERS: found.clusters, **found.best.plan})
