"""Hugging Face configs against published parameter counts, and against what must be refused."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.hugging_face import imported, read_config
from explorer.config.hugging_face_families import FAMILIES, REFUSED, REFUSED_FIELDS
from explorer.config.jsonio import LARGEST_DOCUMENT_BYTES
from explorer.config.model import LARGEST_SIZE, MOST_LAYERS, ModelDocument
from explorer.config.presets import load_model
from tests.configs import CONFIGS, config, config_model, imported_config

# Parameters on the model cards or in the papers, to the last one where those give it.
PARAMETERS = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "gemma-2b": 2_506_172_416,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "phi-2": 2_779_683_840,
    "phi-3-mini-4k": 3_821_079_552,
    "gpt2": 124_439_808,
    "gpt-neox-20b": 20_554_567_680,
    "starcoder": 15_517_456_384,
    "stablelm-3b-4e1t": 2_795_443_200,
    "olmo-2-7b": 7_298_617_344,
    "deepseek-moe-16b": 16_375_728_128,
}
ACTIVE_BILLIONS = {
    "mixtral-8x7b": 12.88,
    "qwen3-30b-a3b": 3.35,
    "qwen3-235b-a22b": 22.19,
    "deepseek-moe-16b": 2.83,
}
KV_BYTES = {
    "llama-2-7b": 524_288,
    "llama-2-70b": 327_680,
    "llama-3-8b": 131_072,
    "mistral-7b-v0.1": 131_072,
    "mixtral-8x7b": 131_072,
    "qwen2.5-7b": 57_344,
    "qwen3-8b": 147_456,
    "qwen3-30b-a3b": 98_304,
    "qwen3.8-27b-hybrid": 65_536,
    "gpt2": 36_864,
    "starcoder": 20_480,
}


def refused(values):
    with pytest.raises(InputError) as caught:
        imported(values) if isinstance(values, dict) else read_config(values)
    message = str(caught.value)
    assert message.isprintable()
    return message


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_model_card(name):
    assert config_model(name).parameters == PARAMETERS[name]


# Further families by the sizes alone: hidden, layers, heads, KV heads, FFN, vocabulary.
FURTHER = {
    "starcoder2-7b": (7_173_923_840, "starcoder2", (4608, 32, 36, 4, 18432, 49152), {}),
    "command-r": (34_980_831_232, "cohere", (8192, 40, 64, 64, 22528, 256000), {}),
    "granite-3.1-8b": (
        8_170_848_256,
        "granite",
        (4096, 40, 32, 8, 12800, 49155),
        {"tie_word_embeddings": True},
    ),
    "pythia-6.9b": (6_857_302_016, "gpt_neox", (4096, 32, 32, None, 16384, 50432), {}),
    "smollm2-1.7b": (
        1_711_376_384,
        "llama",
        (2048, 24, 32, 32, 8192, 49152),
        {"tie_word_embeddings": True},
    ),
    "phi-3.5-moe": (
        41_873_153_344,
        "phimoe",
        (4096, 32, 32, 8, 6400, 32064),
        {
            "num_local_experts": 16,
            "num_experts_per_tok": 2,
            "attention_bias": True,
            "lm_head_bias": True,
        },
    ),
    "qwen1.5-moe-a2.7b": (
        14_315_784_192,
        "qwen2_moe",
        (2048, 24, 16, 16, 5632, 151936),
        {
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
        },
    ),
    "glm-4.5-air": (
        106_852_245_504,
        "glm4_moe",
        (4096, 46, 96, 8, 10944, 151552),
        {
            "head_dim": 128,
            "attention_bias": True,
            "n_routed_experts": 128,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1408,
            "first_k_dense_replace": 1,
            "num_nextn_predict_layers": 1,
        },
    ),
}
SIZE_FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "vocab_size",
)


@pytest.mark.parametrize("name", FURTHER)
def test_further_families_have_their_published_parameters(name):
    parameters, model_type, sizes, more = FURTHER[name]
    values = dict(zip(SIZE_FIELDS, sizes, strict=True), model_type=model_type, **more)
    read = imported(values)
    assert read.document.shape().parameters == parameters
    assert read.assumed == ()
    assert ("n_shared_experts" in more) == any("further tokens" in n for n in read.not_modelled)


@pytest.mark.parametrize("name", ACTIVE_BILLIONS)
def test_active_parameters_are_those_of_the_model_card(name):
    assert round(config_model(name).active_parameters / 1e9, 2) == ACTIVE_BILLIONS[name]


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ACTIVE_BILLIONS])
def test_a_token_passes_all_of_a_dense_model(name):
    model = config_model(name)
    assert (model.active_parameters == model.parameters) == (not model.experts)


@pytest.mark.parametrize("name", KV_BYTES)
def test_kv_bytes_a_token_count_kv_heads_of_the_layers_that_cache(name):
    assert 2 * config_model(name).kv_elements_per_token == KV_BYTES[name]


def test_gpt2_is_the_sum_of_its_published_tensors():
    hidden = 768
    layer = 3 * hidden * hidden + 3 * hidden + hidden * hidden + hidden
    layer += 8 * hidden * hidden + 4 * hidden + hidden + 4 * hidden
    assert config_model("gpt2").parameters == (50257 + 1024 + 2) * hidden + 12 * layer


def test_qwen3_next_is_the_sum_of_its_published_modules():
    hidden, experts = 2048, 512
    moe = experts * 3 * hidden * 512 + hidden * experts + 3 * hidden * 512 + hidden
    keys, values = 16 * 128, 32 * 128
    linear = hidden * (2 * keys + 2 * values) + hidden * 2 * 32 + values * hidden
    linear += 4 * (2 * keys + values) + 32 + 32 + 128
    full = hidden * 2 * 16 * 256 + 2 * hidden * 2 * 256 + 16 * 256 * hidden + 2 * 256
    layers = 36 * linear + 12 * full + 48 * (moe + 2 * hidden)
    assert config_model("qwen3-next-80b-a3b").parameters == layers + (2 * 151936 + 1) * hidden
    # 36 layers keep 32 matrices of 128 x 128 in FP32 and three tokens of 8192 channels.
    state = 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
    assert config_model("qwen3-next-80b-a3b").state_bytes_per_request == state


def test_macs_a_token_are_its_matrices_without_the_looked_up_embedding():
    model = config_model("llama-2-7b")
    norms = (2 * 32 + 1) * 4096
    assert model.macs_per_token == 6_738_415_616 - norms - 32000 * 4096
    tied = config_model("gemma-2b")
    assert tied.macs_per_token == 2_506_172_416 - (2 * 18 + 1) * 2048
    # Both products of Eq. 9 for every key: 2 x 32 heads x 128 in each of 32 layers.
    assert model.attention_macs_per_context_token == 2 * 4096 * 32
    recurrent = config_model("qwen3.8-27b-hybrid")
    with_state = recurrent.total(lambda part: part.active if part.product else 0)
    assert recurrent.macs_per_token - with_state == 48 * 3 * 48 * 128 * 128


@pytest.mark.parametrize(
    ("name", "preset"),
    [("llama-2-7b", "llama2-7b"), ("llama-2-13b", "llama2-13b"), ("llama-2-70b", "llama2-70b")],
)
def test_an_import_has_the_sizes_of_the_preset(name, preset):
    read, shipped = config_model(name), load_model(preset).shape()
    assert read.layer_kinds == shipped.layer_kinds
    for figure in ("parameters", "kv_elements_per_token", "legal_tp", "layer_weight_elements"):
        assert getattr(read, figure) == getattr(shipped, figure)


def test_the_hybrid_differs_from_the_report_by_the_vectors_that_the_report_leaves_out():
    read, shipped = config_model("qwen3.8-27b-hybrid"), load_model("qwen3.8-27b").shape()
    products = [
        model.total(lambda part: part.elements if part.product else 0) for model in (read, shipped)
    ]
    assert products[0] == products[1]
    assert read.layer_kinds == shipped.layer_kinds
    assert 0 < read.parameters / shipped.parameters - 1 < 2e-4


@pytest.mark.parametrize("name", CONFIGS)
def test_every_number_has_a_source_and_the_document_reads_back(name):
    document = imported_config(name).document
    written = json.dumps(document.model_dump(mode="json", by_alias=True))
    assert "null" not in written
    assert ModelDocument.model_validate(json.loads(written)) == document
    for number in document.values():
        assert getattr(document.numbers, number).source
    assert document.id.startswith("own-")


def kinds(name, **changes):
    return imported(config(name, **changes)).document.shape().layer_kinds


def test_sliding_layers_follow_the_family():
    assert set(kinds("mistral-7b-v0.1")) == {"sliding_attention"}
    assert set(kinds("mistral-7b-v0.1", sliding_window=None)) == {"full_attention"}
    gemma2, gemma3 = kinds("gemma-2-9b"), kinds("gemma-3-1b")
    assert gemma2[:3] == ("sliding_attention", "full_attention", "sliding_attention")
    assert [i for i, kind in enumerate(gemma3) if kind == "full_attention"] == [5, 11, 17, 23]
    assert set(kinds("qwen2.5-7b")) == {"full_attention"}
    switched = kinds("qwen2.5-7b", use_sliding_window=True, max_window_layers=20)
    assert switched == ("full_attention",) * 20 + ("sliding_attention",) * 8


def test_named_layers_win_over_the_familys_habit():
    named = ["full_attention", "sliding_attention"] * 13
    assert kinds("gemma-3-1b", layer_types=named) == tuple(named)
    named = ["linear_attention"] * 47 + ["full_attention"]
    read = kinds("qwen3-next-80b-a3b", layer_types=named)
    assert read[0] == "linear_attention_moe"
    assert read[47] == "full_attention_moe"
    every_third = kinds("qwen3-next-80b-a3b", full_attention_interval=3)
    assert [i for i, kind in enumerate(every_third) if kind.startswith("full")][:3] == [2, 5, 8]


def test_experts_stand_where_the_config_says():
    assert kinds("deepseek-moe-16b")[:2] == ("full_attention", "full_attention_moe")
    assert kinds("deepseek-moe-16b").count("full_attention") == 1
    some = kinds("qwen3-30b-a3b", decoder_sparse_step=2, mlp_only_layers=[1])
    with_experts = [i for i, kind in enumerate(some) if kind.endswith("_moe")]
    assert with_experts == [i for i in range(48) if i % 2 == 1 and i != 1]
    dense = imported(config("qwen3-30b-a3b", num_experts=0)).document.shape()
    assert dense.dense_mlp
    assert not dense.experts


def test_biases_gates_and_norms_count_where_flags_say():
    base = config_model("llama-3-8b").parameters
    attention = imported(config("llama-3-8b", attention_bias=True)).document.shape()
    assert attention.parameters - base == 32 * (4096 + 2 * 1024 + 4096)
    mlp = imported(config("llama-3-8b", mlp_bias=True)).document.shape()
    assert mlp.parameters - base == 32 * (2 * 14336 + 4096)
    no_gate = imported(config("qwen3.8-27b-hybrid"))
    nested = dict(config("qwen3.8-27b-hybrid")["text_config"], attn_output_gate=False)
    plain = imported(config("qwen3.8-27b-hybrid", text_config=nested))
    difference = no_gate.document.shape().parameters - plain.document.shape().parameters
    assert difference == 16 * 5120 * 24 * 256
    normed = imported(config("phi-2", qk_layernorm=True)).document.shape()
    assert normed.parameters - config_model("phi-2").parameters == 32 * 4 * 80


def test_tied_embeddings_count_once_and_may_be_told_outside_the_text_config():
    tied = imported(config("llama-3-8b", tie_word_embeddings=True)).document.shape()
    assert config_model("llama-3-8b").parameters - tied.parameters == 128256 * 4096
    assert config_model("qwen3.8-27b-hybrid").embedding_tables == 2
    outside = imported(config("gemma-3-4b", tie_word_embeddings=False)).document.shape()
    assert outside.embedding_tables == 2


def test_what_a_published_config_leaves_to_its_class_is_said():
    read = imported_config("gemma-3-4b")
    assert read.document.shape().query_heads == 8
    for key in ("num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"):
        assert any(sentence.startswith(f"{key} is not in the file") for sentence in read.assumed)
    assert any("the vision tower is not counted" in note for note in read.not_modelled)
    assert any(note.startswith("rope_scaling") for note in read.not_modelled)
    for name in ("llama-3-8b", "mixtral-8x7b", "gpt2"):
        assert imported_config(name).assumed == ()


def test_what_is_ignored_is_said_with_its_consequence():
    quantised = config(
        "llama-3-8b", quantization_config={"quant_method": "awq", "bits": 4}, mystery=3
    )
    notes = imported(quantised).not_modelled
    assert any("(awq)" in note and "precision.weights" in note for note in notes)
    assert any("mystery" in note for note in notes)
    assert any("float32" in note for note in imported_config("gemma-2-9b").not_modelled)
    assert any("equally likely" in note for note in imported_config("mixtral-8x7b").not_modelled)
    assert any("two all-reduces" in note for note in imported_config("phi-2").not_modelled)
    assert any("same input" in note for note in imported_config("gpt-neox-20b").not_modelled)
    in_line = imported(config("gpt-neox-20b", use_parallel_residual=False)).not_modelled
    assert not any("same input" in note for note in in_line)
    for note in (note for name in CONFIGS for note in imported_config(name).not_modelled):
        assert note.endswith(".")
        assert not note.startswith("Not known here")


def test_a_type_that_is_not_known_is_read_only_if_every_size_is_there():
    read = imported(config("llama-3-8b", model_type="newcomer", tie_word_embeddings=...))
    assert read.family == "generic"
    assert any("newcomer" in sentence for sentence in read.assumed)
    assert any("tie_word_embeddings" in sentence for sentence in read.assumed)
    assert read.document.numbers.mlp_matrices.kind == "assumed"
    message = refused({"model_type": "newcomer", "hidden_size": 512, "num_attention_heads": 8})
    for missing in ("num_hidden_layers", "vocab_size", "intermediate_size"):
        assert f"{missing}: this field is required" in message
    assert "hidden_size" not in message
    assert "hidden_size: this field is required" in refused({})


@pytest.mark.parametrize("model_type", REFUSED)
def test_architectures_that_would_be_modelled_wrongly_are_refused(model_type):
    message = refused(config("llama-3-8b", model_type=model_type))
    assert message.startswith(f"model_type = {model_type}: ")


@pytest.mark.parametrize("field", REFUSED_FIELDS)
def test_fields_of_architectures_that_are_not_modelled_are_refused(field):
    assert refused(config("llama-3-8b", **{field: 512})).startswith(f"{field} = 512: ")
    assert imported(config("llama-3-8b", **{field: None})).document.shape().layers == 32


def test_deepseek_v3_is_refused_for_its_latent_attention():
    v3 = config(
        "deepseek-moe-16b",
        model_type="deepseek_v3",
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_rope_head_dim=64,
    )
    assert "multi-head latent attention" in refused(v3)


def test_no_family_is_refused_by_its_own_type():
    assert not set(FAMILIES) & set(REFUSED)


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("llama-2-7b", {"hidden_size": "4096"}, 'hidden_size = "4096": expected a whole number'),
        ("llama-2-7b", {"hidden_size": 4096.0}, "hidden_size = 4096.0"),
        ("llama-2-7b", {"hidden_size": True}, "hidden_size = True"),
        ("llama-2-7b", {"hidden_size": 0}, "expected a whole number from 1"),
        ("llama-2-7b", {"hidden_size": [4096]}, "hidden_size"),
        ("llama-2-7b", {"hidden_size": 10**400}, "hidden_size"),
        ("llama-2-7b", {"num_hidden_layers": -32}, "num_hidden_layers = -32"),
        ("llama-2-7b", {"num_hidden_layers": MOST_LAYERS + 1}, "at most 1024 layers"),
        (
            "llama-2-7b",
            {"num_attention_heads": 33, "num_key_value_heads": ...},
            "num_attention_heads = 33: does not divide hidden_size 4096",
        ),
        ("llama-2-7b", {"num_key_value_heads": 5}, "num_key_value_heads = 5: expected a divisor"),
        ("llama-2-7b", {"num_key_value_heads": 64}, "expected a divisor of the 32 query heads"),
        ("llama-2-7b", {"head_dim": -1}, "head_dim = -1"),
        ("llama-2-7b", {"tie_word_embeddings": "no"}, "expected true or false"),
        ("llama-2-7b", {"attention_bias": 1}, "attention_bias = 1"),
        ("llama-2-7b", {"model_type": 5}, "model_type = 5: expected a text"),
        ("llama-2-7b", {"architectures": "LlamaForCausalLM"}, "expected a list of texts"),
        ("llama-2-7b", {"is_encoder_decoder": True}, "expected a decoder"),
        ("llama-2-7b", {"layer_types": ["full_attention"]}, "expected one for each of the 32"),
        ("llama-2-7b", {"layer_types": ["chunked_attention"] * 32}, "is not modelled"),
        ("llama-2-7b", {"layer_types": ["sliding_attention"] * 32}, "sliding_window: this field"),
        ("llama-2-7b", {"layer_types": ["linear_attention"] * 32}, "linear_num_key_heads"),
        ("llama-2-7b", {"layer_types": [7] * 32}, "expected a list of texts"),
        ("mistral-7b-v0.1", {"sliding_window": 0}, "sliding_window = 0"),
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "at most the 8 experts"),
        ("mixtral-8x7b", {"num_experts_per_tok": ...}, "num_experts_per_tok: this field"),
        ("mixtral-8x7b", {"num_local_experts": "8"}, 'num_local_experts = "8"'),
        ("qwen3-30b-a3b", {"mlp_only_layers": [48]}, "expected layers from 0 to 47"),
        ("qwen3-30b-a3b", {"mlp_only_layers": [True]}, "mlp_only_layers"),
        ("qwen3-30b-a3b", {"decoder_sparse_step": 0}, "decoder_sparse_step = 0"),
        ("qwen3-next-80b-a3b", {"full_attention_interval": 0}, "full_attention_interval = 0"),
        ("qwen3-next-80b-a3b", {"linear_num_value_heads": 33}, "expected a multiple of the 16"),
        ("gpt2", {"n_positions": ...}, "n_positions: this field"),
        ("gpt2", {"n_embd": LARGEST_SIZE}, "n_head = 12"),
        ("gpt2", {"n_embd": 6_000_000}, "expected at most 10000000, from 4 × 6000000"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gemma-3-4b", {"text_config": 5}, "text_config = 5: expected a JSON object"),
        ("llama-2-7b", {"rms_norm_eps": math.nan}, "rms_norm_eps = nan: JSON has no such number"),
        ("llama-2-7b", {"rope_scaling": {"a": [1, math.inf]}}, "rope_scaling.a[1] = inf"),
        ("llama-2-7b", {"_name_or_path": "a/\u202egnp"}, "invisible"),
        ("llama-2-7b", {"_name_or_path": "Ll\u200bama"}, "invisible"),
        ("llama-2-7b", {"_name_or_path": ["a"]}, "expected a text"),
    ],
)
def test_wrong_values_are_refused_by_name(name, changes, said):
    assert said in refused(config(name, **changes))


def test_all_sizes_that_are_wrong_are_told_at_once():
    message = refused({"model_type": "llama", "hidden_size": "1", "num_hidden_layers": -3})
    for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
        assert name in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", "not valid JSON"),
        (b"PK\x03\x04\xff\xfe" * 50, "not UTF-8"),
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "not UTF-8"),
        (b"cposix\nsystem\n(S'true'\ntR.", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"text_config":' * 50_000, "nested too deeply"),
        (b"[]", "expected a JSON object"),
        (b'"config"', "expected a JSON object"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "appears twice"),
        (b'{"text_config": {"a": 1, "a": 1}}', "appears twice"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "too long to read"),
        (b'{"hidden_size": NaN}', "JSON has no such number"),
        (b'{"eps": -Infinity}', "JSON has no such number"),
        (b'{"eps": 1e999}', "JSON has no such number"),
        (b" " * (LARGEST_DOCUMENT_BYTES + 1), "larger than the 4 MB"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_no_config_is_refused_with_the_reason(content, said):
    assert said in refused(content)


def test_names_stay_text_and_never_become_a_presets():
    read = imported(config("llama-2-7b", _name_or_path="x/<img src=x onerror=alert(1)>"))
    assert read.document.name == "<img src=x onerror=alert(1)>"
    assert read.document.id.startswith("own-")
    assert set(read.document.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    assert imported(config("llama-2-7b", _name_or_path="llama2-7b")).document.id == "own-llama2-7b"
    anonymous = imported(config("qwen2.5-7b"), "config.json")
    assert anonymous.document.name == "Qwen2 7.62B"
    assert imported(config("qwen2.5-7b"), "my-model.json").document.name == "my-model"


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5000),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-2, 60), st.sampled_from(["full_attention", "x"])), max_size=50),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_config_is_read_or_refused_in_one_line(data):
    values = config(data.draw(st.sampled_from(CONFIGS)))
    target = values.get("text_config", values)
    for key in data.draw(st.lists(st.sampled_from(sorted(target)), max_size=3)):
        target[key] = data.draw(VALUES)
    if data.draw(st.booleans()):
        values["model_type"] = data.draw(st.sampled_from([*FAMILIES, "newcomer", "gemma3_text"]))
    try:
        read = imported(values)
    except InputError as error:
        assert str(error).isprintable()
        assert all(problem.field for problem in error.problems)
    else:
        model = read.document.shape()
        assert 0 < model.active_parameters <= model.parameters
        assert 1 in model.legal_tp
