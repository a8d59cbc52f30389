"""What twice of each number of a cluster does to a product that is cut anew for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.costs.gemm import GemmCluster, GemmTile
from explorer.costs.tile_search import Product, search_tiles

NUMBERS = {
    "bandwidth_bytes_per_second": "memory bandwidth",
    "gsm_bytes": "GSM",
    "am_bytes": "AM",
    "sm_bytes": "SM",
    "peak_macs_per_second": "peak of arithmetic",
}


@dataclass(frozen=True)
class Doubled:
    """One number of a cluster doubled, all else fixed.

    Attributes:
        name: what the number is.
        same_tile_seconds: the product with the tile it had, NaN where that does not fit.
        new_tile_seconds: the product with the fastest tile of the changed cluster.
        gain: part of the time before that is saved, both with their fastest tiles.
    """

    name: str
    same_tile_seconds: float
    new_tile_seconds: float
    gain: float


def doubled(product: Product, cluster: GemmCluster, tile: GemmTile) -> tuple[Doubled, ...]:
    """Return what doubling each number is worth, the largest gain first.

    Args:
        product: sizes M, K and N.
        cluster: the cluster, single values.
        tile: a tile to keep, and one of those tried.
    """
    now = float(search_tiles(product, cluster, tile).best.cost.seconds)
    found = []
    for field, name in NUMBERS.items():
        changed = replace(cluster, **{field: 2 * getattr(cluster, field)})
        search = search_tiles(product, changed, tile)
        kept, best = search.choice(tile), search.best
        same = float("nan") if kept.rank is None else float(kept.cost.seconds)
        after = float(best.cost.seconds)
        found.append(Doubled(name, same, after, 1 - after / now))
    return tuple(sorted(found, key=lambda item: -item.gain))
