"""Samplers compared: how fast each comes to the optimum, and what one alone would have reached."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from explorer.config.units import human, significant
from explorer.plots.comparison import comparison_figure, comparison_lines
from explorer.search.comparison import Comparison, compare
from explorer.search.job import SearchJob
from explorer.search.proof import Proof, ProofSettings
from explorer.search.space import Space
from explorer.search.study import SearchSettings
from explorer.search.verdict import SAME
from explorer.ui.background import Prepared, offered, space_fingerprint
from explorer.ui.charts import chart
from explorer.ui.folded import folded
from explorer.ui.search_controls import chosen
from explorer.ui.tables import show_table
from explorer.ui.text import plain


def compare_section(job: SearchJob | None) -> None:
    """Draw the comparison, folded away until it is asked for."""
    with folded("How do the samplers compare?", "compare") as is_open:
        if not is_open:
            return
        st.markdown(
            "Every sampler with the trials and the seed above, and one alone: without first plans, "
            "without settings solved inside a trial, without neighbours of the best."
        )
        settings, space, how = chosen()

        def prepare() -> Prepared:
            wanted, among, proof = chosen()
            return _fingerprint(among, wanted, proof), lambda told, stopped: compare(
                among, wanted, proof, _known(job, among, wanted), told, stopped
            )

        found: Comparison | None = offered(
            "compare", _fingerprint(space, settings, how), "Compare the samplers", prepare, "trials"
        )
        if found is not None and found.curves:
            _draw(found, settings.objective.on(space.base.chip_document().unit_name).unit)


def _fingerprint(space: Space, settings: SearchSettings, how: ProofSettings) -> str:
    return space_fingerprint(space, settings.objective.name, settings.trials, settings.seed, how)


def _known(job: SearchJob | None, space: Space, settings: SearchSettings) -> Proof | None:
    """Return the proof of a finished search of the same plans, to spare another one."""
    if job is None or job.space != space or job.settings.objective != settings.objective:
        return None
    status = job.status()
    return status.proof if status.state == "done" else None


def _draw(found: Comparison, unit: str) -> None:
    lines = comparison_lines(found)
    title = f"best so far [{unit}]"
    chart(
        comparison_figure(lines, "trial", title),
        "compare:trial",
        "Best so far of each sampler against trials",
    )
    chart(
        comparison_figure(lines, "seconds", title),
        "compare:time",
        "Best so far of each sampler against time",
    )
    show_table(_table(found, unit))
    for reason in found.left_out:
        st.caption(f"Left out: {plain(reason)}.")


def _table(found: Comparison, unit: str) -> pd.DataFrame:
    rows = []
    for curve in found.curves:
        arrival, gap = found.arrival(curve), found.gap(curve)
        rows.append(
            {
                "sampler": curve.label,
                "best": human(curve.best_value, unit),
                "from the floor": _percent(gap),
                "within 1 %": "never"
                if arrival is None
                else f"after {human(arrival.trial, 'trials')}, {human(arrival.seconds, 's')}",
                "distinct plans": f"{curve.distinct_plans:,}",
                "time": human(curve.seconds, "s"),
            }
        )
    return pd.DataFrame(rows)


def _percent(gap: float) -> str:
    if math.isnan(gap):
        return "–"
    return "0 %" if gap <= SAME else f"{significant(100 * gap)} %"
