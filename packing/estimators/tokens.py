"""The estimator `tokens`: a sample costs its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from packing._checks import Int64Array
from packing.estimators._columns import Columns, column

__all__ = ["TokenEstimator"]


@dataclass(frozen=True, slots=True)
class TokenEstimator:
    """Cost = length: right where everything is linear in tokens, and the usual choice for short sequences."""

    columns: ClassVar[tuple[str, ...]] = ("length",)

    def __call__(self, columns: Columns) -> Int64Array:
        """The costs, int64[N] in tokens.

        Raises:
            ConfigError: there is no column `length`, or it is not int64[N] of non-negative numbers.
        """
        return column(columns, "length", "tokens")
