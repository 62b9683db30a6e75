"""Exact fill and the search for fewer bins on sorted lengths; `packing.bins` calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from packing import _kernels
from packing._checks import Int64Array
from packing.partition import descending_order

__all__ = ["EFFORTS", "exact_fill", "fewer_bins", "limited_fill"]

Int32Array = npt.NDArray[np.int32]

EFFORTS = {"fast": 2**22, "normal": 2**25, "thorough": 2**30}
"""Steps by name: some 5, 40 and 1,500 ms where no bound ends the search before; most problems take a fraction."""

# A sample that `exact_fill` puts in on trial takes as long as about 16 steps of the search. So many for each sample are
# free: at 300,000 samples they decide whether filling is worth it, and they take 0.2 s at a million at the most.
_STEPS_PER_TRIAL = 16
_FREE_TRIALS = 16

# The search keeps 65 rows of capacity / 8 bytes: 64 MiB at this capacity, beyond which there is none.
_LARGEST_CAPACITY = 2**23


def exact_fill(tokens: Int64Array, capacity: int, max_items: int, max_steps: int) -> Int32Array:
    """Bins filled one after another, each by the longest sample left and those that leave the least room beside it.

    Args:
        tokens: int64[N], descending, from 1 to `capacity`.
        capacity: token cap of every bin.
        max_items: most samples in one bin, 0: no limit.
        max_steps: effort, as in `fewer_bins`.

    Returns:
        int32[N], the bin of each sample; bins are numbered by their first sample.
    """
    return _filled(_kernels.exact_fill, tokens, capacity, max_items, max_steps)


def limited_fill(tokens: Int64Array, capacity: int, max_items: int, max_steps: int) -> Int32Array:
    """Bins that take their share of the number of samples; where `max_items` binds far fewer than `exact_fill` makes.

    Arguments and answer are those of `exact_fill`, but `max_items` is at least 1.
    """
    return _filled(_kernels.limited_fill, tokens, capacity, max_items, max_steps)


def _filled(kernel: Any, tokens: Int64Array, capacity: int, max_items: int, max_steps: int) -> Int32Array:
    n = tokens.size
    starts = np.flatnonzero(np.diff(tokens, prepend=-1))
    counts = np.diff(starts, append=n).astype(np.int32)
    offsets, classes = np.empty(n + 1, np.int32), np.empty(n, np.int32)
    workspace = np.empty(kernel.fill_workspace(n, starts.size), np.uint8)
    num_bins = kernel.fill(
        tokens[starts], counts, capacity, max_items, max_steps // _STEPS_PER_TRIAL + _FREE_TRIALS * n, offsets, classes,
        workspace,
    )  # fmt: skip
    bins = np.repeat(np.arange(num_bins, dtype=np.int32), np.diff(offsets[: num_bins + 1]))
    # Equal samples are dealt out in the order of the bins.
    return bins[descending_order(starts.size - classes.astype(np.int64))]


def fewer_bins(
    tokens: Int64Array, capacity: int, max_items: int, bin_of: Int32Array, fewest: int, max_steps: int
) -> Int32Array:
    """A packing improved by a search.

    Args:
        tokens: int64[N], descending, from 1 to `capacity`.
        capacity: token cap of every bin; beyond 2**23 there is no search.
        max_items: most samples in one bin, 0: no limit.
        bin_of: int32[N], a packing into bins 0, 1, ...
        fewest: the search ends at this many bins.
        max_steps: the search ends after this many steps, which `_reference.reduce_bins` describes.

    Returns:
        int32[N], a packing with no more bins than `bin_of`, bins numbered by their first sample.
    """
    if capacity > _LARGEST_CAPACITY:
        return bin_of
    bin_of, num_bins = bin_of.copy(), int(bin_of.max(initial=-1)) + 1
    size = _kernels.reduce_bins.reduce_bins_workspace(tokens.size, num_bins, capacity)
    num_bins = _kernels.reduce_bins.reduce_bins(
        tokens, capacity, max_items, fewest, max_steps, bin_of, num_bins, np.empty(size, np.uint8)
    )
    # The search makes its two last bins of what is left over, which may be none for the second of them.
    used = np.bincount(bin_of, minlength=num_bins) > 0
    bin_of, num_bins = (np.cumsum(used, dtype=np.int32) - 1)[bin_of], int(used.sum())
    first = np.empty(num_bins, np.int64)
    first[bin_of[::-1]] = np.arange(tokens.size)[::-1]  # of equal indices the last assignment counts
    number = np.empty(num_bins, np.int32)
    number[np.argsort(first)] = np.arange(num_bins, dtype=np.int32)
    return number[bin_of]
