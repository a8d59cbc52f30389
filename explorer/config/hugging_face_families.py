"""Families of Hugging Face configurations: what a family has that its config does not spell out.

Facts of the published model classes. A config gives sizes; whether the MLP is gated, which
projections have biases or how often a norm occurs is known by the model type alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Pattern = Literal["window", "qwen", "alternating", "interval", "full"]
QkNorm = Literal["none", "head", "head_with_bias", "whole"]
ALWAYS, NEVER = "always", "never"


@dataclass(frozen=True)
class Family:
    """One kind of decoder.

    Attributes:
        label: for people.
        gated: gate, up and down in the MLP, or two matrices.
        norm_vectors: of ``hidden_size`` a layer; a LayerNorm with bias has two.
        final_norm_vectors: after the layers.
        tied: whether the output head is the input embedding where the config does not say.
        qkv_bias, output_bias, mlp_bias: a config flag, or always, or never.
        bias_default: of those flags where the config does not say.
        head_bias: the same for the output head.
        qk_norm: of each head, of each head with bias, or of all heads together.
        qk_norm_flag: config flag that switches the norm on; empty for always.
        pattern: where sliding or linear layers are if the config lists no ``layer_types``:
            ``window`` every layer if a window is given, ``qwen`` from ``max_window_layers`` on,
            ``alternating`` all but every n-th, ``interval`` linear but for every n-th, or none.
        every: n of ``alternating`` and ``interval`` where the config does not say.
        output_gate: whether the query projection also makes a gate for the output.
        shared_expert_gate: whether a gate weighs the shared experts.
        parallel: whether attention and MLP work on the same input.
        learned_positions: config field that sizes a table of positions.
        defaults: sizes of the published class that its configs leave out.
    """

    label: str
    gated: bool = True
    norm_vectors: int = 2
    final_norm_vectors: int = 1
    tied: bool = False
    qkv_bias: str = NEVER
    output_bias: str = NEVER
    mlp_bias: str = NEVER
    bias_default: bool = False
    head_bias: str = NEVER
    qk_norm: QkNorm = "none"
    qk_norm_flag: str = ""
    pattern: Pattern = "window"
    every: int = 0
    output_gate: bool = False
    shared_expert_gate: bool = False
    parallel: bool = False
    learned_positions: str = ""
    defaults: Mapping[str, int] = field(default_factory=dict)


QWEN_NEXT = Family(
    "Qwen hybrid",
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    pattern="interval",
    every=4,
    output_gate=True,
    shared_expert_gate=True,
)
GEMMA3_SIZES = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
}
GEMMA3 = Family(
    "Gemma 3",
    norm_vectors=4,
    tied=True,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    pattern="alternating",
    every=6,
    defaults=GEMMA3_SIZES,
)
LLAMA = Family(
    "Llama", qkv_bias="attention_bias", output_bias="attention_bias", mlp_bias="mlp_bias"
)
QWEN3 = Family(
    "Qwen3",
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    qk_norm="head",
    pattern="qwen",
)
FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": Family("Mistral"),
    "mixtral": Family("Mixtral"),
    "qwen2": Family("Qwen2", qkv_bias=ALWAYS, pattern="qwen"),
    "qwen2_moe": Family(
        "Qwen2-MoE",
        qkv_bias="qkv_bias",
        bias_default=True,
        pattern="qwen",
        shared_expert_gate=True,
    ),
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3,
    "qwen3_next": QWEN_NEXT,
    "qwen3_5": QWEN_NEXT,
    "qwen3_5_moe": QWEN_NEXT,
    "gemma": Family(
        "Gemma", tied=True, qkv_bias="attention_bias", output_bias="attention_bias", pattern="full"
    ),
    "gemma2": Family(
        "Gemma 2",
        norm_vectors=4,
        tied=True,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        pattern="alternating",
        every=2,
    ),
    "gemma3": GEMMA3,
    "phi": Family(
        "Phi",
        gated=False,
        norm_vectors=2,
        final_norm_vectors=2,
        qkv_bias=ALWAYS,
        output_bias=ALWAYS,
        mlp_bias=ALWAYS,
        head_bias=ALWAYS,
        qk_norm="head_with_bias",
        qk_norm_flag="qk_layernorm",
        pattern="full",
        parallel=True,
    ),
    "phi3": Family("Phi-3"),
    "phimoe": Family(
        "Phi-3.5-MoE",
        norm_vectors=4,
        final_norm_vectors=2,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        head_bias="lm_head_bias",
    ),
    "gpt_neox": Family(
        "GPT-NeoX",
        gated=False,
        norm_vectors=4,
        final_norm_vectors=2,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        mlp_bias=ALWAYS,
        bias_default=True,
        pattern="full",
    ),
    "gpt2": Family(
        "GPT-2",
        gated=False,
        norm_vectors=4,
        final_norm_vectors=2,
        tied=True,
        qkv_bias=ALWAYS,
        output_bias=ALWAYS,
        mlp_bias=ALWAYS,
        pattern="full",
        learned_positions="n_positions",
    ),
    "gpt_bigcode": Family(
        "StarCoder",
        gated=False,
        norm_vectors=4,
        final_norm_vectors=2,
        tied=True,
        qkv_bias=ALWAYS,
        output_bias=ALWAYS,
        mlp_bias=ALWAYS,
        pattern="full",
        learned_positions="n_positions",
    ),
    "starcoder2": Family(
        "StarCoder2",
        gated=False,
        norm_vectors=4,
        final_norm_vectors=2,
        tied=True,
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        bias_default=True,
    ),
    "stablelm": Family(
        "StableLM", norm_vectors=4, final_norm_vectors=2, qkv_bias="use_qkv_bias", pattern="full"
    ),
    "olmo2": Family(
        "OLMo 2",
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm="whole",
        pattern="full",
    ),
    "cohere": Family(
        "Command R",
        norm_vectors=1,
        tied=True,
        qkv_bias="attention_bias",
        output_bias="attention_bias",
        qk_norm="whole",
        qk_norm_flag="use_qk_norm",
        pattern="full",
        parallel=True,
    ),
    "granite": LLAMA,
    "deepseek": Family(
        "DeepSeek-MoE", qkv_bias="attention_bias", output_bias="attention_bias", pattern="full"
    ),
    "glm4_moe": Family(
        "GLM-4 MoE",
        qkv_bias="attention_bias",
        qk_norm="head",
        qk_norm_flag="use_qk_norm",
        pattern="full",
    ),
}
ALIASES = {
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}
"""Types whose language model is one of another type."""
GENERIC = Family(
    "generic",
    tied=True,
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    mlp_bias="mlp_bias",
)
"""A type that is not known, whose config names every size as Llama's does."""

STATE_SPACE = "its state-space layers are not modelled"
REFUSED = {
    "llama4": "attention in chunks and its own order of dense and expert layers are not modelled",
    "gemma3n": "its embeddings and shared caches of every layer are not modelled",
    "gpt_oss": "attention sinks and biases of experts are not modelled",
    "falcon": "its fused projections are not read here",
    "bert": "an encoder makes no tokens; expected a decoder",
    "roberta": "an encoder makes no tokens; expected a decoder",
    "rwkv": "its recurrence is not modelled",
    "recurrent_gemma": "its recurrence is not modelled",
    **dict.fromkeys(
        (
            "mamba",
            "mamba2",
            "falcon_mamba",
            "jamba",
            "bamba",
            "zamba",
            "zamba2",
            "granitemoehybrid",
            "nemotron_h",
        ),
        STATE_SPACE,
    ),
}
"""Types that give all the usual sizes and would be read wrongly, with the reason."""
REFUSED_FIELDS = {
    "kv_lora_rank": "multi-head latent attention keeps a compressed vector a token and projects "
    "it anew: its cache, parameters and times would all be wrong here",
    "attention_chunk_size": "attention in chunks is not modelled",
    "cross_attention_layers": "layers that attend to images are not modelled",
    "hidden_size_per_layer_input": "embeddings of every layer are not modelled",
    "num_kv_shared_layers": "layers that share a KV cache are not modelled",
    "attn_layer_period": STATE_SPACE,
    "mamba_d_state": STATE_SPACE,
    "ssm_cfg": STATE_SPACE,
}
"""Fields whose presence means an architecture that is not modelled, with the reason."""
