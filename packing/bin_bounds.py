"""Lower bounds on the number of bins: no packing whatever can do with fewer."""

from __future__ import annotations

import numpy as np

from packing._checks import Int64Array

__all__ = ["bin_lower_bound", "continuous_bound", "martello_toth_bound"]


def bin_lower_bound(lengths: Int64Array, capacity: int, max_items: int | None = None) -> tuple[int, str]:
    """The largest of the bounds here, and which one it is.

    Args:
        lengths: int64[N], at least 0, their sum below 2**62; those above `capacity` count as one bin each.
        capacity: most tokens in one bin, at least 1.
        max_items: most samples in one bin; None: no limit.

    Returns:
        The bound and the name of what binds: "tokens" (their sum), "max_items" or "martello_toth"; where several bounds
        are equal, the one named first.
    """
    single = int(np.count_nonzero(lengths > capacity))
    bounds = {"tokens": continuous_bound(lengths, capacity)}
    if max_items is not None:
        bounds["max_items"] = single + _ceil_div(len(lengths) - single, max_items)
    bounds["martello_toth"] = martello_toth_bound(lengths, capacity)
    name = max(bounds, key=lambda each: bounds[each])
    return bounds[name], name


def continuous_bound(lengths: Int64Array, capacity: int) -> int:
    """L1 = ceil(sum / capacity), at least one bin if there are samples at all; arguments as in `bin_lower_bound`."""
    fitting = lengths[lengths <= capacity]
    bins = _ceil_div(int(fitting.sum()), capacity)
    return len(lengths) - len(fitting) + max(bins, min(1, len(fitting)))


def martello_toth_bound(lengths: Int64Array, capacity: int) -> int:
    """L2 of Martello and Toth ("Knapsack Problems", 1990, section 8.3); never below L1, in O(n log n).

    Samples above half the capacity need a bin each. For every threshold a, those of at most `capacity - a` leave room
    for samples of [a, capacity / 2], and what this room cannot take needs bins of its own. It is enough to try 0 and
    the lengths themselves as a. Arguments as in `bin_lower_bound`.
    """
    values, counts = np.unique(lengths, return_counts=True)
    half = int(np.searchsorted(values, capacity // 2, side="right"))
    fitting = int(np.searchsorted(values, capacity, side="right"))
    small, large = values[:half], values[half:fitting]
    one_each = int(counts[half:].sum())
    small_tokens = np.concatenate(([0], np.cumsum(small * counts[:half])))
    room_left = np.concatenate(([0], np.cumsum((capacity - large) * counts[half:fitting])))
    # Row 0 is a = 0; row i is a = small[i - 1], below which small_tokens[i - 1] tokens lie.
    thresholds = np.concatenate(([0], small))
    tokens_from = small_tokens[-1] - np.concatenate(([0], small_tokens[:-1]))
    sharing = np.searchsorted(large, capacity - thresholds, side="right")
    excess = int((tokens_from - room_left[sharing]).max())
    bins = one_each + max(0, _ceil_div(excess, capacity))
    return max(bins, min(1, len(lengths)))


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
