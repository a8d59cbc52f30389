"""Which stage of a prefill pipeline is the slowest, in numbers and in words."""

from __future__ import annotations

from explorer.config.model import LayerKind
from explorer.costs.partition import StageContents, StageShare, chosen_share, stage_contents
from explorer.costs.terms import slowest_index
from explorer.serving.evaluate import Evaluation

KIND_WORDS: dict[LayerKind, str] = {
    "linear_attention": "gated-delta",
    "full_attention": "full-attention",
    "sliding_attention": "sliding-window",
    "linear_attention_moe": "gated-delta with experts",
    "full_attention_moe": "full-attention with experts",
    "sliding_attention_moe": "sliding-window with experts",
}


def slowest_prefill_share(evaluation: Evaluation) -> StageShare:
    """Return what the slowest prefill stage holds, element by element.

    It is the stage whose time ``evaluation.prefill_stage`` is, unless that was typed in.
    """
    shares = evaluation.prefill_shares
    if len(shares) == 1:
        return shares[0]
    return chosen_share(slowest_index(evaluation.modelled_prefill_stages), shares)


def slowest_decode_share(evaluation: Evaluation) -> StageShare:
    """Return what the slowest decode stage holds, element by element."""
    shares = evaluation.decode_shares
    if len(shares) == 1:
        return shares[0]
    stages = [evaluation.machine.decode_stage(share) for share in shares]
    return chosen_share(slowest_index(stages), shares)


def slowest_prefill_stages(evaluation: Evaluation) -> tuple[StageContents, ...]:
    """Return the stages of a single scenario that are the slowest: several may hold the same."""
    share = slowest_prefill_share(evaluation)
    stages = stage_contents(evaluation.inputs.model, int(evaluation.inputs.pp_prefill))
    return tuple(stage for stage in stages if stage.is_share(share))


def slowest_stage_words(evaluation: Evaluation) -> str:
    """Return which prefill stage is the slowest and what it holds; empty without a pipeline.

    Such as ``stage 1 of 3, layers 1 to 22: 17 gated-delta, 5 full-attention, embedding``.
    """
    count = int(evaluation.inputs.pp_prefill)
    if count == 1:
        return ""
    first, *alike = slowest_prefill_stages(evaluation)
    span = (
        f"layer {first.first}"
        if first.first == first.last
        else f"layers {first.first} to {first.last}"
    )
    ends = [name for name in ("embedding", "head") if getattr(first, name)]
    if len(evaluation.inputs.model.kinds) > 1:
        kinds = [f"{number} {KIND_WORDS[kind]}" for kind, number in first.layers.items()]
        held = f"{span}: {', '.join([*kinds, *ends])}"
    else:
        held = " and ".join([span, *ends])
    more = f", {len(alike)} more alike" if alike else ""
    return f"stage {first.number} of {count}, {held}{more}"


def pass_seconds(evaluation: Evaluation) -> float:
    """Return how long one prefill pass takes through all stages, each as long as the slowest [s].

    That is the time to the first token without its way to another pool.
    """
    return float(evaluation.inputs.pp_prefill * evaluation.prefill_stage.seconds)
