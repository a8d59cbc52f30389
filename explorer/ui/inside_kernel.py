"""Micro-kernel: the software pipeline of Table I, computed, beside other kernels."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import pandas as pd
import streamlit as st

from explorer.chips.mt3000 import Mt3000
from explorer.config.kernel import load_kernel
from explorer.config.units import human, significant
from explorer.costs.arrays import scalar
from explorer.costs.kernel import (
    KernelPlan,
    KernelShape,
    columns_used,
    grid,
    pipelined_kernel,
    unpipelined_kernel,
)
from explorer.costs.memory import STORAGE_BYTES
from explorer.plots.coinciding import coinciding_sentence
from explorer.plots.microkernel import utilisation_data, utilisation_figure
from explorer.ui.charts import chart
from explorer.ui.tables import show_table

KERNEL = "mt3000"
OPERAND = re.compile(r"^\S+ (?P<what>.*)$")
EARLIER = "'"
GRID_ROW_HEIGHT, GRID_HEADING_HEIGHT = 26, 38
GRID_COLUMN_WIDTH = 57
PERCENT = 100
WORD_BYTES = 8
SERIAL = "one iteration after another"


class Kernel(NamedTuple):
    """One kernel to compare."""

    precision: str
    rows: int
    columns: int
    k_unroll: int
    pipelined: bool = True


KERNELS = {
    "6 × 128 FP32 (paper)": Kernel("fp32", 6, 128, 2),
    "4 × 128 FP32": Kernel("fp32", 4, 128, 2),
    "8 × 64 FP32": Kernel("fp32", 8, 64, 2),
    "6 × 128 FP16": Kernel("fp16", 6, 128, 2),
    "6 × 256 FP16": Kernel("fp16", 6, 256, 2),
    "6 × 128 FP32, naive": Kernel("fp32", 6, 128, 2, False),
}


def view(machine: Mt3000) -> None:
    """Draw the view."""
    plans = {name: _plan(kernel) for name, kernel in KERNELS.items()}
    depth = machine.numbers.gemm_tile_k
    answer = st.container()
    chosen = str(st.selectbox("Kernel", list(KERNELS), key="inside:kernel"))
    with answer:
        st.markdown(_sentence(chosen, plans, machine))
        lines = utilisation_data(plans)
        chart(
            utilisation_figure(lines, float(depth)),
            "utilisation",
            "Multiply-add slots that each micro-kernel uses against the depth of a call",
        )
        st.caption(
            "A line a kernel: share of its multiply-add slots, filling and draining included."
            + coinciding_sentence({line.name: line.shares for line in lines})
        )
    _grid(plans[chosen], KERNELS[chosen].precision)
    _comparison(plans, machine)


@lru_cache(maxsize=16)
def _plan(kernel: Kernel) -> KernelPlan:
    shape = KernelShape(kernel.rows, kernel.columns, kernel.k_unroll)
    make = pipelined_kernel if kernel.pipelined else unpipelined_kernel
    return make(load_kernel(KERNEL).machine(kernel.precision), shape)


def _sentence(name: str, plans: dict[str, KernelPlan], machine: Mt3000) -> str:
    plan = plans[name]
    depth = machine.numbers.gemm_tile_k
    share, steady = float(plan.utilisation_at(depth)), plan.utilisation
    proof = " and no schedule can be shorter" if plan.is_least else ""
    bound = f"{' and '.join(plan.bound_by)} sets the bound"
    if not KERNELS[name].pipelined:
        bound = f"{SERIAL}: each waits for the last result of the one before"
    return (
        f"**{name}** starts an iteration every **{plan.interval} cycles**{proof}: "
        f"{plan.multiply_adds} multiply-adds on {plan.machine.multiply_adds_per_cycle} units "
        f"({bound}). It uses **{significant(PERCENT * steady)} %** of the slots in "
        f"the steady state, {significant(PERCENT * share)} % over K2 = {float(depth):,.0f}, since "
        f"filling and draining takes {plan.ramp_cycles} cycles."
    )


def _grid(plan: KernelPlan, precision: str) -> None:
    st.subheader("Who issues what in each cycle?", anchor=False)
    table = grid(plan)
    cells = [
        [
            _cell(name, stage)
            for name, stage in zip(table.rows[cycle], table.stages[cycle], strict=True)
        ]
        for cycle in range(plan.interval)
    ]
    cycles = pd.Index([str(cycle + 1) for cycle in range(plan.interval)], name="cycle")
    # A line a cycle: sixteen columns do not fit beside the sliders on a page of 800 px.
    st.dataframe(
        pd.DataFrame(cells, index=cycles, columns=list(table.units)),
        height=GRID_ROW_HEIGHT * plan.interval + GRID_HEADING_HEIGHT,
        row_height=GRID_ROW_HEIGHT,
        column_config={
            name: st.column_config.TextColumn(width=GRID_COLUMN_WIDTH) for name in table.units
        },
    )
    st.caption(
        f"Table I, computed from Table II: cycles of the interval by unit. {_issues(plan)}. An "
        "element of X, x row,k, is loaded, packed and broadcast; y row,vector · k is a "
        "multiply-add; w k,vectors a load of W. Each ' marks work of one iteration earlier. "
        f"{_packing(plan, precision)}"
    )


def _issues(plan: KernelPlan) -> str:
    m = plan.machine
    instructions = (m.multiply_add, m.broadcast, m.load_x, m.pack, m.load_w)
    return ", ".join(f"{item.unit} issues {item.name}" for item in instructions)


def _packing(plan: KernelPlan, precision: str) -> str:
    m, side_by_side = plan.machine, WORD_BYTES // STORAGE_BYTES[precision]
    packs = f"one {m.pack.name} copies"
    if m.packs_per_broadcast > 1:
        packs = f"{m.packs_per_broadcast} {m.pack.name} in a row copy"
    return (
        f"Vectors are words of 64 bits, {side_by_side} elements of {precision.upper()} in each: "
        f"{packs} an element of X into all places of a word, and one {m.load_w.name} brings "
        f"{human(float(m.vectors_per_load), 'words')} to each processing element, that many "
        "vectors of W."
    )


def _cell(name: str, stage: int) -> str:
    match = OPERAND.match(name)
    if match is None:
        return ""
    what = re.sub(r"[\[\]]", "", match["what"]).replace(" k", "·")
    return f"{what}{EARLIER * stage}"


def _comparison(plans: dict[str, KernelPlan], machine: Mt3000) -> None:
    st.subheader("How do other kernels compare?", anchor=False)
    depth, head = machine.numbers.gemm_tile_k, scalar(machine.inputs.model.head_dim)
    rows = []
    for name, plan in plans.items():
        use = plan.registers
        fill = float(columns_used(head, scalar(plan.shape.columns)))
        rows.append(
            {
                "Kernel": name,
                "Interval [cycles]": str(plan.interval),
                "Bound by": ", ".join(plan.bound_by) if KERNELS[name].pipelined else SERIAL,
                "Slots used [%], steady": significant(PERCENT * plan.utilisation),
                f"Slots used [%], K2 = {float(depth):,.0f}": significant(
                    PERCENT * float(plan.utilisation_at(depth))
                ),
                "Fill and drain [cycles]": str(plan.ramp_cycles),
                f"Vector registers of {use.vectors_limit}": str(use.vectors),
                f"Scalar registers of {use.scalars_limit}": str(use.scalars),
                "Columns a head fills [%]": significant(PERCENT * fill),
            }
        )
    show_table(pd.DataFrame(rows).set_index("Kernel").T, index=True)
    numbers = machine.numbers
    st.caption(
        "The last line is the fit of the columns to a head of the model. Products are "
        f"costed with {float(numbers.gemm_kernel_cycles_per_depth):.0f} cycles a step of K and "
        f"{float(numbers.gemm_kernel_ramp_cycles):.0f} cycles of ramp, loading and storing Y1 "
        "included, which no figure here counts. Naive is a loop that nobody pipelined. Unit counts "
        "other than the three VMACs, and the register files' sizes are derived or assumed."
    )
