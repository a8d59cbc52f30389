"""The MT-3000's mechanisms one by one: inputs of their cost functions, taken from one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from explorer.chips.mt3000 import Mt3000
from explorer.config.errors import refuse
from explorer.config.model import Model
from explorer.costs.arrays import Array, ceil_divide, scalar
from explorer.costs.buffering import LoopTimes
from explorer.costs.fusion import fitting_attention_rows
from explorer.costs.gemm import ACCUMULATOR_BYTES, GemmCluster, GemmTile, kernel_utilisation
from explorer.costs.graph import Blocks, ElementBytes, Graph, Work
from explorer.costs.layer import Layout, decoder_layer
from explorer.costs.unit import Capacity


def paper_tile(machine: Mt3000, rows: int) -> GemmTile:
    """Return the configuration after Eq. 8: ``rows`` a DSP, K_2, N_2, K_g of the chip."""
    n = machine.numbers
    return GemmTile(scalar(rows), n.gemm_tile_k, n.gemm_tile_n, n.gemm_block_k)


def usable_tile(machine: Mt3000, cluster: GemmCluster) -> GemmTile:
    """Return the tile that the engine uses; raises InputError where memories hold no row of it."""
    tile = machine.tile(cluster)
    if float(tile.m2) < 1:
        raise refuse("tile", "", "no micro-kernel fits SM, AM and GSM; expected larger memories")
    return tile


def loop_times(tile: GemmTile, cluster: GemmCluster, gsm_speed: Array) -> LoopTimes:
    """Return T1 to T4 of one tile on all DSPs [s].

    W_2 and Y_2 move as in ``gemm_cost``; Y_2 as a finished output. X_2 comes from GSM.

    Args:
        tile: M_2, K_2, N_2.
        cluster: the machine at one precision.
        gsm_speed: GSM's bandwidth as a multiple of DDR's; not published.
    """
    ddr = cluster.bandwidth_bytes_per_second
    stream = cluster.mixed_stream_efficiency * ddr
    rows = cluster.dsps * tile.m2
    rate = cluster.peak_macs_per_second * kernel_utilisation(tile.k2, cluster)
    return LoopTimes(
        load_x_seconds=rows * tile.k2 * cluster.element_bytes / (gsm_speed * ddr),
        load_w_seconds=tile.k2 * tile.n2 * cluster.weight_bytes / stream,
        compute_seconds=rows * tile.k2 * tile.n2 / rate,
        store_seconds=rows * tile.n2 * cluster.element_bytes / stream,
    )


def loop_iterations(tile: GemmTile) -> Array:
    """Return the iterations over K_2 that make one block of Y_2 from a block of X in GSM."""
    return ceil_divide(tile.kg, tile.k2)


@dataclass(frozen=True)
class FusionCase:
    """A decoder layer ready to be fused.

    Attributes:
        graph: its operators.
        capacity: on-chip memory.
        blocks: static blocking that working sets follow.
        densest_low: highest density of an operator that is no product [MAC/B].
        sparsest_high: lowest density of a product's block [MAC/B].
    """

    graph: Graph
    capacity: Capacity
    blocks: Blocks
    densest_low: float
    sparsest_high: float

    @property
    def threshold(self) -> float:
        """Density from which an operator counts as high: midway between both, on a log scale."""
        return sqrt(self.densest_low * self.sparsest_high)

    def with_am(self, am_bytes: int) -> Capacity:
        """Return the capacity with another AM."""
        return replace(self.capacity, am_bytes=am_bytes)


def fusion_case(machine: Mt3000, model: Model, work: Work, layout: Layout) -> FusionCase:
    """Return a layer with the machine's blocking, capacities and precision.

    Raises:
        InputError: for a model without full-attention layers, and where memories hold no tile.
    """
    n, inputs = machine.numbers, machine.inputs
    capacity = Capacity(int(n.sm_bytes), int(n.am_bytes), int(n.gsm_bytes))
    blocks = Blocks(
        dsps=int(n.dsps_per_cluster),
        rows_per_dsp=int(usable_tile(machine, machine.cluster).m2),
        attention_rows_per_dsp=int(n.attention_mt_rows),
        tile_k=int(n.gemm_tile_k),
        tile_n=int(n.gemm_tile_n),
        block_k=int(n.gemm_block_k),
    )
    size = ElementBytes(
        inputs.compute_bytes, inputs.weight_bytes, inputs.kv_bytes, ACCUMULATOR_BYTES
    )
    kernel_rows = int(n.gemm_kernel_rows)
    rows = fitting_attention_rows(model, work, blocks, size, capacity, kernel_rows)
    blocks = replace(blocks, attention_rows_per_dsp=rows)
    graph = decoder_layer(model, work, blocks, size, layout)
    products = [o.block_density for o in graph.operators if o.product]
    others = [o.block_density for o in graph.operators if not o.product]
    return FusionCase(graph, capacity, blocks, max(others), min(products))


def busy_share(tasks: Array, dsps: Array) -> Array:
    """Return the share of DSP time that works when equal tasks go round the DSPs."""
    share: Array = tasks / (ceil_divide(tasks, dsps) * dsps)
    return share
