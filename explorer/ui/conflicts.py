"""Where the Ascend report disagrees with itself, and what a collective costs by each route."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_synced import CollectivePrice, collective_prices
from explorer.chips.inputs import Inputs
from explorer.config.scenario import Scenario
from explorer.config.units import human, significant
from explorer.fidelity.conflicts import Conflict, Value, report_conflicts
from explorer.fidelity.measurements import shipped_measurements
from explorer.serving.slice_study import rows_of_a_pass
from explorer.ui.folded import folded
from explorer.ui.tables import show_table
from explorer.ui.text import plain


def section(scenario: Scenario) -> None:
    """Draw both lists for a scenario on the Ascend."""
    st.subheader("What does one all-reduce cost?", anchor=False)
    prices = prices_now(scenario)
    st.markdown(price_sentence(scenario))
    show_table(
        pd.DataFrame(
            {
                "route": [price.route for price in prices],
                "fixed": [human(float(price.fixed_seconds), "s") for price in prices],
                "bytes": [human(float(price.byte_seconds), "s") for price in prices],
                "together": [human(float(price.seconds), "s") for price in prices],
                "what it measures": [price.meaning for price in prices],
            }
        ),
    )
    st.subheader("Where does the report disagree with itself?", anchor=False)
    conflicts = report_conflicts(shipped_measurements())
    st.markdown(
        f"In {len(conflicts)} places. The first figure is the report's claim, the second what its "
        "other rows give."
    )
    with folded("All of them, with what follows", "conflicts") as is_open:
        if is_open:
            for conflict in conflicts:
                st.markdown(told(conflict))


def prices_now(scenario: Scenario) -> tuple[CollectivePrice, ...]:
    """Return the prices of one all-reduce of this pass; of the measured cards for one card."""
    machine = Ascend910a.of(Inputs(scenario))
    if int(scenario.plan.tp_prefill) > 1:
        return machine.collective_prices
    n, inputs = machine.numbers, machine.inputs
    payload = machine.prefill_rows * inputs.model.hidden_size * inputs.compute_bytes
    return collective_prices(n, payload, n.measured_tp)


def price_sentence(scenario: Scenario) -> str:
    """Return how far the report's prices of the fixed part are apart, and of how many cards."""
    fixed = [float(price.fixed_seconds) for price in prices_now(scenario)]
    cards = int(Ascend910a.of(Inputs(scenario)).numbers.measured_tp)
    lead = (
        f"This plan reduces nothing, on one card. Of {cards} cards the report"
        if int(scenario.plan.tp_prefill) == 1
        else "The report"
    )
    rows = human(float(rows_of_a_pass(scenario)), "rows")
    return (
        f"{lead} prices the fixed part in {len(fixed)} ways, from {human(min(fixed), 's')} to "
        f"{human(max(fixed), 's')}, and leaves the difference open. The bytes are those of {rows}."
    )


def told(conflict: Conflict) -> str:
    """Return a conflict as one paragraph: both figures with their sections, and what follows."""
    first, second = conflict.first, conflict.second
    return (
        f"**{plain(conflict.title)}** · {_shown(first)} against {_shown(second)}: "
        f"{_signed(100 * conflict.difference)} %  \n{plain(conflict.consequence)}"
    )


def _signed(percent: float) -> str:
    return f"{'+' if percent > 0 else '−'}{significant(abs(percent))}"


def _shown(value: Value) -> str:
    number = human(value.value, value.unit)
    return f"{plain(number)} ({plain(value.what)}, {value.where})"
