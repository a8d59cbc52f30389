"""Where the Ascend report disagrees with itself, and what a collective costs by each route."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.inputs import Inputs
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.conflicts import Value, report_conflicts
from explorer.fidelity.measurements import shipped_measurements


def section(scenario: Scenario) -> None:
    """Draw both tables for a scenario on the Ascend."""
    st.subheader("What does one all-reduce cost?", anchor=False)
    prices = Ascend910a.of(Inputs(scenario)).collective_prices
    fixed = [float(price.fixed_seconds) for price in prices]
    st.markdown(
        f"The report prices its fixed part in {len(prices)} ways, from "
        f"{human(min(fixed), 's')} to {human(max(fixed), 's')}, and leaves the difference open."
    )
    st.table(
        pd.DataFrame(
            {
                "route": [price.route for price in prices],
                "fixed": [human(float(price.fixed_seconds), "s") for price in prices],
                "bytes": [human(float(price.byte_seconds), "s") for price in prices],
                "together": [human(float(price.seconds), "s") for price in prices],
                "what it measures": [price.meaning for price in prices],
            }
        ),
        hide_index=True,
    )
    st.subheader("Where does the report disagree with itself?", anchor=False)
    conflicts = report_conflicts(shipped_measurements())
    st.markdown(
        f"In {len(conflicts)} places. The first figure is the report's claim, the second what its "
        "other rows give."
    )
    with st.expander("All of them, with what follows"):
        st.table(
            pd.DataFrame(
                {
                    "of": [conflict.title for conflict in conflicts],
                    "claimed": [_shown(conflict.first) for conflict in conflicts],
                    "elsewhere": [_shown(conflict.second) for conflict in conflicts],
                    "difference": [
                        f"{significant(100 * conflict.difference)} %" for conflict in conflicts
                    ],
                    "consequence": [conflict.consequence for conflict in conflicts],
                }
            ),
            hide_index=True,
        )


def _shown(value: Value) -> str:
    return f"{human(value.value, value.unit)} ({value.where})"
