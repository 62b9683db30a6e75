"""The shapes of a decoder-only transformer, read from its config, and the number of its parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from packing._checks import integer, shown
from packing.errors import ConfigError
from packing.estimators._config import ModelConfig, read_model_config
from packing.estimators._conventions import Convention, convention_of

__all__ = ["Architecture", "FeedForward", "count_parameters"]


@dataclass(frozen=True, slots=True)
class FeedForward:
    """The feed-forward part of one layer.

    Attributes:
        width: of the dense block, or of one expert.
        experts: number of experts, 0 for a dense block.
        active: experts a token passes.
        shared_width: of the expert that every token passes, 0 for none.
    """

    width: int
    experts: int = 0
    active: int = 0
    shared_width: int = 0

    def weights(self, hidden: int, matrices: int, experts: int) -> int:
        """Matrix entries with `experts` of the experts counted: all of them, or those a token passes."""
        if not self.experts:
            return matrices * hidden * self.width
        router = hidden * self.experts
        shared_gate = hidden if self.shared_width else 0
        return matrices * hidden * (experts * self.width + self.shared_width) + router + shared_gate


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only transformer as far as its parameters and FLOPs are concerned.

    Attributes:
        hidden: width of the residual stream.
        vocabulary: rows of the embedding.
        heads, key_value_heads, head_dim: attention heads, heads of keys and values, width of one head.
        windows: per layer the keys a token sees, itself included, or None for all.
        feed_forward: per layer.
        positions: learned position vectors, 0 for none.
        tied: the vocabulary projection is the embedding.
        biases: as in `Convention.biases`.
        convention: what else the `model_type` implies.
    """

    hidden: int
    vocabulary: int
    heads: int
    key_value_heads: int
    head_dim: int
    windows: tuple[int | None, ...]
    feed_forward: tuple[FeedForward, ...]
    positions: int
    tied: bool
    biases: frozenset[str]
    convention: Convention = field(repr=False)

    @classmethod
    def from_config(cls, model: Mapping[str, Any] | str | os.PathLike[str]) -> Architecture:
        """The architecture of a config: a mapping, or the path of a `config.json` or of its folder.

        Raises:
            ConfigError: the config cannot be read, a field is missing or wrong, or it describes layers that are not
                supported; the message names the field.
        """
        config = read_model_config(model)
        convention = convention_of(config)
        hidden = config.integer("hidden_size", "n_embd")
        layers = config.integer("num_hidden_layers", "n_layer")
        heads = config.integer("num_attention_heads", "n_head")
        biases = set(convention.biases)
        for name, parts in convention.bias_fields:
            given = config.flag(name, default=set(parts) <= biases)
            biases = biases | set(parts) if given else biases - set(parts)
        return cls(
            hidden=hidden,
            vocabulary=config.integer("vocab_size"),
            heads=heads,
            key_value_heads=_key_value_heads(config, convention, heads),
            head_dim=_head_dim(config, convention, hidden, heads),
            windows=_windows(config, convention, layers),
            feed_forward=tuple(_feed_forward(config, convention, hidden, layer) for layer in range(layers)),
            positions=config.integer("n_positions", "max_position_embeddings") if convention.learned_positions else 0,
            tied=config.flag("tie_word_embeddings", default=convention.tied),
            biases=frozenset(biases),
            convention=convention,
        )

    @property
    def attention_weights(self) -> int:
        """Matrix entries of one layer's query, key, value and output projections."""
        return self.hidden * self.head_dim * (2 * self.heads + 2 * self.key_value_heads)

    @property
    def active_layer_weights(self) -> int:
        """Matrix entries of all layers that one token is multiplied with."""
        return sum(
            self.attention_weights + part.weights(self.hidden, self._matrices, part.active)
            for part in self.feed_forward
        )

    @property
    def vocabulary_weights(self) -> int:
        """Matrix entries of the vocabulary projection, tied or not."""
        return self.hidden * self.vocabulary

    @property
    def parameters(self) -> int:
        """All trainable numbers: matrices, biases, norms, embeddings; a tied matrix once."""
        norm = self.hidden * (2 if self.convention.layer_norm else 1)
        total = self.vocabulary_weights * (1 if self.tied else 2) + self.positions * self.hidden + norm
        if "head" in self.biases:
            total += self.vocabulary
        for part in self.feed_forward:
            total += self.attention_weights + self._attention_extras + self.convention.norms * norm
            total += part.weights(self.hidden, self._matrices, part.experts)
            if "mlp" in self.biases:
                total += (self._matrices - 1) * part.width + self.hidden
        return total

    @property
    def _matrices(self) -> int:
        return 3 if self.convention.gated else 2

    @property
    def _attention_extras(self) -> int:
        """Biases and norms inside one layer's attention."""
        extras = 0
        if "qkv" in self.biases:
            extras += self.head_dim * (self.heads + 2 * self.key_value_heads)
        if "output" in self.biases:
            extras += self.hidden
        if self.convention.query_key_norm == "head":
            extras += 2 * self.head_dim
        elif self.convention.query_key_norm == "projection":
            extras += self.head_dim * (self.heads + self.key_value_heads)
        return extras


def count_parameters(model: Mapping[str, Any] | str | os.PathLike[str]) -> int:
    """The number of parameters of a language model, computed from its config.

    Args:
        model: a mapping with the fields of a Hugging Face `config.json`, or the path of the file or of its folder.
            Of a multimodal config only the language model (`text_config`) is counted.

    Returns:
        The exact count: matrices, biases, norms and embeddings; a tied vocabulary matrix once.

    Raises:
        ConfigError: a field is missing or wrong, or the config describes layers that are not supported; the message
            names the field.
    """
    return Architecture.from_config(model).parameters


def _key_value_heads(config: ModelConfig, convention: Convention, heads: int) -> int:
    default = None if "num_key_value_heads" in convention.required else heads
    groups = config.integer("num_key_value_heads", default=default)
    if heads % groups:
        raise ConfigError(f"`model.num_key_value_heads` must divide the {heads} attention heads, but got {groups}.")
    return groups


def _head_dim(config: ModelConfig, convention: Convention, hidden: int, heads: int) -> int:
    if config.first("head_dim") is not None or "head_dim" in convention.required:
        return config.integer("head_dim")
    if hidden % heads:
        raise ConfigError(
            f"`model.head_dim` must be given where the hidden size is not a multiple of the heads, but got {hidden} "
            f"and {heads}."
        )
    return hidden // heads


def _windows(config: ModelConfig, convention: Convention, layers: int) -> tuple[int | None, ...]:
    """Per layer the sliding window, or None for full attention."""
    listed = config.fields.get("layer_types")
    kinds = ["full_attention", "sliding_attention"]
    if listed is not None and (not isinstance(listed, (list, tuple)) or any(kind not in kinds for kind in listed)):
        raise ConfigError(f"`model.layer_types` must list {' and '.join(kinds)} layers, but got {shown(listed)}.")
    if listed is not None and len(listed) != layers:
        raise ConfigError(f"`model.layer_types` must have {layers} entries, but got {len(listed)}.")
    if convention.window_switch and not config.flag("use_sliding_window", default=False):
        return (None,) * layers
    if listed is None and config.fields.get("sliding_window") is None:
        return (None,) * layers
    slides = _sliding_layers(config, convention, layers) if listed is None else [kind == kinds[1] for kind in listed]
    if not any(slides):
        return (None,) * layers
    window = config.integer("sliding_window")
    return tuple(window if sliding else None for sliding in slides)


def _sliding_layers(config: ModelConfig, convention: Convention, layers: int) -> list[bool]:
    """Which layers have the window where no `layer_types` lists them."""
    if convention.window_layers == "all":
        return [config.flag("use_sliding_window", default=True)] * layers
    if convention.window_layers == "upper":
        first = config.integer("max_window_layers", minimum=0)
        return [layer >= first for layer in range(layers)]
    if convention.window_layers == "alternate":
        return [layer % 2 == 0 for layer in range(layers)]
    if convention.window_layers == "pattern":
        period = config.integer("sliding_window_pattern", "_sliding_window_pattern")
        return [(layer + 1) % period != 0 for layer in range(layers)]
    raise config.missing("layer_types")


def _feed_forward(config: ModelConfig, convention: Convention, hidden: int, layer: int) -> FeedForward:
    """The feed-forward part of one layer, dense or of experts."""
    if convention.experts is not None and _is_sparse(config, layer):
        experts = config.integer(convention.experts)
        active = config.integer("num_experts_per_tok")
        if active > experts:
            raise ConfigError(f"`model.num_experts_per_tok` must be at most {experts} experts, but got {active}.")
        shared = config.integer("shared_expert_intermediate_size") if convention.shared_expert else 0
        return FeedForward(config.integer(convention.expert_width), experts, active, shared)
    widening = convention.default_widening
    default = None if widening is None else widening * hidden
    return FeedForward(config.integer("intermediate_size", "n_inner", default=default))


def _is_sparse(config: ModelConfig, layer: int) -> bool:
    """Whether a layer of a mixture-of-experts model has experts."""
    dense = config.fields.get("mlp_only_layers") or ()
    if not isinstance(dense, (list, tuple)):
        raise ConfigError(f"`model.mlp_only_layers` must be a list of layers, but got {shown(dense)}.")
    if layer in [integer("model.mlp_only_layers", entry, minimum=0) for entry in dense]:
        return False
    return (layer + 1) % config.integer("decoder_sparse_step", default=1) == 0
