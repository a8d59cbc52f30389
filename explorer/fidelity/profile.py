"""Numbers that the device-synced profile gives, and what it says of a length left out.

Ascend TP Collective Overlap section 5.2: three lengths of one serial pass. Slopes and fixed terms
come from the ends of the lengths used, full attention from all of them (with three a quadratic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.chips.ascend910a import Ascend910a
from explorer.chips.ascend910a_numbers import RECURRENCE_GROUPS
from explorer.chips.ascend910a_synced import (
    ALL_REDUCE,
    ENGINE,
    FULL_ATTENTION,
    GATED_DELTA,
    NORMS,
    OTHER,
    PHASES,
    PROJECTIONS,
    STACK,
    WALL,
)
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.passes import FEWEST_OUTPUT_TOKENS
from explorer.fidelity.predict import predict
from explorer.fidelity.scenarios import base_scenario
from explorer.serving.evaluate import evaluate

LISTED = (GATED_DELTA, FULL_ATTENTION, PROJECTIONS, ALL_REDUCE, NORMS)
FEWEST_LENGTHS, LENGTHS_OF_A_QUADRATIC = 2, 3
FP16_BYTES = 2


@dataclass(frozen=True)
class ProfileTable:
    """Seconds by phase and rows of one model on one chip, and what else was timed at those rows.

    Attributes:
        base: the scenario that the profile was taken in, but for its rows.
        seconds: by (phase, rows).
        outside: wall less recurrence of every run, by rows; ablated runs are further samples.
    """

    base: Scenario
    seconds: Mapping[tuple[str, int], float]
    outside: Mapping[int, tuple[float, ...]]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows that the table has, ascending."""
        return tuple(sorted({rows for _, rows in self.seconds}))

    def column(self, phase: str, lengths: Sequence[int]) -> Array:
        """Return the seconds of a phase at some lengths; ``other`` is what the stack leaves.

        Time outside the recurrence was measured several times at one length: ``other`` takes the
        mean of those runs.
        """
        if phase != OTHER:
            return np.asarray([self.seconds[phase, rows] for rows in lengths])
        other = self.column(STACK, lengths) - sum(self.column(p, lengths) for p in LISTED)
        excess = [float(np.mean(self.outside[r])) - self.outside[r][0] for r in lengths]
        return np.asarray(other + np.asarray(excess))

    def line(self, column: Array, lengths: Sequence[int]) -> tuple[float, float]:
        """Return slope and value at 0 rows of the line through the first and last length."""
        slope = float((column[-1] - column[0]) / (lengths[-1] - lengths[0]))
        return slope, float(column[0]) - slope * lengths[0]

    def numbers(self, lengths: Sequence[int]) -> dict[str, float]:
        """Return the chip's numbers that follow from at least two lengths, by name."""
        model = self.base.model_shape()
        layers = model.layers
        full, linear = model.layers_of("full_attention"), model.layers_of("linear_attention")
        calls = 2 * layers + 1
        attention = self.column(FULL_ATTENTION, lengths)
        if len(lengths) == LENGTHS_OF_A_QUADRATIC:
            pair, row, fixed = (float(x) for x in np.polyfit(lengths, attention, 2))
        else:
            pair, (row, fixed) = 0.0, self.line(attention, lengths)
        gemm, gemm_fixed = self.line(self.column(PROJECTIONS, lengths), lengths)
        reduce, reduce_fixed = self.line(self.column(ALL_REDUCE, lengths), lengths)
        norm, norm_fixed = self.line(self.column(NORMS, lengths), lengths)
        other, other_fixed = self.line(self.column(OTHER, lengths), lengths)
        beyond = self.column(WALL, lengths) - self.column(STACK, lengths)
        outside, outside_fixed = self.line(beyond, lengths)
        per_row = self.column(GATED_DELTA, lengths) / np.asarray(lengths) / linear
        return {
            GATED_DELTA: float(per_row.mean()),
            "full_attention_seconds_per_row_layer": row / full,
            "full_attention_seconds_per_pair_layer": pair / full,
            "synced_full_attention_fixed_seconds_per_layer": fixed / full,
            "projection_seconds_per_row_layer": gemm / layers,
            "synced_projection_fixed_seconds_per_layer": gemm_fixed / layers,
            "link_bandwidth_bytes_per_second": calls * model.hidden_size * FP16_BYTES / reduce,
            "synced_collective_fixed_seconds": reduce_fixed / calls,
            "norm_seconds_per_row_layer": norm / layers,
            "synced_norm_fixed_seconds_per_layer": norm_fixed / layers,
            "other_seconds_per_row_layer": other / layers,
            "synced_other_fixed_seconds_per_layer": other_fixed / layers,
            "outside_seconds_per_row": outside,
            "outside_fixed_seconds": outside_fixed,
        }

    def phases(self, lengths: Sequence[int], rows: int) -> dict[str, float]:
        """Return the profile at ``rows`` [s] by the app's own model with numbers of ``lengths``.

        The groups of the recurrence keep their shares. A line through two lengths may start below
        0, so the numbers' ranges are not checked.
        """
        numbers = self.numbers(lengths)
        per_row = numbers.pop(GATED_DELTA)
        groups = [float(self.base.value(f"hardware.{name}")) for name in RECURRENCE_GROUPS]
        scaled = {
            name: value * per_row / sum(groups)
            for name, value in zip(RECURRENCE_GROUPS, groups, strict=True)
        }
        hardware = {f"hardware.{name}": value for name, value in {**numbers, **scaled}.items()}
        workload = {
            "workload.prompt_tokens": rows,
            "workload.max_context_tokens": rows + FEWEST_OUTPUT_TOKENS,
            "workload.output_tokens": FEWEST_OUTPUT_TOKENS,
        }
        evaluation = evaluate(self.base.unchecked({**workload, **hardware}))
        machine = evaluation.machine
        if not isinstance(machine, Ascend910a):
            return {}
        profile = machine.synced_profile(evaluation.prefill_shares[0])
        return {phase: float(profile.seconds(phase)) for phase in (WALL, STACK, *PHASES)}


def profile_table(rows: Sequence[Measurement]) -> ProfileTable | None:
    """Return the profile in some measurements; None unless two lengths have every phase."""
    phases = [row for row in rows if row.quantity == "phase_time"]
    if not phases:
        return None
    found = {(row.conditions["phase"], int(row.conditions["rows"])): row.si_value for row in phases}
    lengths = sorted({length for _, length in found})
    needed = (*LISTED, STACK, WALL)
    whole = [n for n in lengths if all((phase, n) in found for phase in needed)]
    if len(whole) < FEWEST_LENGTHS:
        return None
    seconds = {key: value for key, value in found.items() if key[1] in whole}
    walls = {
        (row.conditions["ablated"], int(row.conditions["rows"])): row
        for row in rows
        if row.quantity == "prefill_throughput" and "ablated" in row.conditions
    }
    outside = {n: [found[WALL, n] - found[GATED_DELTA, n]] for n in whole}
    for row in rows:
        if row.quantity == "ablation_gated_delta":
            length = int(row.conditions["rows"])
            wall = walls.get((row.conditions["ablated"], length))
            if wall is not None and length in outside:
                outside[length].append(length / wall.si_value - row.si_value)
    tp = int(phases[0].conditions.get("tp", "1"))
    plan = {"plan.tp_prefill": tp, "plan.tp_decode": tp, "workload.clusters_total": tp}
    base = base_scenario(phases[0].chip, phases[0].model).replacing(plan)
    return ProfileTable(base, seconds, {n: tuple(values) for n, values in outside.items()})


def left_out_phases(rows: Sequence[Measurement]) -> dict[tuple[str, str], float]:
    """Return phases and engine all-reduces predicted from the other lengths [s], by file and id.

    With one of three lengths left out full attention is a line; small phases cannot be extrapolated
    from two points, their errors cancel in the stack.
    """
    table = profile_table(rows)
    if table is None or len(table.lengths) <= FEWEST_LENGTHS:
        return {}
    width = table.base.model_shape().hidden_size * FP16_BYTES
    calls = 2 * table.base.model_shape().layers + 1
    result = {}
    for row in rows:
        if predict(row).prediction is None:
            continue
        if row.quantity == "phase_time":
            length, phase, share = int(row.conditions["rows"]), row.conditions["phase"], 1
        elif row.quantity == "all_reduce_time" and row.conditions.get("where") == ENGINE:
            length, phase, share = int(row.conditions["bytes"]) // width, ALL_REDUCE, calls
        else:
            continue
        others = [other for other in table.lengths if other != length]
        if len(others) < len(table.lengths):
            result[row.file, row.id] = table.phases(others, length)[phase] / share
    return result
