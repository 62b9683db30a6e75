"""Lower bounds on the number of bins: no packing whatever can do with fewer."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from packing._checks import Int64Array

__all__ = ["bin_lower_bound", "continuous_bound", "dual_feasible_bound", "martello_toth_bound", "reduction_bound"]

# Functions tried per family, and entries of their table: all of them up to about 200 different lengths;
# more of either proved nothing more on the classical instances.
_FUNCTIONS = 300
_TABLE_ENTRIES = 2**16

# Below this, no product or sum of the dual feasible functions can leave int64.
_DUAL_LIMIT = 2**50

# The reduction takes sample after sample in plain Python, a microsecond each.
_REDUCED_SAMPLES = 20_000


def bin_lower_bound(
    lengths: Int64Array, capacity: int, max_items: int | None = None, *, quick: bool = False
) -> tuple[int, str]:
    """The largest of the bounds here, and which one it is.

    Args:
        lengths: int64[N], at least 0, their sum below 2**62; those above `capacity` count as one bin each.
        capacity: most tokens in one bin, at least 1.
        max_items: most samples in one bin; None: no limit.
        quick: only the bounds "tokens", "max_items" and "martello_toth", which take no longer than a sort.

    Returns:
        The bound and the name of what binds: "tokens" (their sum), "max_items", "martello_toth", "dual_feasible" or
        "reduction"; where several bounds are equal, the one named first.
    """
    single = int(np.count_nonzero(lengths > capacity))
    bounds = {"tokens": continuous_bound(lengths, capacity)}
    if max_items is not None:
        bounds["max_items"] = single + _ceil_div(len(lengths) - single, max_items)
    bounds["martello_toth"] = martello_toth_bound(lengths, capacity)
    if not quick:
        bounds["dual_feasible"] = dual_feasible_bound(lengths, capacity)
        bounds["reduction"] = reduction_bound(lengths, capacity)
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


def dual_feasible_bound(lengths: Int64Array, capacity: int) -> int:
    """The best of two families of dual feasible functions, or 0 where numbers are too large for them.

    Such a function gives lengths new values, and no set of samples that fits into a bin gets more than 1, so that the
    sum over all samples bounds the number of bins. Arguments as in `bin_lower_bound`. The families: u^(k) for k up to
    100 of Fekete and Schepers ("New classes of fast lower bounds for bin packing problems", 2001), which rounds
    (k + 1) x down to a multiple of 1 / k unless it is whole, and f_CCM,1 of Carlier, Clautiaux and Moukrim ("New
    reduction procedures and lower bounds for the two-dimensional bin packing problem with fixed orientation", 2007),
    which counts whole multiples of a threshold. Where there are many different lengths, only some thresholds are tried.
    """
    values, counts = np.unique(lengths, return_counts=True)
    fitting = int(np.searchsorted(values, capacity, side="right"))
    single, values, counts = int(counts[fitting:].sum()), values[:fitting], counts[:fitting]
    if values.size == 0 or capacity >= _DUAL_LIMIT or int((values * counts).sum()) >= _DUAL_LIMIT:
        return single
    rows = max(2, min(_FUNCTIONS, _TABLE_ENTRIES // values.size))
    return single + max(
        _rounded_up_bound(values, counts, capacity, min(100, rows)),
        _multiples_bound(values, counts, capacity, rows),
    )


def _rounded_up_bound(values: Int64Array, counts: Int64Array, capacity: int, most: int) -> int:
    """u^(k) for k = 1 .. most, in units of 1 / (k * (k + 1))."""
    k = np.arange(1, most + 1)[:, None]
    parts = (k + 1) * values
    whole = parts // capacity
    sums = (np.where(parts == whole * capacity, k, k + 1) * whole) @ counts
    return int((-(-sums // (k * (k + 1))[:, 0])).max())


def _multiples_bound(values: Int64Array, counts: Int64Array, capacity: int, most: int) -> int:
    """f_CCM,1 for thresholds up to half the capacity, in units of half a multiple."""
    thresholds = np.concatenate((values[(values > 0) & (values <= capacity // 2)], [max(1, capacity // 2)]))
    if thresholds.size > most:
        thresholds = thresholds[np.arange(most) * (thresholds.size - 1) // (most - 1)]
    threshold = thresholds[:, None]
    full = capacity // threshold
    large = 2 * (full - (capacity - values) // threshold)
    units = np.where(2 * values > capacity, large, np.where(2 * values == capacity, full, 2 * (values // threshold)))
    return int((-(-(units @ counts) // (2 * full[:, 0]))).max())


def reduction_bound(lengths: Int64Array, capacity: int) -> int:
    """Bins that some optimal packing contains, and the bounds for what is left; 0 where there are too many samples.

    The dominance criterion of Martello and Toth ("Lower bounds and reduction procedures for the bin packing problem",
    1990) for the cases decided at once: a sample beside which nothing fits is alone; one that the longest sample beside
    it fills up exactly, or beside which only one sample fits, is with the longest that does. From the longest sample
    downwards. Arguments as in `bin_lower_bound`.
    """
    fitting = lengths[lengths <= capacity]
    if len(fitting) > _REDUCED_SAMPLES:
        return 0
    left = np.sort(fitting).tolist()
    undecided: list[int] = []
    bins = len(lengths) - len(fitting)
    while left:
        longest = left.pop()
        room = capacity - longest
        if undecided and undecided[-1] <= room:  # beside this one and all that follow, an undecided one would fit
            left.append(longest)
            break
        at = bisect_right(left, room)
        if at == 0:
            bins += 1
        elif left[at - 1] == room or at == 1 or left[0] + left[1] > room:
            del left[at - 1]
            bins += 1
        else:
            undecided.append(longest)
    if len(left) + len(undecided) == len(fitting):
        return bins  # the other bounds know what is to be known
    rest = np.array(left + undecided, np.int64)
    return bins + max(martello_toth_bound(rest, capacity), dual_feasible_bound(rest, capacity))


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
