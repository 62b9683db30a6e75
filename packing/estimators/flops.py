"""The estimator `flops`: the exact number of floating-point operations a model spends on a sample."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from packing._checks import Int64Array, boolean, shown
from packing.errors import ConfigError
from packing.estimators._columns import Columns, column, exact_costs
from packing.estimators.model import Architecture

__all__ = ["FlopsEstimator"]


@dataclass(frozen=True, slots=True)
class FlopsEstimator:
    """Cost = FLOPs of one training step (or one forward pass) of a decoder-only transformer on the sample.

    A product of an entry with a number counts 2. With hidden size h, n query heads, m key-value heads of width d,
    feed-forward width f and vocabulary V, a forward pass of L tokens costs

    - per layer and token 2 h d (2 n + 2 m) for the projections and 6 h f for a gated feed-forward part (4 h f for a
      plain one); with experts, those that a token passes, the shared one and the router;
    - per layer and visible pair of tokens 4 n d; a causal layer has L (L + 1) / 2 pairs, a sliding window of w tokens
      w L - w (w - 1) / 2 of them once L >= w, full attention L**2;
    - 2 h V per token for the logits, once.

    Norms, rotary embeddings, softmax, activations and biases are left out, as in the usual accounting (Narayanan et
    al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM", appendix). The
    backward pass costs twice the forward pass.

    Args:
        model: the fields of a Hugging Face `config.json` as a mapping, or the path of the file or of its folder. The
            `text_config` of a multimodal model is used in its place; a mapping without `model_type` is read as llama.
        training: forward and backward pass; otherwise the forward pass alone.
        recompute: the layers (not the logits) run forward once more in the backward pass: full activation
            checkpointing.
        recompute_attention: the attention kernel computes its scores anew in the backward pass, as FlashAttention
            does: its backward pass then costs 2.5 forward passes.
        frozen_weights: the matrices get no gradients (adapter training): their backward pass costs one forward pass.
        causal: a token sees itself and those before it; otherwise all tokens of its sample. A sliding window then
            reaches to both sides.
        prefix_column: a column with the number of leading tokens that see each other in both directions (prefix
            language model); needs `causal`, and a model without sliding windows.
        common_unit: divide all costs by `unit`, a common factor of them. The ratios stay exact and the numbers small: a
            step of 1024 samples of 32k tokens on a 70B model is 1.8e19 FLOPs, more than a 64-bit integer holds, but
            1.2e13 such units.

    Attributes:
        architecture: what was read from the config.
        flops_per_token: the part of the cost that is linear in the length.
        flops_per_pair: what one visible pair of tokens costs in one layer.
        unit: FLOPs per unit of cost: 1, or the common factor of the coefficients with `common_unit`.

    Raises:
        ConfigError: an option has a wrong type or contradicts another, or the model config cannot be read, lacks a
            field or describes layers that are not supported; the message names the option or the field.
    """

    model: Mapping[str, Any] | str | os.PathLike[str] = field(repr=False, compare=False)
    training: bool = True
    recompute: bool = False
    recompute_attention: bool = False
    frozen_weights: bool = False
    causal: bool = True
    prefix_column: str | None = None
    common_unit: bool = False

    architecture: Architecture = field(init=False)
    flops_per_token: int = field(init=False, repr=False, compare=False)
    flops_per_pair: int = field(init=False, repr=False, compare=False)
    unit: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("training", "recompute", "recompute_attention", "frozen_weights", "causal", "common_unit"):
            object.__setattr__(self, name, boolean(name, getattr(self, name)))
        for name in ("recompute", "recompute_attention", "frozen_weights"):
            if getattr(self, name) and not self.training:
                raise ConfigError(f"`{name}` must be false where `training` is false, but got True.")
        if not isinstance(self.prefix_column, (str, type(None))):
            raise ConfigError(f"`prefix_column` must be the name of a column, but got {shown(self.prefix_column)}.")
        if self.prefix_column is not None and not self.causal:
            raise ConfigError(f"`prefix_column` must be None where `causal` is false, but got {self.prefix_column!r}.")
        architecture = Architecture.from_config(self.model)
        if self.prefix_column is not None and any(architecture.windows):
            raise ConfigError(
                f"`prefix_column` must be None for a model with sliding windows, but got {self.prefix_column!r}."
            )
        object.__setattr__(self, "architecture", architecture)
        object.__setattr__(self, "flops_per_token", self._per_token())
        object.__setattr__(self, "flops_per_pair", self._per_pair())
        object.__setattr__(self, "unit", self._common_factor() if self.common_unit else 1)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the costs are computed from."""
        return ("length",) if self.prefix_column is None else ("length", self.prefix_column)

    def __call__(self, columns: Columns) -> Int64Array:
        """The costs, int64[N], in units of `unit` FLOPs.

        Raises:
            ConfigError: a column is missing or wrong, a prefix is longer than its sample, or a cost does not fit into
                64 bits.
        """
        length = column(columns, "length", "flops")
        hint = "" if self.common_unit else " Set `common_unit` for smaller numbers of the same ratio."
        if self.prefix_column is None:
            return exact_costs("flops", self._formula, hint=hint, length=length)
        prefix = column(columns, self.prefix_column, "flops")
        if prefix.shape != length.shape:
            raise ConfigError(
                f"`{self.prefix_column}` must have one value per sample, but got {prefix.size} for {length.size}."
            )
        if (prefix > length).any():
            at = int(np.argmax(prefix > length))
            raise ConfigError(
                f"`{self.prefix_column}` must be at most the length {length[at]} of sample {at}, but got {prefix[at]}."
            )
        return exact_costs("flops", self._formula, hint=hint, length=length, prefix=prefix)

    def _per_token(self) -> int:
        """The part that is linear in the length."""
        passes = (2 if self.frozen_weights else 3) if self.training else 1
        layers = 2 * self.architecture.active_layer_weights * (passes + self.recompute)
        return layers + 2 * self.architecture.vocabulary_weights * passes

    def _per_pair(self) -> int:
        """What one visible pair of tokens costs in one layer."""
        half_passes = 2
        if self.training:
            half_passes += (5 if self.recompute_attention else 4) + 2 * self.recompute
        return 2 * self.architecture.heads * self.architecture.head_dim * half_passes

    def _common_factor(self) -> int:
        """The greatest common divisor of the coefficients of the length and of the pairs of each kind of layer."""
        layers = Counter(self.architecture.windows).values()
        return math.gcd(self.flops_per_token, *(count * self.flops_per_pair for count in layers))

    def _formula(self, length: Any, prefix: Any = 0) -> Any:
        total = self.flops_per_token // self.unit * length
        for window, layers in Counter(self.architecture.windows).items():
            per_pair = layers * self.flops_per_pair // self.unit
            total = total + per_pair * self._pairs(length, prefix, window)
        return total

    def _pairs(self, length: Any, prefix: Any, window: int | None) -> Any:
        """Pairs (token, token it sees) of one layer."""
        if window is None:
            if not self.causal:
                return length * length
            # p**2 pairs among p prefix tokens, and j for the j-th of the others.
            return (length * (length + 1) + prefix * (prefix - 1)) // 2
        reach = min(window, np.iinfo(np.int64).max)
        near = np.minimum(length, reach)
        pairs = near * (near + 1) // 2 + (length - near) * reach
        return pairs if self.causal else 2 * pairs - length
