"""Splits what each rank holds into its bins."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing._checks import Int64Array
from packing.assignment import Assignment
from packing.bins import fit_bins
from packing.partition import Int32Array, descending_order
from packing.problem import Problem

__all__ = ["split_ranks"]

_NONE32, _NONE64 = np.empty(0, np.int32), np.empty(0, np.int64)


def split_ranks(problem: Problem, order: Int32Array, rank_of: Int32Array) -> Assignment | None:
    """The layout in which rank r holds the samples with `rank_of` = r, split into its M bins; it may overflow.

    Within a rank the samples go to the least loaded bin with room, in `order`; where that breaks the cap, to the
    fullest bin with room, longest first; where that needs more bins, to the bin with the fewest tokens, so that little
    is left to repair. None where a rank has fewer samples than bins.

    Args:
        order: int32[N], all samples by cost descending. rank_of: int32[N].
    """
    slots, capacity = problem.bins_per_rank, problem.max_capacity
    assert slots is not None
    counts = np.bincount(rank_of, minlength=problem.ranks)
    if counts.min() < slots:
        return None
    by_rank = order[np.argsort(rank_of[order], kind="stable")]
    bins: list[Int32Array] = []
    for members in np.split(by_rank, np.cumsum(counts)[:-1]):
        tokens = problem.tokens[members]
        parts = _least_loaded(problem.cost[members], tokens, slots, capacity)
        if parts is None and tokens.max() <= (capacity or 0):
            parts = fit_bins(tokens, None, capacity, "best_fit_decreasing", slots)
        if parts is None or parts[0].size != slots + 1:
            longest_first = descending_order(tokens)
            parts = _least_loaded(tokens[longest_first], tokens[longest_first], slots, None)
            assert parts is not None
            parts = parts[0], longest_first[parts[1]]
        bins += np.split(members[parts[1]], parts[0][1:-1])
    return Assignment.from_bins(bins)


def _least_loaded(
    cost: Int64Array, tokens: Int64Array, slots: int, capacity: int | None
) -> tuple[Int32Array, Int32Array] | None:
    """The samples, as they come, each into the least loaded of `slots` bins with room; None where one has none."""
    count = cost.size
    caps = np.full(slots, _kernels.greedy.NO_CAPACITY if capacity is None else capacity, np.int64)
    in_turn, bin_of = np.arange(count, dtype=np.int32), np.empty(count, np.int32)
    workspace = np.empty(_kernels.greedy.place_workspace(count, slots, 1, 0, 0), np.uint8)
    placed = _kernels.greedy.place(
        tokens, cost, _NONE32, np.empty((count, 0), np.int64), _NONE64, _NONE32, 0, in_turn, caps, _NONE64, _NONE64,
        slots, 1, slots, 0, False, _kernels.greedy.LOAD_BEFORE, bin_of, workspace,
    )  # fmt: skip
    if placed < count:
        return None
    offsets, items = np.empty(slots + 1, np.int32), np.empty(count, np.int32)
    _kernels.fit.group_by_bin(bin_of, in_turn, slots, offsets, items)
    return offsets, items
