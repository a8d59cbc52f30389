"""What of a Hugging Face config has no part in the results, and whether that changes them."""

from __future__ import annotations

from typing import Any

from explorer.config.errors import shown
from explorer.config.hugging_face_families import Family
from explorer.config.hugging_face_fields import Fields
from explorer.config.model import Model
from explorer.config.sizes import has_experts

NO_EFFECT = {
    "rope_scaling": "rotary angles have no weights and take no time here",
    "rope_parameters": "rotary angles have no weights and take no time here",
    "attn_logit_softcapping": "capping scores takes no time here",
    "final_logit_softcapping": "capping logits takes no time here",
    "logit_scale": "scaling takes no time here",
    "embedding_multiplier": "scaling takes no time here",
    "residual_multiplier": "scaling takes no time here",
    "attention_multiplier": "scaling takes no time here",
    "logits_scaling": "scaling takes no time here",
    "alibi": "position biases have no weights and take no time here",
}
"""Fields without effect on any result, with the reason."""
TOWERS = {
    "vision_config": "vision",
    "audio_config": "audio",
    "visual": "vision",
}
FURTHER_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
SILENT = """
_attn_implementation _attn_implementation_autoset _name_or_path _num_labels activation_function
architectures attention_bias attention_dropout attention_softmax_in_fp32 attn_pdrop auto_map
aux_loss_alpha begin_suppress_tokens bias_dropout_fusion boi_token_index bos_token_id
cache_implementation chunk_size_feed_forward classifier_dropout classifier_dropout_prob
cls_token_id decoder_sparse_step decoder_start_token_id dtype embd_pdrop embedding_dropout
eoi_token_index eos_token_id finetuning_task full_attn_alternate_layers_skipped
gradient_checkpointing head_dim hidden_act hidden_activation hidden_dropout hidden_dropout_prob
id2label image_token_id image_token_index inference_runner initializer_range input_jitter_noise
intermediate_size is_decoder keys_to_ignore_at_inference label2id layer_norm_bias layer_norm_eps
layer_norm_epsilon layernorm_epsilon mamba_ssm_dtype mask_token_id max_position_embeddings
max_window_layers mlp_only_layers mlp_type mm_tokens_per_image model_type moe_intermediate_size
n_ctx n_group n_positions norm_eps norm_epsilon norm_topk_prob norm_type num_labels
original_max_position_embeddings output_attentions output_hidden_states output_router_logits
pad_token_id partial_rotary_factor pre_allocate_kv_cache prefix pretraining_tp problem_type
query_pre_attn_scalar reorder_and_upcast_attn resid_dropout resid_pdrop residual_dropout
return_dict rms_norm_eps rope_local_base_freq rope_pct rope_theta rotary_emb_base rotary_pct
routed_scaling_factor router_aux_loss_coef router_jitter_noise runner_max_sequence_length
scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func
sep_token_id seq_aux sliding_window sliding_window_pattern summary_activation
summary_first_dropout summary_proj_to_labels summary_type summary_use_proj task_specific_params
tokenizer_class topk_group topk_method torch_dtype transformers_version unk_token_id
use_bfloat16 use_cache use_mrope use_sliding_window validate_runner_input video_token_id
vision_end_token_id vision_start_token_id vision_token_id
"""
"""Fields that say nothing of sizes or costs, or were read where they do."""
SILENT_FIELDS = frozenset(SILENT.split())
MOST_UNKNOWN = 12
HALF_PRECISION = ("float16", "bfloat16", "half")


def not_modelled(fields: Fields, family: Family, model: Model) -> tuple[str, ...]:
    """Return a sentence for everything that is ignored and that a reader might count on."""
    notes = [f"{key}: {why}; no effect." for key, why in NO_EFFECT.items() if fields.raw(key)]
    notes += _quantization(fields)
    for key, what in TOWERS.items():
        if fields.raw(key) is not None:
            notes.append(
                f"{key}: the {what} tower is not counted. Parameters are those of the "
                "language model alone, and images or sound take no time."
            )
    for key in FURTHER_LAYERS:
        if fields.raw(key):
            notes.append(
                f"{key}: layers that predict further tokens are not counted; with them parameters "
                "are more, and a step may yield several tokens."
            )
    if family.parallel or fields.flag("use_parallel_residual", family.label == "GPT-NeoX"):
        notes.append(
            "Attention and MLP work on the same input: priced one after the other, with two "
            "all-reduces a layer where one would do."
        )
    notes += _of_layers(model)
    positions = fields.find("max_position_embeddings", "n_positions", least=0)
    if positions is not None:
        notes.append(
            f"{positions.key} = {positions.value:,}: longer contexts are priced all the same."
        )
    return (*notes, *_unknown(fields))


def _quantization(fields: Fields) -> list[str]:
    notes = []
    quantization = fields.raw("quantization_config")
    if quantization is not None:
        method: Any = quantization.get("quant_method") if isinstance(quantization, dict) else None
        named = f" ({shown(method)})" if isinstance(method, str) else ""
        notes.append(
            f"quantization_config{named}: weights are stored as the scenario's precision says. "
            "Set precision.weights: memory and weight traffic follow it."
        )
    stored = fields.raw("torch_dtype") or fields.raw("dtype")
    if isinstance(stored, str) and stored.removeprefix("torch.") not in HALF_PRECISION:
        notes.append(
            f"torch_dtype = {shown(stored)}: bytes here are 16-bit or the scenario's precision, "
            "whatever the file stores."
        )
    return notes


def _of_layers(model: Model) -> list[str]:
    notes = []
    if any(map(has_experts, model.kinds)):
        notes.append(
            "Experts: every choice of experts is taken to be equally likely, and TP splits each "
            "expert; expert parallelism and the cost of moving rows to experts are not modelled."
        )
    if model.layers_with("linear_attention"):
        notes.append(
            "Linear attention is priced as a gated-delta recurrence over tokens; a chunked kernel "
            "does more arithmetic and moves the state less often. Its convolution takes no time."
        )
    if model.qk_norm_elements:
        notes.append("Query and key norms count as parameters; they take no time of their own.")
    return notes


def _unknown(fields: Fields) -> list[str]:
    unknown = [
        shown(key) for key in fields.unread() if key not in SILENT_FIELDS and key not in TOWERS
    ]
    if not unknown:
        return []
    rest = len(unknown) - MOST_UNKNOWN
    listed = ", ".join(unknown[:MOST_UNKNOWN]) + (f" and {rest} more" if rest > 0 else "")
    return [f"Not known here, so that their effect is not either: {listed}."]
