"""The estimator `attention`: a linear and a quadratic term in the length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from packing._checks import Int64Array, integer
from packing.errors import ConfigError
from packing.estimators._columns import Columns, column, exact_costs

__all__ = ["AttentionEstimator"]


@dataclass(frozen=True, slots=True)
class AttentionEstimator:
    """Cost = linear * L + quadratic * L**2 for a sample of L tokens, exact.

    The defaults are a causal transformer of hidden size 4096 (an 8B-class model). Per layer and token, the matrix
    products of a dense layer cost 24 h**2 FLOPs (4 h**2 attention weights and 8 h**2 feed-forward weights, 2 FLOPs
    each), and causal attention adds 2 h L per token on average (4 h per pair, (L + 1) / 2 pairs per token); dividing
    by 2 h leaves 12 h L + L**2 per sample, and 12 * 4096 = 49152 (counting after Narayanan et al. 2021, "Efficient
    large-scale language model training on GPU clusters using Megatron-LM", appendix). The widespread
    24576 = 6 * 4096 is the same ratio without the causal mask. Only the ratio matters for balance; for other models
    use `flops`, or 12 times the hidden size.

    Args:
        linear: weight of L, a non-negative integer.
        quadratic: weight of L**2, a non-negative integer. Both are integers because every rank must compute the same
            costs to the last bit; scale both to express a fractional ratio.

    Raises:
        ConfigError: a weight is not a non-negative integer.
    """

    linear: int = 49152
    quadratic: int = 1

    columns: ClassVar[tuple[str, ...]] = ("length",)

    def __post_init__(self) -> None:
        for name in ("linear", "quadratic"):
            object.__setattr__(self, name, _weight(name, getattr(self, name)))

    def __call__(self, columns: Columns) -> Int64Array:
        """The costs, int64[N], in the unit of the weights.

        Raises:
            ConfigError: there is no column `length`, it is not int64[N] of non-negative numbers, or a cost does not
                fit into 64 bits.
        """
        return exact_costs("attention", self._formula, length=column(columns, "length", "attention"))

    def _formula(self, length: Any) -> Any:
        if not self.quadratic:
            return self.linear * length
        return (self.linear + self.quadratic * length) * length


def _weight(name: str, value: Any) -> int:
    if isinstance(value, float):
        raise ConfigError(
            f"`{name}` must be a non-negative integer, but got {value!r}; costs are exact integers, so multiply "
            "`linear` and `quadratic` by a common factor instead."
        )
    return integer(name, value, minimum=0)
