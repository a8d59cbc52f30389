"""What a plan sets on the MT-3000, by THInfer's own names: its engine is not published."""

from __future__ import annotations

from typing import Any

from explorer.config.sections import Kernel
from explorer.costs.arrays import Array
from explorer.costs.attention import AttentionTiles, row_block
from explorer.costs.gemm import GemmCluster, GemmTile

NOTES = (
    "THInfer publishes neither its engine nor options of it: these are its quantities by name.",
    "A rank is an MPI process a cluster; the order of ranks is this tool's.",
)
APART = "K and V of a layer go to the buffer by non-blocking MPI as soon as the layer is computed."


def deployment(
    kernel: Kernel,
    tile: GemmTile,
    cluster: GemmCluster,
    attention: AttentionTiles,
    prompt_tokens: Array,
    shared: bool,
) -> dict[str, Any]:
    """Return blocking of products (Eqs 6 to 8) and attention, fusion and launch; JSON values.

    Args:
        kernel: mechanisms that are on.
        tile: blocking of products on this cluster.
        cluster: the machine at the precision of the scenario.
        attention: blocks of attention.
        prompt_tokens: S.
        shared: whether the same clusters prefill and decode.
    """
    rows = row_block(kernel.attention, prompt_tokens, attention, cluster)
    blocks = {"method": kernel.attention, "M_r": int(rows)}
    if kernel.attention == "flash":
        blocks["M_c"] = int(attention.flash_columns)
    return {
        "kernels": {
            "gemm": {
                "M_g": int(cluster.dsps * tile.m2),
                "K_g": int(tile.kg),
                "M_2": int(tile.m2),
                "K_2": int(tile.k2),
                "N_2": int(tile.n2),
                "M_1": int(cluster.kernel_rows),
                "N_1": int(cluster.kernel_columns),
            },
            "attention": blocks,
            "fusion": kernel.fusion,
            "launch": kernel.launch,
        },
        "notes": [*NOTES, *(() if shared else (APART,))],
    }
