"""Scenarios and random plans that several tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from explorer.config.links import preset_scenario
from explorer.config.model import Model
from explorer.config.presets import load_model
from explorer.config.scenario import Scenario

MT3000 = "mt3000-llama2-13b"
ASCEND = "ascend910a-qwen3.8-27b"
GENERIC = "a100-llama2-70b"
PRESETS = (
    "ascend910a-qwen3.8-27b",
    "mt3000-llama-30b",
    "mt3000-llama2-13b",
    "mt3000-llama2-70b",
    "mt3000-llama2-7b",
    "a100-llama2-70b",
)
MODELS = ("llama-30b", "llama2-13b", "llama2-70b", "llama2-7b", "qwen3.8-27b")


def scenario(preset: str = MT3000, **changes: Any) -> Scenario:
    """Return a preset with values changed; ``plan__tp_decode=4`` means ``plan.tp_decode``."""
    return preset_scenario(preset).replacing(
        {name.replace("__", "."): value for name, value in changes.items()}
    )


def model(name: str) -> Model:
    """Return the sizes of a model preset."""
    return load_model(name).shape()


def random_plans(base: Scenario, count: int, seed: int) -> dict[str, np.ndarray]:
    """Return values for the workload and plan of many random scenarios, by path."""
    random = np.random.default_rng(seed)
    shape = base.model_shape()
    legal = np.asarray(shape.legal_tp)
    powers = 2 ** np.arange(8)

    def between(low: int, high: int) -> np.ndarray:
        return random.integers(low, high, count, endpoint=True)

    plans = {
        "workload.prompt_tokens": between(1, 6000),
        "workload.output_tokens": between(1, 300),
        "workload.max_context_tokens": between(512, 8192),
        "workload.clusters_total": between(4, 500),
        "plan.tp_prefill": random.choice(legal, count),
        "plan.pp_prefill": between(1, shape.layers),
        "plan.dp_prefill": between(1, 12),
        "plan.micro_batch_prefill": random.choice(powers, count),
        "plan.tp_decode": random.choice(legal, count),
        "plan.pp_decode": between(1, shape.layers),
        "plan.micro_batch_decode": random.choice(powers, count),
        "plan.max_slices": between(0, 16),
    }
    if base.plan.placement == "shared":
        # Most plans of one group of cards agree with themselves, some do not.
        agreeing = random.random(count) < 0.8
        for name in ("tp", "pp"):
            decode = plans[f"plan.{name}_decode"]
            plans[f"plan.{name}_prefill"] = np.where(
                agreeing, decode, plans[f"plan.{name}_prefill"]
            )
        plans["plan.dp_prefill"] = np.where(agreeing, 1, plans["plan.dp_prefill"])
    return plans


@st.composite
def scenarios(draw: st.DrawFn, presets: tuple[str, ...] = PRESETS) -> Scenario:
    """Draw a valid scenario: any preset, precision, workload and plan; it need not fit."""
    base = preset_scenario(draw(st.sampled_from(presets)))
    shape = base.model_shape()
    tp = st.sampled_from(shape.legal_tp)
    stages = st.integers(1, shape.layers)
    storage = st.sampled_from(["fp32", "fp16", "int8"])
    micro_batch = st.integers(1, 512)
    plan = {
        "precision.compute": draw(st.sampled_from(base.chip_document().compute_precisions)),
        "precision.weights": draw(storage),
        "precision.kv": draw(storage),
        "workload.prompt_tokens": draw(st.integers(1, 9000)),
        "workload.output_tokens": draw(st.integers(1, 2000)),
        "workload.max_context_tokens": draw(st.integers(1, 16384)),
        "workload.clusters_total": draw(st.integers(1, 5000)),
        "plan.placement": draw(st.sampled_from(["shared", "disaggregated"])),
        "plan.tp_prefill": draw(tp),
        "plan.pp_prefill": draw(stages),
        "plan.dp_prefill": draw(st.integers(1, 64)),
        "plan.micro_batch_prefill": draw(micro_batch),
        "plan.tp_decode": draw(tp),
        "plan.pp_decode": draw(stages),
        "plan.micro_batch_decode": draw(micro_batch),
        "plan.buffer_clusters": draw(st.one_of(st.just("auto"), st.integers(0, 1000))),
        "plan.slices": draw(st.one_of(st.just("rule"), st.integers(0, 64))),
        "plan.max_slices": draw(st.integers(0, 64)),
        "limits.memory_headroom_fraction": draw(st.floats(0, 0.9)),
    }
    return base.replacing(plan)


@st.composite
def roomy_scenarios(draw: st.DrawFn, presets: tuple[str, ...] = PRESETS) -> Scenario:
    """Draw a valid scenario on clusters large and many enough that most plans fit."""
    s = draw(scenarios(presets))
    work, plan = s.workload, s.plan
    changes: dict[str, Any] = {
        "workload.max_context_tokens": work.prompt_tokens + work.output_tokens,
        "workload.clusters_total": draw(st.integers(50_000, 100_000)),
        "hardware.memory_bytes": 1e13,
        "plan.micro_batch_decode": min(plan.micro_batch_decode, 64),
        "plan.buffer_clusters": draw(st.one_of(st.just("auto"), st.integers(500, 5000))),
    }
    if plan.placement == "shared":
        changes |= {
            "plan.tp_prefill": plan.tp_decode,
            "plan.pp_prefill": plan.pp_decode,
            "plan.dp_prefill": 1,
        }
    return s.replacing(changes)
