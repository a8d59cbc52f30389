"""Mixture of experts: how many experts a pass touches, and how many rows each of them gets."""

from __future__ import annotations

from explorer.costs.arrays import Array


def distinct_experts(rows: Array, experts: int, experts_per_token: int) -> Array:
    """Return the expected number of experts that at least one of some rows passes.

    E (1 - (1 - k / E)^rows): each row passes k of E experts, all choices equally likely and rows
    independent of each other. Trained routers are near this by their balancing loss; rows that
    prefer the same experts touch fewer.

    Args:
        rows: rows of the pass.
        experts: E.
        experts_per_token: k.
    """
    missed: Array = (1 - experts_per_token / experts) ** rows
    return experts * (1 - missed)


def rows_per_expert(rows: Array, experts: int, experts_per_token: int) -> Array:
    """Return the mean rows of an expert that is touched at all: k rows / distinct experts."""
    return rows * experts_per_token / distinct_experts(rows, experts, experts_per_token)
