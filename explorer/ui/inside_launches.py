"""Launches: what starting kernels costs, and how evenly attention spreads over the DSPs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import streamlit as st

from explorer.chips.mechanisms import busy_share
from explorer.chips.mt3000 import Mt3000
from explorer.config.units import human, significant
from explorer.costs.arrays import ceil_divide, scalar
from explorer.costs.attention import row_block
from explorer.plots.launches import (
    LAUNCH_MODES,
    PERCENT,
    Balance,
    balance_figure,
    launch_data,
    launch_figure,
    launch_seconds,
)
from explorer.serving.evaluate import Evaluation, evaluate
from explorer.serving.report import why_not
from explorer.ui.charts import chart
from explorer.ui.inside_controls import control_row
from explorer.ui.tables import show_table
from explorer.ui.text import plain

PASSES = {"decode step": True, "prefill pass": False}
MOST_REQUESTS = 24
AXES = {"batch": "batch", "prompt length": "prompt"}
GROUPS_OF = ("pass_launch", "operator_launch")


class Mode(NamedTuple):
    """One launch mode: launches of a pass, their time, and the whole pass."""

    groups: float
    seconds: float
    pass_seconds: float

    @property
    def share(self) -> float:
        """Share of the pass."""
        return self.seconds / self.pass_seconds


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    row = control_row()
    what = str(
        row.segmented_control(
            "Pass", list(PASSES), default="decode step", key="inside:pass", required=True
        )
    )
    against = row.segmented_control(
        "Against", list(AXES), default="batch", key="inside:against", required=True
    )
    decode = PASSES[what]
    scenario = machine.inputs.scenario
    launched = {
        mode: evaluate(scenario.replacing({"kernel.launch": mode})) for mode in LAUNCH_MODES
    }
    modes = {
        mode: _mode(evaluation, machine, decode)
        for mode, evaluation in launched.items()
        if bool(evaluation.feasible)
    }
    reasons = {mode: why_not(evaluation) for mode, evaluation in launched.items()}
    balance = _balance(machine)
    with answer:
        st.markdown(f"{_shares(what, modes, reasons)} {_spread(machine, balance)}")
        shares = launch_data(scenario, decode, AXES[str(against)])
        chart(
            launch_figure(shares), "launches", "Share of a pass that launches take, by launch mode"
        )
        st.caption("Only sizes at which the plan fits have a point.")
        chart(
            balance_figure(balance),
            "balance",
            "DSP time that works in attention against requests, by what goes round",
        )
    if modes:
        _table(modes, machine)


def _mode(evaluation: Evaluation, machine: Mt3000, decode: bool) -> Mode:
    stage = evaluation.decode_stage if decode else evaluation.prefill_stage
    seconds = float(launch_seconds(stage))
    n = machine.numbers
    created = sum(float(term.seconds) for term in stage.terms if term.name in GROUPS_OF)
    group = float(n.hthreads_create_seconds + n.hthreads_launch_seconds)
    return Mode(created / group, seconds, float(stage.seconds))


def _balance(machine: Mt3000) -> Balance:
    i, n = machine.inputs, machine.numbers
    requests = np.arange(1.0, MOST_REQUESTS + 1)
    heads = requests * i.model.query_heads / i.tp_prefill
    prompt = i.prompt_tokens
    block = row_block("mt", prompt, machine.attention_tiles, machine.cluster)
    blocks = heads * ceil_divide(prompt, block)
    return Balance(
        tuple(int(count) for count in requests),
        tuple(float(share) for share in busy_share(heads, n.dsps_per_cluster)),
        tuple(float(share) for share in busy_share(blocks, n.dsps_per_cluster)),
    )


def _shares(what: str, modes: dict[str, Mode], reasons: dict[str, str]) -> str:
    """Return what launches take in each mode whose plan fits, and why others have no share."""
    told = {
        "per_operator": "when each operator has its own",
        "per_head": "when each head has its own",
        "unified": "as one kernel",
    }
    parts = [
        f"**{significant(PERCENT * modes[mode].share)} %** {how} ({_groups(modes[mode])})"
        for mode, how in told.items()
        if mode in modes
    ]
    text = f"Of a {what}, launches take {', '.join(parts)}." if parts else ""
    missing = [how for mode, how in told.items() if mode not in modes]
    if not missing:
        return text
    which = f", {', '.join(missing)}" if modes else ""
    reason = next(reasons[mode] for mode in told if mode not in modes)
    refusal = f"**This plan does not fit**{which}, so no share is shown. {plain(reason)}"
    return f"{text} {refusal}".strip()


def _groups(mode: Mode) -> str:
    count = round(mode.groups)
    return f"{count:,} thread group{'' if count == 1 else 's'}"


def _spread(machine: Mt3000, balance: Balance) -> str:
    i = machine.inputs
    count = float(i.model.query_heads / i.tp_prefill)
    dsps = float(machine.numbers.dsps_per_cluster)
    rounds = float(ceil_divide(scalar(count), scalar(dsps)))
    return (
        f"One request's {human(count, 'heads')}, dealt out whole, take {human(rounds, 'rounds')} "
        f"of {dsps:.0f} DSPs and keep **{significant(100 * balance.by_head[0])} %** of them busy; "
        f"row blocks keep {significant(100 * balance.by_rows[0])} %."
    )


def _table(modes: dict[str, Mode], machine: Mt3000) -> None:
    n = machine.numbers
    rows = [
        {
            "Launched": LAUNCH_MODES[mode][0],
            "Thread groups a pass": f"{found.groups:,.0f}",
            "Time of launches": human(found.seconds, "s"),
            "Time of the pass": human(found.pass_seconds, "s"),
            "Share": f"{significant(100 * found.share)} %",
        }
        for mode, found in modes.items()
    ]
    show_table(rows)
    st.caption(
        f"The slowest stage of the present plan. Creating a thread group takes "
        f"{human(float(n.hthreads_create_seconds), 's')} and launching it "
        f"{human(float(n.hthreads_launch_seconds), 's')}: neither is published, both are assumed "
        "(sliders in the sidebar). With TP each layer also pays two launches (Eq. 19). Uneven "
        "work by whole heads is shown above but not priced: the engine deals out row blocks."
    )
