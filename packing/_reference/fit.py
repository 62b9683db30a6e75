"""Next-fit, first-fit and best-fit, stated plainly: what the compiled kernels compute, bit for bit."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
import numpy.typing as npt

__all__ = ["best_fit", "best_fit_workspace", "first_fit", "first_fit_workspace", "group_by_bin", "next_fit"]

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


def next_fit(
    sizes: Int64, order: Int32, capacity: int, min_bins: int, max_items: int, oversized: bool, bin_of: Int32
) -> int:
    """Place each item into the newest bin or open the next one; returns the number of bins."""
    _check(sizes, order, capacity, min_bins, max_items, oversized, bin_of)
    opened, room, count = 0, 0, 0
    for position, item in enumerate(order.tolist()):
        size = int(sizes[item])
        closed = opened == 0 or size > room or count == max_items > 0
        if closed or len(order) - position <= min_bins - opened:
            opened, room, count = opened + 1, capacity, 0
        room, count = room - size, count + 1
        bin_of[item] = opened - 1
    return opened


def first_fit_workspace(n: int) -> int:
    """Bytes of workspace that `first_fit` needs for `n` items: none here."""
    return 0


def first_fit(
    sizes: Int64,
    order: Int32,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    bin_of: Int32,
    workspace: Bytes,
) -> int:
    """Place each item into the lowest-numbered open bin with room or open the next one; returns the number of bins."""
    _check(sizes, order, capacity, min_bins, max_items, oversized, bin_of)
    opened = 0
    room, count = np.full(len(order), -1, np.int64), np.zeros(len(order), np.int64)
    for position, item in enumerate(order.tolist()):
        size = int(sizes[item])
        candidates = np.flatnonzero(room[:opened] >= size)
        if len(candidates) == 0 or len(order) - position <= min_bins - opened:
            chosen, opened = opened, opened + 1
            room[chosen] = capacity
        else:
            chosen = int(candidates[0])
        room[chosen] -= size
        count[chosen] += 1
        if count[chosen] == max_items:
            room[chosen] = -1
        bin_of[item] = chosen
    return opened


def best_fit_workspace(n: int) -> int:
    """Bytes of workspace that `best_fit` needs for `n` items: none here."""
    return 0


def best_fit(
    sizes: Int64,
    order: Int32,
    capacity: int,
    min_bins: int,
    max_items: int,
    oversized: bool,
    bin_of: Int32,
    workspace: Bytes,
) -> int:
    """Place each item into the fullest open bin that can take it or open the next one; returns the number of bins."""
    _check(sizes, order, capacity, min_bins, max_items, oversized, bin_of)
    opened = 0
    open_bins: list[tuple[int, int]] = []  # (room, bin), ascending: the first with enough room is the answer
    count = [0] * len(order)
    for position, item in enumerate(order.tolist()):
        size = int(sizes[item])
        at = bisect_left(open_bins, (size, -1))
        if at == len(open_bins) or len(order) - position <= min_bins - opened:
            room, chosen, opened = capacity, opened, opened + 1
        else:
            room, chosen = open_bins.pop(at)
        count[chosen] += 1
        if room >= size and count[chosen] != max_items:
            insort(open_bins, (room - size, chosen))
        bin_of[item] = chosen
    return opened


def group_by_bin(bin_of: Int32, order: Int32, num_bins: int, offsets: Int32, items: Int32) -> None:
    """List the items bin by bin; inside a bin they keep the order of placement."""
    n = len(bin_of)
    if len(order) != n or len(items) != n:
        raise ValueError(f"`order` and `items` must have the length of `bin_of`, {n}.")
    if num_bins < 0 or len(offsets) != num_bins + 1:
        raise ValueError(f"`offsets` must have length {num_bins + 1}, but got {len(offsets)}.")
    _check_range("bin_of", bin_of, num_bins)
    _check_range("order", order, n)
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    for item in order.tolist():
        bins[bin_of[item]].append(item)
    offsets[0] = 0
    for number, members in enumerate(bins):
        offsets[number + 1] = offsets[number] + len(members)
        items[offsets[number] : offsets[number + 1]] = members


def _check(
    sizes: Int64, order: Int32, capacity: int, min_bins: int, max_items: int, oversized: bool, bin_of: Int32
) -> None:
    n = len(sizes)
    if capacity < 0 or min_bins < 0 or max_items < 0:
        raise ValueError(
            f"`capacity`, `min_bins` and `max_items` must be at least 0, but got {capacity}, {min_bins}, {max_items}."
        )
    if len(order) != n or len(bin_of) != n:
        raise ValueError(f"`order` and `bin_of` must have the length of `sizes`, {n}.")
    _check_range("order", order, n)
    for index, size in enumerate(sizes.tolist()):
        if size < 0 or (size > capacity and not oversized):
            limit = "" if oversized else f" and at most `capacity`, {capacity}"
            raise ValueError(f"`sizes` must be at least 0{limit}, but got {size} at index {index}.")


def _check_range(name: str, values: Int32, limit: int) -> None:
    for position, value in enumerate(values.tolist()):
        if not 0 <= value < limit:
            raise ValueError(f"`{name}` must hold integers in [0, {limit}), but got {value} at position {position}.")
