"""Equal numbers of samples on every rank, with nearly equal work."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packing import _kernels
from packing._checks import LARGEST
from packing.algorithms._local_search import lower_largest, within_caps
from packing.algorithms._open_bins import smallest_count
from packing.algorithms._split import split_ranks
from packing.algorithms.placement import place
from packing.assignment import Assignment
from packing.errors import InfeasibleError
from packing.partition import Int32Array, descending_order, difference
from packing.problem import Problem

__all__ = ["EqualCount"]


@dataclass(frozen=True)
class EqualCount:
    """The better of count-capped LPT and equal-count differencing, each followed by swaps against the largest rank.

    Equal-count differencing alone is 7-66 % over the bound on heavy-tailed lengths; the swaps repair that. The number
    of swaps is a count, so that the answer never depends on time.
    """

    def assign(self, problem: Problem) -> Assignment | None:
        """The layout, or None where neither form keeps the cap.

        Raises:
            InfeasibleError: the number of samples is no multiple of the ranks.
        """
        if problem.num_samples % problem.ranks:
            raise InfeasibleError(
                f"`algorithm` 'equal_count' needs a multiple of the {problem.ranks} ranks, but there are "
                f"{problem.num_samples} samples ({problem.num_samples % problem.ranks} too many)."
            )
        return _solve(problem) if problem.bins_per_rank is not None else smallest_count(problem, _solve)


def _solve(problem: Problem) -> Assignment | None:
    if problem.num_samples < problem.num_bins or problem.bins_per_rank is None:
        return None
    if not (problem.capacity is None or isinstance(problem.capacity, int)):
        problem = replace(problem, capacity=int(np.min(problem.capacity)))
    assert problem.bins_per_rank is not None
    # One bin per rank first; what the rank holds is then split into its M bins.
    whole = None if problem.capacity is None else min(problem.capacity * problem.bins_per_rank, LARGEST)
    ranks = replace(problem, bins_per_rank=1, capacity=whole, equal_count=True, reference=None)
    order = descending_order(ranks.cost, ranks.tokens)
    best: tuple[int, Assignment] | None = None
    for start in (_capped_lpt(ranks), _equal_differencing(ranks, order)):
        if start is None:
            continue
        layout = lower_largest(ranks, order, start)
        largest = int(layout.sums(ranks.cost).max())
        if best is None or largest < best[0]:
            best = largest, layout
    if best is None or problem.bins_per_rank == 1:
        return None if best is None else best[1]
    split = split_ranks(problem, order, best[1].bin_of())
    return None if split is None else within_caps(problem, order, split, swaps_only=True)


def _capped_lpt(problem: Problem) -> Assignment | None:
    return place(problem, score=_kernels.greedy.LOAD_BEFORE, max_items=problem.num_samples // problem.ranks)


def _equal_differencing(problem: Problem, order: Int32Array) -> Assignment | None:
    layout = Assignment(*difference(problem.cost, problem.ranks, True, order))
    return within_caps(problem, order, layout, swaps_only=True)
