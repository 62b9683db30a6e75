"""What every estimator does with its columns: find them, check them, and compute exact 64-bit costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, integers
from packing.errors import ConfigError

__all__ = ["Columns", "Formula", "column", "exact_costs"]

Columns = Mapping[str, npt.NDArray[Any]]
Formula = Callable[..., Any]

_LARGEST = np.iinfo(np.int64).max


def column(columns: Columns, name: str, estimator: str) -> Int64Array:
    """One column as a new int64[N] of non-negative whole numbers.

    Raises:
        ConfigError: there is no such column (the message lists those there are), or it holds something else.
    """
    if name not in columns:
        there = ", ".join(f"`{label}`" for label in columns) or "none"
        raise ConfigError(f"the estimator `{estimator}` needs the column `{name}`, but the columns are: {there}.")
    return integers(name, columns[name], minimum=0)


def exact_costs(estimator: str, formula: Formula, *, hint: str = "", **values: Int64Array) -> Int64Array:
    """`formula(**values)` without overflow, as int64[N].

    Args:
        estimator: its name, for messages.
        formula: built from + - * // and np.minimum only, so that it works on int64 arrays and on object arrays of
            Python integers alike; must not decrease in any argument, and its intermediate values stay below four
            times its result.
        hint: what to do about a cost that does not fit, as a further sentence of the message.
        values: int64[N] each, non-negative, by the names that the formula and the message use.

    Raises:
        ConfigError: a cost does not fit into 64 bits; names the first such sample, its values and its cost.
    """
    if not all(value.size for value in values.values()):
        return np.empty(0, np.int64)
    # At least 1 each, so that the bound also covers the coefficients themselves.
    peaks = {name: np.array([max(int(value.max()), 1)], dtype=object) for name, value in values.items()}
    if int(formula(**peaks)[0]) <= _LARGEST // 4:
        return np.asarray(formula(**values), dtype=np.int64)
    costs = formula(**{name: value.astype(object) for name, value in values.items()})
    for at, cost in enumerate(costs):
        if cost > _LARGEST:
            inputs = ", ".join(f"`{name}` = {value[at]}" for name, value in values.items())
            raise ConfigError(
                f"the `{estimator}` cost of sample {at} must fit into 64-bit integers, but {inputs} gives {cost}.{hint}"
            )
    return np.asarray(costs, dtype=np.int64)
