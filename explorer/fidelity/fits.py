"""The fits of both machines: constants, rows, and the app's own models between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from explorer.chips.ascend910a_numbers import RECURRENCE_GROUPS
from explorer.chips.ascend910a_synced import GATED_DELTA
from explorer.chips.mt3000 import Mt3000
from explorer.config.chip import Chip
from explorer.config.numbers import AnyArray, as_float_array
from explorer.config.presets import load_chip
from explorer.config.scenario import Scenario
from explorer.costs.arrays import Array, scalar
from explorer.costs.attention import Method
from explorer.costs.overlap import slices_by_rule
from explorer.fidelity.conditions import YES
from explorer.fidelity.fit import Constant, FitResult, FitSpec, Values, run_fit
from explorer.fidelity.kernels import attention, gemm, mt3000
from explorer.fidelity.measurements import Measurement
from explorer.fidelity.passes import ABLATIONS, FEWEST_OUTPUT_TOKENS, NOTHING, RULE
from explorer.fidelity.scenarios import OnChip, base_scenario
from explorer.serving.evaluate import evaluate

FUSED_METHODS = ("mt", "flash")
SECTIONS = ("section 3", "section 4")
FACTORS = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6)


def fit_specs() -> tuple[FitSpec, ...]:
    """Return all fits; the Ascend's grids lie around the preset's values."""
    ascend = load_chip("ascend910a")
    return (
        FitSpec(
            "matrix products",
            "mt3000",
            (Constant("gemm_mixed_stream_efficiency", tuple(np.linspace(0.4, 1.0, 61).tolist())),),
            _is_product,
            ("m", "n", "dtype"),
            _gemm_seconds,
            ranges=("m", "k", "n"),
        ),
        FitSpec(
            "MT and Flash attention",
            "mt3000",
            (
                Constant("attention_round_seconds", tuple(np.linspace(5e-6, 1e-4, 20).tolist())),
                Constant("attention_score_seconds", tuple(np.linspace(5e-12, 8e-11, 16).tolist())),
                Constant("attention_mt_rows", tuple(range(6, 66, 6)), whole=True),
                Constant("attention_flash_columns", tuple(range(64, 1088, 64)), whole=True),
            ),
            _is_fused_attention,
            ("seq", "method"),
            _attention_seconds,
            ranges=("seq", "head_dim"),
            held={"method": ("attention_mt_rows", "attention_flash_columns")},
        ),
        FitSpec(
            "unfused attention",
            "mt3000",
            (Constant("attention_unfused_score_moves", tuple(range(1, 9)), whole=True),),
            _is_unfused_attention,
            (),
            _attention_seconds,
            ranges=("seq", "head_dim"),
        ),
        FitSpec(
            "prefill sweep",
            "ascend910a",
            _around(
                ascend,
                "host_issue_seconds_per_layer",
                "host_issue_seconds_per_collective",
                "device_fixed_seconds_per_layer",
            ),
            _is_sweep,
            ("rows",),
            _prefill_rate,
        ),
        FitSpec(
            "recurrence groups",
            "ascend910a",
            _around(ascend, *RECURRENCE_GROUPS),
            _is_recurrence,
            ("rows",),
            _recurrence_seconds,
        ),
        FitSpec(
            "decode steps",
            "ascend910a",
            _around(ascend, "decode_fixed_seconds_per_layer"),
            _is_decode,
            (),
            _decode_rate,
        ),
    )


def run_fits(rows: Sequence[Measurement]) -> tuple[FitResult, ...]:
    """Return every fit that the rows suffice for and whose constants the chip still has."""
    results = []
    for spec in fit_specs():
        chip = load_chip(spec.chip)
        if all(constant.name in chip.quantities for constant in spec.constants):
            result = run_fit(spec, chip, rows)
            if result is not None:
                results.append(result)
    return tuple(results)


def fitted_numbers(chip: Chip) -> tuple[str, ...]:
    """Return the names of a chip's numbers whose kind is ``fitted``."""
    return tuple(name for name, item in chip.quantities.items() if item.kind == "fitted")


def _around(chip: Chip, *names: str) -> tuple[Constant, ...]:
    known = (name for name in names if name in chip.quantities)
    return tuple(
        Constant(name, tuple(factor * chip.quantities[name].value for factor in FACTORS))
        for name in known
    )


def _is_product(row: Measurement) -> bool:
    return row.quantity == "gemm_latency"


def _is_fused_attention(row: Measurement) -> bool:
    return _method(row) in FUSED_METHODS


def _is_unfused_attention(row: Measurement) -> bool:
    return _method(row) == "unfused"


def _is_sweep(row: Measurement) -> bool:
    synced = row.conditions.get("device_synced", "no") in YES
    return row.quantity == "prefill_throughput" and row.source.endswith(SECTIONS) and not synced


def _is_recurrence(row: Measurement) -> bool:
    phase = row.quantity == "phase_time" and row.conditions.get("phase") == GATED_DELTA
    return phase or row.quantity == "ablation_gated_delta"


def _is_decode(row: Measurement) -> bool:
    return row.quantity == "decode_throughput" and row.source.endswith(SECTIONS)


def _method(row: Measurement) -> str:
    return row.conditions.get("method", "") if row.quantity == "attention_latency" else ""


def _numbers(rows: Sequence[Measurement], key: str) -> Array:
    return np.asarray([float(row.conditions[key]) for row in rows])


def _with(chip: str, values: Values) -> Mt3000:
    machine = mt3000(OnChip(chip))
    return replace(machine, numbers=replace(machine.numbers, **values))


def _gemm_seconds(rows: Sequence[Measurement], values: Values) -> Array:
    machine = _with(rows[0].chip, values)

    def seconds(part: Sequence[Measurement], dtype: str) -> Array:
        return gemm(machine, dtype, *(_numbers(part, key) for key in "mkn")).seconds

    return _by_word(rows, "dtype", seconds)


def _attention_seconds(rows: Sequence[Measurement], values: Values) -> Array:
    # The preset derives Flash's M_r from SM and M_c: another M_c has another M_r.
    derived: Values = {"attention_flash_rows": scalar(np.inf)}
    machine = _with(rows[0].chip, {**derived, **values})

    def seconds(part: Sequence[Measurement], method: str) -> Array:
        instances = _numbers(part, "batch") * _numbers(part, "heads")
        seq, head_dim = _numbers(part, "seq"), _numbers(part, "head_dim")
        how = cast("Method", method)
        return attention(machine, how, instances, seq, head_dim, "fp16").seconds

    return _by_word(rows, "method", seconds)


def _by_word(
    rows: Sequence[Measurement],
    key: str,
    seconds: Callable[[Sequence[Measurement], str], Array],
    default: str = "",
) -> Array:
    """Return seconds [..., rows], from one call for each word that a condition takes."""
    found = [row.conditions.get(key, default) for row in rows]
    words = dict.fromkeys(found)
    places = {word: [i for i, other in enumerate(found) if other == word] for word in words}
    parts = {word: seconds([rows[i] for i in where], word) for word, where in places.items()}
    leading = np.broadcast_shapes(*(part.shape[:-1] for part in parts.values()))
    result = np.empty((*leading, len(rows)))
    for word, where in places.items():
        result[..., where] = parts[word]
    return result


def _prefill_rate(rows: Sequence[Measurement], values: Values) -> Array:
    tokens = _numbers(rows, "rows").astype(np.int64)
    plan = base_scenario(rows[0].chip, rows[0].model).plan
    most, least = as_float_array(plan.max_slices), as_float_array(plan.min_rows_per_slice)
    ruled = slices_by_rule(tokens.astype(np.float64), most, least)
    texts = [row.conditions["slices"] for row in rows]
    slices = np.asarray(
        [int(rule) if text == RULE else int(text) for text, rule in zip(texts, ruled, strict=True)]
    )
    changes = {"workload.prompt_tokens": tokens, "plan.slices": slices}
    stage = evaluate(_scenario(rows, values, changes)).prefill_stage
    return tokens / stage.seconds


def _recurrence_seconds(rows: Sequence[Measurement], values: Values) -> Array:
    def seconds(part: Sequence[Measurement], ablated: str) -> Array:
        tokens = _numbers(part, "rows").astype(np.int64)
        word = ABLATIONS[ablated]
        changes: dict[str, AnyArray | str] = {
            "workload.prompt_tokens": tokens,
            "kernel.recurrence": word,
        }
        stage = evaluate(_scenario(part, values, changes)).prefill_stage
        return next(term.seconds for term in stage.terms if term.name == GATED_DELTA)

    return _by_word(rows, "ablated", seconds, NOTHING)


def _decode_rate(rows: Sequence[Measurement], values: Values) -> Array:
    requests = _numbers(rows, "rows").astype(np.int64)
    context = _numbers(rows, "context").astype(np.int64)
    changes = {"workload.prompt_tokens": context, "plan.micro_batch_decode": requests}
    stage = evaluate(_scenario(rows, values, changes)).decode_stage
    return requests / stage.seconds


def _scenario(
    rows: Sequence[Measurement], values: Values, changes: Mapping[str, AnyArray | str]
) -> Scenario:
    """Return the scenario of passes at the rows' TP with some of the chip's numbers changed."""
    tp = _numbers(rows, "tp").astype(np.int64)
    plan = {"plan.tp_prefill": tp, "plan.tp_decode": tp, "plan.micro_batch_prefill": 1}
    base = base_scenario(rows[0].chip, rows[0].model)
    output = {"workload.output_tokens": FEWEST_OUTPUT_TOKENS}
    hardware = {f"hardware.{name}": value for name, value in values.items()}
    return base.replacing({**output, **plan, **changes, **hardware})
