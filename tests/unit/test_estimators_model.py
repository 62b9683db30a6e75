"""Model configs: published parameter counts, what is read from which field, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from packing.errors import ConfigError
from packing.estimators import FlopsEstimator, count_parameters
from packing.estimators.model import Architecture

CONFIGS = {
    path.stem: json.loads(path.read_text())
    for path in sorted((Path(__file__).parent.parent / "data" / "configs").glob("*.json"))
}
SMALL = {
    "model_type": "llama",
    "hidden_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 20,
    "vocab_size": 30,
}


def small(**changes):
    return {**SMALL, **changes}


def without(config, *names):
    return {name: value for name, value in config.items() if name not in names}


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_published_parameter_count(name):
    assert count_parameters(CONFIGS[name]["config"]) == CONFIGS[name]["parameters"]


def test_active_parameters_of_a_mixture():
    # The count its authors round to "3.3B activated": every matrix a token meets, both vocabulary matrices, all norms.
    shapes = Architecture.from_config(CONFIGS["qwen3-30b-a3b"]["config"])
    norms = 48 * (2 * 2048 + 2 * 128) + 2048
    assert shapes.active_layer_weights + 2 * shapes.vocabulary_weights + norms == 3_353_032_704


def test_parameters_by_hand():
    # embedding and head 30x12 each; per layer q 12x12, k and v 12x6, o 12x12, three 12x20, two norms; last norm.
    assert count_parameters(SMALL) == 2 * 360 + 3 * (144 + 72 + 72 + 144 + 3 * 240 + 24) + 12
    assert count_parameters(small(tie_word_embeddings=True)) == count_parameters(SMALL) - 360
    assert count_parameters(small(attention_bias=True)) == count_parameters(SMALL) + 3 * (12 + 6 + 6 + 12)
    assert count_parameters(small(mlp_bias=True)) == count_parameters(SMALL) + 3 * (20 + 20 + 12)
    assert count_parameters(small(head_dim=5)) == count_parameters(SMALL) + 3 * (2 * 12 * 4 * 2 + 2 * 12 * 2 * 2)


def test_a_bias_field_can_switch_a_bias_off():
    config = CONFIGS["pythia-1.4b"]["config"]
    per_layer = 3 * 2048 + 2048
    assert count_parameters({**config, "attention_bias": False}) == 1_414_647_808 - 24 * per_layer


def test_experts_only_in_some_layers():
    sparse = small(
        model_type="qwen3_moe",
        head_dim=3,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=7,
        num_hidden_layers=4,
    )
    parts = Architecture.from_config(sparse).feed_forward
    assert [part.experts for part in parts] == [4, 4, 4, 4]
    parts = Architecture.from_config({**sparse, "decoder_sparse_step": 2, "mlp_only_layers": [3]}).feed_forward
    assert [(part.experts, part.active, part.width) for part in parts] == [
        (0, 0, 20),
        (4, 2, 7),
        (0, 0, 20),
        (0, 0, 20),
    ]


def test_the_config_is_not_changed():
    config = small(text_config=None)
    before = json.dumps(config)
    count_parameters(config)
    FlopsEstimator(config)
    assert json.dumps(config) == before


# --- sources ---------------------------------------------------------------------------------------------------------


def test_config_from_a_file_or_its_folder(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["llama-3.1-8b"]["config"]))
    for source in (path, str(path), tmp_path, str(tmp_path)):
        assert count_parameters(source) == 8_030_261_248
        assert FlopsEstimator(source) == FlopsEstimator(CONFIGS["llama-3.1-8b"]["config"])


def test_unreadable_sources(tmp_path):
    with pytest.raises(ConfigError, match=r"`model` must be a mapping or the path of a config\.json, but got 8\."):
        count_parameters(8)
    with pytest.raises(ConfigError, match=r"hosted models are not looked up\), but 'some/Model-8B' cannot be read: No"):
        count_parameters("some/Model-8B")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ConfigError, match="`model` must be a JSON file, but"):
        count_parameters(tmp_path / "broken.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"`model` must be a JSON object, but .* holds \[1\]"):
        count_parameters(tmp_path / "list.json")


def test_the_language_model_of_a_multimodal_config():
    outer = {"model_type": "llava", "hidden_size": 1, "text_config": SMALL, "vision_config": {"hidden_size": 5}}
    assert count_parameters(outer) == count_parameters(SMALL)
    tied = {**outer, "tie_word_embeddings": True}
    assert count_parameters(tied) == count_parameters(small(tie_word_embeddings=True))
    assert count_parameters({**tied, "text_config": small(tie_word_embeddings=False)}) == count_parameters(SMALL)
    with pytest.raises(ConfigError, match=r"`model\.text_config` must be a mapping, but got 'llama'"):
        count_parameters({**outer, "text_config": "llama"})


def test_no_model_type_is_read_as_llama():
    assert count_parameters(without(SMALL, "model_type")) == count_parameters(SMALL)


# --- missing and wrong fields ----------------------------------------------------------------------------------------

FIELDS = ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]


@pytest.mark.parametrize("name", FIELDS)
def test_missing_field_is_named(name):
    with pytest.raises(ConfigError) as caught:
        count_parameters(without(SMALL, name))
    text = str(caught.value)
    assert text.startswith(f"`model.{name}`")
    assert text.endswith('is missing from the model config of model_type "llama".')
    with pytest.raises(ConfigError, match=f"`model.{name}`.* is missing from the model config"):
        FlopsEstimator(small(**{name: None}))


@pytest.mark.parametrize("name", [*FIELDS, "num_key_value_heads", "head_dim"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "12", [1]])
def test_wrong_field_is_named(name, value):
    with pytest.raises(ConfigError, match=f"`model.{name}` must be a positive integer, but got "):
        count_parameters(small(**{name: value}))


@pytest.mark.parametrize("name", ["tie_word_embeddings", "attention_bias", "mlp_bias"])
def test_flags_are_true_or_false(name):
    with pytest.raises(ConfigError, match=f"`model.{name}` must be true or false, but got 1"):
        count_parameters(small(**{name: 1}))


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("mistral", "num_key_value_heads"),
        ("qwen2", "num_key_value_heads"),
        ("qwen3", "head_dim"),
        ("gemma2", "head_dim"),
        ("mixtral", "num_local_experts"),
        ("qwen3_moe", "moe_intermediate_size"),
    ],
)
def test_fields_whose_absence_would_leave_a_guess(model_type, name):
    config = small(model_type=model_type, head_dim=3, num_local_experts=2, num_experts=2, num_experts_per_tok=1)
    config = without(config, name, "num_experts" if model_type == "mixtral" else "num_local_experts")
    if model_type != "qwen3_moe":
        config = without(config, "num_experts")
    if model_type != "mixtral":
        config = without(config, "num_local_experts")
    with pytest.raises(ConfigError, match=rf'`model\.{name}` is missing .* model_type "{model_type}"'):
        count_parameters(config)


def test_shapes_that_do_not_divide():
    with pytest.raises(ConfigError, match=r"`model\.num_key_value_heads` must divide the 4 attention heads, but got 3"):
        count_parameters(small(num_key_value_heads=3))
    with pytest.raises(ConfigError, match=r"`model\.head_dim` must be given .*, but got 12 and 5"):
        count_parameters(small(num_attention_heads=5, num_key_value_heads=5))


def test_more_active_experts_than_experts():
    config = small(model_type="mixtral", num_local_experts=2, num_experts_per_tok=3)
    with pytest.raises(ConfigError, match=r"`model\.num_experts_per_tok` must be at most 2 experts, but got 3"):
        count_parameters(config)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512, "n_routed_experts": 256}, "multi-head latent attention"),
        ({"model_type": "deepseek", "n_routed_experts": 64}, "mixture of experts"),
        ({"model_type": "llama", "num_local_experts": 8}, "mixture of experts"),
        ({"num_experts": 8}, "mixture of experts"),
        ({"model_type": "mixtral", "num_experts": 8}, "mixture of experts"),
        ({"model_type": "qwen3_moe", "shared_expert_intermediate_size": 8}, "a shared expert"),
        ({"model_type": "jamba", "mamba_d_state": 16}, "state-space layers"),
        ({"model_type": "qwen3_next", "linear_num_value_heads": 32}, "linear attention"),
        ({"model_type": "llama", "attention_chunk_size": 8192}, "chunked attention"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "an encoder and a decoder"),
        ({"model_type": "phi", "qk_layernorm": True}, "norms on queries and keys"),
    ],
)
def test_layers_of_another_kind_are_refused(fields, meaning):
    name = next(label for label in fields if label != "model_type")
    for use in (count_parameters, FlopsEstimator):
        with pytest.raises(ConfigError) as caught:
            use({**without(SMALL, "model_type"), **fields})
        text = str(caught.value)
        assert text.startswith(f"`model.{name}` = {fields[name]!r} means ")
        assert meaning in text
        assert text.endswith(f'not supported for model_type "{fields.get("model_type", "")}".')


@pytest.mark.parametrize("value", [None, False, 0, []])
def test_a_foreign_field_that_is_off_is_no_obstacle(value):
    config = small(kv_lora_rank=value, num_local_experts=value, is_encoder_decoder=value)
    assert count_parameters(config) == count_parameters(SMALL)


def test_unknown_model_type_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r'must be one of gemma, .*, starcoder2, but got "falcon"'):
        count_parameters(small(model_type="falcon"))
    with pytest.raises(ConfigError, match=r"`model\.model_type` must be a string, but got 3"):
        count_parameters(small(model_type=3))


# --- sliding windows -------------------------------------------------------------------------------------------------


def windows(**changes):
    return Architecture.from_config(small(head_dim=3, **changes)).windows


@pytest.mark.parametrize("name", CONFIGS)
def test_windows_of_published_configs(name):
    expected = {
        "mistral-7b-v0.1": (4096,) * 32,
        "phi-3-mini-4k": (2047,) * 32,
        "gemma-2-2b": (4096, None) * 13,
        "gemma-3-1b": ((512,) * 5 + (None,)) * 4 + (512,) * 2,
    }
    config = CONFIGS[name]["config"]
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    assert Architecture.from_config(config).windows == expected.get(name, (None,) * layers)


def test_windows_by_convention():
    assert windows(model_type="mistral", sliding_window=5) == (5, 5, 5)
    assert windows(model_type="mistral", sliding_window=None) == (None,) * 3
    assert windows(model_type="mistral", sliding_window=5, use_sliding_window=False) == (None,) * 3
    assert windows(model_type="qwen2", sliding_window=5, max_window_layers=1) == (None,) * 3
    on = {"sliding_window": 5, "use_sliding_window": True}
    assert windows(model_type="qwen2", max_window_layers=1, **on) == (None, 5, 5)
    assert windows(model_type="qwen3", max_window_layers=3, **on) == (None,) * 3


def test_windows_by_list():
    kinds = ["full_attention", "sliding_attention", "full_attention"]
    assert windows(model_type="gemma3_text", sliding_window=5, layer_types=kinds) == (None, 5, None)
    assert windows(model_type="qwen3", sliding_window=5, use_sliding_window=False, layer_types=kinds) == (None,) * 3
    assert windows(layer_types=["full_attention"] * 3) == (None,) * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["mamba"] * 3}, r"`model\.layer_types` must list full_attention and sliding_attention layers"),
        ({"layer_types": "full_attention"}, r"`model\.layer_types` must list"),
        ({"layer_types": ["full_attention"]}, r"`model\.layer_types` must have 3 entries, but got 1"),
        ({"layer_types": ["sliding_attention"] * 3}, r"`model\.sliding_window` is missing"),
        ({"sliding_window": -1}, r"`model\.sliding_window` must be a positive integer, but got -1"),
        ({"model_type": "gemma3_text", "sliding_window": 5}, r"`model\.sliding_window_pattern` or .* is missing"),
        (
            {"model_type": "qwen2", "sliding_window": 5, "use_sliding_window": True},
            r"`model\.max_window_layers` is missing",
        ),
        (
            {"model_type": "smollm3", "sliding_window": 5, "use_sliding_window": True},
            r"`model\.layer_types` is missing",
        ),
    ],
)
def test_windows_that_cannot_be_read(changes, message):
    with pytest.raises(ConfigError, match=message):
        windows(**changes)
