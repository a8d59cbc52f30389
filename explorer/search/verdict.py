"""What a proof says of a plan, in one clause, for pages and terminals alike."""

from __future__ import annotations

import math

from explorer.config.units import SIGNIFICANT, human, significant
from explorer.search.bound import Bound
from explorer.search.certificate import Certificate
from explorer.search.proof import Proof

SAME = 1e-9
"""Gap up to which a plan is the optimum: two ways of adding up the same times differ by less."""


def verdict(proof: Proof | None, value: float) -> str:
    """Return how far a plan's value is from the optimum, and what proves it; empty for nothing."""
    if proof is None or math.isnan(value):
        return ""
    return _of_bound(proof, value) if isinstance(proof, Bound) else _of_all(proof, value)


def at_most(value: float) -> str:
    """Return a number with three significant figures, rounded up."""
    if not 0 < value < math.inf:
        return significant(value)
    scale = 10.0 ** (SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return significant(math.ceil(value * scale * (1 - SAME)) / scale)


def plans(count: int) -> str:
    """Return a number of plans as words; the exponent of one with many digits."""
    return human(count, "plans") if count < 10**15 else f"{count:.2e} plans"


def _of_all(proof: Certificate, value: float) -> str:
    if not proof.complete or proof.scenario is None:
        return ""
    over = f"proved over {proof.enumerated:,} plans, {proof.feasible:,} feasible"
    gap = proof.gap(value)
    if gap > SAME:
        return f"within {at_most(100 * gap)} % of the optimum, {over}"
    ties = f", {proof.ties:,} of them equally good" if proof.ties > 1 else ""
    return f"optimal, {over}{ties}"


def _of_bound(proof: Bound, value: float) -> str:
    among = plans(proof.space.size)
    gap = proof.gap(value)
    if proof.closed:
        over = f"proved over {among} by bounds, {proof.enumerated:,} evaluated one by one"
        far = f"within {at_most(100 * gap)} % of the optimum" if gap > SAME else "optimal"
        return f"{far}, {over}"
    if not math.isfinite(gap):
        return ""
    unit = proof.objective.on(proof.space.base.chip_document().unit_name).unit
    return (
        f"within {at_most(100 * gap)} % of the optimum: none of the {among} can be better than "
        f"{human(proof.bound, unit)}"
    )
