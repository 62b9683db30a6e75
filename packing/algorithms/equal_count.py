"""Equal numbers of samples on every rank, with nearly equal work."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from packing import _kernels
from packing._checks import LARGEST
from packing.algorithms._open_bins import smallest_count
from packing.algorithms.differencing import repair_overflow
from packing.algorithms.placement import place
from packing.assignment import Assignment
from packing.bins import fit_bins
from packing.bounds import lower_bound
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
        layout = _swapped(ranks, order, start)
        largest = int(layout.sums(ranks.cost).max())
        if best is None or largest < best[0]:
            best = largest, layout
    if best is None or problem.bins_per_rank == 1:
        return None if best is None else best[1]
    return _split_ranks(problem, best[1])


def _capped_lpt(problem: Problem) -> Assignment | None:
    return place(problem, score=_kernels.greedy.LOAD_BEFORE, max_items=problem.num_samples // problem.ranks)


def _equal_differencing(problem: Problem, order: Int32Array) -> Assignment | None:
    layout = Assignment(*difference(problem.cost, problem.ranks, True, order))
    if problem.capacity is None or (layout.sums(problem.tokens) <= problem.capacities()).all():
        return layout
    bin_of = repair_overflow(problem, order, layout.bin_of(), swaps_only=True)
    return None if bin_of is None else Assignment.from_bin_of(bin_of, problem.num_bins)


def _swapped(problem: Problem, order: Int32Array, layout: Assignment) -> Assignment:
    """The layout after swaps that lower the largest load; counts stay."""
    place_of = np.empty(order.size, np.int32)
    place_of[order] = np.arange(order.size, dtype=np.int32)
    items = np.sort(place_of[layout.items].reshape(problem.num_bins, -1), axis=1).reshape(-1)
    workspace = np.empty(_kernels.swap.lower_largest_workspace(order.size, problem.num_bins), np.uint8)
    steps = 1024 + 16 * problem.num_bins
    _kernels.swap.lower_largest(
        problem.cost[order], problem.tokens[order], problem.capacities(), layout.offsets, items,
        lower_bound(problem).score, steps, workspace,
    )  # fmt: skip
    return Assignment(layout.offsets, order[items])


def _split_ranks(problem: Problem, layout: Assignment) -> Assignment | None:
    """Splits what each rank holds into its M bins: by cost, or where that breaks the cap, by length."""
    bins: list[list[int]] = []
    slots = problem.bins_per_rank
    assert slots is not None
    assert problem.capacity is None or isinstance(problem.capacity, int)
    for members in layout.to_bins():
        chosen = np.asarray(members)
        tokens = np.ascontiguousarray(problem.tokens[chosen])
        if chosen.size < slots:
            return None
        own = Problem(tokens, problem.cost[chosen], ranks=slots, bins_per_rank=1, capacity=problem.capacity)
        split = place(own, score=_kernels.greedy.LOAD_BEFORE)
        if split is None:
            split = Assignment(*fit_bins(tokens, None, problem.capacity, "best_fit_decreasing", slots))
        if split.num_bins != slots:
            return None
        bins += [chosen[part].tolist() for part in split.to_bins()]
    return Assignment.from_bins(bins)
