"""Which kind every layer of a Hugging Face config is: its attention, and MLP or experts."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.config.errors import refuse
from explorer.config.hugging_face_families import Family
from explorer.config.hugging_face_fields import Fields, Number, refuse_missing
from explorer.config.sizes import WITH_EXPERTS, AttentionKind, LayerKind, shortest_pattern

ATTENTION_KINDS: dict[str, AttentionKind] = {
    "full_attention": "full_attention",
    "sliding_attention": "sliding_attention",
    "linear_attention": "linear_attention",
}
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
EXPERTS_PASSED = ("num_experts_per_tok", "num_experts_per_token")
EVERY = {"alternating": "sliding_window_pattern", "interval": "full_attention_interval"}


def attention_kinds(fields: Fields, family: Family, layers: int) -> list[AttentionKind]:
    """Return how each layer mixes tokens; raises InputError for kinds that are not modelled."""
    named = fields.words("layer_types")
    if named is not None:
        return _named(named, layers)
    windowed = fields.find("sliding_window") is not None
    if family.pattern == "qwen":
        start = fields.find("max_window_layers", least=0)
        first = start.value if start is not None else layers
        if not (windowed and fields.flag("use_sliding_window", False)):
            first = layers
        return ["full_attention" if i < first else "sliding_attention" for i in range(layers)]
    if family.pattern in EVERY:
        found = fields.find(EVERY[family.pattern])
        every = found.value if found is not None else family.every
        most: AttentionKind = (
            "linear_attention" if family.pattern == "interval" else "sliding_attention"
        )
        return ["full_attention" if (i + 1) % every == 0 else most for i in range(layers)]
    if family.pattern == "window" and windowed and fields.flag("use_sliding_window", True):
        return ["sliding_attention"] * layers
    return ["full_attention"] * layers


def _named(named: tuple[str, ...], layers: int) -> list[AttentionKind]:
    unknown = sorted(set(named) - set(ATTENTION_KINDS))
    if unknown:
        accepted = f"this kind of layer is not modelled; expected {', '.join(ATTENTION_KINDS)}"
        raise refuse("layer_types", unknown[0], accepted)
    if len(named) != layers:
        accepted = f"expected one for each of the {layers} layers of num_hidden_layers"
        raise refuse("layer_types", f"{len(named)} kinds", accepted)
    return [ATTENTION_KINDS[kind] for kind in named]


@dataclass(frozen=True)
class Experts:
    """Experts of a config.

    Attributes:
        count, per_token: E and k.
        width: of one routed expert.
        shared_width: of all shared experts together, None without any.
        here: whether each layer has experts.
    """

    count: Number
    per_token: Number
    width: Number
    shared_width: Number | None
    here: tuple[bool, ...]


def experts_of(fields: Fields, layers: int, model_type: str) -> Experts | None:
    """Return the experts, None for a dense model.

    Raises:
        InputError: when a size of them is missing or no sensible number.
    """
    count = fields.find(*EXPERT_COUNTS, least=0)
    if count is None or count.value == 0:
        return None
    per_token = fields.find(*EXPERTS_PASSED)
    width = fields.find("moe_intermediate_size", "intermediate_size")
    missing = [
        name
        for name, number in (("num_experts_per_tok", per_token), ("moe_intermediate_size", width))
        if number is None
    ]
    if per_token is None or width is None:
        raise refuse_missing(missing, model_type)
    if per_token.value > count.value:
        accepted = f"expected at most the {count.value} experts that there are"
        raise refuse(per_token.key, per_token.value, accepted)
    here = _layers_with_experts(fields, layers)
    return Experts(count, per_token, width, _shared(fields, width), here)


def _shared(fields: Fields, width: Number) -> Number | None:
    together = fields.find("shared_expert_intermediate_size", least=0)
    if together is not None:
        return together if together.value else None
    each = fields.find("n_shared_experts", "num_shared_experts", least=0)
    if each is None or not each.value:
        return None
    source = f"{each.source} × {width.key}"
    return Number(each.value * width.value, source, "derived", f"{each.value} × {width.value}")


def _layers_with_experts(fields: Fields, layers: int) -> tuple[bool, ...]:
    dense = frozenset(fields.indices("mlp_only_layers") or ())
    beyond = sorted(dense.difference(range(layers)))
    if beyond:
        raise refuse("mlp_only_layers", beyond[0], f"expected layers from 0 to {layers - 1}")
    first = fields.find("first_k_dense_replace", least=0)
    first_with = first.value if first is not None else 0
    step = fields.find("decoder_sparse_step")
    every = step.value if step is not None else 1
    frequency = fields.find("moe_layer_freq")
    each = frequency.value if frequency is not None else 1
    return tuple(
        i not in dense and i >= first_with and (i + 1) % every == 0 and i % each == 0
        for i in range(layers)
    )


def layer_kinds(attention: list[AttentionKind], experts: Experts | None) -> tuple[LayerKind, ...]:
    """Return the kind of every layer, the shortest run that repeats through the model."""
    kinds: tuple[LayerKind, ...] = tuple(
        WITH_EXPERTS[kind] if experts is not None and experts.here[i] else kind
        for i, kind in enumerate(attention)
    )
    return shortest_pattern(kinds)
