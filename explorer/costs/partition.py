"""How layers spread over pipeline stages, and which stages can be the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from explorer.config.model import LayerKind, Model
from explorer.costs.arrays import Array, Codes, choose
from explorer.costs.intervals import highest, looked_up


@dataclass(frozen=True)
class StageShare:
    """What one candidate for the largest stage holds; arrays follow the shape of PP.

    Attributes:
        layers: layers of each kind.
        embedding: 1 where the stage holds the input embedding.
        head: 1 where it holds the output head.
    """

    layers: dict[LayerKind, Array]
    embedding: Array
    head: Array

    @property
    def layer_count(self) -> Array:
        """Layers of any kind."""
        return sum(self.layers.values(), np.zeros(()))


def stage_sizes(layers: int, pp: int) -> tuple[int, ...]:
    """Return layers per stage, as even as can be; the last stages are the shorter ones.

    The last stage also computes the output head, so it is the first to be spared a layer.
    """
    short, longer = divmod(layers, pp)
    return (short + 1,) * longer + (short,) * (pp - longer)


def largest_stage_candidates(model: Model, pp: Array) -> tuple[StageShare, ...]:
    """Return the shares that can be the largest stage, for an array of PP in 1..layers.

    Whatever a layer of each kind, the embedding and the head cost, the costliest stage is among
    them: only shares that hold no more of anything than another share are left out. There are as
    many as the PP among ``pp`` with the most of them has; for the others the last one is repeated.
    """
    table, counts = _candidate_table(model.layer_kinds, model.kinds)
    chosen = looked_up(table, pp)
    most = int(np.max(highest(looked_up(counts, pp)), initial=1))
    kinds = len(model.kinds)
    return tuple(
        StageShare(
            layers={kind: chosen[..., row, i] for i, kind in enumerate(model.kinds)},
            embedding=chosen[..., row, kinds],
            head=chosen[..., row, kinds + 1],
        )
        for row in range(most)
    )


def chosen_share(winner: Codes, shares: Sequence[StageShare]) -> StageShare:
    """Return one of some shares for each element of ``winner``, an index into them."""
    return StageShare(
        layers={
            kind: choose(winner, [share.layers[kind] for share in shares])
            for kind in shares[0].layers
        },
        embedding=choose(winner, [share.embedding for share in shares]),
        head=choose(winner, [share.head for share in shares]),
    )


@dataclass(frozen=True)
class StageContents:
    """One stage of a pipeline: where it stands, and its layers.

    Attributes:
        number: from 1.
        first, last: its layers, from 1, both included.
        layers: how many it holds of each kind that it has.
        embedding, head: whether it holds the input embedding, and the output head.
    """

    number: int
    first: int
    last: int
    layers: dict[LayerKind, int]
    embedding: bool
    head: bool

    def is_share(self, share: StageShare) -> bool:
        """Return whether a share of single values is what this stage holds."""
        ends = (float(share.embedding), float(share.head)) == (self.embedding, self.head)
        return ends and all(
            self.layers.get(kind, 0) == float(count) for kind, count in share.layers.items()
        )


def stage_contents(model: Model, pp: int) -> tuple[StageContents, ...]:
    """Return every stage of a pipeline of ``pp`` stages, in order."""
    stages, start = [], 0
    for index, size in enumerate(stage_sizes(len(model.layer_kinds), pp)):
        held = model.layer_kinds[start : start + size]
        layers = {kind: held.count(kind) for kind in model.kinds if kind in held}
        ends = (index == 0, index == pp - 1)
        stages.append(StageContents(index + 1, start + 1, start + size, layers, *ends))
        start += size
    return tuple(stages)


@lru_cache(maxsize=16)
def _candidate_table(
    layer_kinds: tuple[LayerKind, ...], kinds: tuple[LayerKind, ...]
) -> tuple[Array, Array]:
    """Return candidates [PP + 1, candidates, kinds + 2], and how many are unlike [PP + 1].

    Row 0 is unused. At most 8 MB of them.
    """
    layers = len(layer_kinds)
    rows = [_undominated(_shares(layer_kinds, kinds, pp)) for pp in range(1, layers + 1)]
    most = max(map(len, rows))
    table = np.zeros((layers + 1, most, len(kinds) + 2))
    for pp, shares in enumerate(rows, start=1):
        padded = shares + [shares[-1]] * (most - len(shares))
        table[pp] = padded
    return table, np.asarray([1, *map(len, rows)], dtype=np.float64)


def _shares(
    layer_kinds: tuple[LayerKind, ...], kinds: tuple[LayerKind, ...], pp: int
) -> set[tuple[int, ...]]:
    shares, start = set(), 0
    sizes = stage_sizes(len(layer_kinds), pp)
    for stage, size in enumerate(sizes):
        held = layer_kinds[start : start + size]
        start += size
        ends = (int(stage == 0), int(stage == pp - 1))
        shares.add((*(held.count(kind) for kind in kinds), *ends))
    return shares


def _undominated(shares: set[tuple[int, ...]]) -> list[tuple[int, ...]]:
    ordered = sorted(shares)
    held = np.asarray(ordered)
    # Shares differ, so one that holds no more of anything than another holds less of something.
    at_most = (held[:, None, :] <= held[None, :, :]).all(axis=-1)
    dominated = at_most.sum(axis=1) > 1
    return [share for share, less in zip(ordered, dominated, strict=True) if not less]
