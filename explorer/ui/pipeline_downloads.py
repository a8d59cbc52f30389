"""A simulated service as files: every request as CSV, the summary as JSON, cache over time."""

from __future__ import annotations

import io
import json

import pandas as pd
import streamlit as st

from explorer.config.scenario import Scenario
from explorer.serving.request_rows import RowWriter
from explorer.serving.simulation import simulate
from explorer.serving.simulation_report import simulation_document
from explorer.serving.simulation_results import Occupancy, Simulation
from explorer.serving.trace import Trace

MOST_CSV_REQUESTS = 200_000
PLACES = ("prefill_bytes", "buffer_bytes", "decode_bytes")


def downloads(scenario: Scenario, trace: Trace | None, simulation: Simulation) -> None:
    """Offer the files; each is made when it is asked for."""
    st.subheader("Take it with you", anchor=False)
    with st.container(horizontal=True):
        st.download_button(
            "Summary (JSON)",
            data=lambda: json.dumps(simulation_document(scenario, simulation, trace), indent=2),
            file_name="simulation.json",
            mime="application/json",
            on_click="ignore",
            key="simulation_json",
        )
        if simulation.requests <= MOST_CSV_REQUESTS:
            st.download_button(
                "Every request (CSV)",
                data=lambda: _request_rows(scenario, trace),
                file_name="requests.csv",
                mime="text/csv",
                on_click="ignore",
                key="simulation_requests",
            )
        occupancy = simulation.occupancy
        if occupancy is not None:
            st.download_button(
                "Cache over time (CSV)",
                data=lambda: _occupancy_rows(occupancy),
                file_name="occupancy.csv",
                mime="text/csv",
                on_click="ignore",
                key="simulation_occupancy_csv",
            )
    if simulation.requests > MOST_CSV_REQUESTS:
        st.caption(
            f"Every request of more than {MOST_CSV_REQUESTS:,} comes from the command line: "
            "python -m explorer simulate … --csv FILE."
        )
    if simulation.pools > 1:
        st.caption("Cache over time is that of the first pool, the most within each interval.")
    st.caption("`python -m explorer simulate` gives the same numbers for the exported scenario.")


def _request_rows(scenario: Scenario, trace: Trace | None) -> str:
    file = io.StringIO()
    simulate(scenario, trace, reader=RowWriter(file))
    return file.getvalue()


def _occupancy_rows(occupancy: Occupancy) -> str:
    # The caches of a place are the most within an interval, the others stand at its end.
    columns = {
        name.replace("_bytes", "_most_bytes") if name in PLACES else name: getattr(occupancy, name)
        for name in Occupancy.__dataclass_fields__
    }
    return str(pd.DataFrame(columns).to_csv(index=False))
