"""What a model is made of: every weight matrix and vector, with the formula of its size."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.config.sizes import LayerKind, Sizes, caches_tokens, has_experts


@dataclass(frozen=True)
class Part:
    """Weights of one kind.

    Attributes:
        name: what they are.
        formula: their number, with the sizes filled in.
        elements: stored.
        active: of them, what one token passes; fewer than stored for routed experts.
        product: whether a token is multiplied with each active one (a MAC each).
        whole: whether every rank of a tensor-parallel group keeps all of them.
    """

    name: str
    formula: str
    elements: int
    active: int
    product: bool = True
    whole: bool = False


def layer_parts(sizes: Sizes, kind: LayerKind) -> tuple[Part, ...]:
    """Return the weights of one layer of a kind, those that it does not have left out."""
    parts = _attention(sizes) if caches_tokens(kind) else _linear_attention(sizes)
    parts += _experts(sizes) if has_experts(kind) else _mlp(sizes)
    parts.append(_vectors("norms", sizes.norm_vectors_per_layer, sizes.hidden_size, True))
    return tuple(part for part in parts if part.elements)


def end_parts(sizes: Sizes) -> tuple[Part, ...]:
    """Return the weights before and after the layers, those that a model lacks left out."""
    rows, hidden = sizes.vocabulary_size, sizes.hidden_size
    tied = sizes.embedding_tables == 1
    table = f"{rows:,} × {hidden:,}"
    embedding = "embedding and output head, one table" if tied else "input embedding"
    parts = [
        Part(embedding, table, rows * hidden, rows * hidden, product=tied),
        *([] if tied else [_matrix("output head", rows, hidden)]),
        Part(
            "learned positions",
            f"{sizes.learned_positions:,} × {hidden:,}",
            sizes.learned_positions * hidden,
            sizes.learned_positions * hidden,
            product=False,
            whole=True,
        ),
        _vectors("final norm", final_norm_vectors(sizes), hidden, True),
        _vectors("output head bias", 1, sizes.output_head_bias_elements, False),
    ]
    return tuple(part for part in parts if part.elements)


def final_norm_vectors(sizes: Sizes) -> int:
    """Return the norm vectors after the last layer: one where layers have any, unless given."""
    if sizes.final_norm_vectors is not None:
        return sizes.final_norm_vectors
    return 1 if sizes.norm_vectors_per_layer else 0


def _attention(sizes: Sizes) -> list[Part]:
    hidden, heads, head_dim = sizes.hidden_size, sizes.query_heads, sizes.head_dim
    gate = sizes.query_projection_factor
    query = (hidden, gate, heads, head_dim) if gate > 1 else (hidden, heads, head_dim)
    return [
        _matrix("query projection" + (" with output gate" if gate > 1 else ""), *query),
        _matrix("key and value projections", 2, hidden, sizes.kv_heads, head_dim),
        _matrix("attention output projection", heads, head_dim, hidden),
        _vectors("attention biases", 1, sizes.attention_bias_elements, False),
        _vectors("query and key norms", 1, sizes.qk_norm_elements, True),
    ]


def _linear_attention(sizes: Sizes) -> list[Part]:
    hidden, keys, values = sizes.hidden_size, sizes.linear_key_width, sizes.linear_value_width
    columns = 2 * keys + 2 * values + 2 * sizes.linear_value_heads
    made = f"{hidden:,} × (2 × {keys:,} + 2 × {values:,} + 2 × {sizes.linear_value_heads:,})"
    channels, width = sizes.linear_convolution_channels, sizes.linear_convolution_width
    convolution = f"{channels:,} × {width:,}"
    return [
        Part("linear-attention projections", made, hidden * columns, hidden * columns),
        _matrix("linear-attention output projection", values, hidden),
        Part("convolution", convolution, channels * width, channels * width, product=False),
        _vectors("decay and norm vectors", 1, sizes.linear_vector_elements, True),
    ]


def _mlp(sizes: Sizes) -> list[Part]:
    return [
        _matrix("MLP", sizes.mlp_matrices, sizes.hidden_size, sizes.ffn_width),
        _vectors("MLP biases", 1, sizes.mlp_bias_elements, False),
    ]


def _experts(sizes: Sizes) -> list[Part]:
    hidden, one = sizes.hidden_size, (sizes.mlp_matrices, sizes.hidden_size, sizes.expert_ffn_width)
    stored = _matrix("experts", sizes.experts, *one)
    passed = _matrix("experts", sizes.experts_per_token, *one)
    gates = hidden * sizes.shared_expert_gates
    return [
        _router(sizes),
        Part(stored.name, stored.formula, stored.elements, passed.elements),
        _matrix("shared experts", sizes.mlp_matrices, hidden, sizes.shared_expert_ffn_width),
        Part("shared-expert gate", f"{gates:,}", gates, gates, whole=True),
    ]


def _router(sizes: Sizes) -> Part:
    elements = sizes.hidden_size * sizes.experts
    formula = f"{sizes.hidden_size:,} × {sizes.experts:,}"
    return Part("router", formula, elements, elements, whole=True)


def _matrix(name: str, *factors: int) -> Part:
    elements = 1
    for factor in factors:
        elements *= factor
    return Part(name, " × ".join(f"{factor:,}" for factor in factors), elements, elements)


def _vectors(name: str, count: int, width: int, whole: bool) -> Part:
    formula = f"{count:,} × {width:,}" if count != 1 else f"{width:,}"
    return Part(name, formula, count * width, count * width, product=False, whole=whole)
