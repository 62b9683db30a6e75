"""Local search on whole layouts: repair of overflow, and swaps against the largest load."""

from __future__ import annotations

import numpy as np

from packing import _kernels
from packing._bound_loads import largest_load_terms
from packing.assignment import Assignment
from packing.partition import Int32Array
from packing.problem import Problem

__all__ = ["lower_largest", "within_caps"]


def within_caps(problem: Problem, order: Int32Array, layout: Assignment, *, swaps_only: bool) -> Assignment | None:
    """The layout with no bin over its capacity, by moves (unless `swaps_only`) and swaps, or None."""
    if problem.capacity is None or (layout.sums(problem.tokens) <= problem.capacities()).all():
        return layout
    sorted_bins = layout.bin_of()[order]
    workspace = np.empty(_kernels.swap.repair_workspace(order.size, problem.num_bins), np.uint8)
    # Enough steps for every bin to be relieved a few times; each step lowers the total overflow.
    steps = 64 + 4 * problem.num_bins
    columns = problem.cost[order], problem.tokens[order], problem.capacities()
    if not _kernels.swap.repair(*columns, problem.bins_per_rank or 1, sorted_bins, steps, swaps_only, workspace):
        return None
    repaired = np.empty_like(sorted_bins)
    repaired[order] = sorted_bins
    return Assignment.from_bin_of(repaired, problem.num_bins)


def lower_largest(problem: Problem, order: Int32Array, layout: Assignment) -> Assignment:
    """The layout after swaps that lower the largest load of a bin within the caps; every bin keeps its count.

    For problems with one bin per rank. The number of swaps is bounded by a count, never by time.
    """
    place_of = np.empty(order.size, np.int32)
    place_of[order] = np.arange(order.size, dtype=np.int32)
    places = place_of[layout.items]
    bins = np.repeat(np.arange(problem.num_bins), np.diff(layout.offsets))
    items = places[np.lexsort((places, bins))]
    workspace = np.empty(_kernels.swap.lower_largest_workspace(order.size, problem.num_bins), np.uint8)
    steps = 1024 + 16 * problem.num_bins
    # Of the load, whatever the objective: the bound of a sum over rounds or of P loads would end the search at once.
    target = max(term.score for term in largest_load_terms(problem, problem.cost, None, effort=0))
    _kernels.swap.lower_largest(
        problem.cost[order], problem.tokens[order], problem.capacities(), layout.offsets, items,
        target, steps, workspace,
    )  # fmt: skip
    return Assignment(layout.offsets, order[items])
