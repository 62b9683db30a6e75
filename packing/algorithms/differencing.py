"""Largest differencing as a balancing algorithm, with repair under a token cap."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packing._checks import LARGEST, Int64Array
from packing.algorithms._local_search import lower_largest, within_caps
from packing.algorithms._open_bins import smallest_count
from packing.algorithms._split import split_ranks
from packing.assignment import Assignment
from packing.partition import Int32Array, descending_order, difference
from packing.problem import Problem

__all__ = ["KarmarkarKarp"]


@dataclass(frozen=True)
class KarmarkarKarp:
    """Largest differencing by cost alone, then repair of what overflows.

    With one bin per rank, samples are differenced over the ranks. With M, two forms are tried and the better one by
    the problem's objective is taken: over the ranks, each then split into its M bins; and over all bins, which are
    then dealt to the ranks by differencing their loads with equal counts. Under a cap, samples are moved or swapped
    out of what overflows (a count of steps, not of time); only if that fails in both forms is there no candidate.

    Source: Karmarkar and Karp 1982, k-way form.
    """

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where the overflow could not be repaired."""
        return _solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, _solve)


def _solve(problem: Problem) -> Assignment | None:
    if problem.num_samples < problem.num_bins:
        return None
    order = descending_order(problem.cost, problem.tokens)
    forms = [_over_bins(problem, order)]
    if problem.bins_per_rank != 1 and (problem.capacity is None or isinstance(problem.capacity, int)):
        forms.append(_over_ranks(problem, order))
    found = [layout for layout in forms if layout is not None]
    return min(found, key=problem.score, default=None)


def _over_bins(problem: Problem, order: Int32Array) -> Assignment | None:
    """All bins alike: equal work in every round as well."""
    layout = Assignment(*difference(problem.cost, problem.num_bins, False, order))
    capacities = problem.capacities()
    if problem.capacity is not None and not isinstance(problem.capacity, int):
        longest = np.argsort(-layout.sums(problem.tokens), kind="stable")
        into = np.empty(problem.num_bins, np.int64)
        into[np.argsort(-capacities, kind="stable")] = longest  # the longest bins into the largest capacities
        layout = layout.reordered(into)
    # Bins of one rank are not chosen yet: the bins themselves are balanced, as ranks of one bin each.
    single = replace(problem, ranks=problem.num_bins, round_size=None, bins_per_rank=1, reference=None)
    repaired = within_caps(single, order, layout, swaps_only=False)
    if repaired is None:
        return None
    return _onto_ranks(problem, repaired if repaired == layout else lower_largest(single, order, repaired))


def _over_ranks(problem: Problem, order: Int32Array) -> Assignment | None:
    """Ranks first: the most freedom where a step waits once."""
    assert problem.bins_per_rank is not None
    assert problem.capacity is None or isinstance(problem.capacity, int)
    whole = None if problem.capacity is None else min(problem.capacity * problem.bins_per_rank, LARGEST)
    ranks = replace(problem, bins_per_rank=1, capacity=whole, reference=None)
    start = Assignment(*difference(problem.cost, problem.ranks, False, order))
    layout = within_caps(ranks, order, start, swaps_only=False)
    if layout is not None and layout != start:
        layout = lower_largest(ranks, order, layout)
    split = None if layout is None else split_ranks(problem, order, layout.bin_of())
    return None if split is None else within_caps(problem, order, split, swaps_only=False)


def _onto_ranks(problem: Problem, layout: Assignment) -> Assignment:
    """The same bins, M for each rank, dealt out so that the ranks' loads are even (bins of one capacity only)."""
    if problem.bins_per_rank == 1 or not (problem.capacity is None or isinstance(problem.capacity, int)):
        return layout
    loads: Int64Array = problem.pack_loads(layout)
    _, bins = difference(loads, problem.ranks, True)
    return layout.reordered(bins)
