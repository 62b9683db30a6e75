"""Best-fit decreasing, stated plainly: sort, place one by one, group by bin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from packing._reference.fit import best_fit, group_by_bin

__all__ = ["best_fit_decreasing", "best_fit_decreasing_workspace"]

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

_LARGEST = 2**31 - 2  # the compiled form keeps sizes and counts in 32 bits


def best_fit_decreasing_workspace(n: int, capacity: int, largest: int) -> int:
    """Bytes of workspace that `best_fit_decreasing` needs for `n` items of at most `largest`: none here."""
    return 0


def best_fit_decreasing(
    sizes: Int64,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    offsets: Int32,
    items: Int32,
    workspace: Bytes,
) -> int:
    """Place the items by size descending, each into the fullest bin that can take it; returns the number of bins."""
    n = len(sizes)
    if not 0 <= capacity <= _LARGEST:
        raise ValueError(f"`capacity` must lie in [0, 2**31 - 1), but got {capacity}.")
    if min_bins < 0 or max_items < 0:
        raise ValueError(f"`min_bins` and `max_items` must be at least 0, but got {min_bins}, {max_items}.")
    if len(offsets) != n + 1 or len(items) != n:
        raise ValueError(f"`offsets` must have length {n + 1} and `items` length {n}.")
    _check_sizes(sizes, _LARGEST if oversized else capacity)
    order = np.array(sorted(range(n), key=lambda index: (-int(sizes[index]), index)), np.int32)
    bin_of = np.empty(n, np.int32)
    num_bins = best_fit(sizes, order, capacity, min_bins, max_items, oversized, bin_of, workspace)
    group_by_bin(bin_of, order, num_bins, offsets[: num_bins + 1], items)
    return num_bins


def _check_sizes(sizes: Int64, largest_allowed: int) -> None:
    for index, size in enumerate(sizes.tolist()):
        if not 0 <= size <= largest_allowed:
            raise ValueError(
                f"`sizes` must be at least 0 and at most {largest_allowed}, but got {size} at index {index}."
            )
