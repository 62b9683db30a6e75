"""What a `model_type` implies beyond the fields of its config: biases, norms, tying, window layers, experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from packing.errors import ConfigError
from packing.estimators._config import ModelConfig

__all__ = ["Convention", "convention_of"]


@dataclass(frozen=True, slots=True)
class Convention:
    """How the decoder layers of one `model_type` are built; the defaults are the llama layout without options.

    Attributes:
        gated: three feed-forward matrices (SwiGLU, GeGLU) instead of two.
        layer_norm: norms have a bias next to their weight.
        norms: norms per layer over the hidden size.
        query_key_norm: "head": norms of size head_dim; "projection": norms over the whole query and key widths.
        biases: which projections have a bias: "qkv", "output", "mlp", "head" (the vocabulary projection).
        bias_fields: config fields that switch such biases, when given.
        tied: the vocabulary projection shares the embedding unless `tie_word_embeddings` says otherwise.
        learned_positions: a learned vector per position.
        required: fields whose absence would leave a guess (elsewhere: head_dim = hidden / heads, no grouping).
        window_switch: `sliding_window` counts only if `use_sliding_window` is true.
        window_layers: which layers have the window when no `layer_types` lists them: "all", "upper" (from
            `max_window_layers` on), "alternate" (the first, third, ...), "pattern" (all but every
            `sliding_window_pattern`-th) or "listed" (`layer_types` has to say).
        experts: the field with the number of experts, or None for a dense model.
        expert_width: the field with the width of one expert.
        default_widening: feed-forward width over hidden size where the config states no width; None: it has to.
        shared_expert: every token also passes one gated shared expert.
    """

    gated: bool = True
    layer_norm: bool = False
    norms: int = 2
    query_key_norm: str | None = None
    biases: frozenset[str] = frozenset()
    bias_fields: tuple[tuple[str, tuple[str, ...]], ...] = ()
    tied: bool = False
    learned_positions: bool = False
    required: frozenset[str] = frozenset()
    window_switch: bool = False
    window_layers: str = "all"
    experts: str | None = None
    expert_width: str = "moe_intermediate_size"
    default_widening: int | None = None
    shared_expert: bool = False


_ATTENTION_BIAS = (("attention_bias", ("qkv", "output")),)
_GROUPED = frozenset({"num_key_value_heads"})
_GROUPED_WITH_HEAD = frozenset({"num_key_value_heads", "head_dim"})

_LLAMA = Convention(bias_fields=(*_ATTENTION_BIAS, ("mlp_bias", ("mlp",))))
_MISTRAL = Convention(required=_GROUPED)
_QWEN2 = Convention(biases=frozenset({"qkv"}), required=_GROUPED, window_switch=True, window_layers="upper")
_QWEN3 = Convention(
    query_key_norm="head",
    bias_fields=_ATTENTION_BIAS,
    required=_GROUPED_WITH_HEAD,
    window_switch=True,
    window_layers="upper",
)
_QWEN3_MOE = replace(_QWEN3, window_layers="listed", experts="num_experts")
_GEMMA = Convention(bias_fields=_ATTENTION_BIAS, tied=True, required=_GROUPED_WITH_HEAD)
_GEMMA3 = replace(_GEMMA, norms=4, query_key_norm="head", window_layers="pattern")
_PLAIN = Convention(gated=False, layer_norm=True, biases=frozenset({"qkv", "output", "mlp"}))

# Taken from the public configs and the layers of the published models; the parameter counts check them in the tests.
CONVENTIONS: Mapping[str, Convention] = {
    "": _LLAMA,
    "llama": _LLAMA,
    "granite": _LLAMA,
    "smollm3": replace(_LLAMA, tied=True, required=_GROUPED, window_switch=True, window_layers="listed"),
    "mistral": _MISTRAL,
    "mixtral": replace(_MISTRAL, experts="num_local_experts", expert_width="intermediate_size"),
    "phi3": Convention(),
    "olmo2": Convention(query_key_norm="projection", bias_fields=_ATTENTION_BIAS),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": replace(
        _QWEN2,
        bias_fields=(("qkv_bias", ("qkv",)),),
        window_layers="listed",
        experts="num_experts",
        shared_expert=True,
    ),
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norms=4, window_layers="alternate"),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gpt2": replace(_PLAIN, tied=True, learned_positions=True, default_widening=4),
    "gpt_neox": replace(_PLAIN, bias_fields=_ATTENTION_BIAS),
    "phi": replace(_PLAIN, norms=1, biases=_PLAIN.biases | {"head"}),
    "starcoder2": replace(_PLAIN, bias_fields=(("use_bias", ("qkv", "output", "mlp")),), tied=True, required=_GROUPED),
}

# Fields that, when set, mean layers whose cost the formulas here do not describe.
_FOREIGN_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), "multi-head latent attention"),
    **dict.fromkeys(
        ("num_local_experts", "num_experts", "n_routed_experts", "n_shared_experts", "moe_num_experts"),
        "a mixture of experts of another layout",
    ),
    "shared_expert_intermediate_size": "a shared expert",
    **dict.fromkeys(
        (
            "mamba_d_state", "mamba_d_conv", "mamba_expand", "ssm_state_size", "state_size", "ssm_cfg",
            "attn_layer_period", "layers_block_type", "hybrid_override_pattern", "block_types",
        ),
        "state-space layers",
    ),
    **dict.fromkeys(("linear_num_value_heads", "linear_conv_kernel_dim", "lin_attn_config"), "linear attention"),
    "attention_chunk_size": "chunked attention",
    "attention_types": "local attention",
    "is_encoder_decoder": "an encoder and a decoder",
    "add_cross_attention": "cross attention",
    "cross_attention_layers": "cross attention",
    "num_nextn_predict_layers": "layers that predict further tokens",
    "qk_layernorm": "norms on queries and keys",
    "hidden_size_per_layer_input": "embeddings per layer",
    "num_kv_shared_layers": "layers that share keys and values",
    "word_embed_proj_dim": "an embedding projection",
}  # fmt: skip


def convention_of(config: ModelConfig) -> Convention:
    """The convention of the config's `model_type`; a config without one is read as llama.

    Raises:
        ConfigError: the config sets a field that stands for layers not described here (named in the message), or its
            `model_type` is unknown. Nothing is ever computed from a layout that is merely similar.
    """
    convention = CONVENTIONS.get(config.model_type)
    understood = set() if convention is None else {convention.experts}
    if convention is not None and convention.shared_expert:
        understood.add("shared_expert_intermediate_size")
    for name, meaning in _FOREIGN_FIELDS.items():
        value = config.fields.get(name)
        if name not in understood and value not in (None, False, 0, [], ()):
            raise ConfigError(
                f"`model.{name}` = {value!r} means {meaning}, which is not supported for "
                f'model_type "{config.model_type}".'
            )
    if convention is None:
        known = ", ".join(sorted(name for name in CONVENTIONS if name))
        raise ConfigError(
            f'`model.model_type` must be one of {known}, but got "{config.model_type}"; a model whose layers are those '
            "of one of these may name it."
        )
    return convention
