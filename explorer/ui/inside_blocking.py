"""Blocking: how a product is cut for GSM, SM and AM, and what a better cut would gain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from explorer.chips.mechanisms import paper_tile
from explorer.chips.mt3000 import Mt3000
from explorer.config.units import human, significant
from explorer.costs.gemm import GemmCluster, GemmTile
from explorer.costs.loop_orders import (
    Traffic,
    column_split_until,
    resident_w,
    w_stationary,
    without_broadcast,
    x_stationary,
    y_stationary,
)
from explorer.costs.memory import STORAGE_BYTES
from explorer.costs.product_levers import Doubled, doubled
from explorer.costs.tile_search import (
    Choice,
    Critical,
    Product,
    TileSearch,
    critical_seconds,
    idle_dsps,
    search_tiles,
)
from explorer.fidelity.measurements import shipped_measurements
from explorer.plots.blocking import matching_products, staircase_data, staircase_figure
from explorer.ui.charts import chart
from explorer.ui.inside_controls import control_row, precision_control
from explorer.ui.tables import show_table
from explorer.ui.text import plain

PAPER_ROWS = 30
WORTH_NAMING = 1e-3
OWN = "Another shape"
PRODUCT_WIDTH = 420
KIB = 1024
FIRST = Product(1024, 4096, 4096)
CAUSES = {
    "x_transfer": "reading X, which nothing hides",
    "w_transfer": "broadcasting W",
    "y_transfer": "moving Y",
    "arithmetic": "arithmetic that covers the transfers",
    "padding": "padding rows and columns",
    "ramp": "filling and draining the kernel's pipeline",
}


def view(machine: Mt3000) -> None:
    """Draw the view."""
    answer = st.container()
    st.subheader("Which product?", anchor=False)
    product, precision = _controls(machine)
    cluster = machine.cluster_at(precision, STORAGE_BYTES[precision])
    paper, engine = paper_tile(machine, PAPER_ROWS), machine.tile(cluster)
    search = search_tiles(product, cluster, paper)
    own, best = search.choice(paper), search.best
    with answer:
        st.markdown(_sentence(product, precision, search, own, best))
        levers = doubled(product, cluster, paper)
        st.markdown(helps_sentence(levers))
        measured = matching_products(shipped_measurements(), precision, product)
        tiles = {"paper's tile": paper} if own.rank is not None else {}
        tiles |= {f"fastest tile for M = {product.m:,}": best.tile}
        chart(
            staircase_figure(staircase_data(product, tiles, cluster, measured)),
            "staircase",
            "Time of the product against its rows, by tile",
        )
        st.caption(
            f"{human(float(cluster.dsps), 'DSPs')} take row blocks in rounds: a round that is "
            "partly filled takes as long as a full one. The bandwidth share of mixed streams, "
            f"{significant(float(cluster.mixed_stream_efficiency))}, is fitted to Table VIII."
        )
    _tiles(search, {"paper's": own, "engine's now": search.choice(engine), "fastest": best})
    _traffic(product, paper, cluster)
    _levers(levers, own, best)


def _controls(machine: Mt3000) -> tuple[Product, str]:
    products = {**_measured(), **_linears(machine), OWN: FIRST}
    row = control_row()
    name = row.selectbox(
        "Product",
        list(products),
        index=list(products.values()).index(FIRST),
        width=PRODUCT_WIDTH,
        key="inside:product",
    )
    precision = precision_control(row)
    if name != OWN:
        return products[name], precision
    sizes = [
        int(column.number_input(label, value=value, step=1, key=f"inside:{label}"))
        for column, label, value in zip(st.columns(3), "MKN", vars(FIRST).values(), strict=True)
    ]
    return Product(*sizes), precision


def _measured() -> dict[str, Product]:
    found: dict[str, Product] = {}
    for row in shipped_measurements():
        if row.quantity == "gemm_latency":
            product = Product(*(int(row.conditions[name]) for name in "mkn"))
            found[f"{_shape(product)}, measured"] = product
    return found


def _linears(machine: Mt3000) -> dict[str, Product]:
    """Return the model's own products, in a prefill pass and a decode step, without TP."""
    i = machine.inputs
    model = i.model
    width = model.query_heads * model.head_dim
    inner = model.ffn_width if model.dense_mlp else model.expert_ffn_width
    shapes = {
        "Q linear": (model.hidden_size, width * model.query_projection_factor),
        "output linear": (width, model.hidden_size),
        "gate or up linear": (model.hidden_size, inner),
        "down linear": (inner, model.hidden_size),
    }
    rows = {
        "prefill": int(i.micro_batch_prefill * i.prompt_tokens),
        "decode": int(i.micro_batch_decode),
    }
    return {
        f"{_shape(product)}, {name} in {phase} of {model.name}": product
        for phase, m in rows.items()
        for name, (k, n) in shapes.items()
        for product in (Product(m, k, n),)
    }


def _shape(product: Product) -> str:
    return f"{product.m:,} × {product.k:,} × {product.n:,}"


def _tile(tile: GemmTile, cluster: GemmCluster) -> str:
    sizes = (cluster.dsps * tile.m2, tile.kg, tile.m2, tile.k2, tile.n2)
    return "(" + ", ".join(f"{float(size):.0f}" for size in sizes) + ")"


def _sentence(
    product: Product, precision: str, search: TileSearch, own: Choice, best: Choice
) -> str:
    cluster = search.cluster
    what = f"For **{_shape(product)}** in {precision.upper()}"
    tile = f"the paper's tile {_tile(own.tile, cluster)}"
    best_text = f"{_tile(best.tile, cluster)} takes **{human(float(best.cost.seconds), 's')}**"
    if own.rank is None:
        return (
            f"{what}, {tile} does not fit these memories. Of {search.fitting:,} tiles that do, "
            f"{best_text}."
        )
    level = f", level with {own.ties - 1:,} others" if own.ties > 1 else ""
    lead = (
        f"{what}, {tile} takes **{human(float(own.cost.seconds), 's')}**: rank "
        f"**{own.rank:,} of {search.fitting:,}** tiles that fit{level}."
    )
    if own.rank == 1:
        return f"{lead} The model knows no faster one."
    gain = 1 - float(best.cost.seconds / own.cost.seconds)
    return (
        f"{lead} The fastest, {best_text}, {significant(100 * gain)} % less: "
        f"{_why(product, own, best, cluster)}."
    )


def helps_sentence(levers: Sequence[Doubled]) -> str:
    """Return which number of the cluster helps most when doubled, and what the others are worth."""
    helping = [item for item in levers if item.gain >= WORTH_NAMING]
    if not helping:
        return "**Twice of no single number helps**, however the product is cut."
    first, *others = [
        f"{item.name} {human(item.new_tile_seconds, 's')} ({significant(100 * item.gain)} % less)"
        for item in helping
    ]
    useless = [item.name for item in levers if item.gain < WORTH_NAMING]
    text = f"**What helps it most, doubled and cut anew: {first}**"
    text += f"; then {', '.join(others)}." if others else "."
    return text + (f" Nothing comes of twice the {' or the '.join(useless)}." if useless else "")


def _levers(levers: Sequence[Doubled], own: Choice, best: Choice) -> None:
    st.subheader("What would twice of each number do?", anchor=False)
    rows = {
        "as it is": (
            float("nan") if own.rank is None else float(own.cost.seconds),
            float(best.cost.seconds),
            0.0,
        )
    } | {
        f"twice the {item.name}": (item.same_tile_seconds, item.new_tile_seconds, item.gain)
        for item in levers
    }
    table = [
        {
            "number": name,
            "with the paper's tile": "does not fit" if math.isnan(same) else human(same, "s"),
            "with the fastest tile": human(new, "s"),
            "less": f"{significant(100 * gain)} %" if gain >= WORTH_NAMING else "–",
        }
        for name, (same, new, gain) in rows.items()
    ]
    show_table(table)


def _why(product: Product, own: Choice, best: Choice, cluster: GemmCluster) -> str:
    mine = critical_seconds(product, own, cluster)
    theirs = critical_seconds(product, best, cluster)
    cause = max(CAUSES, key=lambda name: getattr(mine, name) - getattr(theirs, name))
    before, after = getattr(mine, cause), getattr(theirs, cause)
    text = f"{CAUSES[cause]} costs {human(after, 's')} instead of {human(before, 's')}"
    if after == 0 < before:
        text = f"{CAUSES[cause]}, {human(before, 's')}, hides under arithmetic"
    rounds = float(own.cost.rounds), float(best.cost.rounds)
    if cause == "y_transfer" and _spills(product, own, cluster) > _spills(product, best, cluster):
        text += ", since all columns of Y stay in AM while K passes"
    if cause == "w_transfer" and rounds[0] > rounds[1]:
        text += f", since rows take {human(rounds[1], 'rounds')} instead of {rounds[0]:.0f}"
    return text


def _spills(product: Product, choice: Choice, cluster: GemmCluster) -> bool:
    """Return whether more of Y crosses DDR than its rounds of rows once."""
    cost = choice.cost
    kept = float(cost.x_bytes) / product.k * product.n
    return not bool(cost.column_split) and float(cost.y_bytes) > kept


def _tiles(search: TileSearch, choices: dict[str, Choice]) -> None:
    st.subheader("What do the tiles differ in?", anchor=False)
    product, cluster = search.product, search.cluster
    columns = {
        name: _column(choice, critical_seconds(product, choice, cluster), search)
        for name, choice in choices.items()
    }
    order = list(columns["fastest"])
    show_table(pd.DataFrame(columns).reindex(order).fillna("–"), index=True)
    st.caption(
        "Tiles are (Mg = P M2, Kg, M2, K2, N2) with M1 and N1 the kernel's. The time is the sum "
        "of its six parts; DDR transfers that hide under arithmetic count as 0 s, and so does "
        f"arithmetic that hides under transfers. {search.tried:,} tiles tried. A transfer costs "
        "its bytes and nothing for being started: a small K2 looks free while DDR is what waits."
    )


def _column(choice: Choice, parts: Critical, search: TileSearch) -> dict[str, str]:
    product, cluster, cost = search.product, search.cluster, choice.cost
    taken = choice.taken
    split = bool(cost.column_split)
    idle = idle_dsps(product.sizes[0], choice.tile, cluster)
    limits = (cluster.sm_bytes, cluster.am_bytes, cluster.gsm_bytes)
    used = (taken.sm_bytes, taken.am_bytes, taken.gsm_bytes)
    memories = {
        f"{name} taken": f"{_kib(float(size))} of {_kib(float(limit))} KiB"
        for name, size, limit in zip(("SM", "AM", "GSM"), used, limits, strict=True)
    }
    if choice.rank is None or float(choice.tile.m2) < 1:
        no_rows = "no room for a micro-kernel's rows at this K2, N2 and Kg"
        why = "does not fit" if float(choice.tile.m2) >= 1 else no_rows
        return {"Tile": _tile(choice.tile, cluster), "Rank": why, **memories}
    times = {
        CAUSES[name][0].upper() + CAUSES[name][1:]: human(value, "s")
        for name, value in vars(parts).items()
    }
    return {
        "Tile": _tile(choice.tile, cluster),
        "Rank": f"{choice.rank:,}",
        "Time": human(float(cost.seconds), "s"),
        **times,
        "Rounds of DSPs": "columns split" if split else f"{float(cost.rounds):,.0f}",
        "Idle in the last round": "–" if split else human(float(idle), "DSPs"),
        **memories,
    }


def _kib(size_bytes: float) -> str:
    """Return bytes in KiB, whole ones without decimals."""
    return f"{size_bytes / KIB:,.2f}".removesuffix(".00")


def _traffic(product: Product, tile: GemmTile, cluster: GemmCluster) -> None:
    st.subheader("What would other loop orders move?", anchor=False)
    chosen = y_stationary(product, tile, cluster)
    ways = {
        "Y stays, W broadcast (as chosen)": chosen,
        "Y stays, each DSP reads W": without_broadcast(chosen, cluster),
        "X stays": x_stationary(product, tile, cluster),
        "W stays": w_stationary(product, tile, cluster),
    }
    resident = resident_w(product, tile, cluster)
    if resident is not None:
        ways["All of W waits in GSM"] = resident
    rows = [_traffic_row(name, way, cluster) for name, way in ways.items()]
    show_table(rows)
    st.caption(
        "DDR bytes. FP32 partial sums of Y leave after every pass over K and come back before the "
        "next; both ways count."
    )
    st.markdown(f"{_columns_win(product, tile, cluster)} {_gsm_holds_w(product, chosen, resident)}")


def _traffic_row(name: str, traffic: Traffic, cluster: GemmCluster) -> dict[str, str]:
    parts = {"X": traffic.x_bytes, "W": traffic.w_bytes, "Y": traffic.y_bytes, "All": traffic.bytes}
    seconds = float(traffic.bytes / cluster.bandwidth_bytes_per_second)
    return {
        "Paper's tile, rows split": name,
        **{matrix: human(float(size), "B") for matrix, size in parts.items()},
        "At full bandwidth": human(seconds, "s"),
    }


def _columns_win(product: Product, tile: GemmTile, cluster: GemmCluster) -> str:
    until = column_split_until(product, tile, cluster)
    if until == 0:
        return "**Few rows:** rows are split at every M here."
    used = "is" if product.m <= until else "is not"
    return plain(
        f"Few rows: up to M = {until:,} it is faster to broadcast X and split N over the DSPs, so "
        f"that W streams once at full bandwidth; it {used} used here."
    ).replace("Few rows:", "**Few rows:**")


def _gsm_holds_w(product: Product, chosen: Traffic, resident: Traffic | None) -> str:
    if resident is None:
        return (
            "**All of W in GSM:** W does not fit there, so a block of X waits in GSM and W passes."
        )
    saved = float(chosen.bytes - resident.bytes)
    if saved <= 0:
        return "**All of W in GSM:** W fits, but one round reads it once anyway: nothing to gain."
    return (
        f"**All of W in GSM:** W fits, and keeping it there instead of X would save "
        f"{human(saved, 'B')}. Times above leave X there, as the paper does."
    )
