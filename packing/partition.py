"""Splitting values into groups of nearly equal sums, without caps: the public function and what algorithms build on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _checks, _kernels
from packing._checks import Int64Array
from packing._fixed_point import SUM_BITS, exact_sum
from packing.errors import ConfigError

__all__ = ["descending_order", "difference", "karmarkar_karp"]

Int32Array = npt.NDArray[np.int32]

_INDEX_LIMIT = 2**31  # indices and offsets are int32


def karmarkar_karp(values: Any, k: int, *, equal_size: bool = False) -> list[list[int]]:
    """Split values into `k` groups of nearly equal sums by largest differencing.

    Deterministic: permuting the input permutes equal values at most, so every group keeps its values.
    O(n log n + n log k) time for any `k`. The input is not changed.

    Args:
        values: n whole numbers of at least 0 with a sum below 2**62: a list, a tuple, a NumPy array of integers or
            whole floats, or anything with `__array__`, such as a CPU tensor.
        k: number of groups, at least 1. Groups beyond the number of values are empty.
        equal_size: every group gets n / k values. The sums are then less equal.

    Returns:
        `k` lists of indices into `values`, ascending in each; every index occurs once. The groups go by sum
        descending, then count descending.

    Raises:
        ConfigError: values that are not whole, negative or too large, `k` below 1, or with `equal_size` a number of
            values that is not a multiple of `k`.

    Source: N. Karmarkar, R. M. Karp, "The Differencing Method of Set Partitioning", UCB/CSD 82/113, 1982.
    """
    num_groups = _checks.integer("k", k, minimum=1)
    equal_count = _checks.boolean("equal_size", equal_size)
    array = _checks.integers("values", values)
    if max(num_groups, len(array)) >= _INDEX_LIMIT - 1:
        raise ConfigError(f"`k` and `len(values)` must be below 2**31 - 1, but got {num_groups} and {len(array)}.")
    if equal_count and len(array) % num_groups:
        raise ConfigError(
            f"`len(values)` must be a multiple of `k` with `equal_size`, but got {len(array)} and k={num_groups}."
        )
    total = exact_sum(array)
    if total >= 1 << SUM_BITS:
        raise ConfigError(f"`values` must have a sum below 2**62, but got {total}.")
    offsets, items = difference(array, num_groups, equal_count)
    bounds, samples = offsets.tolist(), items.tolist()
    return [samples[start:stop] for start, stop in pairwise(bounds)]


def difference(
    values: Int64Array, num_groups: int, equal_count: bool = False, order: Int32Array | None = None
) -> tuple[Int32Array, Int32Array]:
    """Largest differencing on checked columns; allocates what the kernel needs.

    Args:
        values: int64[N], not negative, sum below 2**62.
        num_groups: at least 1.
        equal_count: every group gets N / num_groups values.
        order: int32[N], a permutation by which `values` do not increase; made here if None. Where values are equal,
            the earlier one in `order` counts as the larger.

    Returns:
        `(offsets, items)`, int32[num_groups+1] and int32[N]: group g is `items[offsets[g] : offsets[g + 1]]`, indices
        ascending; groups by sum descending, then count descending, then the first of `order`.

    Raises:
        ValueError: N is not a multiple of `num_groups` with `equal_count`, or an array is not as described.
    """
    if order is None:
        order = descending_order(values)
    offsets = np.empty(num_groups + 1, np.int32)
    items = np.empty(len(values), np.int32)
    workspace = np.empty(_kernels.kk.difference_workspace(len(values), num_groups), np.uint8)
    _kernels.kk.difference(values, order, num_groups, equal_count, offsets, items, workspace)
    return offsets, items


def descending_order(primary: Int64Array, secondary: Int64Array | None = None) -> Int32Array:
    """The permutation that sorts by `primary` descending, then `secondary` descending, then index ascending.

    Args:
        primary: int64[N], not negative.
        secondary: int64[N], not negative, or None.

    Returns:
        int32[N].

    Raises:
        ValueError: lengths that differ, or a negative value.
    """
    order = np.empty(len(primary), np.int32)
    workspace = np.empty(_kernels.order.descending_workspace(len(primary)), np.uint8)
    _kernels.order.descending(primary, secondary, order, workspace)
    return order
