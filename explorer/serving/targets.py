"""What would it take? The values of single knobs, and of pairs, that reach a target rate.

Each knob is scanned over its own bounds, and within what the machine's limits allow, the narrow
scans of all knobs through one broadcast ``evaluate``; the brackets that hold the nearest value that
reaches the target are then cut into sections again and again, all at once. A scan without such a
value proves that the knob alone cannot, as its best value says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from explorer.chips.machine import Limit
from explorer.config.errors import refuse
from explorer.config.scenario import Scenario, legal_values
from explorer.config.stacked import stacked
from explorer.costs.arrays import Array, Codes
from explorer.serving.evaluate import evaluate
from explorer.serving.levers import (
    Bounded,
    Lever,
    Values,
    between,
    changes_of,
    distance,
    factor,
    lever_knob,
    lever_limits,
    lever_now,
    lever_paths,
    overlapping,
    scan,
    within_limits,
)

Phase = Literal["prefill", "decode", "service"]
PHASES: tuple[Phase, ...] = ("prefill", "decode", "service")
CLUSTERS, STAGES = "workload.clusters_total", ("plan.pp_prefill", "plan.pp_decode")
SECTIONS, ROUNDS = 257, 5
FEW_VALUES = 512
"""Values of a knob from which on those of other knobs cost less in an evaluation of their own."""
NO_EFFECT = 1e-9
PAIRED_LEVERS, PAIR_SECTIONS, PAIR_ZOOMS, PAIR_ROUNDS = 6, 25, 3, 3
PAIR_REACH = 1e-3
WORTH_PAIRING = 1e-3


@dataclass(frozen=True)
class Pair:
    """Two knobs moved together to the values of the least product of factors."""

    first: Lever
    second: Lever
    first_value: float
    second_value: float

    @property
    def cost(self) -> float:
        """Product of both factors."""
        first = factor(self.first.now, self.first_value) or math.inf
        return first * (factor(self.second.now, self.second_value) or math.inf)


@dataclass(frozen=True)
class Solution:
    """Everything that reaches a target rate, the smallest change first.

    ``rows`` is what one pass brings: rows of prefill, requests of a decode step, or the output
    tokens of a batch in every pool.
    ``rate`` is NaN for a plan that does not fit; then there are no levers.
    """

    phase: Phase
    target: float
    rows: float
    rate: float
    levers: tuple[Lever, ...]
    pairs: tuple[Pair, ...]

    @property
    def reached(self) -> bool:
        """Whether the present scenario reaches the target already."""
        return self.rate >= self.target

    @property
    def wall_seconds(self) -> float:
        """Time that a pass may take at the target rate [s]."""
        return self.rows / self.target

    @property
    def alone(self) -> tuple[Lever, ...]:
        """Levers that reach the target alone."""
        return tuple(lever for lever in self.levers if lever.needed is not None)

    @property
    def not_alone(self) -> tuple[Lever, ...]:
        """Levers that cannot, the one that comes nearest first."""
        return tuple(lever for lever in self.levers if lever.needed is None)


def rate_of(scenario: Scenario, phase: Phase) -> Array:
    """Return tokens a second in steady state, NaN where the plan does not fit.

    Prefill and decode are of one pipeline: micro-batch x prompt tokens a pass, and one token a
    request and step. The service is the throughput of all pools.
    """
    found = evaluate(scenario)
    if phase == "service":
        return found.objective("throughput")
    stage = found.prefill_stage if phase == "prefill" else found.decode_stage
    return np.where(found.feasible, _rows(scenario, phase) / stage.seconds, np.nan)


def solve(scenario: Scenario, phase: Phase, target: float, pairs: bool = True) -> Solution:
    """Return what it takes to reach ``target`` tokens a second at this scenario's prompt length.

    Args:
        scenario: a checked scenario of single values.
        phase: which rate the target is of.
        target: rate of one pipeline, or of all pools [tokens/s].
        pairs: whether to look for pairs too.

    Raises:
        InputError: when the target is no finite number above 0.
    """
    if not (math.isfinite(target) and target > 0):
        raise refuse("target", target, "expected a rate above 0 tokens/s")
    rate = float(rate_of(scenario, phase))
    rows = float(_rows(scenario, phase))
    if math.isnan(rate) or rate >= target:
        return Solution(phase, target, rows, rate, (), ())
    problem = _Problem(scenario, phase, target, rate)
    paths = lever_paths(scenario)
    if phase == "service":
        paths = (*paths, CLUSTERS)
    levers = sorted(problem.levers(paths), key=_order)
    best = problem.pairs(levers) if pairs else ()
    return Solution(phase, target, rows, rate, tuple(levers), best)


def needed_terms(
    terms: Mapping[str, float], wall_seconds: float, target_seconds: float
) -> dict[str, float | None]:
    """Return what each term of a sum must come to, all else fixed, for another sum [s].

    None for a term that cannot: the rest alone takes as long.
    """
    excess = wall_seconds - target_seconds
    return {name: value - excess if value > excess else None for name, value in terms.items()}


def _rows(scenario: Scenario, phase: Phase) -> Any:
    plan = scenario.plan
    if phase == "service":
        found = evaluate(scenario)
        return found.pools * found.batch * scenario.workload.output_tokens
    if phase == "decode":
        return plan.micro_batch_decode
    return plan.micro_batch_prefill * scenario.workload.prompt_tokens


def _order(lever: Lever) -> tuple[float, float]:
    """Sort by the change needed; those that cannot come last, the nearest of them first."""
    return (math.inf if lever.needed is None else lever.times or math.inf, -lever.best_rate)


@dataclass(frozen=True)
class _Bracket:
    """Values of a knob between which the nearest one lies that reaches the target."""

    path: str
    whole: bool
    failing: float
    reaching: float

    @property
    def is_open(self) -> bool:
        """Whether there are values between."""
        return abs(self.reaching - self.failing) > (1 if self.whole else 0)

    def cuts(self) -> Values:
        """Return values from end to end."""
        return between(self.failing, self.reaching, SECTIONS, self.whole)

    def cut(self, cuts: Values, first: int) -> _Bracket:
        """Return the section that ends at the first cut that reaches the target."""
        failing, reaching = cuts[max(first - 1, 0)].item(), cuts[first].item()
        return replace(self, failing=failing, reaching=reaching)


@dataclass(frozen=True)
class _Scan:
    """Values of one knob over its range, and the rates there, zero where a plan does not fit."""

    path: str
    bounded: Bounded
    now: float | str
    values: Values
    rates: Array = field(default_factory=lambda: np.empty(0))

    def bracket(self, target: float) -> _Bracket | None:
        """Return what holds the nearest value that reaches a target; None where none does.

        Both ends are one value where there is nothing between two of the scan.
        """
        reaching = np.flatnonzero(self.rates >= target)
        if not reaching.size:
            return None
        knob, index = self.bounded.knob, self._nearest(reaching)
        end: float = self.values[index].item()
        if isinstance(self.now, str) or knob.scale in ("powers_of_two", "divisors"):
            return _Bracket(self.path, knob.whole, end, end)
        failing: float = self.values[index + (1 if end < self.now else -1)].item()
        return _Bracket(self.path, knob.whole, failing, end)

    def lever(self, needed: float | None) -> Lever:
        """Return the lever, with the value that it needs."""
        knob = self.bounded.knob
        best = self._nearest(np.flatnonzero(self.rates >= self.rates.max() * (1 - NO_EFFECT)))
        value = float(self.values[best])
        return Lever(
            self.path,
            knob.label,
            knob.shown_unit,
            self.now,
            needed,
            value,
            float(self.rates[best]),
            self.bounded.limit_at(value),
        )

    def _nearest(self, indices: Codes) -> int:
        return int(indices[distance(self.now, self.values)[indices].argmin()])


@dataclass(frozen=True)
class _Problem:
    scenario: Scenario
    phase: Phase
    target: float
    rate: float

    def rates(self, changes: Mapping[str, Values], shape: tuple[int, ...]) -> Array:
        """Return rates over arrays of values, NaN where a plan does not fit."""
        merged: dict[str, object] = {}
        for path, values in changes.items():
            merged |= changes_of(self.scenario, path, values)
        result: Array = np.broadcast_to(
            rate_of(self.scenario.unchecked(merged), self.phase), shape
        ).copy()
        return result

    @cached_property
    def limits(self) -> dict[str, tuple[Limit, ...]]:
        """What no value of a lever can pass on this machine, by path."""
        return lever_limits(self.scenario)

    def levers(self, paths: Iterable[str]) -> list[Lever]:
        """Return what each knob alone can do; those that change nothing are left out."""
        scans = [found for path in paths if (found := self._scan(path)) is not None]
        rates = self._alone({one.path: one.values for one in scans})
        useful = [
            replace(one, rates=np.nan_to_num(rates[one.path], nan=0.0))
            for one in scans
            if np.nanmax(rates[one.path], initial=0.0) > self.rate * (1 + NO_EFFECT)
        ]
        needed = self._refined([b for one in useful if (b := one.bracket(self.target)) is not None])
        return [one.lever(needed.get(one.path)) for one in useful]

    def _scan(self, path: str) -> _Scan | None:
        """Return the values to try of one knob; None where there are none."""
        defined = lever_knob(self.scenario, path)
        if defined is None:
            return None
        now = lever_now(self.scenario, path)
        bounded = within_limits(defined, self.limits.get(path, ()), now)
        values = scan(self.scenario, bounded.knob, now)
        return _Scan(path, bounded, now, values) if values.size else None

    def _alone(self, tried: Mapping[str, Values]) -> dict[str, Array]:
        """Return rates over each knob's values, all others as they are.

        One evaluation has the knobs of few values. Apart are a word, which no array can hold, and
        the pipeline stages, with which every other plan would be costed as often as they differ.
        """
        together = [
            path
            for path, values in tried.items()
            if values.size <= FEW_VALUES
            and path not in STAGES
            and not isinstance(lever_now(self.scenario, path), str)
        ]
        found = {
            path: self.rates({path: values}, values.shape)
            for path, values in tried.items()
            if path not in together
        }
        if together:
            changes = [changes_of(self.scenario, path, tried[path]) for path in together]
            ends = np.cumsum([tried[path].size for path in together])
            rates = rate_of(stacked(self.scenario, changes), self.phase)
            parts = np.split(np.broadcast_to(rates, ends[-1]), ends[:-1])
            found |= zip(together, parts, strict=True)
        return found

    def _refined(self, brackets: Iterable[_Bracket]) -> dict[str, float]:
        """Return by path the value nearest to now within the bracket that reaches the target."""
        found = {bracket.path: bracket for bracket in brackets}
        for _ in range(ROUNDS):
            cuts = {path: one.cuts() for path, one in found.items() if one.is_open}
            for path, rates in self._alone(cuts).items():
                first = int(np.flatnonzero(rates >= self.target)[0])
                found[path] = found[path].cut(cuts[path], first)
        return {path: float(bracket.reaching) for path, bracket in found.items()}

    def pairs(self, levers: list[Lever]) -> tuple[Pair, ...]:
        """Return the pairs that are cheaper than either knob alone, the cheapest first."""
        usable = [item for item in levers if not isinstance(item.now, str) and item.now > 0]
        usable = usable[:PAIRED_LEVERS]
        found = []
        for index, one in enumerate(usable):
            for other in usable[index + 1 :]:
                first, second = (other, one) if self._whole(other) else (one, other)
                if self._whole(second) or overlapping(first.path, second.path):
                    continue
                pair = self._pair(first, second)
                if pair is not None and _worthwhile(pair):
                    found.append(pair)
        return tuple(sorted(found, key=lambda pair: pair.cost))

    def _whole(self, lever: Lever) -> bool:
        knob = lever_knob(self.scenario, lever.path)
        return knob is not None and knob.whole

    def _pair(self, first: Lever, second: Lever) -> Pair | None:
        whole = self._whole(first)
        start, end = float(first.now), _end(first)
        best: tuple[float, float, float] | None = None
        for _ in range(1 if whole else PAIR_ZOOMS):
            ones = between(start, end, PAIR_SECTIONS, whole)
            if whole:
                legal = legal_values(self.scenario, first.path)
                ones = ones[np.isin(ones, legal)] if legal else ones
            others = self._partners(first.path, ones, second)
            costs = distance(float(first.now), ones) + np.abs(np.log(others / float(second.now)))
            if np.isnan(costs).all():
                return None
            index = int(np.nanargmin(costs))
            if best is None or costs[index] < best[0]:
                best = (float(costs[index]), float(ones[index]), float(others[index]))
            start, end = ones[max(index - 1, 0)].item(), ones[min(index + 1, ones.size - 1)].item()
        return None if best is None else Pair(first, second, best[1], best[2])

    def _partners(self, path: str, ones: Values, second: Lever) -> Array:
        """Return, for each value of the first knob, the least change of the second; or NaN."""
        column = ones[:, None]
        failing = np.full(ones.shape, float(second.now))
        reaching = np.full(ones.shape, _end(second))
        rows = np.arange(ones.size)
        possible = np.ones(ones.shape, dtype=np.bool_)
        for _ in range(PAIR_ROUNDS):
            steps = np.linspace(0.0, 1.0, PAIR_SECTIONS)
            cuts = failing[:, None] * (reaching / failing)[:, None] ** steps
            cuts[:, 0], cuts[:, -1] = failing, reaching
            enough = self.rates({path: column, second.path: cuts}, cuts.shape) >= self.target
            possible &= enough.any(axis=1)
            index = enough.argmax(axis=1)
            reaching = np.where(possible, cuts[rows, index], reaching)
            failing = np.where(possible, cuts[rows, np.maximum(index - 1, 0)], failing)
        return np.where(possible, reaching, np.nan)


def _end(lever: Lever) -> float:
    """Return how far a knob is moved in a pair: to what it needs alone, or to its best."""
    end = lever.best if lever.needed is None else lever.needed
    now = float(lever.now)
    return max(end, PAIR_REACH * now) if end < now else min(end, now / PAIR_REACH)


def _worthwhile(pair: Pair) -> bool:
    """Return whether both knobs move, for less than either alone would need."""
    alone = min(pair.first.times or math.inf, pair.second.times or math.inf)
    both = (
        factor(pair.first.now, pair.first_value),
        factor(pair.second.now, pair.second_value),
    )
    moved = all(item is not None and item > 1 + WORTH_PAIRING for item in both)
    return moved and pair.cost < alone * (1 - WORTH_PAIRING)
