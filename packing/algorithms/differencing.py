"""Largest differencing as a balancing algorithm, with repair under a token cap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from packing import _kernels
from packing._checks import Int64Array
from packing.algorithms._open_bins import smallest_count
from packing.assignment import Assignment
from packing.partition import Int32Array, descending_order, difference
from packing.problem import Problem

__all__ = ["KarmarkarKarp", "onto_ranks", "repair_overflow"]


@dataclass(frozen=True)
class KarmarkarKarp:
    """Largest differencing over all bins; equal work in every bin, and so on every rank and in every round.

    The bins are differenced by cost alone. Under a cap, samples are then moved or swapped out of the bins that
    overflow (a count of steps, not of time); only if that fails is there no candidate. Bins that are balanced already
    are dealt to ranks by differencing their loads with equal counts.

    Source: Karmarkar and Karp 1982, k-way form.
    """

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where the overflow could not be repaired."""
        return _solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, _solve)


def _solve(problem: Problem) -> Assignment | None:
    if problem.num_samples < problem.num_bins:
        return None
    order = descending_order(problem.cost, problem.tokens)
    offsets, items = difference(problem.cost, problem.num_bins, False, order)
    layout = Assignment(offsets, items)
    if problem.capacity is not None:
        capacities = problem.capacities()
        if not isinstance(problem.capacity, int):  # the longest bins into the largest capacities
            longest = np.argsort(-layout.sums(problem.tokens), kind="stable")
            into = np.empty(problem.num_bins, np.int64)
            into[np.argsort(-capacities, kind="stable")] = longest
            layout = layout.reordered(into)
        if (layout.sums(problem.tokens) > capacities).any():
            bin_of = repair_overflow(problem, order, layout.bin_of(), swaps_only=False)
            if bin_of is None:
                return None
            layout = Assignment.from_bin_of(bin_of, problem.num_bins)
    return onto_ranks(problem, layout)


def repair_overflow(problem: Problem, order: Int32Array, bin_of: Int32Array, *, swaps_only: bool) -> Int32Array | None:
    """The bin of each sample with no bin over its capacity, or None; `order` is the samples' order of cost."""
    sorted_bins = np.ascontiguousarray(bin_of[order])
    workspace = np.empty(_kernels.swap.repair_workspace(order.size, problem.num_bins), np.uint8)
    # Enough steps for every bin to be relieved a few times; each step lowers the total overflow.
    steps = 64 + 4 * problem.num_bins
    columns = problem.cost[order], problem.tokens[order], problem.capacities()
    if not _kernels.swap.repair(*columns, sorted_bins, steps, swaps_only, workspace):
        return None
    repaired = np.empty_like(bin_of)
    repaired[order] = sorted_bins
    return repaired


def onto_ranks(problem: Problem, layout: Assignment) -> Assignment:
    """The same bins, M for each rank, dealt out so that the ranks' loads are even (bins of one capacity only)."""
    if problem.bins_per_rank == 1 or not (problem.capacity is None or isinstance(problem.capacity, int)):
        return layout
    loads: Int64Array = problem.pack_loads(layout)
    _, bins = difference(loads, problem.ranks, True)
    return layout.reordered(bins)
