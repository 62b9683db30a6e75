"""The estimator around a plain function of one record."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from packing._checks import Int64Array, shown
from packing.errors import ConfigError
from packing.estimators._columns import Columns, column
from packing.records import SampleMetadata, WorkloadCost

__all__ = ["CallableEstimator"]

_LARGEST = np.iinfo(np.int64).max
_WHOLE_BELOW = 2.0**53


@dataclass(frozen=True, slots=True)
class CallableEstimator:
    """Cost = function(record), called once per sample in index order.

    The function must give the same number for the same record on every rank, or the ranks disagree on the plan.

    Args:
        function: takes one `SampleMetadata` and returns an int, a float or a `WorkloadCost` (its `llm` counts).

    Raises:
        ConfigError: `function` cannot be called.
    """

    function: Callable[[SampleMetadata], Any]

    columns: ClassVar[tuple[str, ...]] = ("length",)
    takes_records: ClassVar[bool] = True
    """The planner hands over the user's records where there are any."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ConfigError(f"`function` must be callable, but got {shown(self.function)}.")

    def __call__(
        self, columns: Columns, *, records: Sequence[SampleMetadata] | None = None
    ) -> Int64Array | npt.NDArray[np.float64]:
        """The costs, [N].

        Args:
            columns: the sample columns, `length` among them.
            records: the user's records in the same order. Without them the function sees a record per sample with
                `pack_tokens` = its length and `features` = its value in every column.

        Returns:
            int64[N] if every cost is whole (floats below 2**53) and fits, otherwise float64[N].

        Raises:
            ConfigError: a cost is not a finite non-negative number; names the sample and the value. What the function
                itself raises is passed on.
        """
        samples = _records(columns) if records is None else records
        costs = [_cost(at, self.function(sample)) for at, sample in enumerate(samples)]
        whole = all(cost <= _LARGEST if isinstance(cost, int) else _is_whole(cost) for cost in costs)
        if whole:
            return np.array([int(cost) for cost in costs], dtype=np.int64)
        return np.array([float(cost) for cost in costs], dtype=np.float64)


def _is_whole(cost: float) -> bool:
    return cost < _WHOLE_BELOW and cost.is_integer()


def _cost(at: int, value: Any) -> int | float:
    """One returned value as an exact int or a float."""
    number = value.llm if isinstance(value, WorkloadCost) else value
    if isinstance(number, np.generic):
        number = number.item()
    if isinstance(number, (int, float)) and not isinstance(number, bool) and number >= 0:
        try:
            if math.isfinite(number):
                return number
        except OverflowError:
            pass
    raise ConfigError(
        f"the estimator function must return a finite non-negative number or a WorkloadCost, but got {shown(value)} "
        f"for sample {at}."
    )


def _records(columns: Columns) -> list[SampleMetadata]:
    """A record per sample made of its columns."""
    lengths = column(columns, "length", "callable").tolist()
    names = tuple(columns)
    rows = zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)
    return [
        SampleMetadata(pack_tokens=length, features=dict(zip(names, row, strict=True)))
        for length, row in zip(lengths, rows, strict=True)
    ]
