"""Sizes of a model document from the fields of a Hugging Face config."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from explorer.config.errors import InputError, Problem, refuse
from explorer.config.hugging_face_families import ALWAYS, GENERIC, NEVER, Family
from explorer.config.hugging_face_fields import Fields, Number, refuse_missing
from explorer.config.hugging_face_layers import Experts
from explorer.config.model import LARGEST_SIZE, MOST_LAYERS, ModelQuantity
from explorer.config.quantity import Kind

REQUIRED = {
    "hidden_size": ("hidden_size", "n_embd"),
    "layers": ("num_hidden_layers", "n_layer"),
    "query_heads": ("num_attention_heads", "n_head"),
    "vocabulary_size": ("vocab_size",),
}
FFN_MULTIPLE = 4
"""GPT-2 and its kin have an MLP of four times the hidden size unless ``n_inner`` says otherwise."""
CONVOLUTION_WIDTH = 4
"""Of the published Qwen3-Next class, where a config leaves it out."""
FP32_BYTES, FP16_BYTES = 4, 2
UNITS = {
    "layers": "layers",
    "query_heads": "heads",
    "kv_heads": "heads",
    "vocabulary_size": "tokens",
    "mlp_matrices": "matrices",
    "embedding_tables": "tables",
    "norm_vectors_per_layer": "vectors",
    "final_norm_vectors": "vectors",
    "query_projection_factor": "x",
    "linear_key_heads": "heads",
    "linear_value_heads": "heads",
    "linear_convolution_width": "tokens",
    "linear_state_element_bytes": "B",
    "linear_convolution_element_bytes": "B",
    "sliding_window": "tokens",
    "experts": "experts",
    "experts_per_token": "experts",
    "shared_expert_gates": "gates",
    "learned_positions": "tokens",
}
"""Units of the numbers that do not count elements."""


class SizeReader:
    """Collects sizes, and sentences on those that the config does not give."""

    def __init__(self, fields: Fields, family: Family, model_type: str) -> None:
        """Read what every model has; raises InputError for sizes that are missing or impossible."""
        self.fields, self.family, self.model_type = fields, family, model_type
        self.numbers: dict[str, Number] = {}
        self.assumed: list[str] = []
        self._required()
        self._heads()
        self._mlp()
        self._attention_vectors()
        self._ends()

    def quantities(self) -> dict[str, ModelQuantity]:
        """Return the sizes as numbers of a model document; raises InputError for too large ones."""
        for name, number in self.numbers.items():
            if number.value > LARGEST_SIZE:
                accepted = f"expected at most {LARGEST_SIZE}, from {number.note or number.source}"
                raise refuse(name, number.value, accepted)
        return {
            name: number.quantity(UNITS.get(name, "elements"))
            for name, number in self.numbers.items()
        }

    def value(self, name: str) -> int:
        """Return a size that was read."""
        return self.numbers[name].value

    def _required(self) -> None:
        """Read the sizes that nothing works without; all that is wrong with them at once."""
        readers: dict[str, Callable[[], Number]] = {
            name: partial(self._found, keys) for name, keys in REQUIRED.items()
        }
        problems: list[Problem] = []
        for name, read in {**readers, "ffn_width": self._width}.items():
            try:
                self.numbers[name] = read()
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)
        layers = self.numbers["layers"]
        if layers.value > MOST_LAYERS:
            raise refuse(layers.key, layers.value, f"expected at most {MOST_LAYERS} layers")

    def _found(self, keys: tuple[str, ...]) -> Number:
        found = self.fields.find(*keys) or self._default(keys[0])
        if found is None:
            raise refuse_missing([keys[0]], self.model_type)
        return found

    def _default(self, key: str) -> Number | None:
        value = self.family.defaults.get(key)
        if value is None:
            return None
        self.assumed.append(f"{key} is not in the file: {value}, {self.family.label}'s default.")
        return Number(value, f"default of {self.family.label} configs, not in the file", "assumed")

    def _heads(self) -> None:
        heads, hidden = self.numbers["query_heads"], self.numbers["hidden_size"]
        kv = self.fields.find("num_key_value_heads") or self._default("num_key_value_heads")
        if kv is None and self.fields.flag("multi_query", False):
            kv = Number(1, "config: multi_query")
        if kv is None:
            kv = self._fact(heads.value, "derived", "as many as query heads")
        if heads.value % kv.value:
            accepted = f"expected a divisor of the {heads.value} query heads"
            raise refuse("num_key_value_heads", kv.value, accepted)
        head_dim = self.fields.find("head_dim") or self._default("head_dim")
        if head_dim is None:
            if hidden.value % heads.value:
                accepted = f"does not divide {hidden.key} {hidden.value}; expected a divisor of it"
                raise refuse(heads.key, heads.value, f"{accepted}, or head_dim")
            implied = f"{hidden.value} / {heads.value}"
            head_dim = self._fact(hidden.value // heads.value, "derived", implied)
        self.numbers |= {"kv_heads": kv, "head_dim": head_dim}
        gated = self.family.output_gate and self.fields.flag("attn_output_gate", True)
        if gated:
            self.numbers["query_projection_factor"] = self._fact(2, note="half gates the output")

    def _width(self) -> Number:
        found = self.fields.find("intermediate_size", "n_inner")
        if found is None and self.family.learned_positions and "hidden_size" in self.numbers:
            hidden = self.value("hidden_size")
            found = self._fact(FFN_MULTIPLE * hidden, "derived", f"{FFN_MULTIPLE} × {hidden}")
        return found or self._found(("intermediate_size", "moe_intermediate_size"))

    def _mlp(self) -> None:
        width, gated = self.numbers["ffn_width"], self.family.gated
        words = "gate, up and down projection" if gated else "up and down projection, no gate"
        self.numbers["mlp_matrices"] = self._fact(3 if gated else 2, note=words)
        if self._on(self.family.mlp_bias):
            inner, hidden = width.value * (2 if gated else 1), self.value("hidden_size")
            self._derived("mlp_bias_elements", inner + hidden, f"{inner} + {hidden}")

    def _attention_vectors(self) -> None:
        heads, kv = self.value("query_heads"), self.value("kv_heads")
        head_dim, hidden = self.value("head_dim"), self.value("hidden_size")
        rows = 2 * heads if "query_projection_factor" in self.numbers else heads
        biases, words = 0, []
        if self._on(self.family.qkv_bias):
            biases += (rows + 2 * kv) * head_dim
            words.append(f"({rows} + 2 × {kv}) × {head_dim}")
        if self._on(self.family.output_bias):
            biases += hidden
            words.append(f"{hidden}")
        if biases:
            self._derived("attention_bias_elements", biases, " + ".join(words))
        flag = self.family.qk_norm_flag
        if self.family.qk_norm == "none" or (flag and not self.fields.flag(flag, False)):
            return
        elements, note = {
            "head": (2 * head_dim, f"2 × {head_dim}"),
            "head_with_bias": (4 * head_dim, f"4 × {head_dim}, gains and biases"),
            "whole": ((heads + kv) * head_dim, f"({heads} + {kv}) × {head_dim}"),
        }[self.family.qk_norm]
        self._derived("qk_norm_elements", elements, note)

    def _ends(self) -> None:
        family = self.family
        self.numbers["norm_vectors_per_layer"] = self._fact(family.norm_vectors)
        self.numbers["final_norm_vectors"] = self._fact(family.final_norm_vectors)
        tied = self.fields.flag("tie_word_embeddings", family.tied)
        if family is GENERIC and self.fields.raw("tie_word_embeddings") is None:
            self.assumed.append("tie_word_embeddings is not in the file: tied, the usual default.")
        words = "the output head is the input embedding" if tied else "the output head is its own"
        self.numbers["embedding_tables"] = self._fact(1 if tied else 2, note=words)
        if self._on(family.head_bias):
            rows = self.value("vocabulary_size")
            self._derived("output_head_bias_elements", rows, f"{rows}")
        if family.learned_positions:
            positions = self.fields.find(family.learned_positions, "max_position_embeddings")
            if positions is None:
                raise refuse_missing([family.learned_positions], self.model_type)
            self.numbers["learned_positions"] = positions

    def window(self) -> None:
        """Read the window of sliding layers; raises InputError where there is none."""
        found = self.fields.find("sliding_window")
        if found is None:
            raise refuse_missing(["sliding_window"], self.model_type)
        self.numbers["sliding_window"] = found

    def linear(self) -> None:
        """Read linear-attention layers; raises InputError for missing or impossible sizes."""
        keys = {
            "linear_key_heads": "linear_num_key_heads",
            "linear_value_heads": "linear_num_value_heads",
            "linear_head_dim": "linear_key_head_dim",
        }
        found = {name: self.fields.find(key) for name, key in keys.items()}
        missing = [key for name, key in keys.items() if found[name] is None]
        if missing:
            raise refuse_missing(missing, self.model_type)
        self.numbers |= {name: number for name, number in found.items() if number is not None}
        value_heads, key_heads = self.value("linear_value_heads"), self.value("linear_key_heads")
        if value_heads % key_heads:
            accepted = f"expected a multiple of the {key_heads} key heads"
            raise refuse("linear_num_value_heads", value_heads, accepted)
        value_dim = self.fields.find("linear_value_head_dim") or self.numbers["linear_head_dim"]
        width = self.fields.find("linear_conv_kernel_dim", least=0)
        if width is None:
            width = Number(CONVOLUTION_WIDTH, "default of Qwen3-Next configs", "assumed")
            self.assumed.append(f"linear_conv_kernel_dim is not in the file: {width.value}.")
        self.numbers |= {
            "linear_value_head_dim": value_dim,
            "linear_convolution_width": width,
            "linear_state_element_bytes": self._fact(FP32_BYTES, "assumed", "state kept in FP32"),
            "linear_convolution_element_bytes": self._fact(FP16_BYTES, "assumed", "16-bit inputs"),
        }
        vectors = 2 * value_heads + value_dim.value
        note = f"2 × {value_heads} of decay and time step, {value_dim.value} of the norm"
        self._derived("linear_vector_elements", vectors, note)

    def experts(self, experts: Experts) -> None:
        """Take over the experts."""
        self.numbers |= {
            "experts": experts.count,
            "experts_per_token": experts.per_token,
            "expert_ffn_width": experts.width,
        }
        if experts.shared_width is not None:
            self.numbers["shared_expert_ffn_width"] = experts.shared_width
            if self.family.shared_expert_gate:
                self.numbers["shared_expert_gates"] = self._fact(1)

    def _on(self, flag: str) -> bool:
        if flag in (ALWAYS, NEVER):
            return flag == ALWAYS
        return self.fields.flag(flag, self.family.bias_default)

    def _fact(self, value: int, kind: Kind = "published", note: str = "") -> Number:
        """Return what a family has and its config does not spell out."""
        if self.family is GENERIC and kind == "published":
            return Number(value, "as in Llama: the type of the file is not known", "assumed", note)
        return Number(value, f"{self.family.label} models", kind, note)

    def _derived(self, name: str, value: int, formula: str) -> None:
        self.numbers[name] = Number(value, "from the sizes of the config", "derived", formula)
